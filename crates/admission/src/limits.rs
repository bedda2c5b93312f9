//! Limit ranges, which set default resources for new pods' containers, and
//! limit the resources of containers, pods and PersistentVolumeClaims.

use std::collections::HashSet;

use pintle_apimachinery::request::Subresource;
use pintle_json::Json;
use pintle_schema::quantity::Quantity;

use super::{Attempt, pods};
use crate::amounts::Amounts;

const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// The resources that a pod's `spec.resources` can contain.
const POD_LEVEL: &[&str] = &["cpu", "memory"];
/// The maximum quantity for a comparison in thousandths of a unit. Larger quantities are compared in whole units.
const MAX_IN_MILLI: i128 = i64::MAX as i128 / 1000;

/// Returns `true` if limit ranges apply to the write. For a pod, limit ranges apply only to creates and resizes.
pub fn applies(attempt: &Attempt<'_>) -> bool {
    let deleting = |old: &Json| !old.text("/metadata/deletionTimestamp").is_empty();
    match (attempt.subresource, attempt.old) {
        (_, Some(old)) if deleting(old) => false,
        (Subresource::None, None) => attempt.is_of("pods") || attempt.is_of("persistentvolumeclaims"),
        (Subresource::None, Some(_)) => attempt.is_of("persistentvolumeclaims"),
        (Subresource::Resize, Some(_)) => attempt.is_of("pods"),
        _ => false,
    }
}

/// The maximum total size, in bytes, of the defaults that are added to a pod, and of the errors about a pod. Each
/// container can receive all defaults of a limit range, so a pod with many containers could otherwise use a lot of
/// memory. A pod with more defaults would also be too large for the store.
const MAX_FILLED: usize = 4 << 20;
const MAX_ERROR_BYTES: usize = 1 << 20;

/// Sets default requests and limits for containers that do not specify them, and records these defaults in an
/// annotation of the pod.
pub fn complete(range: &Json, pod: &mut Json) {
    let (mut requests, mut limits) = (Amounts::default(), Amounts::default());
    for limit in of_type(range, "Container") {
        requests.0.extend(Amounts::at(limit, "/defaultRequest").0);
        limits.0.extend(Amounts::at(limit, "/default").0);
    }
    let (mut notes, mut left) = (Vec::new(), MAX_FILLED);
    let Some(spec) = pod.get_mut("spec") else { return };
    for (key, called) in [("containers", "container"), ("initContainers", "init container")] {
        for container in spec.items_mut(key) {
            let name = container.text("/name").to_owned();
            for (side, word, amounts) in [("requests", "request", &requests), ("limits", "limit", &limits)] {
                let given = fill(container, side, amounts, &mut left);
                if !given.is_empty() {
                    notes.push(format!("{} {word} for {called} {name}", given.join(", ")));
                }
            }
        }
    }
    if !notes.is_empty()
        && let Some(annotations) = pod.member("metadata").and_then(|metadata| metadata.member("annotations"))
    {
        annotations.set(ANNOTATION, format!("LimitRanger plugin set: {}", notes.join("; ")));
    }
}

/// Returns the messages for all violated bounds of the limit range, or `None` if the object violates no bound.
pub fn refusal(range: &Json, attempt: &Attempt<'_>) -> Option<String> {
    let (mut errors, mut seen) = (errors(range, attempt), HashSet::new());
    errors.retain(|error| seen.insert(error.clone()));
    match errors.len() {
        0 | 1 => errors.pop(),
        _ => Some(format!("[{}]", errors.join(", "))),
    }
}

fn errors(range: &Json, attempt: &Attempt<'_>) -> Vec<String> {
    if attempt.is_of("pods") { pod_errors(range, attempt.object) } else { claim_errors(range, attempt.object) }
}

fn of_type<'a>(range: &'a Json, kind: &str) -> impl Iterator<Item = &'a Json> {
    range.list("/spec/limits").filter(move |limit| limit.text("/type") == kind)
}

