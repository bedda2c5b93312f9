//! The core `PodTemplate` kind.

use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::FieldErrors;
use pintle_json::Json;
use pintle_kinds::Strategy;

use super::pod::{pod_template, template_warnings, validate_template};

pub(crate) struct PodTemplate;

impl Strategy for PodTemplate {
    fn warnings(&self, object: &Json, old: Option<&Json>, _: Subresource) -> Vec<String> {
        match old {
            None => template_warnings::of(object, "/template"),
            Some(old) => template_warnings::on_update(object, old, "/template"),
        }
    }

    fn defaults(&self, object: &mut Json) {
        if let Some(template) = object.member("template") {
            pod_template(template);
        }
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        validate_template(&object["template"], "template")
    }
}
