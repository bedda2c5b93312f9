//! Parses the table of built-in kinds and assigns their strategies.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use pintle_apimachinery::request::{Subresource, Verb};
use pintle_apimachinery::validate::NameRule;
use pintle_json::Json;
use pintle_kinds::object_meta::MetadataChecks;
use pintle_kinds::{Form, Kind, KindFlags, Kinds, Plain, PodRelation, ServedSubresource, Strategy};
use pintle_meta::{GroupResource, GroupVersion, GroupVersionKind, Scope};

use super::{
    admission_registration, api_service, apps, authentication, authorization, batch, certificate_signing_request, core,
    devices, flow_control, horizontal_pod_autoscaler, lease, lease_candidate, networking, pod_disruption_budget,
    priority_class, rbac, runtime_class, sections, storage,
};

const TABLE: &str = include_str!("builtin.txt");

/// Returns the built-in kinds.
pub fn kinds() -> Kinds {
    Kinds::of(all(false).map(Arc::new).collect())
}

/// Returns the built-in kinds of a server with coordinated leader election.
pub fn coordinated_kinds() -> Kinds {
    Kinds::of(all(true).map(Arc::new).collect())
}

/// Returns the built-in kinds in discovery order. Includes LeaseCandidate only if `coordinated` is true.
fn all(coordinated: bool) -> impl Iterator<Item = Kind> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(read).filter_map(move |kind| match (kind.group.as_str(), kind.kind.as_str()) {
        ("coordination.k8s.io", "Lease") => Some(Kind { strategy: Arc::new(lease::Lease { coordinated }), ..kind }),
        ("coordination.k8s.io", "LeaseCandidate") => Some(kind).filter(|_| coordinated),
        _ => Some(kind),
    })
}

fn read(line: &'static str) -> Option<Kind> {
    let mut columns = line.split("  ").map(str::trim).filter(|column| !column.is_empty());
    let version: GroupVersion = columns.next()?.parse().ok()?;
    let (kind, plural, scope, verbs) = (columns.next()?, columns.next()?, columns.next()?, columns.next()?);
    let (short, categories, flags) = (columns.next()?, columns.next()?, columns.next()?);
    let subresources = columns.next().unwrap_or_default();
    let field_labels = columns.next().map(|labels| labels.split(',').collect());
    let verbs = if verbs == "all" { Verb::ALL.into() } else { verbs_of(verbs) };
    let has_flag = |word: &str| flags.split(',').any(|known| known == word);
    let value = |name: &str| flags.split(',').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let stored: Option<GroupVersion> = value("stored").and_then(|version| version.parse().ok());
    let stored_version = if has_flag("transient") || has_flag("readonly") {
        None
    } else {
        Some(stored.unwrap_or_else(|| version.clone()))
    };
    let store = match (version.group.as_str(), kind) {
        ("events.k8s.io", "Event") => GroupResource::new("", "events"),
        (group, _) => GroupResource::new(group, plural),
    };
    let name = format!("{version} {kind}");
    Some(Kind {
        list_kind: format!("{kind}List"),
        singular: kind.to_lowercase(),
        short_names: list(short),
        categories: list(categories),
        scope: if scope == "cluster" { Scope::Cluster } else { Scope::Namespaced },
        verbs,
        stored_as: store,
        stored_version,
        subresources: subresources.split_whitespace().filter_map(|text| subresource(text, &version)).collect(),
        flags: KindFlags {
            maintains_generation: has_flag("generation"),
            creates_on_update: has_flag("upsert"),
            requires_resource_version: has_flag("versioned"),
            returns_deleted_object: has_flag("returned"),
            supports_grace_period: has_flag("graceful"),
            orphans_by_default: has_flag("orphans"),
            is_transient: has_flag("transient"),
            is_terminating: false,
            name_rule: name_rule(value("names")),
            metadata_checks: metadata_checks(value("checks")),
            gets_random_name: has_flag("randomname"),
            accepts_any_name_prefix: has_flag("anyprefix"),
            accepts_plain_finalizers: has_flag("plainfinalizers"),
            checks_metadata_last: has_flag("metadatalast"),
            status_keeps_metadata: has_flag("statusonly"),
            status_has_no_table: has_flag("plainstatus"),
            allows_status_on_create: has_flag("sentstatus"),
            is_report: has_flag("report"),
            caches_decoded: has_flag("readoften"),
            foreground_unless_orphaning: has_flag("dependents"),
            pods: pods(value("pods")),
        },
        field_labels,
        table: sections::COLUMNS.of(&name),
        defaults: sections::DEFAULTS.of(&name),
        resource_key: OnceLock::new(),
        columns: OnceLock::new(),
        schema: OnceLock::new(),
        strategy: strategy(&version.group, &version.version, kind),
        kind: kind.into(),
        plural: plural.into(),
        group: version.group,
        version: version.version,
    })
}

fn name_rule(word: Option<&str>) -> NameRule {
    match word {
        Some("label") => NameRule::Label,
        Some("segment") => NameRule::PathSegment,
        Some("configkey") => NameRule::ConfigKey,
        Some("address") => NameRule::IpAddress,
        Some("subdomain52") => NameRule::ShortSubdomain(52),
        _ => NameRule::Subdomain,
    }
}

