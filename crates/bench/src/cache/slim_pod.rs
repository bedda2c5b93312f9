//! A pod type with only the fields that the kube-scheduler plugins read.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, TopologySpreadConstraint};
use pintle_meta::{Metadata, Time};
use serde::{Deserialize, Deserializer};

/// A pod with the fields that a scheduler needs. The pods share no data, and rarely used fields are boxed.
#[derive(Deserialize)]
pub(super) struct SlimPod {
    metadata: SlimMetadata,
    #[allow(dead_code, reason = "the benchmark only stores these fields")]
    spec: SlimSpec,
    #[serde(default)]
    #[allow(dead_code, reason = "as above")]
    status: SlimStatus,
}

pintle_meta::resource!(SlimPod, "v1", "Pod", "pods", Namespaced);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "as above")]
struct SlimMetadata {
    name: Box<str>,
    namespace: Box<str>,
    uid: Box<str>,
    resource_version: Box<str>,
    creation_timestamp: Time,
    deletion_timestamp: Option<Time>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "as above")]
struct SlimSpec {
    node_name: Option<Box<str>>,
    #[serde(default)]
    node_selector: BTreeMap<Box<str>, Box<str>>,
    affinity: Option<Box<Affinity>>,
    #[serde(default)]
    topology_spread_constraints: Box<[TopologySpreadConstraint]>,
    #[serde(default)]
    tolerations: Box<[Toleration]>,
    containers: Box<[Container]>,
    #[serde(default)]
    init_containers: Box<[Container]>,
    #[serde(default, deserialize_with = "claims")]
    volumes: Box<[Box<str>]>,
    #[serde(default)]
    overhead: Requests,
    #[serde(default)]
    priority: i32,
    #[serde(default)]
    preemption_policy: PreemptionPolicy,
    scheduler_name: Box<str>,
    #[serde(default)]
    host_network: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "as above")]
struct Toleration {
    /// The taint key, where an empty key matches all taint keys.
    #[serde(default)]
    key: Box<str>,
    #[serde(default)]
    operator: Operator,
    #[serde(default)]
    value: Box<str>,
    effect: Option<Effect>,
    toleration_seconds: Option<i64>,
}

#[derive(Default, Deserialize)]
enum Operator {
    Exists,
    #[default]
    #[serde(other)]
    Equal,
}

#[derive(Deserialize)]
enum Effect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

#[derive(Default, Deserialize)]
enum PreemptionPolicy {
    Never,
    #[default]
    #[serde(other)]
    PreemptLowerPriority,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "as above")]
struct Container {
    name: Box<str>,
    /// The image of a container, because a scheduler prefers nodes that already have this image.
    image: Box<str>,
    #[serde(default)]
    ports: Box<[Port]>,
    #[serde(default, rename = "resources", deserialize_with = "requests")]
    requests: Requests,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "as above")]
struct Port {
    container_port: u16,
    #[serde(default)]
    host_port: u16,
    #[serde(default, rename = "hostIP")]
    host_ip: Option<Box<str>>,
    #[serde(default)]
    protocol: Protocol,
}

#[derive(Default, Deserialize)]
#[allow(clippy::upper_case_acronyms, reason = "Kubernetes writes these names so")]
enum Protocol {
    UDP,
    SCTP,
    #[default]
    #[serde(other)]
    TCP,
}

/// A container's resource requests as numbers.
#[derive(Default)]
#[allow(dead_code, reason = "as above")]
struct Requests {
    cpu_millis: u64,
    memory_bytes: u64,
    others: BTreeMap<Box<str>, u64>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "as above")]
struct SlimStatus {
    #[serde(default)]
    phase: Phase,
    nominated_node_name: Option<Box<str>>,
    start_time: Option<Time>,
}

#[derive(Default, Deserialize)]
enum Phase {
    #[default]
    Pending,
    Running,
    Succeeded,
    Failed,
    #[serde(other)]
    Unknown,
}

impl Metadata for SlimMetadata {
    fn name(&self) -> &str {
        &self.name
    }

    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn uid(&self) -> &str {
        &self.uid
    }

    fn resource_version(&self) -> &str {
        &self.resource_version
    }

    fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    fn labels(&self) -> &BTreeMap<String, String> {
        &self.labels
    }
}

