//! VolumeAttachment.

use crate::kinds::check::Check;
use crate::kinds::reset::{ALL_BUT_STATUS, Reset};
use crate::kinds::table::{self, Column, Row};
use crate::kinds::{Context, Strategy};
use crate::request::Part;
use crate::validate::FieldFaults;
use jiff::Timestamp;
use pintle_json::{Json, json};

/// `storage.k8s.io/v1` VolumeAttachment.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct VolumeAttachment;

impl Strategy for VolumeAttachment {
    fn defaults(&self, object: &mut Json) {
        if let Some(status) = object.member("status") {
            status.set_default("attached", false);
        }
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Json) {
        object.set("status", json!({"attached": false}));
    }

    fn validate_create(&self, object: &Json) -> FieldFaults {
        Check::of(object).required("spec.attacher").required("spec.nodeName").done()
    }

    fn columns(&self) -> Option<Vec<Column>> {
        table::columns("Name, Attacher, PV, Node, Attached:boolean, Age")
    }

    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        let row = Row::new(object, now);
        vec![
            row.name(),
            row.text("/spec/attacher"),
            row.text("/spec/source/persistentVolumeName"),
            row.text("/spec/nodeName"),
            row.truth("/status/attached"),
            row.age(),
        ]
    }

    fn status_keeps_metadata(&self) -> bool {
        true
    }

    fn reset_fields(&self, part: Part) -> Option<Reset> {
        (part == Part::Status).then_some(ALL_BUT_STATUS)
    }
}
