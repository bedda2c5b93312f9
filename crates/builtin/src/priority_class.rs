//! The `PriorityClass` kind in `scheduling.k8s.io/v1`.

use pintle_apimachinery::cluster::Cluster;
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::metadata;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::check::{Check, immutable};
use pintle_meta::GroupResource;

use crate::core::pod::{SYSTEM_CLASSES, default_priority_class};

/// The highest value of a PriorityClass whose name does not start with `system-`.
const HIGHEST_USER_PRIORITY: i64 = 1_000_000_000;

pub(crate) struct PriorityClass;

impl Strategy for PriorityClass {
    fn validate_admitted(
        &self,
        cluster: &dyn Cluster,
        class: &Json,
        old: Option<&Json>,
        _: Subresource,
    ) -> Outcome<()> {
        let default = default_priority_class(cluster).filter(|_| class.is_true("/globalDefault"));
        let name = metadata::name(class);
        match default.as_deref().map(metadata::name) {
            Some(default) if old.is_none() || default != name => {
                let why = format!("PriorityClass {default} is already marked as default. Only one default can exist");
                Err(Failure::forbidden(&GroupResource::new("scheduling.k8s.io", "priorityclasses"), name, &why))
            }
            _ => Ok(()),
        }
    }

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

    fn read_kinds(&self, _: Subresource) -> &'static [(&'static str, &'static str)] {
        &[("scheduling.k8s.io", "PriorityClass")]
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