/// Sets the requests or limits that a container does not specify. Returns the names of the resources that were set.
fn fill(container: &mut Json, side: &str, amounts: &Amounts, left: &mut usize) -> Vec<String> {
    let mut given = Vec::new();
    let known = Amounts::at(container, &format!("/resources/{side}"));
    for (name, amount) in amounts.iter().filter(|(name, _)| known.get(name).is_none()) {
        if *left == 0 {
            break;
        }
        *left = left.saturating_sub(size_of::<Json>() + name.len());
        let side = container.member("resources").and_then(|resources| resources.member(side));
        if let Some(side) = side {
            side.set(name, amount.to_string());
            given.push(name.to_owned());
        }
    }
    given
}

fn pod_errors(range: &Json, pod: &Json) -> Vec<String> {
    let (mut errors, mut length): (Vec<String>, usize) = (Vec::new(), 0);
    for limit in range.list("/spec/limits") {
        let bounds = Bounds::of(limit);
        match bounds.kind {
            "Container" => {
                for container in pod.list("/spec/containers").chain(pod.list("/spec/initContainers")) {
                    let side = |side: &str| Amounts::at(container, &format!("/resources/{side}"));
                    let found = bounds.errors(&side("requests"), &side("limits"));
                    length += found.iter().map(String::len).sum::<usize>();
                    errors.extend(found);
                    if length > MAX_ERROR_BYTES {
                        return errors;
                    }
                }
            }
            "Pod" => errors.extend(bounds.errors(&whole_pod(pod, "requests"), &whole_pod(pod, "limits"))),
            _ => (),
        }
    }
    errors
}

/// Returns a pod's total quantities. A quantity in `spec.resources` replaces the sum of the containers' quantities.
fn whole_pod(pod: &Json, side: &str) -> Amounts {
    let mut total = pods::total(&pod["spec"], |container, _| Amounts::at(container, &format!("/resources/{side}")));
    let own = Amounts::at(pod, &format!("/spec/resources/{side}"));
    total.0.extend(own.filtered(|name, _| POD_LEVEL.contains(&name)).0);
    total
}

fn claim_errors(range: &Json, claim: &Json) -> Vec<String> {
    let requests = Amounts::at(claim, "/spec/resources/requests");
    let mut errors = Vec::new();
    for bounds in of_type(range, "PersistentVolumeClaim").map(Bounds::of) {
        let of_claim = |(name, bound)| bounds.min_error(name, bound, requests.get(name), None);
        errors.extend(bounds.min.iter().filter_map(of_claim));
        for (name, bound) in bounds.max.iter() {
            let error = match requests.get(name) {
                None => bounds.message("maximum", name, bound, ".  No request is specified"),
                Some(request) if is_more(request, bound, &[request, bound]) => {
                    bounds.message("maximum", name, bound, &format!(", but request is {request}"))
                }
                Some(_) => continue,
            };
            errors.push(error);
        }
    }
    errors
}

struct Bounds<'a> {
    kind: &'a str,
    min: Amounts,
    max: Amounts,
    ratio: Amounts,
}

impl<'a> Bounds<'a> {
    fn of(limit: &'a Json) -> Self {
        let amounts = |key: &str| Amounts::at(limit, key);
        Self {
            kind: limit.text("/type"),
            min: amounts("/min"),
            max: amounts("/max"),
            ratio: amounts("/maxLimitRequestRatio"),
        }
    }

    fn errors(&self, requests: &Amounts, limits: &Amounts) -> Vec<String> {
        let mut errors = Vec::new();
        let both = |name: &str| (requests.get(name), limits.get(name));
        for (name, bound) in self.min.iter() {
            let (request, limit) = both(name);
            errors.extend(self.min_error(name, bound, request, limit));
        }
        for (name, bound) in self.max.iter() {
            let (request, limit) = both(name);
            errors.extend(self.max_error(name, bound, request, limit));
        }
        for (name, bound) in self.ratio.iter() {
            let (request, limit) = both(name);
            errors.extend(self.ratio_error(name, bound, request, limit));
        }
        errors
    }

