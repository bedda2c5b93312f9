//! A pod as a scheduler of one's own would hold it.

use std::fmt::Write as _;

use pintle_meta::Metadata;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

/// What it is, what it asks for and where it is. All numbers are those that a scheduler adds up.
#[derive(Deserialize)]
#[allow(dead_code, reason = "it is held, and nobody schedules here")]
pub(super) struct SlimPod {
    metadata: SlimMetadata,
    spec: SlimSpec,
    #[serde(default)]
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
    /// `name=value,name=value`, which selectors can be matched with.
    #[serde(default, deserialize_with = "labels")]
    labels: Box<str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "as above")]
struct SlimSpec {
    #[serde(default)]
    node_name: Option<Box<str>>,
    #[serde(default)]
    priority: i32,
    #[serde(rename = "containers", deserialize_with = "requests")]
    requests: Requests,
    /// How many it has; one that has more than the usual two is looked at in the cluster.
    #[serde(default, deserialize_with = "count")]
    tolerations: u32,
}

#[derive(Default, Deserialize)]
#[allow(dead_code, reason = "as above")]
struct SlimStatus {
    phase: Phase,
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

/// What all containers ask for together.
#[derive(Default)]
#[allow(dead_code, reason = "as above")]
struct Requests {
    cpu_millis: u64,
    memory_bytes: u64,
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
}

fn labels<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<str>, D::Error> {
    let labels = std::collections::BTreeMap::<String, String>::deserialize(deserializer)?;
    let mut text = String::new();
    for (name, value) in labels {
        let separator = if text.is_empty() { "" } else { "," };
        let _ = write!(text, "{separator}{name}={value}");
    }
    Ok(text.into())
}

fn requests<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Requests, D::Error> {
    #[derive(Deserialize)]
    struct Container {
        #[serde(default)]
        resources: Resources,
    }
    #[derive(Default, Deserialize)]
    struct Resources {
        #[serde(default)]
        requests: std::collections::BTreeMap<String, String>,
    }
    let mut sum = Requests::default();
    for container in Vec::<Container>::deserialize(deserializer)? {
        let request = |name| container.resources.requests.get(name).map_or(0.0, |quantity| number(quantity));
        sum.cpu_millis += (request("cpu") * 1e3).ceil() as u64;
        sum.memory_bytes += request("memory").ceil() as u64;
    }
    Ok(sum)
}

/// Of a quantity with one of the usual suffixes.
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

fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    Ok(Vec::<IgnoredAny>::deserialize(deserializer)?.len() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pods::Pods;

    #[test]
    fn what_is_held_is_what_a_scheduler_reads() {
        let pods = Pods::new(1);
        let pod: SlimPod = serde_json::from_slice(pods.list(0..1)).expect("a pod is one");
        assert!(pod.spec.node_name.is_some() && pod.spec.requests.cpu_millis >= 100);
        assert!(pod.spec.requests.memory_bytes >= 128 << 20 && pod.spec.tolerations == 2);
        assert!(matches!(pod.status.phase, Phase::Running));
        assert!(pod.metadata.labels.contains(",pod-template-hash="));
        assert_eq!([number("1500m"), number("64Mi"), number("2")], [1.5, 67_108_864.0, 2.0]);
    }
}
