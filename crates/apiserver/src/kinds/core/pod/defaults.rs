//! Fills in the defaults of pods, pod templates and volume claims.

use pintle_json::{Json, Map, json};

use crate::object::{default, has, is_true, items, member, present, text_at};

/// Fills in a Pod.
pub(super) fn pod(pod: &mut Json) {
    let Some(spec) = member(pod, "spec") else { return };
    default(spec, "enableServiceLinks", true);
    for key in ["containers", "initContainers"] {
        for container in items(spec, key) {
            let Some(resources) = member(container, "resources") else { continue };
            let limits = resources.get("limits").and_then(Json::as_object).cloned().unwrap_or_default();
            if !limits.is_empty() {
                let requests = member(resources, "requests");
                if let Some(requests) = requests.and_then(Json::as_object_mut) {
                    for (name, limit) in limits {
                        requests.entry(name).or_insert(limit);
                    }
                }
            }
        }
    }
    pod_spec(spec);
}

/// Fills in a template of pods: its metadata are always there.
pub(in crate::kinds) fn pod_template(template: &mut Json) {
    member(template, "metadata");
    if let Some(spec) = member(template, "spec") {
        pod_spec(spec);
    }
}

/// Fills in the spec of a pod or of a template.
pub(in crate::kinds) fn pod_spec(spec: &mut Json) {
    default(spec, "containers", Json::Null);
    for (key, value) in
        [("restartPolicy", "Always"), ("dnsPolicy", "ClusterFirst"), ("schedulerName", "default-scheduler")]
    {
        if text_at(spec, &format!("/{key}")).is_empty() {
            super::set(spec, key, value.into());
        }
    }
    default(spec, "terminationGracePeriodSeconds", 30);
    if spec.get("terminationGracePeriodSeconds").and_then(Json::as_i64).is_some_and(|seconds| seconds < 0) {
        super::set(spec, "terminationGracePeriodSeconds", 1.into());
    }
    default(spec, "securityContext", json!({}));
    let account = match text_at(spec, "/serviceAccountName") {
        "" => text_at(spec, "/serviceAccount"),
        name => name,
    };
    if !account.is_empty() {
        let account = Json::from(account);
        super::set(spec, "serviceAccountName", account.clone());
        super::set(spec, "serviceAccount", account);
    }
    let host_network = is_true(spec, "/hostNetwork");
    for key in ["containers", "initContainers", "ephemeralContainers"] {
        for container in items(spec, key) {
            fill_container(container, host_network && key != "ephemeralContainers");
        }
    }
    for volume in items(spec, "volumes") {
        fill_volume(volume);
    }
}

fn fill_container(container: &mut Json, host_network: bool) {
    default(container, "resources", json!({}));
    default(container, "terminationMessagePath", "/dev/termination-log");
    default(container, "terminationMessagePolicy", "File");
    if text_at(container, "/imagePullPolicy").is_empty() {
        let policy = if is_latest(text_at(container, "/image")) { "Always" } else { "IfNotPresent" };
        super::set(container, "imagePullPolicy", policy.into());
    }
    for port in items(container, "ports") {
        default(port, "protocol", "TCP");
        if host_network {
            let number = port.get("containerPort").cloned().unwrap_or_default();
            default(port, "hostPort", number);
        }
    }
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = present(container, key) {
            for (key, value) in
                [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
            {
                default(probe, key, value);
            }
            fill_http(probe);
            if let Some(grpc) = present(probe, "grpc") {
                default(grpc, "service", "");
            }
        }
    }
    if let Some(lifecycle) = present(container, "lifecycle") {
        for key in ["postStart", "preStop"] {
            if let Some(handler) = present(lifecycle, key) {
                fill_http(handler);
            }
        }
    }
    for variable in items(container, "env") {
        if let Some(source) = present(variable, "valueFrom") {
            fill_field_source(source);
        }
    }
}

fn fill_http(handler: &mut Json) {
    if let Some(get) = present(handler, "httpGet") {
        default(get, "path", "/");
        default(get, "scheme", "HTTP");
    }
}

fn fill_field_source(source: &mut Json) {
    if let Some(field) = present(source, "fieldRef") {
        default(field, "apiVersion", "v1");
    }
    if let Some(resource) = present(source, "resourceFieldRef") {
        default(resource, "divisor", "0");
    }
}

/// An image without a tag and a digest is the latest.
fn is_latest(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let name = image.rsplit('/').next().unwrap_or_default();
    name.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

fn fill_volume(volume: &mut Json) {
    let bare =
        volume.as_object().is_some_and(|members| !members.iter().any(|(key, value)| key != "name" && !value.is_null()));
    if bare {
        super::set(volume, "emptyDir", Json::Object(Map::new()));
    }
    for key in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = present(volume, key) {
            default(source, "defaultMode", 420);
            items(source, "items").for_each(fill_field_source);
            for source in items(source, "sources") {
                if let Some(token) = present(source, "serviceAccountToken") {
                    default(token, "expirationSeconds", 3600);
                }
                if let Some(downward) = present(source, "downwardAPI") {
                    items(downward, "items").for_each(fill_field_source);
                }
            }
        }
    }
    if let Some(path) = present(volume, "hostPath") {
        default(path, "type", "");
    }
    if let Some(iscsi) = present(volume, "iscsi") {
        default(iscsi, "iscsiInterface", "default");
    }
    if has(volume, "/ephemeral/volumeClaimTemplate") {
        let template = volume.at_mut("/ephemeral/volumeClaimTemplate");
        if let Some(template) = template {
            member(template, "metadata");
            if let Some(spec) = member(template, "spec") {
                claim_spec(spec);
            }
        }
    }
}

/// Fills in the spec of a claim of a volume.
pub(in crate::kinds) fn claim_spec(spec: &mut Json) {
    default(spec, "resources", json!({}));
    default(spec, "volumeMode", "Filesystem");
}
