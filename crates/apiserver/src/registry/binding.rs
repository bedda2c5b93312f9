//! `/binding`: a pod gets its node.

use pintle_json::{Json, json};

use super::Registry;
use crate::failure::{Failure, Outcome};
use crate::kinds::{GroupResource, Place};
use crate::object::{metadata, metadata_mut};

impl Registry {
    /// Binds the pod at `place` to the node that the binding names.
    pub(crate) fn bind(&self, place: &Place, binding: &Json, dry_run: bool) -> Outcome<()> {
        if metadata::name(binding) != place.name {
            return Err(Failure::bad_request("name in URL does not match name in Binding object"));
        }
        let target = |field: &str| binding["target"][field].text("");
        if !matches!(target("kind"), "" | "Node") {
            let message = format!(
                "target.kind: Unsupported value: {:?}: supported values: \"Node\", \"<empty>\"",
                target("kind")
            );
            return Err(Failure::plain(500, message));
        }
        if target("name").is_empty() {
            return Err(Failure::plain(500, "target.name: Required value"));
        }
        self.rewrite(place, dry_run, |pod| {
            check(place, pod, binding)?;
            pod["spec"]["nodeName"] = target("name").into();
            for field in ["labels", "annotations"] {
                let Some(wanted) = metadata::member(binding, field).and_then(Json::as_object) else { continue };
                let known = metadata_mut(pod).entry(field).or_insert_with(|| json!({}));
                if let Some(known) = known.as_object_mut() {
                    known.extend(wanted.clone());
                }
            }
            self.set_condition(pod, json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null}));
            Ok(())
        })?;
        Ok(())
    }
}

fn check(place: &Place, pod: &Json, binding: &Json) -> Outcome<()> {
    let name = &place.name;
    for field in ["uid", "resourceVersion"] {
        let (wanted, found) = (binding["metadata"][field].text(""), pod["metadata"][field].text(""));
        if !wanted.is_empty() && wanted != found {
            let why =
                format!("Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {found}");
            return Err(Failure::conflict(&place.kind.resource(), name, &why));
        }
    }
    let refuse = |why: String| Err(Failure::conflict(&GroupResource::new("", "pods/binding"), name, &why));
    if metadata::is_deleting(pod) {
        return refuse(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    match pod["spec"]["nodeName"].as_str() {
        None | Some("") => (),
        Some(node) => return refuse(format!("pod {name} is already assigned to node {node:?}")),
    }
    if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        return refuse(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    Ok(())
}
