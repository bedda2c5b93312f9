//! The core `ReplicationController` kind.

use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::check::Check;

use super::{TEMPLATE, status_errors, workload_spec};
use crate::core::pod::{template_warnings, validate_template};

pub(crate) struct ReplicationController;

impl Strategy for ReplicationController {
    fn warnings(&self, object: &Json, old: Option<&Json>, _: Subresource) -> Vec<String> {
        match old {
            None => template_warnings::on_create(object, TEMPLATE),
            // kube-apiserver warns about the template of the old object, not of the new object.
            Some(old) => template_warnings::on_update(old, object, TEMPLATE),
        }
    }

    fn defaults(&self, object: &mut Json) {
        let labels = object.at("/spec/template/metadata/labels").cloned();
        if let Some(spec) = workload_spec(object)
            && let Some(labels) = labels.clone()
            && spec.get("selector").is_none_or(Json::is_empty)
        {
            spec.set("selector", labels);
        }
        if let (Some(labels), Some(metadata)) = (labels, object.member("metadata"))
            && metadata.get("labels").is_none_or(Json::is_empty)
        {
            metadata.set("labels", labels);
        }
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        let selector = object["spec"]["selector"].as_object().cloned().unwrap_or_default();
        let template = object.at("/spec/template").filter(|template| !template.is_null());
        let labels = template.and_then(|template| template.at("/metadata/labels")).cloned().unwrap_or_default();
        let matches = selector.iter().all(|(key, value)| labels.get(key) == Some(value));
        let restart = object.text("/spec/template/spec/restartPolicy");
        Check::of(object)
            .not_negative(&["spec.minReadySeconds"])
            .required("spec.selector")
            .not_negative(&["spec.replicas"])
            .required_if(template.is_none(), "spec.template", "")
            .refuse(template.is_some() && !matches, || {
                let why = "`selector` does not match template `labels`";
                FieldError::invalid("spec.template.metadata.labels", &labels, why)
            })
            .also(template.map(|template| validate_template(template, "spec.template")).unwrap_or_default())
            .refuse(!restart.is_empty() && restart != "Always", || {
                FieldError::unsupported("spec.template.spec.restartPolicy", &restart.into(), &["Always"])
            })
            .refuse(object.has("/spec/template/spec/activeDeadlineSeconds"), || {
                let why = "activeDeadlineSeconds in ReplicationController is not Supported";
                FieldError::forbidden("spec.template.spec.activeDeadlineSeconds", why)
            })
            .done()
    }

    fn validate_update(&self, new: &Json, _: &Json, subresource: Subresource) -> FieldErrors {
        match subresource {
            Subresource::Status => status_errors(new, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"]),
            _ => self.validate_create(new),
        }
    }
}
