//! Warnings about deprecated node labels in selectors.

use pintle_apimachinery::validate::label_value_faults;
use pintle_json::Json;

const DEPRECATED: [(&str, &str); 8] = [
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    ("failure-domain.beta.kubernetes.io/zone", "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"),
    ("beta.kubernetes.io/instance-type", "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    ("scheduler.alpha.kubernetes.io/preferAvoidPods", "deprecated since v1.22; use Taints and Tolerations instead"),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
];

pub(crate) fn node_label(key: &str) -> Option<&'static str> {
    DEPRECATED.iter().find(|(label, _)| *label == key).map(|(_, why)| *why)
}

/// Warns about deprecated keys in a node selector term. If `values` is true, also warns about deprecated values.
/// Callers that do not validate the values set `values`.
pub(crate) fn selector_term(term: &Json, path: &str, values: bool) -> Vec<String> {
    let mut found = Vec::new();
    for (at, expression) in term.list("/matchExpressions").enumerate() {
        let path = format!("{path}.matchExpressions[{at}]");
        let key = expression.text("/key");
        found.extend(node_label(key).map(|why| format!("{path}.key: {key} is {why}")));
        for (nth, value) in expression.texts("/values").enumerate().filter(|_| values) {
            let why = label_value_faults(value);
            found.extend(why.iter().map(|why| format!("{path}.values[{nth}]: {value} is invalid, {why}")));
        }
    }
    found
}

pub(crate) fn node_selector(selector: &Json, path: &str) -> Vec<String> {
    let mut found = selector_term(selector, path, false);
    for label in selector["matchLabels"].as_object().into_iter().flat_map(|labels| labels.keys()) {
        found.extend(node_label(label).map(|why| format!("{path}.matchLabels.{label}: {why}")));
    }
    found
}