    fn min_error(
        &self,
        name: &str,
        min: Quantity,
        request: Option<Quantity>,
        limit: Option<Quantity>,
    ) -> Option<String> {
        let Some(requested) = request else {
            return Some(self.message("minimum", name, min, ".  No request is specified"));
        };
        let all = [requested, limit.unwrap_or(Quantity::ZERO), min];
        if is_more(min, requested, &all) {
            return Some(self.message("minimum", name, min, &format!(", but request is {requested}")));
        }
        let limit = limit.filter(|limit| is_more(min, *limit, &all))?;
        Some(self.message("minimum", name, min, &format!(", but limit is {limit}")))
    }

    fn max_error(
        &self,
        name: &str,
        max: Quantity,
        request: Option<Quantity>,
        limit: Option<Quantity>,
    ) -> Option<String> {
        let Some(most) = limit else {
            return Some(self.message("maximum", name, max, ".  No limit is specified"));
        };
        let all = [request.unwrap_or(Quantity::ZERO), most, max];
        if is_more(most, max, &all) {
            return Some(self.message("maximum", name, max, &format!(", but limit is {most}")));
        }
        let requested = request.filter(|requested| is_more(*requested, max, &all))?;
        Some(self.message("maximum", name, max, &format!(", but request is {requested}")))
    }

    fn ratio_error(
        &self,
        name: &str,
        most: Quantity,
        request: Option<Quantity>,
        limit: Option<Quantity>,
    ) -> Option<String> {
        let say =
            |why: String| Some(format!("{name} max limit to request ratio per {} is {most}, but {why}", self.kind));
        let (requested, limit) = (request.unwrap_or(Quantity::ZERO), limit.unwrap_or(Quantity::ZERO));
        let all = [requested, limit, most];
        let (requested, limit) = (comparable(requested, &all), comparable(limit, &all));
        if requested == 0 {
            return say("no request is specified or request is 0".into());
        }
        if limit == 0 {
            return say("no limit is specified or limit is 0".into());
        }
        let ratio = limit as f64 / requested as f64;
        let too_far = if most.whole() <= MAX_IN_MILLI {
            ratio * 1000.0 > most.milli() as f64
        } else {
            ratio > most.whole() as f64
        };
        if too_far { say(format!("provided ratio is {ratio:.6}")) } else { None }
    }

    fn message(&self, which: &str, name: &str, bound: Quantity, why: &str) -> String {
        format!("{which} {name} usage per {} is {bound}{why}", self.kind)
    }
}

/// Returns `true` if `a` is greater than `b`. Compares thousandths of a unit if no quantity in `all` exceeds
/// [`MAX_IN_MILLI`], and whole units otherwise.
fn is_more(a: Quantity, b: Quantity, all: &[Quantity]) -> bool {
    comparable(a, all) > comparable(b, all)
}

fn comparable(amount: Quantity, all: &[Quantity]) -> i128 {
    if all.iter().all(|one| one.whole() <= MAX_IN_MILLI) { amount.milli() } else { amount.whole() }
}

#[cfg(test)]
mod tests {
    use pintle_json::json;
    use pintle_meta::GroupResource;

    use super::*;

    fn found(limit: Json, resource: &str, object: Json) -> Vec<String> {
        let resource = GroupResource::new("", resource);
        let attempt = Attempt { resource: &resource, subresource: Subresource::None, object: &object, old: None };
        errors(&json!({"spec": {"limits": [limit]}}), &attempt)
    }

