//! Validates where pods may run: what they tolerate, and which nodes they select. RuntimeClasses have the same.

use pintle_json::Json;

use crate::kinds::check::Check;
use crate::validate::{FieldFault, FieldFaults, label_key_faults, label_value_faults};

/// The faults of the tolerations in a part of an object that is at a path.
pub(in crate::kinds) fn tolerations(part: &Json, path: &str) -> FieldFaults {
    let all = Check::at(part, path).each("tolerations", |check, at| {
        let toleration = check.object();
        let text = |member: &str| toleration.text(member);
        let (key, operator, value, effect) = (text("/key"), text("/operator"), text("/value"), text("/effect"));
        let keys = if key.is_empty() { Vec::new() } else { label_key_faults(key) };
        let keys =
            keys.into_iter().map(|why| FieldFault::invalid_text(format!("{path}.tolerations[{at}].key"), key, why));
        let values = if matches!(operator, "" | "Equal") { label_value_faults(value) } else { Vec::new() };
        check
            .also(keys)
            .refuse(key.is_empty() && operator != "Exists", || {
                const WHY: &str =
                    "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
                FieldFault::invalid_text("operator", operator, WHY)
            })
            .refuse(toleration.has("/tolerationSeconds") && effect != "NoExecute", || {
                FieldFault::invalid_text("effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
            })
            .refuse(!values.is_empty(), || FieldFault::invalid_text("operator", value, values.join(";")))
            .refuse(operator == "Exists" && !value.is_empty(), || {
                FieldFault::invalid_text("operator", value, "value must be empty when `operator` is 'Exists'")
            })
            .refuse(!matches!(operator, "" | "Equal" | "Exists"), || {
                // Those that compare numbers are known, and not to be had yet.
                let known: &[&str] = match operator {
                    "Lt" | "Gt" => &["Equal", "Exists", "Lt", "Gt"],
                    _ => &["Equal", "Exists"],
                };
                FieldFault::unsupported("operator", &operator.into(), known)
            })
            .one_of("effect", &["NoSchedule", "PreferNoSchedule", "NoExecute"])
    });
    all.done()
}

/// The same of the labels that nodes have to have.
pub(in crate::kinds) fn node_selector(part: &Json, path: &str) -> FieldFaults {
    let mut faults = FieldFaults::default();
    for (key, value) in part.members("/nodeSelector") {
        let value = value.as_str().unwrap_or_default();
        for (text, why) in [(key.as_str(), label_key_faults(key)), (value, label_value_faults(value))] {
            faults.extend(why.iter().map(|why| FieldFault::invalid_text(format!("{path}.nodeSelector"), text, why)));
        }
    }
    faults
}
