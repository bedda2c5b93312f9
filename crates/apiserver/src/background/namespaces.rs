//! Empties and removes deleted namespaces. Pods are deleted first, because a pod may need the other objects while it is
//! terminating.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::{metadata, set_condition};
use pintle_apimachinery::request::options::DeleteOptions;
use pintle_apimachinery::request::webhook_calls::WebhookCalls;
use pintle_apimachinery::request::{Requester, Subresource, Verb};
use pintle_builtin::NAMESPACES;
use pintle_json::{Json, json};
use pintle_kinds::writer::Writer;
use pintle_kinds::{Kind, RequestTarget};
use pintle_meta::PropagationPolicy;
use pintle_serving::offload;
use pintle_storage::{Change, ChangeKind, Range, Stored};
use tokio::time::Instant;

use super::reviews::{Reviews, now_text};
use super::{Controller, all, options};
use crate::registry::{Registry, UpdateSource};

/// The delay before the controller empties a deleted namespace. The delay lets clients observe the terminating
/// namespace.
const NAMESPACE_LINGER: Duration = Duration::from_millis(500);
/// The delay before the controller checks again whether the remaining objects are gone.
const NAMESPACE_POLL: Duration = Duration::from_millis(500);
/// The minimum and maximum delay before a retry after a failure. The delay doubles with each retry.
const FIRST_RETRY: Duration = Duration::from_millis(500);
const MAX_RETRY: Duration = Duration::from_secs(60);
/// The maximum number of kinds, finalizers or failures that a condition lists.
const MAX_LISTED: usize = 100;
const MANAGER: &str = "kube-controller-manager";

/// Empties terminating namespaces. The map `due` contains the next processing time of each namespace.
#[derive(Debug)]
pub(super) struct Cleaner {
    due: HashMap<String, Instant>,
    /// The namespaces that the controller could not remove, with the delay before the next attempt.
    stuck: HashMap<String, Duration>,
    reviews: Reviews<String>,
}

impl Controller for Cleaner {
    const RESOURCES: Option<&'static [&'static str]> = Some(&[NAMESPACES]);

    fn observe(&mut self, change: &Change) -> bool {
        if change.kind == ChangeKind::Deleted {
            self.due.remove(&*change.key);
            self.stuck.remove(&*change.key);
        } else {
            self.schedule(&change.new);
        }
        true
    }

    fn resync(&mut self, registry: &Registry) {
        for (_, namespace) in all(registry, NAMESPACES) {
            self.schedule(&namespace);
        }
    }

    fn is_busy(&self) -> bool {
        self.reviews.is_waiting() || self.due.keys().any(|name| !self.stuck.contains_key(name))
    }

    async fn wait_for_event(&mut self) {
        let reviewed = self.reviews.next().await;
        self.due.insert(reviewed, Instant::now());
    }

    async fn work(&mut self, registry: &Arc<Registry>, _: u64) -> Option<Instant> {
        // In a plan, the upstream cluster empties the namespaces that were deleted in the upstream cluster.
        self.due.retain(|name, _| !registry.db.follows_upstream(NAMESPACES, name));
        let now = Instant::now();
        let due: Vec<String> = self.due.iter().filter(|(_, at)| **at <= now).map(|(name, _)| name.clone()).collect();
        for name in due {
            let Some(namespace) = registry.db.get(NAMESPACES, &name).filter(|namespace| namespace.is_deleting()) else {
                self.due.remove(&name);
                self.stuck.remove(&name);
                self.reviews.forget(&name);
                continue;
            };
            let Some(by) = self.reviews.requester(registry, &name) else {
                self.due.remove(&name);
                continue;
            };
            // If a client has recreated the namespace in the meantime, `observe` schedules the new namespace.
            match process(registry, &namespace, &by).await {
                Ok(State::Recreated) => (),
                Ok(State::Removed) => {
                    self.due.remove(&name);
                    self.stuck.remove(&name);
                }
                Ok(State::Remaining { only_waits }) => self.retry_later(name, only_waits),
                Err(failure) => {
                    self.due.remove(&name);
                    self.reviews.call(registry, name, by, &failure);
                }
            }
        }
        self.due.values().min().copied()
    }
}

impl Default for Cleaner {
    fn default() -> Self {
        Self { due: HashMap::new(), stuck: HashMap::new(), reviews: Reviews::new("namespace-controller") }
    }
}

