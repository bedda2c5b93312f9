//! What a pod uses of a quota.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::{SignedDuration, Timestamp};
use pintle_json::Json;
use pintle_schema::quantity::Quantity;

use crate::admission::Amounts;
use crate::admission::pods::{self, ContainerType};
use crate::object::condition;
use crate::validate::qualified_name_faults;

/// Of these, requests count under their bare name too, and limits are counted as well.
const NATIVE: &[&str] = &["cpu", "ephemeral-storage", "memory"];
/// What each container has to say if a quota limits it.
const TO_BE_SAID: &[&str] = &["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];
const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

pub(super) fn has_deadline(pod: &Json) -> bool {
    pod.integer("/spec/activeDeadlineSeconds").is_some_and(|seconds| seconds >= 0)
}

/// Whether `resource` of a quota is one that pods use.
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

/// What the pod uses; one that has come to its end, nothing.
pub(super) fn usage(pod: &Json, now: Timestamp) -> Amounts {
    if is_over(pod, now) { Amounts::default() } else { as_counted(&whole(pod, "requests"), &whole(pod, "limits")) }
}

/// Fails if a container leaves out what a quota limits. A pod that says what it needs as a whole is complete.
pub(super) fn check_complete(pod: &Json, restricted: &Amounts) -> Result<(), String> {
    if ["requests", "limits"].iter().any(|side| !own(pod, side).0.is_empty()) {
        return Ok(());
    }
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in pod.list("/spec/containers").chain(pod.list("/spec/initContainers")) {
        let side = |side: &str| Amounts::at(container, &format!("/resources/{side}"));
        let said = as_counted(&side("requests"), &side("limits"));
        for (name, _) in restricted.iter().filter(|(name, _)| TO_BE_SAID.contains(name) && said.get(name).is_none()) {
            missing.entry(name).or_default().insert(container.text("/name"));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let list = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join(",");
    let told: Vec<_> = missing.into_iter().map(|(name, of)| format!("{name} for: {}", list(of))).collect();
    Err(format!("must specify {}", told.join("; ")))
}

/// A pod that ended, or should have by now, leaves its share to others.
fn is_over(pod: &Json, now: Timestamp) -> bool {
    let deleted: Option<Timestamp> = pod.text("/metadata/deletionTimestamp").parse().ok();
    let grace = pod.integer("/metadata/deletionGracePeriodSeconds");
    let overdue =
        deleted.zip(grace).is_some_and(|(at, grace)| now.duration_since(at) > SignedDuration::from_secs(grace));
    overdue || matches!(pod.text("/status/phase"), "Failed" | "Succeeded")
}

/// Requests and limits under the names that quotas have for them.
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

fn is_native(resource: &str) -> bool {
    !resource.contains('/') || resource.contains("kubernetes.io/")
}

fn is_extended(resource: &str) -> bool {
    !is_native(resource)
        && !resource.starts_with("requests.")
        && qualified_name_faults(&format!("requests.{resource}")).is_empty()
}

/// What the pod asks for on one side: its containers together, or what it says itself, and what it takes to run it at all.
fn whole(pod: &Json, side: &str) -> Amounts {
    let reports = Reports::of(pod);
    let mut total = pods::total(pod, |container, place| reports.in_effect(container, place, side));
    total.0.extend(own(pod, side).0);
    let overhead = Amounts::at(pod, "/spec/overhead");
    // There is no limit where none was set.
    let limited = overhead.filtered(|name, _| total.get(name).is_some_and(|limit| limit.nanos() != 0));
    total.add(if side == "limits" { &limited } else { &overhead });
    total
}

/// What a pod says for itself as a whole.
fn own(pod: &Json, side: &str) -> Amounts {
    let takes = |name: &str, _: Quantity| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
    Amounts::at(pod, &format!("/spec/resources/{side}")).filtered(takes)
}

/// What the status of a pod says that its containers have.
struct Reports<'a> {
    /// By the names of the containers; of several reports for a name, the first that says something of resources.
    containers: HashMap<&'a str, &'a Json>,
    init_containers: HashMap<&'a str, &'a Json>,
    /// A resize that was asked for cannot be.
    refused: bool,
}

impl<'a> Reports<'a> {
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
            refused: pending.is_some_and(|condition| condition.text("/reason") == "Infeasible"),
        }
    }

    /// What a container asks for; while it is being resized, the greater of what it has and what it is to have.
    fn in_effect(&self, container: &Json, of_type: ContainerType, side: &str) -> Amounts {
        let mut asked = Amounts::at(container, &format!("/resources/{side}"));
        let reports = match of_type {
            ContainerType::Container => &self.containers,
            ContainerType::Init if side == "requests" => return asked,
            ContainerType::Sidecar | ContainerType::Init => &self.init_containers,
        };
        let Some(report) = reports.get(container.text("/name")) else { return asked };
        if self.refused {
            asked = Amounts::default();
        }
        asked.raise(&Amounts::at(report, &format!("/resources/{side}")));
        if side == "requests" {
            asked.raise(&Amounts::at(report, "/allocatedResources"));
        }
        asked
    }
}
