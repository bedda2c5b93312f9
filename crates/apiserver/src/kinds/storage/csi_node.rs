//! CSINode.

use crate::kinds::Strategy;
use crate::kinds::table::{self, Column, Row};
use jiff::Timestamp;
use pintle_json::Json;

/// `storage.k8s.io/v1` CSINode.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct CsiNode;

impl Strategy for CsiNode {
    fn columns(&self) -> Option<Vec<Column>> {
        table::columns("Name, Drivers:integer, Age")
    }

    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        let row = Row::new(object, now);
        vec![row.name(), object.list("/spec/drivers").count().into(), row.age()]
    }
}
