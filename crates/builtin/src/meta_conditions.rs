//! Validates lists of `meta/v1` conditions.

use pintle_apimachinery::object::duplicates;
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::Json;
use pintle_kinds::check::Check;

const MAX_REASON: usize = 1024;
const MAX_MESSAGE: usize = 32 * 1024;
const REASON: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or \
                      '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or \
                      'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

pub(super) fn condition_errors(object: &Json, field: &str) -> FieldErrors {
    let pointer = format!("/{}", field.replace('.', "/"));
    let types: Vec<_> = object.list(&pointer).map(|condition| condition.text("/type")).collect();
    let duplicates = duplicates(types.iter());
    let check = Check::of(object).each(field, |condition, at| {
        let object = condition.object();
        let (status, reason) = (object.text("/status"), object.text("/reason"));
        let generation = object.integer("/observedGeneration").unwrap_or(0);
        condition
            .duplicate_if(duplicates[at], "type", &types[at].into())
            .qualified("type")
            .refuse(!["False", "True", "Unknown"].contains(&status), || {
                FieldError::unsupported("status", &status.into(), &["False", "True", "Unknown"])
            })
            .refuse(generation < 0, || {
                let why = "must be greater than or equal to zero";
                FieldError::invalid("observedGeneration", &generation.into(), why)
            })
            .required_if(!object.has("/lastTransitionTime"), "lastTransitionTime", "")
            .required("reason")
            .invalid_text_if(!reason.is_empty() && !is_reason(reason), "reason", reason, REASON)
            .refuse(reason.len() > MAX_REASON, || FieldError::too_long("reason", MAX_REASON))
            .refuse(object.text("/message").len() > MAX_MESSAGE, || FieldError::too_long("message", MAX_MESSAGE))
    });
    check.done()
}

fn is_reason(text: &str) -> bool {
    let last = text.bytes().last();
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|c| c.is_ascii_alphanumeric() || b"_,:".contains(&c))
        && last.is_some_and(|c| c.is_ascii_alphanumeric() || c == b'_')
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::*;

    #[test]
    fn all_fields_of_a_condition_are_validated() {
        let good =
            json!({"type": "A", "status": "True", "reason": "R:a", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let errors = |conditions: Json| -> Vec<String> {
            let object = json!({"status": {"conditions": conditions}});
            condition_errors(&object, "status.conditions").into_iter().map(|error| error.field).collect()
        };
        assert!(errors(json!([good])).is_empty());
        assert_eq!(errors(json!([good, good])), ["status.conditions[1].type"]);
        let bad = json!({"type": "a b", "status": "true", "reason": "1", "observedGeneration": -1});
        let fields = ["type", "status", "observedGeneration", "lastTransitionTime", "reason"];
        assert_eq!(errors(json!([bad])), fields.map(|field| format!("status.conditions[0].{field}")));
    }
}
