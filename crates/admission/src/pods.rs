//! The total resources of a pod.

use pintle_json::Json;

use crate::amounts::Amounts;

/// The role of a container in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContainerType {
    Container,
    /// An init container that continues to run while the ordinary containers run.
    Sidecar,
    Init,
}

/// Returns the total quantities that a pod needs. For each resource, the total is the greater of two quantities. The first quantity is the
/// sum over the containers and sidecars. The second quantity is the maximum that the pod needs while its init containers run. The closure
/// `of` returns the quantities of one container.
pub(super) fn total(pod: &Json, of: impl Fn(&Json, ContainerType) -> Amounts) -> Amounts {
    let mut sum = Amounts::default();
    for container in pod.list("/spec/containers") {
        sum.add(&of(container, ContainerType::Container));
    }
    let (mut sidecars, mut start) = (Amounts::default(), Amounts::default());
    for container in pod.list("/spec/initContainers") {
        // The sum `start` already includes all sidecars that precede this container. A container changes the sums only for the resources
        // that the container itself uses.
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
