//! Reads the table of built-in kinds and gives each kind its rules.

use std::sync::Arc;

use pintle_meta::{GroupVersion, GroupVersionKind, Scope};

use super::{
    Conduct, GroupResource, Kind, Plain, Strategy, Subresource, admission, apps, autoscaler, batch, certificates,
    cluster, core, events, limits, networking, pods, policy, rbac, services, storage,
};
use crate::request::{Part, Verb};

const TABLE: &str = include_str!("builtin.txt");

/// Every built-in kind, in the order of discovery.
pub(super) fn kinds() -> impl Iterator<Item = Kind> {
    TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(read)
}

fn read(line: &str) -> Option<Kind> {
    let mut columns = line.split("  ").map(str::trim).filter(|column| !column.is_empty());
    let version: GroupVersion = columns.next()?.parse().ok()?;
    let (kind, plural, scope, verbs) = (columns.next()?, columns.next()?, columns.next()?, columns.next()?);
    let (short, categories, conduct) = (columns.next()?, columns.next()?, columns.next()?);
    let subresources = columns.next().unwrap_or_default();
    let verbs = if verbs == "all" { Verb::ALL.into() } else { verbs_of(verbs) };
    let conduct = list(conduct);
    let says = |word: &str| conduct.iter().any(|known| known == word);
    let stored: Option<GroupVersion> = conduct.iter().find_map(|word| word.strip_prefix("stored=")?.parse().ok());
    let stored_version = match says("transient") || says("readonly") {
        true => None,
        false => Some(stored.unwrap_or_else(|| version.clone())),
    };
    let store = match (version.group.as_str(), kind) {
        ("events.k8s.io", "Event") => GroupResource::new("", "events"),
        (group, _) => GroupResource::new(group, plural),
    };
    Some(Kind {
        list_kind: format!("{kind}List"),
        singular: kind.to_lowercase(),
        short_names: list(short),
        categories: list(categories),
        scope: if scope == "cluster" { Scope::Cluster } else { Scope::Namespaced },
        verbs,
        store,
        stored_version,
        subresources: subresources.split_whitespace().filter_map(|text| subresource(text, &version)).collect(),
        conduct: Conduct {
            generation: says("generation"),
            creates_on_update: says("upsert"),
            needs_version: says("versioned"),
            answers_deleted: says("returned"),
            graceful: kind == "Pod",
            orphans: matches!(kind, "Job" | "ReplicationController"),
            transient: says("transient"),
            terminating: false,
        },
        custom: false,
        types: std::sync::OnceLock::new(),
        strategy: strategy(&version.group, &version.version, kind),
        kind: kind.into(),
        plural: plural.into(),
        group: version.group,
        version: version.version,
    })
}

