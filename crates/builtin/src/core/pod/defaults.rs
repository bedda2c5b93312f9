//! The defaults of pods, pod templates and volume claims.

use std::collections::HashMap;
use std::sync::LazyLock;

use pintle_json::{Json, Map, json};
use regex::Regex;

use super::spec::CONTAINERS;
use crate::core::claim_spec;

pub(super) fn pod(pod: &mut Json) {
    let Some(spec) = pod.member("spec") else { return };
    spec.set_default("enableServiceLinks", true);
    for key in ["containers", "initContainers"] {
        for container in spec.items_mut(key) {
            let Some(resources) = container.member("resources") else { continue };
            let limits = resources["limits"].as_object().cloned().unwrap_or_default();
            if !limits.is_empty() {
                let requests = resources.member("requests");
                if let Some(requests) = requests.and_then(Json::as_object_mut) {
                    for (name, limit) in limits {
                        requests.entry(name).or_insert(limit);
                    }
                }
            }
        }
    }
    pod_resources(pod);
    let Some(spec) = pod.member("spec") else { return };
    pod_spec(spec);
    if spec.is_true("/hostNetwork") {
        for key in ["containers", "initContainers"] {
            spec.items_mut(key).for_each(fill_host_ports);
        }
    }
}

/// Sets the defaults of the resources of a pod. A huge page limit defaults to the total of the containers, unless the pod
/// requests these pages. If the pod has limits, a request defaults to the total of the containers, or to the limit of the
/// pod.
fn pod_resources(pod: &mut Json) {
    let spec = &pod["spec"];
    let resources = &spec["resources"];
    let [requests, limits] =
        ["requests", "limits"].map(|side| resources[side].as_object().cloned().unwrap_or_default());
    if requests.is_empty() && limits.is_empty() {
        return;
    }
    let missing = |known: &Map, side: &str, is_wanted: &dyn Fn(&str) -> bool| -> Vec<_> {
        let totals = pintle_admission::container_totals(spec, side);
        let wanted = totals.filtered(|name, _| is_wanted(name) && !known.contains_key(name));
        let single = single_amounts(spec, side);
        let text = |name: &str| single.get(name).copied().flatten().cloned();
        wanted
            .iter()
            .map(|(name, total)| (name.to_owned(), text(name).unwrap_or_else(|| total.to_string().into())))
            .collect()
    };
    let mut all_limits = limits.clone();
    let is_page = |name: &str| name.starts_with("hugepages-") && !requests.contains_key(name);
    all_limits.extend(missing(&limits, "limits", &is_page));
    let mut all_requests = requests.clone();
    if !all_limits.is_empty() {
        all_requests.extend(missing(&requests, "requests", &|name| matches!(name, "cpu" | "memory")));
        for (name, limit) in &all_limits {
            if matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-") {
                all_requests.entry(name.clone()).or_insert_with(|| limit.clone());
            }
        }
    }
    let resources = &mut pod["spec"]["resources"];
    for (side, amounts) in [("requests", all_requests), ("limits", all_limits)] {
        if !amounts.is_empty() {
            resources.set(side, Json::Object(amounts));
        }
    }
}

/// Returns the amounts that only one container has, whose texts kube-apiserver keeps. The value is `None` for an amount
/// of several containers.
fn single_amounts<'a>(spec: &'a Json, side: &str) -> HashMap<&'a str, Option<&'a Json>> {
    let mut amounts: HashMap<&str, Option<&Json>> = HashMap::new();
    let pointer = format!("/resources/{side}");
    for container in ["/containers", "/initContainers"].into_iter().flat_map(|list| spec.list(list)) {
        for (name, amount) in container.members(&pointer) {
            amounts.entry(name).and_modify(|single| *single = None).or_insert(Some(amount));
        }
    }
    amounts
}

/// For pods with host networking, copies container ports to host ports. Pod templates are not changed, because their
/// pods get this default later.
fn fill_host_ports(container: &mut Json) {
    for port in container.items_mut("ports").filter(|port| port.integer("/hostPort").unwrap_or(0) == 0) {
        let number = port["containerPort"].clone();
        port.set("hostPort", number);
    }
}

pub(crate) fn pod_template(template: &mut Json) {
    template.member("metadata");
    if let Some(spec) = template.member("spec") {
        pod_spec(spec);
    }
}

pub(crate) fn pod_spec(spec: &mut Json) {
    spec.set_default("containers", Json::Null);
    for (key, value) in
        [("restartPolicy", "Always"), ("dnsPolicy", "ClusterFirst"), ("schedulerName", "default-scheduler")]
    {
        if spec.text(&format!("/{key}")).is_empty() {
            spec.set(key, value);
        }
    }
    spec.set_default("terminationGracePeriodSeconds", 30);
    if spec.integer("/terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        spec.set("terminationGracePeriodSeconds", 1);
    }
    spec.set_default("securityContext", json!({}));
    let account = match spec.text("/serviceAccountName") {
        "" => spec.text("/serviceAccount"),
        name => name,
    };
    if !account.is_empty() {
        let account = Json::from(account);
        spec.set("serviceAccountName", account.clone());
        spec.set("serviceAccount", account);
    }
    for key in CONTAINERS {
        for container in spec.items_mut(key) {
            fill_container(container);
        }
    }
    for volume in spec.items_mut("volumes") {
        fill_volume(volume);
    }
}

