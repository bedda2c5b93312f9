//! StorageClass.

use crate::kinds::check::{Check, immutable};
use crate::kinds::table::{self, Column, Row};
use crate::kinds::{Strategy, warnings};
use crate::request::Part;
use crate::validate::{FieldFault, FieldFaults};
use jiff::Timestamp;
use pintle_json::Json;

/// `storage.k8s.io/v1` StorageClass.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct StorageClass;

impl Strategy for StorageClass {
    fn warnings(&self, object: &Json, _: Option<&Json>, _: Part) -> Vec<String> {
        let mut found = Vec::new();
        for (at, topology) in object.list("/allowedTopologies").enumerate() {
            for (nth, expression) in topology.list("/matchLabelExpressions").enumerate() {
                let path = format!("allowedTopologies[{at}].matchLabelExpressions[{nth}].key");
                found.extend(warnings::node_label(expression.text("/key")).map(|why| format!("{path}: {why}")));
            }
        }
        found
    }

    fn defaults(&self, object: &mut Json) {
        object.set_default("reclaimPolicy", "Delete");
        object.set_default("volumeBindingMode", "Immediate");
    }

    fn validate_create(&self, object: &Json) -> FieldFaults {
        Check::of(object)
            .required("provisioner")
            .one_of("reclaimPolicy", &["Delete", "Retain"])
            .one_of("volumeBindingMode", &["Immediate", "WaitForFirstConsumer"])
            .done()
    }

    fn validate_update(&self, new: &Json, old: &Json, _: Part) -> FieldFaults {
        let mut faults = FieldFaults::default();
        if new.get("parameters") != old.get("parameters") {
            faults.push(FieldFault::forbidden("parameters", "updates to parameters are forbidden."));
        }
        faults.extend(immutable(new, old, &["provisioner", "reclaimPolicy", "volumeBindingMode"]));
        faults
    }

    fn columns(&self) -> Option<Vec<Column>> {
        table::columns("Name, Provisioner, ReclaimPolicy, VolumeBindingMode, AllowVolumeExpansion, Age")
    }

    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        let row = Row::new(object, now);
        vec![
            row.name(),
            row.text("/provisioner"),
            row.text("/reclaimPolicy"),
            row.text("/volumeBindingMode"),
            row.truth("/allowVolumeExpansion"),
            row.age(),
        ]
    }
}
