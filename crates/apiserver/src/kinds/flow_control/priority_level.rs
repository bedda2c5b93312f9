//! PriorityLevelConfiguration.

use crate::kinds::Strategy;
use crate::kinds::reset::{ALL_BUT_STATUS, Reset};
use crate::kinds::table::{self, Column, Row};
use crate::request::Part;
use jiff::Timestamp;
use serde_json::Value;

/// `flowcontrol.apiserver.k8s.io` PriorityLevelConfiguration.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct PriorityLevelConfiguration;

impl Strategy for PriorityLevelConfiguration {
    fn columns(&self) -> Option<Vec<Column>> {
        table::columns("Name, Type, NominalConcurrencyShares, Queues, HandSize, QueueLengthLimit, Age")
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let row = Row::new(object, now);
        let queuing = |key: &str| row.scalar_or_none(&format!("/spec/limited/limitResponse/queuing/{key}"));
        vec![
            row.name(),
            row.text("/spec/type"),
            row.scalar_or_none("/spec/limited/nominalConcurrencyShares"),
            queuing("queues"),
            queuing("handSize"),
            queuing("queueLengthLimit"),
            row.age(),
        ]
    }

    fn reset_fields(&self, part: Part) -> Option<Reset> {
        (part == Part::Status).then_some(ALL_BUT_STATUS)
    }
}