fn fill_container(container: &mut Json) {
    container.set_default("resources", json!({}));
    container.set_default("terminationMessagePath", "/dev/termination-log");
    container.set_default("terminationMessagePolicy", "File");
    if container.text("/imagePullPolicy").is_empty() {
        let policy = if is_latest(container.text("/image")) { "Always" } else { "IfNotPresent" };
        container.set("imagePullPolicy", policy);
    }
    for port in container.items_mut("ports") {
        port.set_default("protocol", "TCP");
    }
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(key) {
            for (key, value) in
                [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
            {
                probe.set_default(key, value);
            }
            fill_http(probe);
            if let Some(grpc) = probe.get_mut("grpc") {
                grpc.set_default("service", "");
            }
        }
    }
    if let Some(lifecycle) = container.get_mut("lifecycle") {
        for key in ["postStart", "preStop"] {
            if let Some(handler) = lifecycle.get_mut(key) {
                fill_http(handler);
            }
        }
    }
    for variable in container.items_mut("env") {
        if let Some(source) = variable.get_mut("valueFrom") {
            fill_field_source(source);
        }
    }
}

fn fill_http(handler: &mut Json) {
    if let Some(get) = handler.get_mut("httpGet") {
        get.set_default("path", "/");
        get.set_default("scheme", "HTTP");
    }
}

fn fill_field_source(source: &mut Json) {
    if let Some(field) = source.get_mut("fieldRef") {
        field.set_default("apiVersion", "v1");
    }
    if let Some(resource) = source.get_mut("resourceFieldRef") {
        resource.set_default("divisor", "0");
    }
}

static IMAGE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    const LABEL: &str = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])";
    const PART: &str = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*";
    let host = format!(r"{LABEL}(?:\.{LABEL})*(?::[0-9]+)?");
    Regex::new(&format!(r"^(?:{host}/)?{PART}(?:/{PART})*(?::(\w[\w.-]{{0,127}}))?$")).ok()
});

/// Returns `true` if a valid image reference has the tag `latest`, or has no tag and no digest.
fn is_latest(image: &str) -> bool {
    let parts = IMAGE.as_ref().and_then(|form| form.captures(image));
    parts.is_some_and(|parts| parts.get(1).is_none_or(|tag| tag.as_str() == "latest"))
}

fn fill_volume(volume: &mut Json) {
    let bare =
        volume.as_object().is_some_and(|members| !members.iter().any(|(key, value)| key != "name" && !value.is_null()));
    if bare {
        volume.set("emptyDir", Map::new());
    }
    for key in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(key) {
            source.set_default("defaultMode", 420);
            source.items_mut("items").for_each(fill_field_source);
            for source in source.items_mut("sources") {
                if let Some(token) = source.get_mut("serviceAccountToken") {
                    token.set_default("expirationSeconds", 3600);
                }
                if let Some(downward) = source.get_mut("downwardAPI") {
                    downward.items_mut("items").for_each(fill_field_source);
                }
            }
        }
    }
    fill_plugins(volume);
    if let Some(image) = volume.get_mut("image").filter(|image| image.text("/pullPolicy").is_empty()) {
        let policy = if is_latest(image.text("/reference")) { "Always" } else { "IfNotPresent" };
        image.set("pullPolicy", policy);
    }
    if volume.has("/ephemeral/volumeClaimTemplate") {
        let template = volume.at_mut("/ephemeral/volumeClaimTemplate");
        if let Some(template) = template {
            template.member("metadata");
            if let Some(spec) = template.member("spec") {
                claim_spec(spec);
            }
        }
    }
}

/// Sets volume plugin defaults in a pod volume or a PersistentVolume's spec.
pub(crate) fn fill_plugins(volume: &mut Json) {
    if let Some(path) = volume.get_mut("hostPath") {
        path.set_default("type", "");
    }
    for (plugin, key, value) in [
        ("rbd", "pool", "rbd"),
        ("rbd", "user", "admin"),
        ("rbd", "keyring", "/etc/ceph/keyring"),
        ("azureDisk", "cachingMode", "ReadWrite"),
        ("azureDisk", "kind", "Shared"),
        ("azureDisk", "fsType", "ext4"),
        ("scaleIO", "storageMode", "ThinProvisioned"),
        ("scaleIO", "fsType", "xfs"),
    ] {
        if let Some(source) = volume.get_mut(plugin) {
            source.set_default(key, value);
        }
    }
    if let Some(disk) = volume.get_mut("azureDisk") {
        disk.set_default("readOnly", false);
    }
    if let Some(iscsi) = volume.get_mut("iscsi") {
        iscsi.set_default("iscsiInterface", "default");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requested_huge_pages_have_no_default_limit() {
        for (name, expected) in [("hugepages-2Mi", Json::Null), ("hugepages-1Gi", json!({"hugepages-2Mi": "2Mi"}))] {
            let container = json!({"limits": {"hugepages-2Mi": "2Mi"}});
            let mut pod = json!({"spec": {
                "containers": [{"name": "c", "resources": container}], "resources": {"requests": {name: "4Mi"}},
            }});
            super::pod(&mut pod);
            assert_eq!(pod["spec"]["resources"]["limits"], expected, "{pod}");
        }
    }

    #[test]
    fn amount_of_a_single_container_is_copied_as_text() {
        let container = |cpu: &str, memory: &str| json!({"resources": {"requests": {"cpu": cpu, "memory": memory}}});
        let mut pod = json!({"spec": {
            "containers": [container("1E0", "1E3"), {"resources": {"requests": {"memory": "1E3"}}}],
            "resources": {"limits": {"cpu": "2"}},
        }});
        super::pod(&mut pod);
        assert_eq!(pod["spec"]["resources"]["requests"], json!({"cpu": "1E0", "memory": "2e3"}));
    }
}
