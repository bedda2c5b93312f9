//! Lease.

use crate::kinds::Strategy;
use crate::kinds::table::{self, Column, Row};
use crate::object::{member, remove};
use crate::validate::FieldFault;
use jiff::Timestamp;
use serde_json::Value;

/// `coordination.k8s.io/v1` Lease.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct Lease;

impl Strategy for Lease {
    fn defaults(&self, object: &mut Value) {
        if let Some(spec) = member(object, "spec") {
            remove(spec, "strategy");
            remove(spec, "preferredHolder");
        }
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        let mut faults = Vec::new();
        let number =
            |key: &str| object.pointer(&format!("/spec/{key}")).filter(|value| value.is_i64() || value.is_u64());
        if let Some(seconds) =
            number("leaseDurationSeconds").filter(|seconds| seconds.as_i64().is_some_and(|seconds| seconds <= 0))
        {
            faults.push(FieldFault::invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"));
        }
        if let Some(count) = number("leaseTransitions").filter(|count| count.as_i64().is_some_and(|count| count < 0)) {
            faults.push(FieldFault::invalid("spec.leaseTransitions", count, "must be greater than or equal to 0"));
        }
        faults
    }

    fn columns(&self) -> Option<Vec<Column>> {
        table::columns("Name, Holder, Age")
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let row = Row::new(object, now);
        vec![row.name(), row.text("/spec/holderIdentity"), row.age()]
    }
}
