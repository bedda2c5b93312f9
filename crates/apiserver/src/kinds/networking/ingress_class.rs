//! IngressClass.

use crate::kinds::Strategy;
use crate::kinds::check::{Check, immutable};
use crate::kinds::table::{self, Column, Row};
use crate::request::Part;
use crate::validate::FieldFaults;
use jiff::Timestamp;
use pintle_json::Json;

/// `networking.k8s.io/v1` IngressClass.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct IngressClass;

impl Strategy for IngressClass {
    fn validate_create(&self, object: &Json) -> FieldFaults {
        Check::of(object).required("spec.controller").done()
    }

    fn validate_update(&self, new: &Json, old: &Json, _: Part) -> FieldFaults {
        let mut faults = self.validate_create(new);
        faults.extend(immutable(new, old, &["spec.controller"]));
        faults
    }

    fn columns(&self) -> Option<Vec<Column>> {
        table::columns("Name, Controller, Parameters, Age")
    }

    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        let row = Row::new(object, now);
        let parameter = |key: &str| object.text(&format!("/spec/parameters/{key}"));
        let kind = match parameter("apiGroup") {
            "" => parameter("kind").to_owned(),
            group => format!("{}.{group}", parameter("kind")),
        };
        let parameters = match parameter("name") {
            "" => "<none>".into(),
            name => format!("{kind}/{name}"),
        };
        vec![row.name(), row.text("/spec/controller"), parameters.into(), row.age()]
    }
}
