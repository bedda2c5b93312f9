//! Computes the quota usage of pods.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::{SignedDuration, Timestamp};
use pintle_apimachinery::object::condition;
use pintle_apimachinery::validate::qualified_name_faults;
use pintle_json::Json;
use pintle_schema::quantity::Quantity;

use crate::amounts::Amounts;
use crate::pods::{self, ContainerType};

/// The resources whose requests and limits a quota can restrict. In a quota, `cpu`, `ephemeral-storage` and `memory`
/// without a prefix restrict the requests.
const NATIVE: &[&str] = &["cpu", "ephemeral-storage", "memory"];
/// The resources that each container must specify if a quota limits them.
const REQUIRED: &[&str] = &["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];
const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

pub(super) fn has_deadline(pod: &Json) -> bool {
    pod.integer("/spec/activeDeadlineSeconds").is_some_and(|seconds| seconds >= 0)
}

pub(super) fn counts(resource: &str) -> bool {
    let requested = resource.strip_prefix("requests.");
    let native = |name: &str| NATIVE.contains(&name);
    resource == "pods"
        || native(resource)
        || resource.starts_with("hugepages-")
        || resource.strip_prefix("limits.").is_some_and(native)
        || requested.is_some_and(|name| native(name) || name.starts_with("hugepages-"))
        || requested.is_some_and(|name| !is_native(resource) || name.starts_with(DEVICE_CLASS))
}

/// Returns the quota usage of a pod, which is empty for a finished pod.
pub(super) fn usage(pod: &Json, now: Timestamp) -> Amounts {
    if is_finished(pod, now) { Amounts::default() } else { as_counted(&whole(pod, "requests"), &whole(pod, "limits")) }
}

/// Returns an error if a container does not specify a resource that the quota limits. Accepts a pod with
/// `spec.resources`.
pub(super) fn check_complete(pod: &Json, restricted: &Amounts) -> Result<(), String> {
    if ["requests", "limits"].iter().any(|side| !own(pod, side).0.is_empty()) {
        return Ok(());
    }
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in pod.list("/spec/containers").chain(pod.list("/spec/initContainers")) {
        let side = |side: &str| Amounts::at(container, &format!("/resources/{side}"));
        let said = as_counted(&side("requests"), &side("limits"));
        for (name, _) in restricted.iter().filter(|(name, _)| REQUIRED.contains(name) && said.get(name).is_none()) {
            missing.entry(name).or_default().insert(container.text("/name"));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let list = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join(",");
    let parts: Vec<_> = missing.into_iter().map(|(name, of)| format!("{name} for: {}", list(of))).collect();
    Err(format!("must specify {}", parts.join("; ")))
}

fn is_finished(pod: &Json, now: Timestamp) -> bool {
    let deleted: Option<Timestamp> = pod.text("/metadata/deletionTimestamp").parse().ok();
    let grace = pod.integer("/metadata/deletionGracePeriodSeconds");
    let overdue =
        deleted.zip(grace).is_some_and(|(at, grace)| now.duration_since(at) > SignedDuration::from_secs(grace));
    overdue || matches!(pod.text("/status/phase"), "Failed" | "Succeeded")
}

/// Returns quantities with the resource names of quotas, such as `requests.cpu`.
fn as_counted(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut counted = Amounts::default();
    counted.set("pods", Quantity::count(1));
    for (name, amount) in requests.iter() {
        let known = NATIVE.contains(&name) || name.starts_with("hugepages-");
        if known {
            counted.set(name, amount);
        }
        if known || is_extended(name) || name.starts_with(DEVICE_CLASS) {
            counted.set(format!("requests.{name}"), amount);
        }
    }
    for (name, amount) in limits.iter().filter(|(name, _)| NATIVE.contains(name)) {
        counted.set(format!("limits.{name}"), amount);
    }
    counted
}

/// Returns `true` for a resource that Kubernetes defines. The name of such a resource has no domain or the domain
/// `kubernetes.io`.
fn is_native(resource: &str) -> bool {
    !resource.contains('/') || resource.contains("kubernetes.io/")
}

/// Returns `true` for the name of an extended resource, which has a domain outside of Kubernetes.
fn is_extended(resource: &str) -> bool {
    !is_native(resource)
        && !resource.starts_with("requests.")
        && qualified_name_faults(&format!("requests.{resource}")).is_empty()
}

/// Returns a pod's requests or limits, including its overhead. A quantity in `spec.resources` replaces the sum of the
/// containers' quantities.
fn whole(pod: &Json, side: &str) -> Amounts {
    let statuses = ContainerStatuses::of(pod);
    let mut total = pods::total(&pod["spec"], |container, place| statuses.in_effect(container, place, side));
    total.0.extend(own(pod, side).0);
    let overhead = Amounts::at(pod, "/spec/overhead");
    // Add the overhead only to limits that the pod sets.
    let limited = overhead.filtered(|name, _| total.get(name).is_some_and(|limit| limit.nanos() != 0));
    total.add(if side == "limits" { &limited } else { &overhead });
    total
}

fn own(pod: &Json, side: &str) -> Amounts {
    let takes = |name: &str, _: Quantity| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
    Amounts::at(pod, &format!("/spec/resources/{side}")).filtered(takes)
}

struct ContainerStatuses<'a> {
    /// The status of each container by name. Of several statuses with resources for one container, the map contains the
    /// first.
    containers: HashMap<&'a str, &'a Json>,
    init_containers: HashMap<&'a str, &'a Json>,
    infeasible: bool,
}

impl<'a> ContainerStatuses<'a> {
    fn of(pod: &'a Json) -> Self {
        let by_name = |pointer: &str| {
            let mut found = HashMap::new();
            for report in pod.list(pointer).filter(|report| report.has("/resources")) {
                found.entry(report.text("/name")).or_insert(report);
            }
            found
        };
        let pending = condition(pod, "PodResizePending");
        Self {
            containers: by_name("/status/containerStatuses"),
            init_containers: by_name("/status/initContainerStatuses"),
            infeasible: pending.is_some_and(|condition| condition.text("/reason") == "Infeasible"),
        }
    }

    /// Returns the quantities that the quota counts for a container. During a resize, each
    /// quantity is the maximum of the current and the desired quantity.
    fn in_effect(&self, container: &Json, of_type: ContainerType, side: &str) -> Amounts {
        let mut requested = Amounts::at(container, &format!("/resources/{side}"));
        let reports = match of_type {
            ContainerType::Container => &self.containers,
            ContainerType::Init if side == "requests" => return requested,
            ContainerType::Sidecar | ContainerType::Init => &self.init_containers,
        };
        let Some(report) = reports.get(container.text("/name")) else { return requested };
        if self.infeasible {
            requested = Amounts::default();
        }
        requested.raise(&Amounts::at(report, &format!("/resources/{side}")));
        if side == "requests" {
            requested.raise(&Amounts::at(report, "/allocatedResources"));
        }
        requested
    }
}
