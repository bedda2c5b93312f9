//! A pod in one line of a table.

use std::collections::HashSet;

use jiff::Timestamp;
use pintle_json::Json;

use crate::kinds::table::{self, Row};
use crate::object::{has, holds, integer_at, is_true, list, text_at};

pub(super) fn cells(pod: &Json, now: Timestamp) -> Vec<Json> {
    let (row, summary) = (Row::new(pod, now), Summary::of(pod));
    let gates: Vec<_> = list(pod, "/spec/readinessGates").map(|gate| text_at(gate, "/conditionType")).collect();
    let holding = list(pod, "/status/conditions").filter(|condition| text_at(condition, "/status") == "True");
    let holding: HashSet<&str> = holding.map(|condition| text_at(condition, "/type")).collect();
    let met = gates.iter().filter(|gate| holding.contains(*gate)).count();
    let gates = if gates.is_empty() { "<none>".into() } else { format!("{met}/{}", gates.len()) };
    let restarts = match summary.last_restart {
        Some(time) if summary.restarts > 0 => format!("{} ({} ago)", summary.restarts, table::age(time, now)),
        _ => summary.restarts.to_string(),
    };
    vec![
        row.name(),
        format!("{}/{}", summary.ready, summary.containers).into(),
        summary.status.into(),
        restarts.into(),
        row.age(),
        row.text_or("/status/podIPs/0/ip", "<none>"),
        row.text_or("/spec/nodeName", "<none>"),
        row.text_or("/status/nominatedNodeName", "<none>"),
        gates.into(),
    ]
}

/// A pod in one line.
struct Summary {
    status: String,
    ready: usize,
    containers: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

impl Summary {
    fn of(pod: &Json) -> Self {
        let phase = text_at(pod, "/status/phase");
        let mut summary = Self {
            status: match text_at(pod, "/status/reason") {
                "" => phase.into(),
                reason => reason.into(),
            },
            ready: 0,
            containers: list(pod, "/spec/containers").count(),
            restarts: 0,
            last_restart: None,
        };
        let gated = |condition: &Json| {
            text_at(condition, "/type") == "PodScheduled" && text_at(condition, "/reason") == "SchedulingGated"
        };
        if list(pod, "/status/conditions").any(gated) {
            summary.status = "SchedulingGated".into();
        }
        let is_sidecar = |container: &&Json| text_at(container, "/restartPolicy") == "Always";
        summary.containers += list(pod, "/spec/initContainers").filter(is_sidecar).count();
        let sidecars: HashSet<&str> =
            list(pod, "/spec/initContainers").filter(is_sidecar).map(|container| text_at(container, "/name")).collect();
        let initializing = summary.initialize(pod, &sidecars);
        if !initializing || holds(pod, "Initialized") {
            summary.run(pod, &sidecars);
        }
        if has(pod, "/metadata/deletionTimestamp") {
            if text_at(pod, "/status/reason") == "NodeLost" {
                summary.status = "Unknown".into();
            } else if !matches!(phase, "Failed" | "Succeeded") {
                summary.status = "Terminating".into();
            }
        }
        summary
    }

    /// Looks at the init containers; answers whether they are still at work.
    fn initialize(&mut self, pod: &Json, sidecars: &HashSet<&str>) -> bool {
        let count = list(pod, "/spec/initContainers").count();
        for (at, container) in list(pod, "/status/initContainerStatuses").enumerate() {
            self.count_restarts(container);
            let name = text_at(container, "/name");
            if sidecars.contains(name) && is_true(container, "/started") {
                self.ready += usize::from(is_true(container, "/ready"));
                continue;
            }
            if has(container, "/state/terminated")
                && integer_at(container, "/state/terminated/exitCode").unwrap_or(0) == 0
            {
                continue;
            }
            self.status = if has(container, "/state/terminated") {
                format!("Init:{}", ending(container))
            } else {
                match text_at(container, "/state/waiting/reason") {
                    "" | "PodInitializing" => format!("Init:{at}/{count}"),
                    reason => format!("Init:{reason}"),
                }
            };
            return true;
        }
        false
    }

    fn run(&mut self, pod: &Json, sidecars: &HashSet<&str>) {
        // Restarts of init containers count only while those are at work; those of sidecars always do.
        self.restarts = 0;
        self.last_restart = None;
        let of_sidecars =
            list(pod, "/status/initContainerStatuses").filter(|it| sidecars.contains(text_at(it, "/name")));
        of_sidecars.for_each(|container| self.count_restarts(container));
        let mut running = false;
        let statuses: Vec<_> = list(pod, "/status/containerStatuses").collect();
        for container in statuses.into_iter().rev() {
            self.count_restarts(container);
            let waiting = text_at(container, "/state/waiting/reason");
            if !waiting.is_empty() {
                self.status = waiting.into();
            } else if has(container, "/state/terminated") {
                self.status = ending(container);
            } else if is_true(container, "/ready") && has(container, "/state/running") {
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
        self.restarts += integer_at(container, "/restartCount").unwrap_or(0);
        let ended = text_at(container, "/lastState/terminated/finishedAt").parse().ok();
        self.last_restart = self.last_restart.max(ended);
    }
}

/// How a container ended.
fn ending(container: &Json) -> String {
    let part = |key: &str| integer_at(container, &format!("/state/terminated/{key}")).unwrap_or(0);
    match (text_at(container, "/state/terminated/reason"), part("signal")) {
        ("", 0) => format!("ExitCode:{}", part("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.into(),
    }
}