impl Cleaner {
    fn schedule(&mut self, namespace: &Stored) {
        if namespace.is_deleting() {
            self.due.entry(namespace.name().into_owned()).or_insert_with(|| Instant::now() + NAMESPACE_LINGER);
        }
    }

    /// Schedules the next attempt to remove a namespace. The delay is constant while the controller only waits for other
    /// clients to remove objects, and grows exponentially after failures.
    fn retry_later(&mut self, name: String, only_waits: bool) {
        let before = self.stuck.get(&name).copied();
        let delay = match before {
            _ if only_waits => NAMESPACE_POLL,
            None => FIRST_RETRY,
            Some(before) => (before * 2).min(MAX_RETRY),
        };
        self.stuck.insert(name.clone(), delay);
        self.due.insert(name, Instant::now() + delay);
    }
}

enum State {
    /// The namespace is no longer terminating, or a client has recreated it.
    Recreated,
    Removed,
    Remaining {
        /// Whether the controller only waits for other clients to remove objects.
        only_waits: bool,
    },
}

/// Empties a namespace, reports the remaining objects, and removes an empty namespace. Returns an error if a webhook
/// must first review a write. The controller then processes the namespace again after the review.
async fn process(registry: &Arc<Registry>, namespace: &Stored, by: &Requester) -> Outcome<State> {
    let Some(left) = empty(registry, namespace, by).await? else { return Ok(State::Recreated) };
    report(registry, namespace, &left, by)?;
    if left.is_empty() && finish(registry, namespace, by)? {
        return Ok(State::Removed);
    }
    Ok(State::Remaining { only_waits: left.failures.is_empty() && !left.remaining.is_empty() })
}

/// The result of an attempt to empty a namespace.
#[derive(Default)]
struct Left {
    remaining: Vec<Remaining>,
    /// The error messages of failed deletions, with one message for each kind.
    failures: Vec<String>,
}

impl Left {
    fn is_empty(&self) -> bool {
        self.remaining.is_empty() && self.failures.is_empty()
    }
}

struct Remaining {
    resource: String,
    count: usize,
    finalizers: Vec<String>,
}

fn is_terminating(registry: &Registry, namespace: &Stored) -> bool {
    let now = registry.db.get(NAMESPACES, &namespace.name());
    now.is_some_and(|now| now.uid() == namespace.uid() && now.is_deleting())
}

/// Deletes the objects in a namespace. Returns the failures, and the remaining objects of kinds without failures. Returns
/// `None` if the namespace is no longer terminating. Returns an error if a webhook must first review a deletion.
async fn empty(registry: &Arc<Registry>, namespace: &Stored, by: &Requester) -> Outcome<Option<Left>> {
    let kinds = registry.kinds();
    let is_content =
        |kind: &&Arc<Kind>| kind.is_namespaced() && !kind.flags.is_transient && kind.supports(Verb::Delete);
    let mut known = HashSet::new();
    // The controller processes events twice, because two API groups contain them.
    let mut resources: Vec<_> =
        kinds.kinds().filter(|kind| is_content(kind) && known.insert(kind.resource())).collect();
    resources.sort_by_key(|kind| !kind.flags.supports_grace_period);
    let mut left = Left::default();
    for kind in resources {
        let deleted = delete_all(registry, kind, namespace, by).await;
        if !is_terminating(registry, namespace) {
            return Ok(None);
        }
        match deleted {
            Err(failure) if failure.is_waiting() => return Err(failure),
            Err(failure) => {
                left.failures.push(failure.status.message);
                continue;
            }
            Ok(()) => (),
        }
        let objects = contents(registry, kind, &namespace.name());
        if !objects.is_empty() {
            let finalizers = objects.iter().flat_map(|object| object.finalizers()).collect();
            left.remaining.push(Remaining { resource: kind.resource().to_string(), count: objects.len(), finalizers });
            if kind.flags.supports_grace_period && objects.iter().any(|pod| pod.grace_seconds().unwrap_or(0) > 0) {
                break;
            }
        }
    }
    left.failures.sort();
    Ok(Some(left))
}

