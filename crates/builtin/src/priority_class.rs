//! The `PriorityClass` kind in `scheduling.k8s.io/v1`.

use pintle_apimachinery::object::metadata;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::check::{Check, immutable};
use pintle_kinds::table::{Cell, Table};

use crate::core::pod::SYSTEM_CLASSES;

const HIGHEST_PRIORITY: i64 = 1_000_000_000;

pub(crate) struct PriorityClass;

impl Strategy for PriorityClass {
    fn defaults(&self, object: &mut Json) {
        object.set_default("preemptionPolicy", "PreemptLowerPriority");
        object.set_default("value", 0);
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        let name = metadata::name(object);
        let system = name.starts_with("system-") && !is_system(name);
        let high = !name.starts_with("system-") && object.integer("/value").unwrap_or(0) > HIGHEST_PRIORITY;
        Check::of(object)
            .refuse(system, || {
                let why = format!(
                    "priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a known system \
                     priority class"
                );
                FieldError::forbidden("metadata.name", why)
            })
            .refuse(high, || {
                let why = format!("maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}");
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
        is_system(name).then_some("this is a system priority class and cannot be deleted")
    }

    fn table(&self) -> Table {
        &[
            ("Name", Cell::Name),
            ("Value:integer", Cell::Number("/value")),
            ("Global-Default:boolean", Cell::Boolean("/globalDefault")),
            ("Age", Cell::Age),
            ("PreemptionPolicy", Cell::Text("/preemptionPolicy")),
        ]
    }
}

fn is_system(name: &str) -> bool {
    SYSTEM_CLASSES.iter().any(|(system, _)| *system == name)
}
