//! The cells of a pod in a table.

use std::collections::HashSet;

use jiff::Timestamp;
use pintle_apimachinery::object::holds;
use pintle_json::Json;
use pintle_kinds::table;

pub(super) fn ready(pod: &Json) -> Json {
    let Summary { ready, containers, .. } = Summary::of(pod);
    format!("{ready}/{containers}").into()
}

pub(super) fn status(pod: &Json) -> Json {
    Summary::of(pod).status.into()
}

pub(super) fn restarts(pod: &Json, now: Timestamp) -> Json {
    match Summary::of(pod) {
        Summary { restarts, last_restart: Some(time), .. } if restarts > 0 => {
            format!("{restarts} ({} ago)", table::age(time, now)).into()
        }
        summary => summary.restarts.to_string().into(),
    }
}

pub(super) fn readiness_gates(pod: &Json) -> Json {
    let gates: Vec<_> = pod.list("/spec/readinessGates").map(|gate| gate.text("/conditionType")).collect();
    let holding = pod.list("/status/conditions").filter(|condition| condition.text("/status") == "True");
    let holding: HashSet<&str> = holding.map(|condition| condition.text("/type")).collect();
    let met = gates.iter().filter(|gate| holding.contains(*gate)).count();
    if gates.is_empty() { "<none>".into() } else { format!("{met}/{}", gates.len()).into() }
}

struct Summary {
    status: String,
    ready: usize,
    containers: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

impl Summary {
    fn of(pod: &Json) -> Self {
        let phase = pod.text("/status/phase");
        let mut summary = Self {
            status: match pod.text("/status/reason") {
                "" => phase.into(),
                reason => reason.into(),
            },
            ready: 0,
            containers: pod.list("/spec/containers").count(),
            restarts: 0,
            last_restart: None,
        };
        let gated = |condition: &Json| {
            condition.text("/type") == "PodScheduled" && condition.text("/reason") == "SchedulingGated"
        };
        if pod.list("/status/conditions").any(gated) {
            summary.status = "SchedulingGated".into();
        }
        let is_sidecar = |container: &&Json| container.text("/restartPolicy") == "Always";
        summary.containers += pod.list("/spec/initContainers").filter(is_sidecar).count();
        let sidecars: HashSet<&str> =
            pod.list("/spec/initContainers").filter(is_sidecar).map(|container| container.text("/name")).collect();
        let initializing = summary.initialize(pod, &sidecars);
        if !initializing || holds(pod, "Initialized") {
            summary.run(pod, &sidecars);
        }
        if pod.has("/metadata/deletionTimestamp") {
            if pod.text("/status/reason") == "NodeLost" {
                summary.status = "Unknown".into();
            } else if !matches!(phase, "Failed" | "Succeeded") {
                summary.status = "Terminating".into();
            }
        }
        summary
    }

    /// Counts the init containers, and returns `true` if the pod is still being initialized.
    fn initialize(&mut self, pod: &Json, sidecars: &HashSet<&str>) -> bool {
        let count = pod.list("/spec/initContainers").count();
        for (at, container) in pod.list("/status/initContainerStatuses").enumerate() {
            self.count_restarts(container);
            let name = container.text("/name");
            if sidecars.contains(name) && container.is_true("/started") {
                self.ready += usize::from(container.is_true("/ready"));
                continue;
            }
            if container.has("/state/terminated") && container.integer("/state/terminated/exitCode").unwrap_or(0) == 0 {
                continue;
            }
            self.status = if container.has("/state/terminated") {
                format!("Init:{}", termination_reason(container))
            } else {
                match container.text("/state/waiting/reason") {
                    "" | "PodInitializing" => format!("Init:{at}/{count}"),
                    reason => format!("Init:{reason}"),
                }
            };
            return true;
        }
        false
    }

    fn run(&mut self, pod: &Json, sidecars: &HashSet<&str>) {
        // Restarts of ordinary init containers are counted only during initialization. Restarts of sidecars always
        // count.
        self.restarts = 0;
        self.last_restart = None;
        let of_sidecars = pod.list("/status/initContainerStatuses").filter(|it| sidecars.contains(it.text("/name")));
        of_sidecars.for_each(|container| self.count_restarts(container));
        let mut running = false;
        let statuses: Vec<_> = pod.list("/status/containerStatuses").collect();
        for container in statuses.into_iter().rev() {
            self.count_restarts(container);
            let waiting = container.text("/state/waiting/reason");
            if !waiting.is_empty() {
                self.status = waiting.into();
            } else if container.has("/state/terminated") {
                self.status = termination_reason(container);
            } else if container.is_true("/ready") && container.has("/state/running") {
                running = true;
                self.ready += 1;
            }
        }
        if self.status == "Completed" && running {
            let ready = holds(pod, "Ready");
            self.status = if ready { "Running" } else { "NotReady" }.into();
        }
    }

    fn count_restarts(&mut self, container: &Json) {
        self.restarts += container.integer("/restartCount").unwrap_or(0);
        let ended = container.text("/lastState/terminated/finishedAt").parse().ok();
        self.last_restart = self.last_restart.max(ended);
    }
}

fn termination_reason(container: &Json) -> String {
    let part = |key: &str| container.integer(&format!("/state/terminated/{key}")).unwrap_or(0);
    match (container.text("/state/terminated/reason"), part("signal")) {
        ("", 0) => format!("ExitCode:{}", part("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.into(),
    }
}