/// Deletes a namespace's objects of one kind. Like a `deletecollection` request, stops at the first failure.
async fn delete_all(registry: &Arc<Registry>, kind: &Arc<Kind>, namespace: &Stored, by: &Requester) -> Outcome<()> {
    // If the address of the conversion webhook is unknown, webhooks review the stored objects.
    let kind = &registry.with_conversions(kind, by).unwrap_or_else(|_| kind.clone());
    let requested = RequestTarget::new(kind.clone(), &namespace.name(), "");
    let options = DeleteOptions { propagation: Some(PropagationPolicy::Background), ..Default::default() };
    for object in contents(registry, kind, &namespace.name()) {
        if !is_terminating(registry, namespace) {
            return Ok(());
        }
        if !object.is_deleting() {
            offload::work_on(object.weight()).await;
            let target = RequestTarget::new(kind.clone(), &namespace.name(), &object.name());
            // A client can register a webhook between two deletions.
            registry.prepare_webhooks(by);
            match registry.delete_admitted(&target, &requested, &options, by) {
                Err(failure) if !failure.is_not_found() => return Err(failure),
                _ => by.webhooks().into_iter().for_each(WebhookCalls::forget_conversions),
            }
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

fn contents(registry: &Registry, kind: &Kind, namespace: &str) -> Vec<Arc<Stored>> {
    let objects = registry.db.objects_of(kind.resource_key(), &Range::namespace(Some(namespace)));
    objects.map(|(_, stored)| stored).collect()
}

fn report(
    registry: &Arc<Registry>,
    namespace: &Stored,
    Left { remaining, failures }: &Left,
    by: &Requester,
) -> Outcome<()> {
    // If the group of a resource is empty, the name of the resource ends with a dot.
    let name = |left: &Remaining| {
        if left.resource.contains('.') { left.resource.clone() } else { format!("{}.", left.resource) }
    };
    let content = remaining.iter().map(|left| format!("{} has {} resource instances", name(left), left.count));
    let content = join(content);
    let finalizers = count_finalizers(remaining.iter().flat_map(|left| &left.finalizers));
    let blocking = join(finalizers.iter().map(|(name, count)| format!("{name} in {count} resource instances")));
    let conditions = [
        (
            "NamespaceDeletionDiscoveryFailure",
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered".to_owned(),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed".to_owned(),
        ),
        if failures.is_empty() {
            (
                "NamespaceDeletionContentFailure",
                "False",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization".to_owned(),
            )
        } else {
            let (count, why) = (failures.len(), join(failures.iter().cloned()));
            (
                "NamespaceDeletionContentFailure",
                "True",
                "ContentDeletionFailed",
                format!("Failed to delete all resource types, {count} remaining: {why}"),
            )
        },
        if remaining.is_empty() {
            ("NamespaceContentRemaining", "False", "ContentRemoved", "All content successfully removed".to_owned())
        } else {
            (
                "NamespaceContentRemaining",
                "True",
                "SomeResourcesRemain",
                format!("Some resources are remaining: {content}"),
            )
        },
        if finalizers.is_empty() {
            (
                "NamespaceFinalizersRemaining",
                "False",
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished".to_owned(),
            )
        } else {
            (
                "NamespaceFinalizersRemaining",
                "True",
                "SomeFinalizersRemain",
                format!("Some content in the namespace has finalizers remaining: {blocking}"),
            )
        },
    ];
    let now = now_text(registry, by);
    write(registry, namespace, Subresource::Status, by, |namespace| {
        for (kind, status, reason, message) in &conditions {
            let condition = json!({"type": kind, "status": status, "reason": reason, "message": message});
            set_condition(namespace, condition, &now);
        }
    })
}

/// Writes a subresource of a terminating namespace as the user of the namespace controller. Skips a write that would
/// have no effect. Returns an error only if a webhook must first review the write.
fn write(
    registry: &Arc<Registry>,
    namespace: &Stored,
    subresource: Subresource,
    by: &Requester,
    change: impl Fn(&mut Json) + Sync,
) -> Outcome<()> {
    let kinds = registry.kinds();
    let Some(kind) = kinds.group_kind("", "Namespace") else { return Ok(()) };
    let target = RequestTarget { subresource, ..RequestTarget::new(kind.clone(), "", &namespace.name()) };
    let changed = |live: &Json| {
        let mut new = live.clone();
        change(&mut new);
        new
    };
    if registry.db.get(NAMESPACES, &target.name).map(|live| live.decode()).is_some_and(|live| changed(&live) == live) {
        return Ok(());
    }
    let make = |live: Option<&Json>| {
        let live = live.filter(|live| metadata::uid(live) == namespace.uid() && metadata::is_deleting(live));
        live.map(changed).ok_or_else(|| Failure::modified(&kind.resource(), &target.name))
    };
    let options = options();
    let writer = Writer::new(&options, MANAGER, now_text(registry, by)).with_requester(by.clone());
    match registry.update(&target, &UpdateSource::Patch(&make), &writer) {
        Err(failure) if failure.is_waiting() => return Err(failure),
        Err(failure) => {
            tracing::debug!(name = target.name, error = failure.status.message, "cannot write a deleted namespace");
        }
        Ok(_) => (),
    }
    Ok(())
}

fn count_finalizers<'a>(finalizers: impl Iterator<Item = &'a String>) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for finalizer in finalizers {
        *counts.entry(finalizer.as_str()).or_default() += 1;
    }
    counts
}

fn join(parts: impl ExactSizeIterator<Item = String>) -> String {
    let more = parts.len().saturating_sub(MAX_LISTED);
    let mut parts: Vec<_> = parts.take(MAX_LISTED).collect();
    if more > 0 {
        parts.push(format!("and {more} more"));
    }
    parts.join(", ")
}

/// Removes the controller's finalizer from an empty namespace. Returns `true` if the namespace no longer exists.
fn finish(registry: &Arc<Registry>, namespace: &Stored, by: &Requester) -> Outcome<bool> {
    write(registry, namespace, Subresource::Finalize, by, |namespace| {
        let finalizers = namespace["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
        let finalizers: Vec<Json> = finalizers.into_iter().filter(|name| *name != "kubernetes").collect();
        if finalizers.is_empty() {
            namespace["spec"] = json!({})
        } else {
            namespace["spec"]["finalizers"] = finalizers.into()
        }
    })?;
    Ok(registry.db.get(NAMESPACES, &namespace.name()).is_none())
}

#[cfg(test)]
mod tests {
    use pintle_effort::{is_linear, turns};
    use pintle_storage::Expect;

    use super::*;
    use crate::config::ApiServerConfig;

    #[test]
    fn recreated_namespace_is_left_alone() {
        let registry = Arc::new(Registry::new(ApiServerConfig::default(), None));
        let put = |resource: &str, key: &str, metadata: Json| {
            let object = json!({"metadata": metadata, "spec": {"finalizers": ["kubernetes"]}});
            registry.db.put(&resource.into(), key, Expect::Absent, object).expect("absent").new.clone()
        };
        let map = |name: &str| drop(put("configmaps", &format!("a/{name}"), json!({"name": name, "namespace": "a"})));
        let gone = put(NAMESPACES, "a", json!({"name": "a", "uid": "1", "deletionTimestamp": "2026-01-01T00:00:00Z"}));
        map("of-the-first");
        let by = Requester::default();
        let emptied = || turns(empty(&registry, &gone, &by)).0.expect("no webhooks");
        assert!(emptied().is_some_and(|left| left.is_empty()), "a terminating namespace is emptied");
        registry.db.remove(&NAMESPACES.into(), "a", gone.revision()).expect("an existing namespace");
        let next = put(NAMESPACES, "a", json!({"name": "a", "uid": "2"}));
        map("of-the-next");
        assert!(emptied().is_none());
        report(&registry, &gone, &Left::default(), &by).expect("no webhooks");
        assert!(!finish(&registry, &gone, &by).expect("no webhooks"));
        assert_eq!(registry.db.get(NAMESPACES, "a").expect("an existing namespace").revision(), next.revision());
        assert!(registry.db.get("configmaps", "a/of-the-next").is_some());
    }

    #[test]
    fn finalizer_report_is_linear_and_truncated() {
        let finalizers = |count: usize| (0..count).map(|at| format!("e.com/f{at:06}")).collect::<Vec<_>>();
        assert!(is_linear(4_000, |count| assert_eq!(count_finalizers(finalizers(count).iter()).len(), count)));
        let names = finalizers(MAX_LISTED + 7);
        let text = join(names.iter().cloned());
        assert!(text.starts_with("e.com/f000000, ") && text.ends_with("e.com/f000099, and 7 more"), "{text}");
        assert_eq!(join(names[..2].iter().cloned()), "e.com/f000000, e.com/f000001");
    }
}
