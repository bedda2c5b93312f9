//! Validates the spec of a pod or of a pod template.

use std::collections::HashSet;

use pintle_json::Json;

use super::{container, placing};
use crate::kinds::check::Check;
use crate::validate::{FieldFault, FieldFaults, NameRule, label_key_faults, label_value_faults, name_faults};

/// The sources of volumes, in the order in which they are looked at.
const VOLUME_SOURCES: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// The faults of a Pod's spec.
pub(super) fn pod(pod: &Json) -> FieldFaults {
    spec(&pod["spec"], "spec")
}

/// The faults of a template of pods at a path: of its labels and of its spec.
pub(in crate::kinds) fn template(template: &Json, path: &str) -> FieldFaults {
    let mut faults = FieldFaults::default();
    for (key, value) in template.members("/metadata/labels") {
        let value = value.as_str().unwrap_or_default();
        for (text, why) in [(key.as_str(), label_key_faults(key)), (value, label_value_faults(value))] {
            faults.extend(why.iter().map(|why| FieldFault::invalid_text(format!("{path}.labels"), text, why)));
        }
    }
    faults.extend(spec(&template["spec"], &format!("{path}.spec")));
    faults
}

fn spec(spec: &Json, path: &str) -> FieldFaults {
    let volumes: HashSet<&str> = spec.list("/volumes").map(|volume| volume.text("/name")).collect();
    let mut names: HashSet<&str> = HashSet::new();
    let host_network = spec.is_true("/hostNetwork");
    let mut faults = volume_faults(spec, path);
    if spec.list("/containers").next().is_none() {
        faults.push(FieldFault::required(format!("{path}.containers"), ""));
    }
    for key in ["containers", "initContainers", "ephemeralContainers"] {
        for (at, container) in spec.list(&format!("/{key}")).enumerate() {
            if faults.is_full() {
                return faults;
            }
            let path = format!("{path}.{key}[{at}]");
            let name = container.text("/name");
            if !names.insert(name) && !name.is_empty() {
                faults.push(FieldFault::duplicate(format!("{path}.name"), &name.into()));
            }
            faults.extend(container::faults(container, &path, &volumes, host_network));
        }
    }
    let deadline =
        spec.get("activeDeadlineSeconds").filter(|seconds| seconds.as_i64().is_some_and(|seconds| seconds < 1));
    let dns = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    let more = Check::at(spec, path)
        .one_of("restartPolicy", &["Always", "OnFailure", "Never"])
        .one_of("dnsPolicy", &dns)
        .also(placing::node_selector(spec, path))
        .name("nodeName", NameRule::Subdomain)
        .refuse(deadline.is_some(), || {
            let value = deadline.unwrap_or(&Json::Null);
            FieldFault::invalid("activeDeadlineSeconds", value, "must be between 1 and 2147483647, inclusive")
        })
        .name("serviceAccountName", NameRule::Subdomain)
        .name("hostname", NameRule::Label)
        .name("subdomain", NameRule::Label)
        .also(placing::tolerations(spec, path))
        .done();
    faults.extend(more);
    faults
}

fn volume_faults(spec: &Json, path: &str) -> FieldFaults {
    let mut faults = FieldFaults::default();
    let mut names: HashSet<&str> = HashSet::new();
    for (at, volume) in spec.list("/volumes").enumerate() {
        if faults.is_full() {
            return faults;
        }
        let path = format!("{path}.volumes[{at}]");
        let sources: Vec<_> = VOLUME_SOURCES.iter().filter(|source| volume.has(&format!("/{source}"))).collect();
        for source in sources.iter().skip(1) {
            faults.push(FieldFault::forbidden(format!("{path}.{source}"), "may not specify more than 1 volume type"));
        }
        let needs = [
            ("configMap", "name"),
            ("secret", "secretName"),
            ("persistentVolumeClaim", "claimName"),
            ("hostPath", "path"),
        ];
        for (source, member) in needs.iter().filter(|(source, _)| sources.first().is_some_and(|first| *first == source))
        {
            if volume.text(&format!("/{source}/{member}")).is_empty() {
                faults.push(FieldFault::required(format!("{path}.{source}.{member}"), ""));
            }
        }
        let name = volume.text("/name");
        if name.is_empty() {
            faults.push(FieldFault::required(format!("{path}.name"), ""));
        } else {
            let why = name_faults(NameRule::Label, name, false);
            faults.extend(why.iter().map(|why| FieldFault::invalid_text(format!("{path}.name"), name, why)));
            if !names.insert(name) {
                faults.push(FieldFault::duplicate(format!("{path}.name"), &name.into()));
            }
        }
    }
    faults
}
