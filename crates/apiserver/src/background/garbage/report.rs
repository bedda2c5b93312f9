//! Reports owner references across namespaces.

use std::sync::Arc;

use pintle_apimachinery::object::key;
use pintle_builtin::NAMESPACES;
use pintle_json::{Json, json};
use pintle_kinds::writer::Writer;
use pintle_kinds::{Kinds, RequestTarget};
use pintle_meta::GroupVersion;
use pintle_storage::Stored;

use super::release::{COLLECTOR, requester};
use crate::background::{all, options};
use crate::registry::Registry;

const COMPONENT: &str = "garbage-collector-controller";
const DEFAULT: &str = "default";

/// Creates a warning Event for each owner reference to an object in another namespace, which Kubernetes does not allow.
///
/// If the owner is not in the dependent's namespace, searches all namespaces for the owner.
pub(super) fn report_cross_namespace_owners(
    registry: &Arc<Registry>,
    kinds: &Kinds,
    target: &RequestTarget,
    dependent: &Stored,
) {
    for reference in dependent.owner_references() {
        if is_elsewhere(registry, kinds, target, &reference)
            && let Some(failure) = warn(registry, kinds, target, dependent, &reference)
        {
            tracing::debug!(key = %target.key(), message = failure, "cannot create an Event about an owner reference");
        }
    }
}

fn is_elsewhere(registry: &Registry, kinds: &Kinds, target: &RequestTarget, reference: &Json) -> bool {
    let Ok(version) = reference.text("/apiVersion").parse::<GroupVersion>() else { return false };
    let kind = kinds.kind(&version.group, &version.version, reference.text("/kind"));
    let Some(kind) = kind.filter(|kind| kind.is_namespaced()) else { return false };
    let (resource, name) = (kind.stored_as.to_string(), reference.text("/name"));
    let is_in = |namespace: &str| {
        let found = registry.db.get(&resource, &key(namespace, name));
        found.is_some_and(|found| found.uid() == reference.text("/uid"))
    };
    !is_in(&target.namespace) && all(registry, NAMESPACES).any(|(namespace, _)| is_in(&namespace))
}

fn warn(
    registry: &Arc<Registry>,
    kinds: &Kinds,
    target: &RequestTarget,
    dependent: &Stored,
    reference: &Json,
) -> Option<String> {
    let kind = kinds.kind("", "v1", "Event")?;
    let namespace = if target.namespace.is_empty() { DEFAULT } else { &target.namespace };
    let now = registry.clock.now_text();
    let suffix = registry.with_random(|random| random.u64(..));
    let message = format!(
        "ownerRef [{}/{}, namespace: {}, name: {}, uid: {}] does not exist in namespace {:?}",
        reference.text("/apiVersion"),
        reference.text("/kind"),
        target.namespace,
        reference.text("/name"),
        reference.text("/uid"),
        target.namespace,
    );
    let (api_version, kind_name) = (target.kind.api_version(), &target.kind.kind);
    let mut about = json!({"apiVersion": api_version, "kind": kind_name, "name": target.name, "uid": dependent.uid()});
    if !target.namespace.is_empty() {
        about.set("namespace", target.namespace.as_str());
    }
    let event = json!({
        "metadata": {"name": format!("{}.{suffix:016x}", target.name), "namespace": namespace},
        "involvedObject": about,
        "type": "Warning", "reason": "OwnerRefInvalidNamespace", "message": message,
        "source": {"component": COMPONENT}, "reportingComponent": COMPONENT,
        "firstTimestamp": now, "lastTimestamp": now, "count": 1,
    });
    let options = options();
    let by = Writer::new(&options, COLLECTOR, now).with_requester(requester());
    registry
        .create(&RequestTarget::new(kind.clone(), namespace, ""), event, &by)
        .err()
        .map(|failure| failure.status.message)
}
