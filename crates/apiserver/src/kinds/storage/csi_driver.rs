//! CSIDriver.

use crate::kinds::Strategy;
use crate::kinds::table::{self, Column, Row};
use crate::request::Part;
use jiff::Timestamp;
use pintle_json::{Json, json};

/// `storage.k8s.io/v1` CSIDriver.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct CsiDriver;

impl Strategy for CsiDriver {
    fn warnings(&self, object: &Json, old: Option<&Json>, _: Part) -> Vec<String> {
        const TOKENS: &str = "/spec/tokenRequests";
        let asks = object.list(TOKENS).next().is_some() && !object.has("/spec/serviceAccountTokenInSecrets");
        let as_before = old.is_some_and(|old| old.at(TOKENS) == object.at(TOKENS));
        let why = "is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume \
                   attributes";
        match asks && !as_before {
            true => vec![format!("spec.serviceAccountTokenInSecrets {why}")],
            false => Vec::new(),
        }
    }

    fn defaults(&self, object: &mut Json) {
        let Some(spec) = object.member("spec") else { return };
        spec.set_default("attachRequired", true);
        spec.set_default("volumeLifecycleModes", json!(["Persistent"]));
        spec.set_default("fsGroupPolicy", "ReadWriteOnceWithFSType");
        for key in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
            spec.set_default(key, false);
        }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        table::columns(
            "Name, AttachRequired:boolean, PodInfoOnMount:boolean, StorageCapacity:boolean, \
             TokenRequests, RequiresRepublish:boolean, Modes, Age",
        )
    }

    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        let row = Row::new(object, now);
        let audiences: Vec<_> = object.list("/spec/tokenRequests").map(|request| request.text("/audience")).collect();
        let audiences = if audiences.is_empty() { "<unset>".into() } else { audiences.join(",") };
        vec![
            row.name(),
            row.truth("/spec/attachRequired"),
            row.truth("/spec/podInfoOnMount"),
            row.truth("/spec/storageCapacity"),
            audiences.into(),
            row.truth("/spec/requiresRepublish"),
            row.joined("/spec/volumeLifecycleModes"),
            row.age(),
        ]
    }
}