fn metadata_checks(word: Option<&str>) -> MetadataChecks {
    match word {
        Some("nothing") => MetadataChecks::Nothing,
        Some("whole") => MetadataChecks::Whole,
        Some("update+whole") => MetadataChecks::UpdateThenWhole,
        Some("whole+update") => MetadataChecks::WholeThenUpdate,
        Some("whole+whole") => MetadataChecks::WholeTwice,
        _ => MetadataChecks::Update,
    }
}

fn pods(word: Option<&'static str>) -> PodRelation {
    match word {
        Some("self") => PodRelation::Pod,
        Some("inside") => PodRelation::Namespace,
        Some(template) => PodRelation::Template(template),
        None => PodRelation::Unrelated,
    }
}

/// Returns the storage version of the built-in kind with the store name `resource`.
fn of_stored(resource: &str) -> Option<&'static Kind> {
    static KINDS: OnceLock<HashMap<String, Kind>> = OnceLock::new();
    let kinds = KINDS.get_or_init(|| {
        let stored = all(false).filter(|kind| kind.strategy.form() == Form::Stored);
        stored.map(|kind| (kind.stored_as.to_string(), kind)).collect()
    });
    kinds.get(resource)
}

/// Returns the values of an object's selectable fields, in the order of `Kind::field_labels`, for the index of the
/// store. Returns no values if no built-in kind has the store name `resource`.
pub fn selectable(resource: &str, object: &Json) -> Vec<String> {
    let Some(kind) = of_stored(resource) else { return Vec::new() };
    let labels = kind.field_labels().unwrap_or_default();
    labels.into_iter().map(|label| kind.strategy.field(object, label).unwrap_or_default()).collect()
}

/// Returns the unique values of an object, for the index of the store. The store rejects a second object with one of
/// these values.
pub fn claims(resource: &str, object: &Json) -> Vec<String> {
    of_stored(resource).map(|kind| kind.strategy.claims(object)).unwrap_or_default()
}

/// Returns `true` if the store should keep the objects of a resource in decoded form, because they are read often.
pub fn caches_decoded(resource: &str) -> bool {
    of_stored(resource).is_some_and(|kind| kind.flags.caches_decoded)
}