fn strategy(group: &str, version: &str, kind: &str) -> Arc<dyn Strategy> {
    match (group, version, kind) {
        ("", _, "ComponentStatus") => Arc::new(core::ComponentStatus),
        ("", _, "ConfigMap") => Arc::new(core::ConfigMap),
        ("", _, "Endpoints") => Arc::new(core::Endpoints),
        ("", _, "Event") => Arc::new(events::Core),
        ("", _, "LimitRange") => Arc::new(limits::LimitRange),
        ("", _, "ResourceQuota") => Arc::new(limits::ResourceQuota),
        ("", _, "Namespace") => Arc::new(core::Namespace),
        ("", _, "Node") => Arc::new(cluster::Node),
        ("", _, "PersistentVolume") => Arc::new(cluster::PersistentVolume),
        ("", _, "PersistentVolumeClaim") => Arc::new(core::PersistentVolumeClaim),
        ("", _, "Pod") => Arc::new(pods::Pod),
        ("", _, "PodTemplate") => Arc::new(core::PodTemplate),
        ("", _, "ReplicationController") => Arc::new(apps::ReplicationController),
        ("", _, "Secret") => Arc::new(core::Secret),
        ("", _, "ServiceAccount") => Arc::new(core::ServiceAccount),
        ("", _, "Service") => Arc::new(services::Service),
        ("apps", _, "DaemonSet") => Arc::new(apps::DaemonSet),
        ("apps", _, "Deployment") => Arc::new(apps::Deployment),
        ("apps", _, "ReplicaSet") => Arc::new(apps::ReplicaSet),
        ("apps", _, "StatefulSet") => Arc::new(apps::StatefulSet),
        ("batch", _, "CronJob") => Arc::new(batch::CronJob),
        ("batch", _, "Job") => Arc::new(batch::Job),
        ("coordination.k8s.io", _, "Lease") => Arc::new(core::Lease),
        ("events.k8s.io", _, "Event") => Arc::new(events::New),
        ("admissionregistration.k8s.io", _, "MutatingWebhookConfiguration") => {
            Arc::new(admission::Webhooks { mutating: true })
        }
        ("admissionregistration.k8s.io", _, "ValidatingWebhookConfiguration") => {
            Arc::new(admission::Webhooks { mutating: false })
        }
        ("admissionregistration.k8s.io", _, "MutatingAdmissionPolicy" | "ValidatingAdmissionPolicy") => {
            Arc::new(admission::Policy)
        }
        ("admissionregistration.k8s.io", _, _) => Arc::new(admission::PolicyBinding),
        ("apiregistration.k8s.io", _, "APIService") => Arc::new(admission::ApiService),
        ("apps", _, "ControllerRevision") => Arc::new(policy::ControllerRevision),
        ("autoscaling", "v1", _) => Arc::new(autoscaler::Old),
        ("autoscaling", "v2", _) => Arc::new(autoscaler::New),
        ("certificates.k8s.io", _, "CertificateSigningRequest") => Arc::new(certificates::SigningRequest),
        ("discovery.k8s.io", _, "EndpointSlice") => Arc::new(networking::EndpointSlice),
        ("networking.k8s.io", _, "Ingress") => Arc::new(networking::Ingress),
        ("networking.k8s.io", _, "IngressClass") => Arc::new(networking::IngressClass),
        ("networking.k8s.io", _, "NetworkPolicy") => Arc::new(networking::NetworkPolicy),
        ("node.k8s.io", _, "RuntimeClass") => Arc::new(policy::RuntimeClass),
        ("policy", _, "PodDisruptionBudget") => Arc::new(policy::PodDisruptionBudget),
        ("rbac.authorization.k8s.io", _, "ClusterRole") => Arc::new(rbac::Role { namespaced: false }),
        ("rbac.authorization.k8s.io", _, "ClusterRoleBinding") => Arc::new(rbac::RoleBinding { namespaced: false }),
        ("rbac.authorization.k8s.io", _, "Role") => Arc::new(rbac::Role { namespaced: true }),
        ("rbac.authorization.k8s.io", _, "RoleBinding") => Arc::new(rbac::RoleBinding { namespaced: true }),
        ("resource.k8s.io", _, "ResourceSlice") => Arc::new(admission::ResourceSlice),
        ("scheduling.k8s.io", _, "PriorityClass") => Arc::new(policy::PriorityClass),
        ("storage.k8s.io", _, "CSIDriver") => Arc::new(storage::CsiDriver),
        ("storage.k8s.io", _, "CSIStorageCapacity") => Arc::new(storage::CsiStorageCapacity),
        ("storage.k8s.io", _, "StorageClass") => Arc::new(storage::StorageClass),
        ("storage.k8s.io", _, "VolumeAttachment") => Arc::new(storage::VolumeAttachment),
        _ => Arc::new(Plain),
    }
}

/// Reads `name[:verb][=kind]`.
fn subresource(text: &str, version: &GroupVersion) -> Option<Subresource> {
    let (path, kind) = text.split_once('=').map_or((text, None), |(path, kind)| (path, Some(kind)));
    let (name, verbs) = path.split_once(':').unwrap_or((path, "get,patch,update"));
    let kind = kind.map(|kind| match kind.rsplit_once('/') {
        Some((version, kind)) => {
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            GroupVersionKind::new(group, version, kind)
        }
        None => version.with_kind(kind),
    });
    Some(Subresource { part: Part::parse(name)?, verbs: verbs_of(verbs), kind })
}

fn verbs_of(text: &str) -> Vec<Verb> {
    text.split(',').filter_map(Verb::parse).collect()
}

fn list(text: &str) -> Vec<String> {
    text.split(',').filter(|item| *item != "-" && !item.is_empty()).map(Into::into).collect()
}
