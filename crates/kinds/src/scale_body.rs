//! The strategy of the kind Scale, which only defines table columns.

use std::sync::Arc;

use super::Kind;
use super::table::{Cell, Table};
use crate::strategy::Strategy;

const DESCRIPTIONS: &[(&str, &str)] = &[
    ("Desired", "replicas is the desired number of instances for the scaled object."),
    ("Available", "replicas is the actual number of observed instances of the scaled object."),
];

/// The strategy of Scale in `autoscaling/v1`.
#[derive(Clone, Copy, Debug)]
pub struct ScaleBody;

impl ScaleBody {
    /// Returns the kind of `/scale` request and response bodies.
    pub fn kind() -> Kind {
        Kind::body_only("autoscaling", "v1", "Scale", Arc::new(Self))
    }
}

impl Strategy for ScaleBody {
    fn table(&self) -> Table {
        &[
            ("Name:string", Cell::Name),
            ("Desired:integer", Cell::Number("/spec/replicas")),
            ("Available:integer", Cell::Number("/status/replicas")),
            ("Age", Cell::Age),
        ]
    }

    fn column_descriptions(&self) -> &'static [(&'static str, &'static str)] {
        DESCRIPTIONS
    }
}
