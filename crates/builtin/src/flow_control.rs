//! The kinds for API priority and fairness. The server stores these objects, but it does not queue or limit requests.

mod flow_schema;
mod policy_rules;
mod priority_level;

pub(super) use flow_schema::FlowSchema;
use pintle_json::Json;
pub(super) use priority_level::PriorityLevelConfiguration;

use pintle_apimachinery::object::duplicates;
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_kinds::check::Check;

/// Returns the error for a change to the spec of a mandatory object. `aside` is the text in the message that names the
/// mutable fields.
fn fixed_spec_error(name: &str, spec: &Json, aside: &str) -> FieldError {
    FieldError::invalid("spec", spec, format!("spec of '{name}'{aside} must equal the fixed value"))
}

fn status_errors(object: &Json) -> FieldErrors {
    let duplicates = duplicates(object.list("/status/conditions").map(|condition| condition.text("/type")));
    let check = Check::of(object).each("status.conditions", |condition, at| {
        let kind = condition.object()["type"].clone();
        condition.duplicate_if(duplicates[at], "type", &kind).required("type")
    });
    check.done()
}