fn strategy(group: &str, version: &str, kind: &str) -> Arc<dyn Strategy> {
    match (group, version, kind) {
        ("", _, "Binding") => Arc::new(core::Binding),
        ("", _, "ComponentStatus") => Arc::new(core::ComponentStatus),
        ("", _, "ConfigMap") => Arc::new(core::ConfigMap),
        ("", _, "Endpoints") => Arc::new(core::Endpoints),
        ("", _, "Event") => Arc::new(core::CoreEvent),
        ("", _, "LimitRange") => Arc::new(core::LimitRange),
        ("", _, "ResourceQuota") => Arc::new(core::ResourceQuota),
        ("", _, "Namespace") => Arc::new(core::Namespace),
        ("", _, "Node") => Arc::new(core::Node),
        ("", _, "PersistentVolume") => Arc::new(core::PersistentVolume),
        ("", _, "PersistentVolumeClaim") => Arc::new(core::PersistentVolumeClaim),
        ("", _, "Pod") => Arc::new(core::Pod),
        ("", _, "PodTemplate") => Arc::new(core::PodTemplate),
        ("", _, "ReplicationController") => Arc::new(apps::ReplicationController),
        ("", _, "Secret") => Arc::new(core::Secret),
        ("", _, "ServiceAccount") => Arc::new(core::ServiceAccount),
        ("", _, "Service") => Arc::new(core::Service),
        ("apps", _, "DaemonSet") => Arc::new(apps::DaemonSet),
        ("apps", _, "Deployment") => Arc::new(apps::Deployment),
        ("apps", _, "ReplicaSet") => Arc::new(apps::ReplicaSet),
        ("apps", _, "StatefulSet") => Arc::new(apps::StatefulSet),
        ("batch", _, "CronJob") => Arc::new(batch::CronJob),
        ("batch", _, "Job") => Arc::new(batch::Job),
        ("coordination.k8s.io", _, "Lease") => Arc::new(lease::Lease { coordinated: false }),
        ("coordination.k8s.io", _, "LeaseCandidate") => Arc::new(lease_candidate::LeaseCandidate),
        ("events.k8s.io", _, "Event") => Arc::new(core::Event),
        ("admissionregistration.k8s.io", _, "MutatingWebhookConfiguration") => {
            Arc::new(admission_registration::Webhooks { mutating: true })
        }
        ("admissionregistration.k8s.io", _, "ValidatingWebhookConfiguration") => {
            Arc::new(admission_registration::Webhooks { mutating: false })
        }
        ("admissionregistration.k8s.io", _, "MutatingAdmissionPolicy") => {
            Arc::new(admission_registration::AdmissionPolicy { mutating: true })
        }
        ("admissionregistration.k8s.io", _, "ValidatingAdmissionPolicy") => {
            Arc::new(admission_registration::AdmissionPolicy { mutating: false })
        }
        ("admissionregistration.k8s.io", _, _) => Arc::new(admission_registration::PolicyBinding),
        ("apiregistration.k8s.io", _, "APIService") => Arc::new(api_service::ApiService),
        ("apps", _, "ControllerRevision") => Arc::new(apps::ControllerRevision),
        ("authentication.k8s.io", _, "SelfSubjectReview") => Arc::new(authentication::SelfSubjectReview),
        ("authentication.k8s.io", _, "TokenReview") => Arc::new(authentication::TokenReview),
        ("authorization.k8s.io", _, "SelfSubjectRulesReview") => Arc::new(authorization::SelfSubjectRulesReview),
        ("authorization.k8s.io", _, "SelfSubjectAccessReview") => {
            Arc::new(authorization::AccessReview { is_self: true })
        }
        ("authorization.k8s.io", _, _) => Arc::new(authorization::AccessReview { is_self: false }),
        ("autoscaling", "v1", _) => Arc::new(horizontal_pod_autoscaler::V1),
        ("autoscaling", "v2", _) => Arc::new(horizontal_pod_autoscaler::V2),
        ("certificates.k8s.io", _, "CertificateSigningRequest") => {
            Arc::new(certificate_signing_request::CertificateSigningRequest)
        }
        ("discovery.k8s.io", _, "EndpointSlice") => Arc::new(networking::EndpointSlice),
        ("networking.k8s.io", _, "Ingress") => Arc::new(networking::Ingress),
        ("networking.k8s.io", _, "IngressClass") => Arc::new(networking::IngressClass),
        ("networking.k8s.io", _, "NetworkPolicy") => Arc::new(networking::NetworkPolicy),
        ("networking.k8s.io", _, "IPAddress") => Arc::new(networking::IpAddress),
        ("networking.k8s.io", _, "ServiceCIDR") => Arc::new(networking::ServiceCidr),
        ("node.k8s.io", _, "RuntimeClass") => Arc::new(runtime_class::RuntimeClass),
        ("policy", _, "PodDisruptionBudget") => Arc::new(pod_disruption_budget::PodDisruptionBudget),
        ("rbac.authorization.k8s.io", _, "ClusterRole") => Arc::new(rbac::Role { namespaced: false }),
        ("rbac.authorization.k8s.io", _, "ClusterRoleBinding") => Arc::new(rbac::RoleBinding { namespaced: false }),
        ("rbac.authorization.k8s.io", _, "Role") => Arc::new(rbac::Role { namespaced: true }),
        ("rbac.authorization.k8s.io", _, "RoleBinding") => Arc::new(rbac::RoleBinding { namespaced: true }),
        ("flowcontrol.apiserver.k8s.io", _, "FlowSchema") => Arc::new(flow_control::FlowSchema),
        ("flowcontrol.apiserver.k8s.io", _, _) => Arc::new(flow_control::PriorityLevelConfiguration),
        ("resource.k8s.io", _, "DeviceClass") => Arc::new(devices::DeviceClass),
        ("resource.k8s.io", _, "ResourceClaimTemplate") => Arc::new(devices::ResourceClaimTemplate),
        ("resource.k8s.io", _, "ResourceClaim") => Arc::new(devices::ResourceClaim),
        ("resource.k8s.io", _, "ResourceSlice") => Arc::new(devices::ResourceSlice),
        ("scheduling.k8s.io", _, "PriorityClass") => Arc::new(priority_class::PriorityClass),
        ("storage.k8s.io", _, "CSIDriver") => Arc::new(storage::CsiDriver),
        ("storage.k8s.io", _, "CSINode") => Arc::new(storage::CsiNode),
        ("storage.k8s.io", _, "CSIStorageCapacity") => Arc::new(storage::CsiStorageCapacity),
        ("storage.k8s.io", _, "StorageClass") => Arc::new(storage::StorageClass),
        ("storage.k8s.io", _, "VolumeAttributesClass") => Arc::new(storage::VolumeAttributesClass),
        ("storage.k8s.io", _, "VolumeAttachment") => Arc::new(storage::VolumeAttachment),
        _ => Arc::new(Plain),
    }
}

/// Parses `name[:verb,…][=kind]`.
fn subresource(text: &str, version: &GroupVersion) -> Option<ServedSubresource> {
    let (path, kind) = text.split_once('=').map_or((text, None), |(path, kind)| (path, Some(kind)));
    let (name, verbs) = path.split_once(':').unwrap_or((path, "get,patch,update"));
    let kind = kind.map(|kind| match kind.rsplit_once('/') {
        Some((version, kind)) => {
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            GroupVersionKind::new(group, version, kind)
        }
        None => version.with_kind(kind),
    });
    Some(ServedSubresource { subresource: Subresource::parse(name)?, verbs: verbs_of(verbs), kind })
}

fn verbs_of(text: &str) -> Vec<Verb> {
    text.split(',').filter_map(|name| name.parse().ok()).collect()
}

fn list(text: &str) -> Vec<String> {
    text.split(',').filter(|item| *item != "-" && !item.is_empty()).map(Into::into).collect()
}
