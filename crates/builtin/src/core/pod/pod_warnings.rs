//! Warnings about pods and pod templates.

use pintle_apimachinery::object::duplicates;
use pintle_json::{Json, json};

use super::container_warnings::{self, ContainerAt};
use super::placing::{PREFERRED, REQUIRED};
use super::volume_paths;
use crate::warnings::{claim, fractional_bytes, ip, ips, is_annotated, node_label, selector_term};

const ANNOTATIONS: [(&str, &str); 3] = [
    ("scheduler.alpha.kubernetes.io/critical-pod", "v1.16+; use the \"priorityClassName\" field instead"),
    ("security.alpha.kubernetes.io/sysctls", "v1.11+; use the \"sysctls\" field instead"),
    ("security.alpha.kubernetes.io/unsafe-sysctls", "v1.11+; use the \"sysctls\" field instead"),
];
const DEPRECATED_VOLUMES: [(&str, &str); 9] = [
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];
const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";

/// Returns the warnings for a pod or a template, in kube-apiserver's order. For a template, `path` must end with a dot.
pub(crate) fn pod(pod: &Json, path: &str) -> Vec<String> {
    let placed = container_warnings::all(pod, path);
    let mut found = nodes(pod, path);
    found.extend(
        ANNOTATIONS
            .iter()
            .filter(|(key, _)| is_annotated(pod, key))
            .map(|(key, why)| format!("{path}metadata.annotations[{key}]: non-functional in {why}")),
    );
    found.extend(volumes(pod, path));
    found.extend(repeated(pod, path));
    for name in ["memory", "ephemeral-storage"] {
        found.extend(fractional_bytes(pod.at("/spec/overhead"), name, &format!("{path}spec.overhead")));
    }
    found.extend(seccomp(pod, pod, "seccomp.security.alpha.kubernetes.io/pod", path));
    for container in &placed {
        let name = container.0.text("/name");
        found.extend(seccomp(
            pod,
            container.0,
            &format!("container.seccomp.security.alpha.kubernetes.io/{name}"),
            path,
        ));
        found.extend(app_armor(pod, container, path));
        found.extend(container_warnings::amounts(container));
        found.extend(container_warnings::variables(container));
    }
    found.extend(container_warnings::ports(&placed));
    found.extend(container_warnings::port_names(&placed));
    if pod.integer("/spec/terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        let why = "must be >= 0; negative values are invalid and will be treated as 1";
        found.push(format!("{path}spec.terminationGracePeriodSeconds: {why}"));
    }
    found.extend(affinity(pod, path));
    found.extend(ips(pod, "/spec/dnsConfig/nameservers", &format!("{path}spec.dnsConfig.nameservers")));
    for (at, alias) in pod.list("/spec/hostAliases").enumerate() {
        found.extend(ip(alias.text("/ip"), &format!("{path}spec.hostAliases[{at}].ip")));
    }
    found
}

/// Warns about deprecated node labels in node selectors and topology constraints, and about topology constraints
/// without selectors.
fn nodes(pod: &Json, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    let selector = pod["spec"]["nodeSelector"].as_object();
    for key in selector.into_iter().flat_map(|selector| selector.keys()) {
        found.extend(node_label(key).map(|why| format!("{path}spec.nodeSelector[{key}]: {why}")));
    }
    let terms = format!("spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms");
    for (at, term) in pod.list(&format!("/{}", terms.replace('.', "/"))).enumerate() {
        found.extend(selector_term(term, &format!("{path}{terms}[{at}]"), false));
    }
    for (at, term) in pod.list(&format!("/spec/affinity/nodeAffinity/{PREFERRED}")).enumerate() {
        let path = format!("{path}spec.affinity.nodeAffinity.{PREFERRED}[{at}].preference");
        found.extend(selector_term(&term["preference"], &path, true));
    }
    for (at, constraint) in pod.list("/spec/topologySpreadConstraints").enumerate() {
        let path = format!("{path}spec.topologySpreadConstraints[{at}]");
        let key = constraint.text("/topologyKey");
        found.extend(node_label(key).map(|why| format!("{path}.topologyKey: {key} is {why}")));
        if !constraint.has("/labelSelector") {
            found.push(format!("{path}.labelSelector: {NO_SELECTOR}"));
        }
    }
    found
}

