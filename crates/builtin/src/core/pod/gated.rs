//! Validates pod changes that are allowed only while the pod has scheduling gates. For example, the node constraints of
//! a pod with scheduling gates may become stricter.

use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::Json;

const REQUIRED_TERMS: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Reports changes that remove or replace a node selector or a required node affinity.
pub(super) fn errors(new: &Json, old: &Json) -> FieldErrors {
    selector_error(new, old).into_iter().chain(affinity_errors(new, old)).collect()
}

/// Removes the fields of the pod spec that clients may change while the pod has scheduling gates.
pub(super) fn remove_narrowable(spec: &mut Json) {
    spec.set("nodeSelector", Json::Null);
    if let Some(affinity) = spec.get_mut("affinity") {
        affinity.unset("nodeAffinity");
        if affinity.is_empty() {
            spec.unset("affinity");
        }
    }
}

fn selector_error(new: &Json, old: &Json) -> Option<FieldError> {
    let now = &new["spec"]["nodeSelector"];
    let keeps_all = old.members("/spec/nodeSelector").all(|(key, value)| now.get(key) == Some(value));
    let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
    (!keeps_all).then(|| FieldError::invalid("spec.nodeSelector", now, why))
}

fn affinity_errors(new: &Json, old: &Json) -> FieldErrors {
    let field = format!("spec.affinity.nodeAffinity.{REQUIRED_TERMS}.nodeSelectorTerms");
    let terms = |pod: &Json| pod["spec"]["affinity"]["nodeAffinity"][REQUIRED_TERMS]["nodeSelectorTerms"].clone();
    let (is, was) = (terms(new), terms(old));
    let count = |terms: &Json| terms.as_array().map_or(0, Vec::len);
    if count(&was) == 0 {
        return FieldErrors::default();
    }
    if count(&was) != count(&is) {
        let why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return FieldErrors::from([FieldError::invalid(field, &is, why)]);
    }
    let pairs = is.list("").zip(was.list("")).enumerate().filter(|(_, (is, was))| !only_adds(is, was));
    let why = "only additions are allowed (no mutations or deletions)";
    pairs.map(|(at, (is, _))| FieldError::invalid(format!("{field}[{at}]"), is, why)).collect()
}

/// Returns `true` if the new node selector term begins with all requirements of the old term. If the old term is empty,
/// the new term must also be empty.
fn only_adds(new: &Json, old: &Json) -> bool {
    let parts = ["/matchExpressions", "/matchFields"];
    let had = parts.iter().any(|part| old.list(part).next().is_some());
    if !had {
        return parts.iter().all(|part| new.list(part).next().is_none());
    }
    parts.iter().all(|part| {
        let mut now = new.list(part);
        old.list(part).all(|was| now.next() == Some(was))
    })
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::*;

    fn pod(selector: Json, terms: Json) -> Json {
        let affinity = json!({"nodeAffinity": {REQUIRED_TERMS: {"nodeSelectorTerms": terms}}});
        json!({"spec": {"nodeSelector": selector, "affinity": affinity}})
    }

    #[test]
    fn gated_pod_allows_only_narrower_node_constraints() {
        let term = |keys: &[&str]| {
            let expressions: Vec<_> = keys.iter().map(|key| json!({"key": key, "operator": "Exists"})).collect();
            json!({"matchExpressions": expressions})
        };
        let old = pod(json!({"a": "b"}), json!([term(&["x"])]));
        let terms = format!("spec.affinity.nodeAffinity.{REQUIRED_TERMS}.nodeSelectorTerms");
        for (selector, now, expected) in [
            (json!({"a": "b", "c": "d"}), json!([term(&["x", "y"])]), vec![]),
            (json!({"a": "c"}), json!([term(&["x"])]), vec!["spec.nodeSelector".to_owned()]),
            (json!({}), json!([term(&["x"])]), vec!["spec.nodeSelector".to_owned()]),
            (json!({"a": "b"}), json!([term(&["x"]), term(&["y"])]), vec![terms.clone()]),
            (json!({"a": "b"}), json!([term(&["y", "x"])]), vec![format!("{terms}[0]")]),
        ] {
            let found: Vec<_> = errors(&pod(selector, now), &old).into_iter().map(|error| error.field).collect();
            assert_eq!(found, expected);
        }
    }
}
