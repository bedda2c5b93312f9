//! The strategy of the kind Scale. The strategy defines only the table columns of the kind.

use std::sync::Arc;

use jiff::Timestamp;
use pintle_json::Json;

use super::table::{Column, Row};
use super::{Kind, table};
use crate::strategy::Strategy;

/// The descriptions of the table columns.
const DESCRIPTIONS: &[(&str, &str)] = &[
    ("Desired", "replicas is the desired number of instances for the scaled object."),
    ("Available", "replicas is the actual number of observed instances of the scaled object."),
];

/// The strategy of Scale in `autoscaling/v1`.
#[derive(Clone, Copy, Debug)]
pub struct ScaleBody;

impl ScaleBody {
    /// Returns the kind that the request and response bodies of `/scale` have.
    pub fn kind() -> Kind {
        Kind::body_only("autoscaling", "v1", "Scale", Arc::new(Self))
    }
}

impl Strategy for ScaleBody {
    fn columns(&self) -> Option<Vec<Column>> {
        table::described("Name:string, Desired:integer, Available:integer, Age", DESCRIPTIONS)
    }

    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        let row = Row::new(object, now);
        vec![row.name(), row.number("/spec/replicas"), row.number("/status/replicas"), row.age()]
    }
}
