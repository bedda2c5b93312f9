//! The subresource `/binding`, which assigns a pod to a node.

use std::sync::Arc;

use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::{metadata, set_condition};
use pintle_apimachinery::request::Subresource;
use pintle_json::{Json, json};
use pintle_kinds::post_handler::{PostHandler, PostStep, Task};
use pintle_kinds::{Kind, RequestTarget, Strategy};
use pintle_meta::GroupResource;

use super::PODS;

pub(crate) struct Binding;

impl Strategy for Binding {
    fn post_handler(&self, subresource: Subresource) -> Option<&dyn PostHandler> {
        (subresource == Subresource::None).then_some(self)
    }

    fn read_kinds(&self, _: Subresource) -> &'static [(&'static str, &'static str)] {
        &[("", "Pod")]
    }
}

impl PostHandler for Binding {
    fn body(&self, _: &RequestTarget, _: &str) -> Arc<Kind> {
        Arc::new(Kind::body_only("", "v1", "Binding", Arc::new(Self)))
    }

    fn check(&self, _: &Context<'_>, target: &RequestTarget, sent: &Json) -> Outcome<()> {
        if !target.name.is_empty() && metadata::name(sent) != target.name {
            return Err(Failure::bad_request("name in URL does not match name in Binding object"));
        }
        let kind = sent.text("/target/kind");
        if !matches!(kind, "" | "Node") {
            let message = format!("target.kind: Unsupported value: {kind:?}: supported values: \"Node\", \"<empty>\"");
            return Err(Failure::plain(500, message));
        }
        if sent.text("/target/name").is_empty() {
            return Err(Failure::plain(500, "target.name: Required value"));
        }
        Ok(())
    }

    fn task(&self, context: &Context<'_>, target: &RequestTarget, sent: &Json, dry_run: bool) -> Outcome<Task> {
        let name = metadata::name(sent).to_owned();
        let (binding, now) = (sent.clone(), context.time());
        let change = move |pod: &mut Json| bind(pod, &binding, &now);
        let (resource, namespace) = (GroupResource::new("", PODS), target.namespace.clone());
        let step = PostStep::Rewrite { resource, namespace, name, change: Box::new(change) };
        Ok(Task::Steps { steps: vec![step], dry_run, only_if_unchanged: false })
    }
}

fn bind(pod: &mut Json, binding: &Json, now: &str) -> Outcome<()> {
    check(pod, binding)?;
    if let Some(spec) = pod.member("spec") {
        spec.set("nodeName", binding.text("/target/name"));
    }
    for field in ["labels", "annotations"] {
        let wanted = metadata::member(binding, field).and_then(Json::as_object).into_iter().flatten();
        for (key, value) in wanted {
            if let Some(known) = pod.member("metadata").and_then(|metadata| metadata.member(field)) {
                known.set(key, value.clone());
            }
        }
    }
    set_condition(pod, json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null}), now);
    Ok(())
}

fn check(pod: &Json, binding: &Json) -> Outcome<()> {
    let name = metadata::name(pod);
    for field in ["uid", "resourceVersion"] {
        let (wanted, found) = (binding["metadata"][field].text(""), pod["metadata"][field].text(""));
        if !wanted.is_empty() && wanted != found {
            let why =
                format!("Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {found}");
            return Err(Failure::conflict(&GroupResource::new("", PODS), name, &why));
        }
    }
    let refuse = |why: String| Err(Failure::conflict(&GroupResource::new("", "pods/binding"), name, &why));
    if metadata::is_deleting(pod) {
        return refuse(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    match pod.text("/spec/nodeName") {
        "" => (),
        node => return refuse(format!("pod {name} is already assigned to node {node:?}")),
    }
    match pod.list("/spec/schedulingGates").next() {
        None => Ok(()),
        Some(_) => refuse(format!("pod {name} has non-empty .spec.schedulingGates")),
    }
}
