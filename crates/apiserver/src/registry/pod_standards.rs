//! Pod Security admission, which enforces the Pod Security Standard that a namespace selects with its labels. Pods that
//! violate the standard are rejected, and violations in pod templates only cause warnings.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use pintle_admission::pod_security::{Policy, Standard, detailed, reasons};
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::metadata;
use pintle_apimachinery::request::{Requester, Subresource};
use pintle_apimachinery::validate::FieldErrors;
use pintle_builtin::NAMESPACES;
use pintle_json::Json;
use pintle_kinds::{PodRelation, RequestTarget};
use pintle_storage::{Charge, Range, Stored};

use super::Registry;
use super::admission_plugin::{AdmissionRequest, Operation, Plugin};

/// The maximum number of existing pods that the server checks when a namespace's policy becomes stricter. Checking the
/// existing pods takes at most [`MAX_CHECK_TIME`].
const MAX_PODS: usize = 3000;
const MAX_CHECK_TIME: Duration = Duration::from_secs(1);

const ENFORCED: &str = "pod-security.kubernetes.io/enforce-policy";
const VIOLATIONS: &str = "pod-security.kubernetes.io/audit-violations";

/// Enforces the Pod Security Standards. The plugin rejects pods that
/// violate the enforced standard, and namespaces with invalid labels.
#[derive(Debug)]
pub(super) struct PodSecurity;

enum StandardsTarget<'a> {
    Namespace,
    Pod,
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
                    existing_pod_warnings(registry, name, policy.enforce).into_iter().for_each(|text| by.warn(text));
                }
            }
            StandardsTarget::Pod => {
                let Policy { enforce, audit, warn } = policy_at(registry, target);
                by.annotate(ENFORCED, enforce.to_string());
                annotate_violations(by, audit, new);
                let violations = enforce.violations(new);
                if !violations.is_empty() {
                    let why = format!("violates PodSecurity \"{enforce}\": {}", detailed(&violations));
                    return Err(Failure::forbidden(&kind.resource(), name, &why));
                }
                would_violate(warn, new).into_iter().for_each(|text| by.warn(text));
            }
            StandardsTarget::Template(template) => {
                let Policy { audit, warn, .. } = policy_at(registry, target);
                annotate_violations(by, audit, template);
                would_violate(warn, template).into_iter().for_each(|text| by.warn(text));
            }
        }
        Ok(Vec::new())
    }
}

/// Returns the object that must comply with the standards, or `None` if they do not apply to the request.
fn subject<'a>(request: &'a AdmissionRequest<'_>) -> Option<(StandardsTarget<'a>, &'a Json)> {
    let (target, new) = (request.target, request.new.as_deref()?);
    if !matches!(request.operation, Operation::Create | Operation::Update) {
        return None;
    }
    let subject = match (target.kind.flags.pods, target.subresource) {
        (PodRelation::Pod, Subresource::None | Subresource::EphemeralContainers | Subresource::Resize) => {
            request.old.is_none_or(|old| changes_containers(new, old)).then_some(StandardsTarget::Pod)?
        }
        (PodRelation::Namespace, Subresource::None) => StandardsTarget::Namespace,
        (PodRelation::Template(pointer), Subresource::None) => {
            StandardsTarget::Template(new.at(pointer).filter(|template| !template.is_null())?)
        }
        _ => return None,
    };
    Some((subject, new))
}

