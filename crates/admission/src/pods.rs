//! Computes a pod's total resources.

use pintle_json::Json;

use crate::amounts::Amounts;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContainerType {
    Container,
    /// An init container that keeps running while the ordinary containers run.
    Sidecar,
    Init,
}

/// Returns the total `requests` or `limits` of the containers of a pod. The total does not include the resources of the
/// pod itself and its overhead.
pub fn container_totals(spec: &Json, side: &str) -> Amounts {
    total(spec, |container, _| Amounts::at(container, &format!("/resources/{side}")))
}

/// Returns a pod's total quantities. `of` returns the quantities of one container. For each resource, the total is the
/// greater of two values: the sum for the containers and sidecars, and the maximum while init containers run.
pub(super) fn total(spec: &Json, of: impl Fn(&Json, ContainerType) -> Amounts) -> Amounts {
    let mut sum = Amounts::default();
    for container in spec.list("/containers") {
        sum.add(&of(container, ContainerType::Container));
    }
    let (mut sidecars, mut start) = (Amounts::default(), Amounts::default());
    for container in spec.list("/initContainers") {
        // Skip resources that this container does not use, because `start` already includes all earlier sidecars.
        if container.text("/restartPolicy") == "Always" {
            let amounts = of(container, ContainerType::Sidecar);
            sum.add(&amounts);
            sidecars.add(&amounts);
            start.raise(&sidecars.restricted_to(&amounts));
        } else {
            let mut step = of(container, ContainerType::Init);
            step.add(&sidecars.restricted_to(&step));
            start.raise(&step);
        }
    }
    sum.raise(&start);
    sum
}
