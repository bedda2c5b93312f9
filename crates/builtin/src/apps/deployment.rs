//! The `Deployment` kind in `apps/v1`.

use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::object::set_metadata;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrorType, FieldErrors};
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::reset::Reset;

use super::{TEMPLATE, selector_changed, status_errors, workload_errors, workload_spec};
use crate::core::pod::template_warnings;
use crate::go_struct::go_struct;
use crate::int_or_percent::{above_100_percent, is_zero, share_errors};

pub(crate) struct Deployment;

impl Strategy for Deployment {
    fn complete_empty(&self, object: &mut Json) {
        object["spec"]["replicas"] = 0.into();
    }

    fn warnings(&self, object: &Json, old: Option<&Json>, _: Subresource) -> Vec<String> {
        template_warnings::on_write(object, old, TEMPLATE)
    }

    fn defaults(&self, object: &mut Json) {
        if let Some(strategy) = workload_spec(object).and_then(|spec| spec.member("strategy")) {
            if strategy.text("/type").is_empty() {
                strategy.set("type", "RollingUpdate");
            }
            if strategy.text("/type") == "RollingUpdate"
                && let Some(rolling) = strategy.member("rollingUpdate")
            {
                rolling.set_default("maxUnavailable", "25%");
                rolling.set_default("maxSurge", "25%");
            }
        }
    }

    fn changes_generation(&self, new: &Json, old: &Json) -> bool {
        let annotations = |object: &Json| object.at("/metadata/annotations").filter(|map| !map.is_empty()).cloned();
        new.get("spec") != old.get("spec") || annotations(new) != annotations(old)
    }

    fn prepare_for_update(&self, _: &Context<'_>, new: &mut Json, old: &Json, subresource: Subresource) {
        if subresource == Subresource::Status {
            let labels = old.at("/metadata/labels").cloned();
            match labels {
                Some(labels) => set_metadata(new, "labels", labels),
                None => pintle_apimachinery::object::remove_metadata(new, "labels"),
            }
        }
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        let mut errors = workload_errors(object, "deployment");
        let strategy = object.text("/spec/strategy/type");
        let rolling = "spec.strategy.rollingUpdate";
        match strategy {
            "Recreate" if object.has("/spec/strategy/rollingUpdate") => {
                let why = "may not be specified when strategy `type` is 'Recreate'";
                errors.push(FieldError::forbidden(rolling, why));
            }
            "Recreate" => {}
            "RollingUpdate" => {
                let (fewer, more) = (&*format!("{rolling}.maxUnavailable"), &*format!("{rolling}.maxSurge"));
                errors.extend(share_errors(object, fewer).into_iter().chain(share_errors(object, more)));
                if is_zero(object, fewer) && is_zero(object, more) {
                    let value = &object["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"];
                    errors.push(FieldError::invalid(fewer, value, "may not be 0 when `maxSurge` is 0"));
                }
                errors.extend(above_100_percent(object, fewer));
            }
            _ => {
                let fields = [("type", "Type"), ("rollingUpdate", "RollingUpdate")];
                let value = go_struct(&object["spec"]["strategy"], &fields);
                let why = format!("Unsupported value: {value}: supported values: \"Recreate\", \"RollingUpdate\"");
                errors.push(FieldError::new(FieldErrorType::NotSupported, "spec.strategy", why));
            }
        }
        let (deadline, ready) =
            (object.integer("/spec/progressDeadlineSeconds"), object.integer("/spec/minReadySeconds"));
        if let Some(deadline) = deadline.filter(|deadline| *deadline < 0) {
            let why = "must be greater than or equal to 0";
            errors.push(FieldError::invalid("spec.progressDeadlineSeconds", &deadline.into(), why));
        }
        if let Some(deadline) = deadline.filter(|deadline| *deadline <= ready.unwrap_or(0)) {
            let why = "must be greater than minReadySeconds";
            errors.push(FieldError::invalid("spec.progressDeadlineSeconds", &deadline.into(), why));
        }
        errors
    }

    fn validate_update(&self, new: &Json, old: &Json, subresource: Subresource) -> FieldErrors {
        match subresource {
            Subresource::Status => status_errors(new, &["updatedReplicas", "readyReplicas", "availableReplicas"]),
            _ => self.validate_create(new).and(selector_changed(new, old)),
        }
    }

    fn reset_fields(&self, subresource: Subresource) -> Option<Reset> {
        (subresource == Subresource::Status).then_some(&[&["spec"], &["metadata", "labels"]])
    }
}