/// Returns `true` if an update adds a container to a pod or changes an image. The Pod Security Standards check no other
/// mutable fields.
fn changes_containers(new: &Json, old: &Json) -> bool {
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

fn policy(namespace: &Json) -> (Policy, FieldErrors) {
    let labels = namespace.at("/metadata/labels");
    Policy::of(|label| labels?.get(label)?.as_str())
}

fn policy_at(registry: &Registry, target: &RequestTarget) -> Policy {
    let namespace = registry.db.get(NAMESPACES, &target.namespace);
    let labels = namespace.as_deref().map(|namespace| namespace.labels());
    Policy::of(|label| labels.as_ref()?.value(label)).0
}

fn would_violate(standard: Standard, pod: &Json) -> Option<String> {
    let violations = standard.violations(pod);
    (!violations.is_empty()).then(|| format!("would violate PodSecurity \"{standard}\": {}", detailed(&violations)))
}

fn annotate_violations(by: &Requester, audit: Standard, pod: &Json) {
    if let Some(why) = would_violate(audit, pod) {
        by.annotate(VIOLATIONS, why);
    }
}

fn existing_pod_warnings(registry: &Registry, namespace: &str, enforce: Standard) -> Vec<String> {
    let began = registry.clock.instant();
    let has_elapsed = |limit| registry.clock.instant().duration_since(began) >= limit;
    let pods = registry.db.objects_of("pods", &Range::namespace(Some(namespace)));
    let count = pods.left();
    pod_warnings(pods.map(|(_, pod)| pod), count, namespace, enforce, has_elapsed)
}

/// Returns warnings about `pods`, as described for [`existing_pod_warnings`]. Selecting the pods takes at most half of
/// [`MAX_CHECK_TIME`], even if there are many pods.
fn pod_warnings(
    pods: impl Iterator<Item = Arc<Stored>>,
    count: usize,
    namespace: &str,
    enforce: Standard,
    mut has_elapsed: impl FnMut(Duration) -> bool,
) -> Vec<String> {
    let pods = select_pods(pods, || has_elapsed(MAX_CHECK_TIME / 2));
    let mut checked = 0;
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pod in &pods {
        let violations = enforce.violations(&pod.decode());
        if !violations.is_empty() {
            found.entry(reasons(&violations)).or_default().push(pod.name().into_owned());
        }
        checked += 1;
        if has_elapsed(MAX_CHECK_TIME) {
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
    let mut pod_lines: Vec<_> = found.iter().map(|(why, pods)| format!("{}: {why}", first_and_count(pods))).collect();
    pod_lines.sort();
    warnings.extend(pod_lines);
    warnings
}

/// Selects the pods to check, until `timed_out` returns `true`. The first
/// pod of each controller comes before the second pod of any controller.
fn select_pods(pods: impl Iterator<Item = Arc<Stored>>, mut timed_out: impl FnMut() -> bool) -> Vec<Arc<Stored>> {
    let mut seen = HashSet::new();
    let (mut first, mut duplicates) = (Vec::new(), Vec::new());
    for pod in pods {
        let is_duplicate = controller(&pod).is_some_and(|uid| !seen.insert(uid));
        let list = if is_duplicate { &mut duplicates } else { &mut first };
        if list.len() < MAX_PODS {
            list.push(pod);
        }
        if first.len() == MAX_PODS || timed_out() {
            break;
        }
    }
    first.extend(duplicates);
    first.truncate(MAX_PODS);
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
    fn existing_pods_are_checked_up_to_the_limits() {
        let pod = |at: usize| {
            let pod = json!({"metadata": {"name": format!("p{at:05}")}, "spec": {"hostPID": true, "containers": []}});
            Arc::new(pintle_kinds::stored_for_tests(&pod))
        };
        let (baseline, _) = Policy::of(|label| label.ends_with("/enforce").then_some("baseline"));
        let first = |pods: usize, most: usize| {
            let mut looked = 0;
            let has_elapsed = |limit| {
                looked += usize::from(limit == MAX_CHECK_TIME);
                looked == most
            };
            pod_warnings((0..pods).map(pod), pods, "n", baseline.enforce, has_elapsed)
        };
        let partial = |checked: usize, count: usize| {
            format!("new PodSecurity enforce level only checked against the first {checked} of {count} existing pods")
        };
        let violate = "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"baseline:latest\"";
        let pods = |count: usize| format!("p00000 (and {} other pods): host namespaces", count - 1);
        assert_eq!(first(10, 3), [partial(3, 10), violate.into(), pods(3)]);
        assert_eq!(first(10, 10), [violate.into(), pods(10)]);
        assert_eq!(first(MAX_PODS + 1, usize::MAX), [partial(MAX_PODS, MAX_PODS + 1), violate.into(), pods(MAX_PODS)]);
    }

    #[test]
    fn pod_selection_stops_at_its_time_limit() {
        let pod = |at: usize| {
            let owner = json!({"uid": "u", "controller": at.is_multiple_of(2)});
            let metadata = json!({"name": at.to_string(), "ownerReferences": [owner]});
            Arc::new(pintle_kinds::stored_for_tests(&json!({"metadata": metadata})))
        };
        let names = |pods: Vec<Arc<Stored>>| pods.iter().map(|pod| pod.name().into_owned()).collect::<Vec<_>>();
        let mut looked = 0;
        let timed_out = || {
            looked += 1;
            looked == 5
        };
        assert_eq!(names(select_pods((0..1_000_000).map(pod), timed_out)), ["0", "1", "3", "2", "4"]);
    }
}