    #[test]
    fn missing_resources_are_set_and_recorded_per_container() {
        let range = json!({"spec": {"limits": [
            {"type": "Container", "default": {"memory": "1Gi", "cpu": "1"}, "defaultRequest": {"cpu": "100m"}},
            {"type": "Container", "defaultRequest": {"cpu": "200m"}},
        ]}});
        let mut pod = json!({"spec": {
            "containers": [{"name": "a", "resources": {"limits": {"cpu": "2"}}}],
            "initContainers": [{"name": "b", "resources": {"requests": {"cpu": "1m"}}}],
        }});
        complete(&range, &mut pod);
        let expected = json!({
            "metadata": {"annotations": {ANNOTATION:
                "LimitRanger plugin set: cpu request for container a; memory limit for container a; \
                 cpu, memory limit for init container b"}},
            "spec": {
                "containers": [{"name": "a", "resources": {
                    "limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "200m"}}}],
                "initContainers": [{"name": "b", "resources": {
                    "limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1m"}}}],
            },
        });
        assert_eq!(pod, expected);
    }

    #[test]
    fn pod_total_is_container_sum_or_largest_init_step() {
        let memory = |amount: &str| json!({"resources": {"limits": {"memory": amount}}});
        let mut sidecar = memory("1Gi");
        sidecar["restartPolicy"] = "Always".into();
        let pod = json!({"spec": {
            "containers": [memory("1Gi"), memory("1Gi")], "initContainers": [sidecar, memory("3Gi")],
        }});
        let limit = json!({"type": "Pod", "max": {"memory": "3Gi"}});
        assert_eq!(
            found(limit.clone(), "pods", pod.clone()),
            ["maximum memory usage per Pod is 3Gi, but limit is 4Gi"]
        );
        let mut pod = pod;
        pod["spec"]["resources"] = json!({"limits": {"memory": "2Gi"}});
        assert!(found(limit, "pods", pod).is_empty());
    }

    #[test]
    fn messages_of_bounds_match_kube_apiserver() {
        let pod = |resources: Json| json!({"spec": {"containers": [{"resources": resources}]}});
        for (bound, resources, words) in [
            ("min", json!({}), "minimum cpu usage per Container is 1.  No request is specified"),
            (
                "min",
                json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1m"}}),
                "minimum cpu usage per Container is 1, but limit is 1m",
            ),
            ("max", json!({}), "maximum cpu usage per Container is 1.  No limit is specified"),
            (
                "max",
                json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
                "maximum cpu usage per Container is 1, but request is 2",
            ),
            (
                "maxLimitRequestRatio",
                json!({"limits": {"cpu": "1"}}),
                "cpu max limit to request ratio per Container is 1, but no request is specified or request is 0",
            ),
        ] {
            let limit = json!({"type": "Container", bound: {"cpu": "1"}});
            assert_eq!(found(limit, "pods", pod(resources)), [words]);
        }
    }

    #[test]
    fn defaults_and_errors_are_bounded_in_size() {
        let amounts: pintle_json::Map = (0..500).map(|at| (format!("e.com/{at:0100}"), json!("1"))).collect();
        let mut pod = json!({"spec": {"containers": vec![json!({"name": "c"}); 2_000]}});
        let limit = json!({"type": "Container", "max": amounts});
        let length: usize = found(limit.clone(), "pods", pod.clone()).iter().map(String::len).sum();
        assert!((MAX_ERROR_BYTES..2 * MAX_ERROR_BYTES).contains(&length), "{length}");
        complete(&json!({"spec": {"limits": [{"type": "Container", "default": amounts}]}}), &mut pod);
        let filled = pod.to_string().len();
        assert!((MAX_FILLED / 2..4 * MAX_FILLED).contains(&filled), "{filled}");
    }

    #[test]
    fn claim_is_checked_by_its_request() {
        let limit = json!({"type": "PersistentVolumeClaim", "min": {"storage": "2Gi"}, "max": {"gold": "1"}});
        let claim = json!({"spec": {"resources": {"requests": {"storage": "1Gi"}}}});
        let expected = [
            "minimum storage usage per PersistentVolumeClaim is 2Gi, but request is 1Gi",
            "maximum gold usage per PersistentVolumeClaim is 1.  No request is specified",
        ];
        assert_eq!(found(limit, "persistentvolumeclaims", claim), expected);
    }
}
