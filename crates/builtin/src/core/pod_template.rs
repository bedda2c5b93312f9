//! The kind PodTemplate of the core group.

use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::FieldErrors;
use pintle_json::Json;
use pintle_kinds::table::{self, Column, Row};
use pintle_kinds::{Pods, Strategy};

use super::pod::{pod_template, template_warnings, validate_template};
use jiff::Timestamp;

/// The strategy of PodTemplate in `v1`.
#[derive(Clone, Copy, Debug)]
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

    fn pods(&self) -> Pods {
        Pods::MadeFrom("/template")
    }

    fn columns(&self) -> Option<Vec<Column>> {
        table::columns("Name, Containers, Images, Pod Labels")
    }

    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        let row = Row::new(object, now);
        let (names, images) = table::containers(object.at("/template/spec"));
        let labels = table::labels(object.at("/template/metadata/labels"));
        vec![row.name(), names, images, labels.into()]
    }
}
