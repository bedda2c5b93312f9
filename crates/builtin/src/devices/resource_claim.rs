//! The kind ResourceClaim of the group `resource.k8s.io`.

use pintle_apimachinery::request::Subresource;
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::reset::{ALL_BUT_STATUS, Reset};
use pintle_kinds::table::{self, Column, Row};

use super::claim_defaults;
use jiff::Timestamp;

/// The strategy of ResourceClaim in `resource.k8s.io`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResourceClaim;

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
