//! FlowSchema.

use crate::kinds::Strategy;
use crate::kinds::reset::{ALL_BUT_STATUS, Reset};
use crate::kinds::table::{self, Column, Row};
use crate::object::{list, text_at};
use crate::request::Part;
use jiff::Timestamp;
use serde_json::Value;

/// `flowcontrol.apiserver.k8s.io` FlowSchema.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct FlowSchema;

impl Strategy for FlowSchema {
    fn columns(&self) -> Option<Vec<Column>> {
        table::columns("Name, PriorityLevel, MatchingPrecedence, DistinguisherMethod, Age, MissingPL")
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let row = Row::new(object, now);
        let dangling = list(object, "/status/conditions").find(|condition| text_at(condition, "/type") == "Dangling");
        let missing = dangling.map_or("?", |condition| text_at(condition, "/status"));
        vec![
            row.name(),
            row.text("/spec/priorityLevelConfiguration/name"),
            row.scalar_or_none("/spec/matchingPrecedence"),
            row.scalar_or_none("/spec/distinguisherMethod/type"),
            row.age(),
            missing.into(),
        ]
    }

    fn reset_fields(&self, part: Part) -> Option<Reset> {
        (part == Part::Status).then_some(ALL_BUT_STATUS)
    }
}