impl<'de> Deserialize<'de> for Requests {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut requests = Self::default();
        for (resource, quantity) in BTreeMap::<Box<str>, String>::deserialize(deserializer)? {
            let quantity = number(&quantity);
            match &*resource {
                "cpu" => requests.cpu_millis = (quantity * 1e3).ceil() as u64,
                "memory" => requests.memory_bytes = quantity.ceil() as u64,
                _ => _ = requests.others.insert(resource, quantity.ceil() as u64),
            }
        }
        Ok(requests)
    }
}

fn requests<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Requests, D::Error> {
    #[derive(Deserialize)]
    struct Resources {
        #[serde(default)]
        requests: Requests,
    }
    Ok(Resources::deserialize(deserializer)?.requests)
}

/// Parses a quantity with one of the common suffixes.
fn number(quantity: &str) -> f64 {
    let digits = quantity.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &quantity[digits.len()..] {
        "m" => 1e-3,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        _ => 1.0,
    };
    digits.parse::<f64>().unwrap_or(0.0) * factor
}

/// Returns the names of a pod's persistent volume claims. A scheduler needs them, because a claim can restrict
/// the nodes on which the pod can run.
fn claims<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<[Box<str>]>, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Volume {
        persistent_volume_claim: Option<Claim>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Claim {
        claim_name: Box<str>,
    }
    let volumes = Vec::<Volume>::deserialize(deserializer)?.into_iter();
    Ok(volumes.filter_map(|volume| Some(volume.persistent_volume_claim?.claim_name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pods::Pods;

    #[test]
    fn slim_pod_has_the_fields_that_a_scheduler_reads() {
        let pods = Pods::new(1);
        let pod: SlimPod = serde_json::from_slice(pods.list(0..1)).expect("a valid pod");
        let spec = &pod.spec;
        assert!(spec.node_name.is_some() && &*spec.scheduler_name == "default-scheduler");
        let [app, proxy] = &*spec.containers else { panic!("the pod has two containers") };
        assert!(app.requests.cpu_millis >= 50 && proxy.requests.memory_bytes >= 64 << 20);
        assert!(app.requests.others.is_empty() && app.ports[0].container_port == 8080);
        let [first, second] = &*spec.tolerations else { panic!("the pod has two tolerations") };
        assert_eq!([&*first.key, &*second.key].map(|key| key.starts_with("node.kubernetes.io/")), [true; 2]);
        assert!(matches!((&first.operator, &first.effect), (Operator::Exists, Some(Effect::NoExecute))));
        assert_eq!(first.toleration_seconds, Some(300));
        assert!(matches!(pod.status.phase, Phase::Running) && pod.status.start_time.is_some());
        assert_eq!(pod.metadata.labels().len(), 6);
        assert_eq!([number("1500m"), number("64Mi"), number("2")], [1.5, 67_108_864.0, 2.0]);
    }

    #[test]
    fn slim_pod_keeps_rare_fields() {
        let pod = r#"{
            "metadata": {"name": "a", "namespace": "b", "uid": "c", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "schedulerName": "s", "priority": 7, "preemptionPolicy": "Never", "hostNetwork": true, "nodeSelector": {"disk": "ssd"},
                "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}},
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "w", "emptyDir": {}}],
                "overhead": {"memory": "1Ki"},
                "containers": [{
                    "name": "c", "image": "i", "resources": {"requests": {"vendor.example/gpu": "2"}},
                    "ports": [{"containerPort": 53, "hostPort": 53, "protocol": "UDP"}]
                }]
            }
        }"#;
        let SlimSpec { node_selector, affinity, volumes, overhead, containers, priority, preemption_policy, .. } =
            serde_json::from_str::<SlimPod>(pod).expect("a valid pod").spec;
        assert_eq!((priority, overhead.memory_bytes), (7, 1024));
        assert_eq!(node_selector.get("disk").map(|value| &**value), Some("ssd"));
        assert!(affinity.is_some_and(|affinity| affinity.pod_anti_affinity.is_some()));
        assert_eq!(volumes.iter().map(|claim| &**claim).collect::<Vec<_>>(), ["data"]);
        assert_eq!(containers[0].requests.others.get("vendor.example/gpu"), Some(&2));
        assert!(containers[0].ports[0].host_port == 53 && matches!(containers[0].ports[0].protocol, Protocol::UDP));
        assert!(matches!(preemption_policy, PreemptionPolicy::Never));
    }
}
