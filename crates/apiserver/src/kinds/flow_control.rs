//! API priority and fairness. The server stores these objects but has only one flow of requests.

mod flow_schema;
mod priority_level;

pub(super) use flow_schema::FlowSchema;
pub(super) use priority_level::PriorityLevelConfiguration;

use pintle_json::Json;

use crate::validate::FieldError;

/// Returns the error for a changed spec of a mandatory object. `aside` names the fields that may change.
fn fixed_spec_error(name: &str, spec: &Json, aside: &str) -> FieldError {
    FieldError::invalid("spec", spec, format!("spec of '{name}'{aside} must equal the fixed value"))
}
