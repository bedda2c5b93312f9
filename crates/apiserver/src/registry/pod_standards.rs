//! Admission by the security standard that a namespace's labels name: its pods are held to it, and who writes what pods are made of is warned.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use pintle_json::Json;

use super::Registry;
use super::admission_plugin::{AdmissionRequest, Operation, Plugin};
use crate::admission::pod_security::{Policy, Standard, detailed, reasons};
use crate::failure::{Failure, Outcome};
use crate::kinds::{NAMESPACES, Pods, RequestTarget};
use crate::object::metadata;
use crate::request::{Requester, Subresource};
use crate::store::{Charge, Range, Stored};
use crate::validate::FieldErrors;

/// So many pods are looked at as a namespace comes to be stricter, and for so long.
const MOST_PODS: usize = 3000;
const LONGEST_LOOK: Duration = Duration::from_secs(1);

/// What the audit says of a pod: to which standard it is held, and what it has against that which is audited.
const ENFORCED: &str = "pod-security.kubernetes.io/enforce-policy";
const VIOLATIONS: &str = "pod-security.kubernetes.io/audit-violations";

/// Refuses pods, and labels that name no standard.
#[derive(Debug)]
pub(super) struct PodSecurity;

/// What of a write the standards are about.
enum StandardsTarget<'a> {
    Namespace,
    Pod,
    /// What pods are made of.
    Template(&'a Json),
}

impl Plugin for PodSecurity {
    fn validate(&self, registry: &Registry, request: &AdmissionRequest<'_>) -> Outcome<Vec<Charge>> {
        let AdmissionRequest { target, old, by, .. } = request;
        let Some((subject, new)) = subject(request) else { return Ok(Vec::new()) };
        let (kind, name) = (&target.kind, metadata::name(new));
        match subject {
            StandardsTarget::Namespace => {
                let ((policy, errors), old) = (policy(new), old.map(policy));
                if !errors.is_empty() && old.as_ref().is_none_or(|(_, old)| *old != errors) {
                    return Err(kind.invalid(name, errors));
                }
                if old.is_some_and(|(old, _)| policy.enforce.may_exceed(old.enforce)) {
                    of_pods_in(registry, name, policy.enforce).into_iter().for_each(|text| by.warn(text));
                }
            }
            StandardsTarget::Pod => {
                let Policy { enforce, audit, warn } = policy_at(registry, target);
                by.annotate(ENFORCED, enforce.to_string());
                note_violations(by, audit, new);
                let violations = enforce.violations(new);
                if !violations.is_empty() {
                    let why = format!("violates PodSecurity \"{enforce}\": {}", detailed(&violations));
                    return Err(Failure::forbidden(&kind.resource(), name, &why));
                }
                would_violate(warn, new).into_iter().for_each(|text| by.warn(text));
            }
            StandardsTarget::Template(template) => {
                let Policy { audit, warn, .. } = policy_at(registry, target);
                note_violations(by, audit, template);
                would_violate(warn, template).into_iter().for_each(|text| by.warn(text));
            }
        }
        Ok(Vec::new())
    }
}

/// What of it the standards are about, and the object.
fn subject<'a>(request: &'a AdmissionRequest<'_>) -> Option<(StandardsTarget<'a>, &'a Json)> {
    let (target, new) = (request.target, request.new.as_deref()?);
    if !matches!(request.operation, Operation::Create | Operation::Update) {
        return None;
    }
    let subject = match (target.kind.strategy.pods(), target.subresource) {
        (Pods::Themselves, Subresource::None | Subresource::EphemeralContainers | Subresource::Resize) => {
            request.old.is_none_or(|old| runs_otherwise(new, old)).then_some(StandardsTarget::Pod)?
        }
        (Pods::Inside, Subresource::None) => StandardsTarget::Namespace,
        (Pods::MadeFrom(pointer), Subresource::None) => {
            StandardsTarget::Template(new.at(pointer).filter(|template| !template.is_null())?)
        }
        _ => return None,
    };
    Some((subject, new))
}

/// Whether a change of a pod brings anything to run that it had not: nothing else of what the standards are about can change.
fn runs_otherwise(new: &Json, old: &Json) -> bool {
    let images = |pod: &Json, pointer: &str| -> Vec<(String, String)> {
        let containers = pod.list(pointer);
        containers.map(|container| (container.text("/name").into(), container.text("/image").into())).collect()
    };
    let differ = |pointer: &str| images(new, pointer) != images(old, pointer);
    differ("/spec/containers") || differ("/spec/initContainers") || {
        let known: HashSet<_> = images(old, "/spec/ephemeralContainers").into_iter().collect();
        !images(new, "/spec/ephemeralContainers").iter().all(|container| known.contains(container))
    }
}

/// What a namespace wants, and what is wrong with its labels.
fn policy(namespace: &Json) -> (Policy, FieldErrors) {
    let labels = namespace.at("/metadata/labels");
    Policy::of(|label| labels?.get(label)?.as_str())
}

/// What the namespace wants that is written to.
fn policy_at(registry: &Registry, target: &RequestTarget) -> Policy {
    let namespace = registry.db.get(NAMESPACES, &target.namespace);
    let labels = namespace.as_deref().map(|namespace| namespace.labels());
    Policy::of(|label| labels.as_ref()?.value(label)).0
}

fn would_violate(standard: Standard, pod: &Json) -> Option<String> {
    let violations = standard.violations(pod);
    (!violations.is_empty()).then(|| format!("would violate PodSecurity \"{standard}\": {}", detailed(&violations)))
}

