//! The kinds for API priority and fairness. The server stores these objects, but it does not queue or limit requests.

mod flow_schema;
mod priority_level;

pub(super) use flow_schema::FlowSchema;
use pintle_json::Json;
pub(super) use priority_level::PriorityLevelConfiguration;

use pintle_apimachinery::validate::FieldError;

/// Returns the error for a change to the spec of a mandatory object. `aside` is a part of the message that lists the
/// fields that may change.
fn fixed_spec_error(name: &str, spec: &Json, aside: &str) -> FieldError {
    FieldError::invalid("spec", spec, format!("spec of '{name}'{aside} must equal the fixed value"))
}
