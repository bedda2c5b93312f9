//! What steers the flow of requests, of which this server has one.

mod flow_schema;
mod priority_level;

pub(super) use flow_schema::FlowSchema;
pub(super) use priority_level::PriorityLevelConfiguration;

use pintle_json::Json;

use crate::validate::FieldError;

/// The fault of a spec that is not the one which every cluster has under that name, but for what `aside` says.
fn not_fixed(name: &str, spec: &Json, aside: &str) -> FieldError {
    FieldError::invalid("spec", spec, format!("spec of '{name}'{aside} must equal the fixed value"))
}