fn note_violations(by: &Requester, audit: Standard, pod: &Json) {
    if let Some(why) = would_violate(audit, pod) {
        by.annotate(VIOLATIONS, why);
    }
}

/// What to warn of in the pods that a namespace has, which nobody takes away as it comes to be stricter.
fn of_pods_in(registry: &Registry, namespace: &str, enforce: Standard) -> Vec<String> {
    let began = registry.clock.instant();
    let is_after = |limit| registry.clock.instant().duration_since(began) >= limit;
    let pods = registry.db.objects_of("pods", &Range::namespace(Some(namespace)));
    let count = pods.left();
    of_pods(pods.map(|(_, pod)| pod), count, namespace, enforce, is_after)
}

/// The same of so many pods. Half of the time goes to choosing those that are looked at, however many there are.
fn of_pods(
    pods: impl Iterator<Item = Arc<Stored>>,
    count: usize,
    namespace: &str,
    enforce: Standard,
    mut is_after: impl FnMut(Duration) -> bool,
) -> Vec<String> {
    let pods = chosen(pods, || is_after(LONGEST_LOOK / 2));
    let mut checked = 0;
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pod in &pods {
        let violations = enforce.violations(&pod.decode());
        if !violations.is_empty() {
            found.entry(reasons(&violations)).or_default().push(pod.name().into_owned());
        }
        checked += 1;
        if is_after(LONGEST_LOOK) {
            break;
        }
    }
    let mut warnings = Vec::new();
    if checked < count {
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {checked} of {count} existing pods"
        ));
    }
    if !found.is_empty() {
        warnings.push(format!(
            "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level \"{enforce}\""
        ));
    }
    let mut of_pods: Vec<_> = found.iter().map(|(why, pods)| format!("{}: {why}", first_and_count(pods))).collect();
    of_pods.sort();
    warnings.extend(of_pods);
    warnings
}

/// The pods to look at, until it is late: of those that one controller made alike, the first goes before all that are not alike.
fn chosen(pods: impl Iterator<Item = Arc<Stored>>, mut is_late: impl FnMut() -> bool) -> Vec<Arc<Stored>> {
    let mut seen = HashSet::new();
    let (mut first, mut alike) = (Vec::new(), Vec::new());
    for pod in pods {
        let is_alike = controller(&pod).is_some_and(|uid| !seen.insert(uid));
        let list = if is_alike { &mut alike } else { &mut first };
        if list.len() < MOST_PODS {
            list.push(pod);
        }
        if first.len() == MOST_PODS || is_late() {
            break;
        }
    }
    first.extend(alike);
    first.truncate(MOST_PODS);
    first
}

fn controller(pod: &Stored) -> Option<String> {
    let owners = pod.owner_references();
    let owner = owners.iter().find(|owner| owner.is_true("/controller"))?;
    Some(owner.text("/uid").to_owned())
}

fn first_and_count(pods: &[String]) -> String {
    let first = pods.iter().min().map_or("", String::as_str);
    match pods.len() {
        1 => first.to_owned(),
        2 => format!("{first} (and 1 other pod)"),
        count => format!("{first} (and {} other pods)", count - 1),
    }
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::*;

    #[test]
    fn the_pods_of_a_namespace_are_looked_at_until_it_is_late_or_they_are_too_many() {
        let pod = |at: usize| {
            let pod = json!({"metadata": {"name": format!("p{at:05}")}, "spec": {"hostPID": true, "containers": []}});
            Arc::new(crate::store::sample(&pod))
        };
        let (baseline, _) = Policy::of(|label| label.ends_with("/enforce").then_some("baseline"));
        let first = |pods: usize, most: usize| {
            let mut looked = 0;
            let is_after = |limit| {
                looked += usize::from(limit == LONGEST_LOOK);
                looked == most
            };
            of_pods((0..pods).map(pod), pods, "n", baseline.enforce, is_after)
        };
        let told = |checked: usize, count: usize| {
            format!("new PodSecurity enforce level only checked against the first {checked} of {count} existing pods")
        };
        let violate = "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"baseline:latest\"";
        let pods = |count: usize| format!("p00000 (and {} other pods): host namespaces", count - 1);
        assert_eq!(first(10, 3), [told(3, 10), violate.into(), pods(3)]);
        assert_eq!(first(10, 10), [violate.into(), pods(10)]);
        assert_eq!(first(MOST_PODS + 1, usize::MAX), [told(MOST_PODS, MOST_PODS + 1), violate.into(), pods(MOST_PODS)]);
    }

    #[test]
    fn no_more_pods_are_chosen_once_it_is_late() {
        let pod = |at: usize| {
            let owner = json!({"uid": "u", "controller": at.is_multiple_of(2)});
            let metadata = json!({"name": at.to_string(), "ownerReferences": [owner]});
            Arc::new(crate::store::sample(&json!({"metadata": metadata})))
        };
        let names = |pods: Vec<Arc<Stored>>| pods.iter().map(|pod| pod.name().into_owned()).collect::<Vec<_>>();
        let mut looked = 0;
        let is_late = || {
            looked += 1;
            looked == 5
        };
        // Those that are not made by the controller, and the first that is, come before the others that are.
        assert_eq!(names(chosen((0..1_000_000).map(pod), is_late)), ["0", "1", "3", "2", "4"]);
    }
}
