//! Reports owner references across namespaces.

use std::sync::Arc;

use pintle_apimachinery::object::key;
use pintle_builtin::NAMESPACES;
use pintle_json::{Json, json};
use pintle_kinds::writer::Writer;
use pintle_kinds::{Kinds, RequestTarget};
use pintle_meta::GroupVersion;
use pintle_storage::Stored;

use pintle_apimachinery::request::Requester;
use pintle_apimachinery::request::user::User;

use super::release::COLLECTOR;
use crate::background::{all, options};
use crate::registry::Registry;

const COMPONENT: &str = "garbage-collector-controller";
const DEFAULT: &str = "default";

/// The maximum number of owners per object that are searched for in all namespaces.
const MOST_SEARCHED: usize = 100;

/// Creates a warning Event for each owner reference to an object in another namespace, which Kubernetes does not allow.
///
/// If the owner is not in the dependent's namespace, searches all namespaces for the owner. Searches for at most
/// [`MOST_SEARCHED`] owners per object.
pub(super) fn report_cross_namespace_owners(
    registry: &Arc<Registry>,
    kinds: &Kinds,
    target: &RequestTarget,
    dependent: &Stored,
) {
    let is_in = |namespace: &str, resource: &str, reference: &Json| {
        let found = registry.db.get(resource, &key(namespace, reference.text("/name")));
        found.is_some_and(|found| found.uid() == reference.text("/uid"))
    };
    let references = dependent.owner_references();
    let namespaced =
        references.iter().filter_map(|reference| Some((namespaced_resource(kinds, reference)?, reference)));
    let absent = namespaced.filter(|(resource, reference)| !is_in(&target.namespace, resource, reference));
    for (resource, reference) in absent.take(MOST_SEARCHED) {
        if all(registry, NAMESPACES).any(|(namespace, _)| is_in(&namespace, &resource, reference))
            && let Some(failure) = warn(registry, kinds, target, dependent, reference)
        {
            tracing::debug!(key = %target.key(), error = failure, "cannot create an Event about an owner reference");
        }
    }
}

/// Returns the resource of an owner, or `None` if its kind is unknown or cluster-scoped.
fn namespaced_resource(kinds: &Kinds, reference: &Json) -> Option<String> {
    let version: GroupVersion = reference.text("/apiVersion").parse().ok()?;
    let kind = kinds.kind(&version.group, &version.version, reference.text("/kind"))?;
    kind.is_namespaced().then(|| kind.stored_as.to_string())
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
    let by = Writer::new(&options, COLLECTOR, now)
        .with_requester(Requester::new(User::controller("generic-garbage-collector")));
    registry
        .create(&RequestTarget::new(kind.clone(), namespace, ""), event, &by)
        .err()
        .map(|failure| failure.status.message)
}
