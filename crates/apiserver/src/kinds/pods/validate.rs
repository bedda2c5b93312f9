use serde_json::Value;

use crate::kinds::edit::{list, text_at};
use crate::validate::{FieldFault, NameRule, name_faults};

/// The faults of a Pod's spec.
pub(super) fn pod(pod: &Value) -> Vec<FieldFault> {
    spec(pod.get("spec").unwrap_or(&Value::Null), "spec")
}

/// The faults of a template of pods at a path.
pub(in crate::kinds) fn template(template: &Value, path: &str) -> Vec<FieldFault> {
    spec(template.get("spec").unwrap_or(&Value::Null), &format!("{path}.spec"))
}

/// What to warn of.
pub(super) fn warnings(_pod: &Value) -> Vec<String> {
    Vec::new()
}

fn spec(spec: &Value, path: &str) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    if list(spec, "/containers").next().is_none() {
        faults.push(FieldFault::required(format!("{path}.containers"), ""));
    }
    let mut seen: Vec<&str> = Vec::new();
    for key in ["containers", "initContainers"] {
        for (at, container) in list(spec, &format!("/{key}")).enumerate() {
            let path = format!("{path}.{key}[{at}]");
            let name = text_at(container, "/name");
            if name.is_empty() {
                faults.push(FieldFault::required(format!("{path}.name"), ""));
            } else {
                let why = name_faults(NameRule::Label, name, false);
                faults.extend(why.iter().map(|why| FieldFault::invalid_text(format!("{path}.name"), name, why)));
                if seen.contains(&name) {
                    faults.push(FieldFault::duplicate(format!("{path}.name"), &name.into()));
                }
                seen.push(name);
            }
            if text_at(container, "/image").is_empty() {
                faults.push(FieldFault::required(format!("{path}.image"), ""));
            }
        }
    }
    faults
}
