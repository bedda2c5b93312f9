//! Computes a pod's quality-of-service class.

use pintle_json::Json;

/// Returns the QoS class of a pod, which depends on its requests and limits for CPU and memory.
pub(super) fn class(pod: &Json) -> &'static str {
    let containers: Vec<_> = if pod.has("/spec/resources") {
        vec![&pod["spec"]]
    } else {
        pod.list("/spec/containers").chain(pod.list("/spec/initContainers")).collect()
    };
    let amount = |container: &Json, side: &str, resource: &str| -> Option<Json> {
        let amount = container.at(&format!("/resources/{side}/{resource}"))?;
        let zero = amount.as_str().is_some_and(|text| text.trim_matches(|c: char| c == '0' || c == '.').is_empty());
        (!zero).then(|| amount.clone())
    };
    let (mut any, mut guaranteed) = (false, true);
    for container in containers {
        for resource in ["cpu", "memory"] {
            let (request, limit) = (amount(container, "requests", resource), amount(container, "limits", resource));
            any |= request.is_some() || limit.is_some();
            guaranteed &= limit.is_some() && request == limit;
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
