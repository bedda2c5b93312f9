//! The kind Scale and its table columns.

use std::sync::{Arc, LazyLock};

use super::Kind;
use super::table::TableColumn;
use crate::strategy::Plain;

/// The table columns of Scale, in the format of `columns.txt` in `pintle-builtin`.
const COLUMNS: &str = "\
Name:string = name
Desired:integer = number /spec/replicas | replicas is the desired number of instances for the scaled object.
Available:integer = number /status/replicas | replicas is the actual number of observed instances of the scaled object.
Age = age";

static TABLE: LazyLock<Vec<TableColumn>> = LazyLock::new(|| COLUMNS.lines().filter_map(TableColumn::read).collect());

/// The strategy of the kind Scale in `autoscaling/v1`.
#[derive(Clone, Copy, Debug)]
pub struct ScaleBody;

impl ScaleBody {
    /// Returns the kind of `/scale` request and response bodies.
    pub fn kind() -> Kind {
        Kind { table: &TABLE, ..Kind::body_only("autoscaling", "v1", "Scale", Arc::new(Plain)) }
    }
}
