//! The `ReplicaSet` kind in `apps/v1`.

use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::FieldErrors;
use pintle_json::Json;
use pintle_kinds::Strategy;

use super::{TEMPLATE, selector_changed, status_errors, workload_errors, workload_spec};
use crate::core::pod::template_warnings;

pub(crate) struct ReplicaSet;

impl Strategy for ReplicaSet {
    fn complete_empty(&self, object: &mut Json) {
        object["spec"]["replicas"] = 0.into();
    }

    fn warnings(&self, object: &Json, old: Option<&Json>, _: Subresource) -> Vec<String> {
        template_warnings::on_write(object, old, TEMPLATE)
    }

    fn defaults(&self, object: &mut Json) {
        workload_spec(object);
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        workload_errors(object, "deployment")
    }

    fn validate_update(&self, new: &Json, old: &Json, subresource: Subresource) -> FieldErrors {
        match subresource {
            Subresource::Status => status_errors(new, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"]),
            _ => self.validate_create(new).and(selector_changed(new, old)),
        }
    }
}
