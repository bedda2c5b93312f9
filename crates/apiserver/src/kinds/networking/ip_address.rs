//! IPAddress.

use crate::kinds::check::{Check, immutable};
use crate::kinds::table::{self, Column, Row};
use crate::kinds::without_effect::{ADDRESSES, whole};
use crate::kinds::{Cluster, Kinds, Strategy};
use crate::request::Part;
use crate::validate::{FieldFault, FieldFaults, NameRule};
use jiff::Timestamp;
use pintle_json::Json;

/// `networking.k8s.io` IPAddress.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct IpAddress;

impl Strategy for IpAddress {
    fn name_rule(&self) -> NameRule {
        NameRule::IpAddress
    }

    fn validate_create(&self, object: &Json) -> FieldFaults {
        if !object.has("/spec/parentRef") {
            return FieldFaults::from([FieldFault::required("spec.parentRef", "")]);
        }
        Check::of(object)
            .name("spec.parentRef.group", NameRule::Subdomain)
            .required("spec.parentRef.resource")
            .required("spec.parentRef.name")
            .done()
    }

    fn validate_update(&self, new: &Json, old: &Json, _: Part) -> FieldFaults {
        let mut faults = self.validate_create(new);
        faults.extend(immutable(new, old, &["spec.parentRef"]));
        faults
    }

    fn without_effect(&self, object: &Json, _: &Kinds, _: &dyn Cluster) -> Vec<String> {
        whole(object, ADDRESSES)
    }

    fn columns(&self) -> Option<Vec<Column>> {
        table::columns("Name, ParentRef")
    }

    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        let row = Row::new(object, now);
        let part = |key: &str| object.text(&format!("/spec/parentRef/{key}"));
        let resource = match part("group") {
            "" => part("resource").into(),
            group => format!("{}.{group}", part("resource")),
        };
        let parts = [resource.as_str(), part("namespace"), part("name")];
        let parent = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
        vec![row.name(), parent.into()]
    }
}
