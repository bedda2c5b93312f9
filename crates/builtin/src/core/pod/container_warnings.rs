//! Warnings about the resources, variables and ports of containers.

use std::collections::{BTreeMap, HashMap, HashSet};

use pintle_json::Json;

use crate::warnings::fractional_bytes;

pub(super) type ContainerAt<'a> = (&'a Json, String);

/// Returns the containers of a pod in the order of kube-apiserver's warnings. `path` must be empty or end with a dot.
pub(super) fn all<'a>(pod: &'a Json, path: &str) -> Vec<ContainerAt<'a>> {
    let containers_with_paths = |key: &'static str| {
        let containers = pod.list(&format!("/spec/{key}")).enumerate();
        containers.map(move |(at, container)| (container, format!("{path}spec.{key}[{at}]")))
    };
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(containers_with_paths).collect()
}

pub(super) fn amounts((container, path): &ContainerAt<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for name in ["memory", "ephemeral-storage"] {
        for side in ["limits", "requests"] {
            let amounts = container.at(&format!("/resources/{side}"));
            found.extend(fractional_bytes(amounts, name, &format!("{path}.resources.{side}")));
        }
    }
    found
}

/// Warns about environment variables that are set twice, unless the second value refers to the first one.
pub(super) fn variables((container, path): &ContainerAt<'_>) -> Vec<String> {
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    for (at, variable) in container.list("/env").enumerate() {
        let (name, value) = (variable.text("/name"), variable.text("/value"));
        let earlier = format!("$({name})");
        let builds_on = !variable.has("/valueFrom") && value != earlier && value.contains(&earlier);
        if !seen.insert(name) && !builds_on {
            let why = "which may be dropped when using apply";
            found.push(format!("{path}.env[{at}]: hides previous definition of {name:?}, {why}"));
        }
    }
    found
}

/// The maximum number of warnings about ports. The response headers cannot contain more than this number of warnings.
const MAX_WARNINGS: usize = 1000;

pub(super) fn ports(containers: &[ContainerAt<'_>]) -> Vec<String> {
    let mut seen: HashMap<(i64, &str), SeenPorts<'_>> = HashMap::new();
    let mut found = Vec::new();
    for (port, path) in each_port(containers) {
        if found.len() > MAX_WARNINGS {
            break;
        }
        if !port.host_ip.is_empty() && port.host == 0 {
            found.push(format!("{path}: hostIP set without hostPort: {}", port.to_go_string()));
        }
        let others = seen.entry((port.inner, port.protocol)).or_default();
        let room = MAX_WARNINGS.saturating_sub(found.len());
        for (other, at) in others.overlapping(&port).into_iter().take(room).map(|at| &others.all[at]) {
            found.extend(port.overlap(other).map(|how| format!("{path}: {how} port definition with {at}")));
        }
        others.add(port, path);
    }
    found
}

/// The ports before the current port with the same number and protocol. The index by host port avoids a comparison of
/// all pairs.
#[derive(Default)]
struct SeenPorts<'a> {
    all: Vec<(Port<'a>, String)>,
    by_host: BTreeMap<(i64, &'a str), Vec<usize>>,
}

impl<'a> SeenPorts<'a> {
    fn add(&mut self, port: Port<'a>, path: String) {
        self.by_host.entry((port.host, port.host_ip)).or_default().push(self.all.len());
        self.all.push((port, path));
    }

    /// Returns the indices of the ports that may overlap with `port`, in order. If more than [`MAX_WARNINGS`] ports may
    /// overlap, the result is incomplete.
    fn overlapping(&self, port: &Port<'a>) -> Vec<usize> {
        if port.host == 0 {
            return (0..self.all.len().min(MAX_WARNINGS)).collect();
        }
        let places = |from: (i64, &'a str), to: std::ops::Bound<(i64, &'a str)>| {
            let range = self.by_host.range((std::ops::Bound::Included(from), to));
            range.flat_map(|(_, places)| places.iter().copied()).take(MAX_WARNINGS)
        };
        let next = |host: i64| {
            host.checked_add(1).map_or(std::ops::Bound::Unbounded, |next| std::ops::Bound::Excluded((next, "")))
        };
        let mut found: Vec<usize> = places((0, ""), next(0)).collect();
        if port.host_ip.is_empty() {
            found.extend(places((port.host, ""), next(port.host)))
        } else {
            for ip in ["", port.host_ip] {
                found.extend(places((port.host, ip), std::ops::Bound::Included((port.host, ip))));
            }
        }
        found.sort_unstable();
        found
    }
}

/// Warns about ports with the same name, because a lookup by name finds only the first port.
pub(super) fn port_names(containers: &[ContainerAt<'_>]) -> Vec<String> {
    let mut seen: BTreeMap<&str, String> = BTreeMap::new();
    let mut found = Vec::new();
    for (Port { name, .. }, path) in each_port(containers).filter(|(port, _)| !port.name.is_empty()) {
        match seen.get(name) {
            Some(first) => {
                let why = format!("services and probes that select ports by name will use {first}");
                found.push(format!("{path}: duplicate port name {name:?} with {first}, {why}"));
            }
            None => drop(seen.insert(name, path)),
        }
    }
    found
}

fn each_port<'a>(containers: &'a [ContainerAt<'a>]) -> impl Iterator<Item = (Port<'a>, String)> {
    containers.iter().flat_map(|(container, path)| {
        container.list("/ports").enumerate().map(move |(at, port)| (Port::read(port), format!("{path}.ports[{at}]")))
    })
}

struct Port<'a> {
    name: &'a str,
    inner: i64,
    protocol: &'a str,
    host: i64,
    host_ip: &'a str,
}

impl<'a> Port<'a> {
    fn read(port: &'a Json) -> Self {
        Self {
            name: port.text("/name"),
            inner: port.integer("/containerPort").unwrap_or(0),
            protocol: port.text("/protocol"),
            host: port.integer("/hostPort").unwrap_or(0),
            host_ip: port.text("/hostIP"),
        }
    }

    /// Classifies how a port overlaps with another port of the same number and protocol. Returns `None` if the overlap
    /// causes no warning.
    fn overlap(&self, other: &Self) -> Option<&'static str> {
        match () {
            () if (self.host_ip, self.host) == (other.host_ip, other.host) => Some("duplicate"),
            () if self.host == 0 || other.host == 0 => Some("overlapping"),
            () if self.host == other.host && self.host_ip.is_empty() != other.host_ip.is_empty() => {
                Some("dangerously ambiguous")
            }
            () => None,
        }
    }

    fn to_go_string(&self) -> String {
        let Self { name, inner, protocol, host, host_ip } = self;
        format!("{{Name:{name} HostPort:{host} ContainerPort:{inner} Protocol:{protocol} HostIP:{host_ip}}}")
    }
}