/// Warns about a deprecated volume plugin in a volume or in the spec of a PersistentVolume.
pub(crate) fn plugin(source: &Json, plugin: &str, path: &str) -> Option<String> {
    let (_, why) =
        DEPRECATED_VOLUMES.iter().find(|(known, _)| *known == plugin && source.has(&format!("/{plugin}")))?;
    // Spell the plugin as its Go field name.
    let shown = if plugin == "storageos" { "storageOS" } else { plugin };
    Some(format!("{path}.{shown}: {why}"))
}

fn volumes(pod: &Json, path: &str) -> Vec<String> {
    let volumes: Vec<&Json> = pod.list("/spec/volumes").collect();
    let mut found = Vec::new();
    for (at, volume) in volumes.iter().enumerate() {
        let path = format!("{path}spec.volumes[{at}]");
        found.extend(DEPRECATED_VOLUMES.iter().filter_map(|(name, _)| plugin(volume, name, &path)));
        if let Some(spec) = volume.at("/ephemeral/volumeClaimTemplate/spec") {
            found.extend(claim(spec, &format!("{path}.ephemeral.volumeClaimTemplate.spec")));
        }
    }
    found.extend(volume_paths::overlaps(&volumes));
    found
}

/// Warns about duplicate items in lists that server-side apply merges by key.
fn repeated(pod: &Json, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (list_name, key) in [("hostAliases", "ip"), ("imagePullSecrets", "name")] {
        let texts: Vec<&str> =
            pod.list(&format!("/spec/{list_name}")).map(|item| item.text(&format!("/{key}"))).collect();
        let duplicates = duplicates(texts.iter());
        for (at, text) in texts.iter().enumerate().filter(|(at, _)| duplicates[*at]) {
            found.push(format!("{path}spec.{list_name}[{at}].{key}: duplicate {key} {text:?}"));
        }
    }
    for (at, secret) in pod.list("/spec/imagePullSecrets").enumerate() {
        if secret.text("/name").is_empty() {
            found.push(format!("{path}spec.imagePullSecrets[{at}].name: invalid empty name \"\""));
        }
    }
    found
}

/// Warns about a deprecated seccomp annotation that was replaced by a field. `holder` is the pod or container that
/// contains the new field.
fn seccomp(pod: &Json, holder: &Json, key: &str, path: &str) -> Option<String> {
    let has_field = holder.has("/securityContext/seccompProfile") || holder.has("/spec/securityContext/seccompProfile");
    let why = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
    (!has_field && is_annotated(pod, key)).then(|| format!("{path}metadata.annotations[{key}]: {why}"))
}

/// Warns about a deprecated AppArmor annotation that was replaced by a container field. Does not warn if the
/// `appArmorProfile` of the pod has the same profile as the annotation.
fn app_armor(pod: &Json, (container, _): &ContainerAt<'_>, path: &str) -> Option<String> {
    const FIELD: &str = "/securityContext/appArmorProfile";
    let key = format!("container.apparmor.security.beta.kubernetes.io/{}", container.text("/name"));
    let annotated = pod.at("/metadata/annotations")?.get(&key)?.as_str()?;
    let profile = match annotated.split_once('/') {
        None if annotated == "unconfined" => json!({"type": "Unconfined"}),
        Some(("runtime", "default")) => json!({"type": "RuntimeDefault"}),
        Some(("localhost", name)) if !name.is_empty() => json!({"type": "Localhost", "localhostProfile": name}),
        _ => Json::Null,
    };
    let same = pod.at(&format!("/spec{FIELD}")).is_some_and(|of_pod| *of_pod == profile);
    let why = "deprecated since v1.30; use the \"appArmorProfile\" field instead";
    (!same && !container.has(FIELD)).then(|| format!("{path}metadata.annotations[{key}]: {why}"))
}

/// Warns about affinity terms that match no pod.
fn affinity(pod: &Json, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (when, inner) in [(REQUIRED, ""), (PREFERRED, "podAffinityTerm.")] {
            let terms = pod.list(&format!("/spec/affinity/{kind}/{when}")).enumerate();
            let pointer = format!("/{}labelSelector", inner.replace('.', "/"));
            found.extend(
                terms.filter(|(_, term)| !term.has(&pointer)).map(|(at, _)| {
                    format!("{path}spec.affinity.{kind}.{when}[{at}].{inner}labelSelector: {NO_SELECTOR}")
                }),
            );
        }
    }
    found
}
