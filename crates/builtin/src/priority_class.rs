//! The `PriorityClass` kind in `scheduling.k8s.io/v1`.

use pintle_apimachinery::object::metadata;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::check::{Check, immutable};

use crate::core::pod::SYSTEM_CLASSES;

/// The highest value of a PriorityClass whose name does not start with `system-`.
const HIGHEST_USER_PRIORITY: i64 = 1_000_000_000;

pub(crate) struct PriorityClass;

impl Strategy for PriorityClass {
    fn validate_create(&self, object: &Json) -> FieldErrors {
        let name = metadata::name(object);
        let has_system_name = name.starts_with("system-");
        let error = if has_system_name { system_class_error(object) } else { None };
        let is_too_high = !has_system_name && value(object) > HIGHEST_USER_PRIORITY;
        Check::of(object)
            .refuse(error.is_some(), || {
                let why = format!(
                    "priority class names with 'system-' prefix are reserved for system use only. error: {}",
                    error.unwrap_or_default()
                );
                FieldError::forbidden("metadata.name", why)
            })
            .refuse(is_too_high, || {
                let why = format!("maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}");
                FieldError::forbidden("value", why)
            })
            .required("preemptionPolicy")
            .one_of("preemptionPolicy", &["PreemptLowerPriority", "Never"])
            .done()
    }

    fn validate_update(&self, new: &Json, old: &Json, _: Subresource) -> FieldErrors {
        let mut errors = FieldErrors::default();
        errors.forbidden_if(new.get("value") != old.get("value"), "value", "may not be changed in an update.");
        errors.extend(immutable(new, old, &["preemptionPolicy"]));
        errors
    }

    fn changes_generation(&self, _: &Json, _: &Json) -> bool {
        false
    }

    fn undeletable(&self, name: &str) -> Option<&'static str> {
        let is_system = SYSTEM_CLASSES.iter().any(|(system, _)| *system == name);
        is_system.then_some("this is a system priority class and cannot be deleted")
    }
}

fn value(object: &Json) -> i64 {
    object.integer("/value").unwrap_or(0)
}

/// Returns an error if an object has a name with the prefix `system-` but is not one of the system classes.
fn system_class_error(object: &Json) -> Option<String> {
    let name = metadata::name(object);
    let Some((_, expected)) = SYSTEM_CLASSES.iter().find(|(system, _)| *system == name) else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if value(object) != *expected {
        return Some(format!("value of {name} PriorityClass must be {expected}"));
    }
    let is_default = object.get("globalDefault").and_then(Json::as_bool).unwrap_or(false);
    is_default.then(|| format!("globalDefault of {name} PriorityClass must be false"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_classes_have_fixed_values() {
        let message = |name: &str, value: i64, is_default: bool| {
            let text = format!(
                r#"{{"metadata":{{"name":"{name}"}},"value":{value},"globalDefault":{is_default},"preemptionPolicy":"Never"}}"#
            );
            let errors = PriorityClass.validate_create(&text.parse().unwrap());
            errors.iter().map(|error| error.message.clone()).collect::<String>()
        };
        const CRITICAL: &str = "system-cluster-critical";
        assert_eq!(message(CRITICAL, 2_000_000_000, false), "");
        for (name, value, is_default, expected) in [
            ("system-own", 1, false, "system-own is not a known system priority class"),
            (CRITICAL, 1, false, "value of system-cluster-critical PriorityClass must be 2000000000"),
            (CRITICAL, 2_000_000_000, true, "globalDefault of system-cluster-critical PriorityClass must be false"),
            ("own", 1_000_000_001, false, "maximum allowed value of a user defined priority is 1000000000"),
        ] {
            assert!(message(name, value, is_default).ends_with(expected), "{}", message(name, value, is_default));
        }
    }
}
