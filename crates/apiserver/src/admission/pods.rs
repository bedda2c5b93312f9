//! What a pod asks for as a whole.

use pintle_json::Json;

use super::Amounts;

/// Which list of a pod's spec a container is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContainerType {
    Container,
    /// An init container that goes on beside the containers.
    Sidecar,
    Init,
}

/// The sum over the containers, or what the hungriest step of the start needs if that is more. `of` says what one of them asks for.
pub(super) fn total(pod: &Json, of: impl Fn(&Json, ContainerType) -> Amounts) -> Amounts {
    let mut sum = Amounts::default();
    for container in pod.list("/spec/containers") {
        sum.add(&of(container, ContainerType::Container));
    }
    let (mut sidecars, mut start) = (Amounts::default(), Amounts::default());
    for container in pod.list("/spec/initContainers") {
        // What the start needs is known by now to be no less than what the sidecars have, so only what is new can change it.
        if container.text("/restartPolicy") == "Always" {
            let amounts = of(container, ContainerType::Sidecar);
            sum.add(&amounts);
            sidecars.add(&amounts);
            start.raise(&sidecars.of_those_in(&amounts));
        } else {
            let mut step = of(container, ContainerType::Init);
            step.add(&sidecars.of_those_in(&step));
            start.raise(&step);
        }
    }
    sum.raise(&start);
    sum
}
