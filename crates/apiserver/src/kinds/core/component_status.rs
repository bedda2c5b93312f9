//! ComponentStatus.

use crate::kinds::Strategy;
use crate::kinds::table::{self, Column, Row};
use jiff::Timestamp;
use pintle_json::Json;

/// `v1` ComponentStatus, which nobody writes.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct ComponentStatus;

impl Strategy for ComponentStatus {
    fn deprecation(&self) -> Option<&str> {
        Some("v1 ComponentStatus is deprecated in v1.19+")
    }

    fn columns(&self) -> Option<Vec<Column>> {
        table::columns("Name, Status, Message, Error")
    }

    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        let row = Row::new(object, now);
        let healthy = object.list("/conditions").find(|condition| condition.text("/type") == "Healthy");
        let status = match healthy.map(|condition| condition.text("/status")) {
            Some("True") => "Healthy",
            Some("False") => "Unhealthy",
            _ => "Unknown",
        };
        let part = |pointer: &str| Json::from(healthy.map_or("", |condition| condition.text(pointer)));
        vec![row.name(), status.into(), part("/message"), part("/error")]
    }
}
