//! The kind ResourceClaim of the group `resource.k8s.io`.

use super::claim_defaults;
use crate::kinds::Strategy;
use crate::kinds::reset::{ALL_BUT_STATUS, Reset};
use crate::kinds::table::{self, Column, Row};
use crate::request::Subresource;
use jiff::Timestamp;
use pintle_json::Json;

/// The strategy of ResourceClaim in `resource.k8s.io`.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct ResourceClaim;

impl Strategy for ResourceClaim {
    fn defaults(&self, object: &mut Json) {
        object.get_mut("spec").into_iter().for_each(claim_defaults);
    }

    fn columns(&self) -> Option<Vec<Column>> {
        table::columns("Name, State, Age")
    }

    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        let row = Row::new(object, now);
        let mut states = Vec::new();
        if object.has("/metadata/deletionTimestamp") {
            states.push("deleted");
        }
        states.push(if object.has("/status/allocation") { "allocated" } else { "pending" });
        if object.list("/status/reservedFor").next().is_some() {
            states.push("reserved");
        }
        vec![row.name(), states.join(",").into(), row.age()]
    }

    fn status_keeps_metadata(&self) -> bool {
        true
    }

    fn reset_fields(&self, subresource: Subresource) -> Option<Reset> {
        (subresource == Subresource::Status).then_some(ALL_BUT_STATUS)
    }
}
