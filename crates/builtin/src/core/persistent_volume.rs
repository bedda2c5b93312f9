//! The core `PersistentVolume` kind.

use pintle_apimachinery::cluster::{Cluster, Context};
use pintle_apimachinery::failure::Outcome;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule};
use pintle_json::{Json, Text, json};
use pintle_kinds::Strategy;
use pintle_kinds::check::Check;
use pintle_kinds::table::{Cell, ComputedCells};
use pintle_schema::quantity;

use super::pod::volume_plugins;
use super::{BETA_CLASS, add_finalizer, default_phase, mode_errors, pod};
use crate::resource_quantities::basic_amount_error;
use crate::warnings;

pub(crate) struct PersistentVolume;

impl Strategy for PersistentVolume {
    fn warnings(&self, object: &Json, _: Option<&Json>, subresource: Subresource) -> Vec<String> {
        if subresource != Subresource::None {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (key, why) in [
            (BETA_CLASS, "deprecated since v1.8; use \"storageClassName\" attribute instead"),
            (
                "volume.beta.kubernetes.io/mount-options",
                "deprecated since v1.31; use \"mountOptions\" attribute instead",
            ),
        ] {
            if warnings::is_annotated(object, key) {
                found.push(format!("metadata.annotations[{key}]: {why}"));
            }
        }
        if object.text("/spec/persistentVolumeReclaimPolicy") == "Recycle" {
            let why = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.";
            found.push(format!("spec.persistentVolumeReclaimPolicy: {why}"));
        }
        for (at, term) in object.list("/spec/nodeAffinity/required/nodeSelectorTerms").enumerate() {
            let path = format!("spec.nodeAffinity.required.nodeSelectorTerms[{at}]");
            found.extend(warnings::selector_term(term, &path, false));
        }
        let spec = &object["spec"];
        let plugins = ["cephfs", "photonPersistentDisk", "scaleIO", "storageos", "glusterfs", "rbd"];
        found.extend(plugins.iter().filter_map(|plugin| pod::plugin(spec, plugin, "spec")));
        found
    }

    fn defaults(&self, object: &mut Json) {
        if let Some(spec) = object.member("spec") {
            pod::fill_plugins(spec);
        }
        default_phase(object);
    }

    fn prepare_for_create(&self, context: &Context<'_>, object: &mut Json) {
        object.set("status", json!({"phase": "Pending", "lastPhaseTransitionTime": context.time()}));
    }

    fn prepare_for_update(&self, context: &Context<'_>, new: &mut Json, old: &Json, subresource: Subresource) {
        const SINCE: &str = "lastPhaseTransitionTime";
        let Some(status) = new.get_mut("status").filter(|_| subresource == Subresource::Status) else { return };
        let before = old.at("/status/lastPhaseTransitionTime").cloned();
        match (status.text("/phase") == old.text("/status/phase"), status.get(SINCE).filter(|since| !since.is_null())) {
            (true, None) => before.into_iter().for_each(|before| status.set(SINCE, before)),
            (false, since) if since.is_none() || since == before.as_ref() => status.set(SINCE, context.time()),
            _ => {}
        }
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        let spec = &object["spec"];
        let capacity = spec.at("/capacity").filter(|capacity| !capacity.is_empty());
        let alone = spec.members("/capacity").all(|(name, _)| name == "storage");
        let amounts = spec.members("/capacity").flat_map(|(name, amount)| {
            let field = format!("spec.capacity[{name}]");
            let text = amount.as_str().unwrap_or_default();
            let is_positive = quantity::nanos(text).is_none_or(|nanos| nanos > 0);
            let wrong = || FieldError::invalid_text(field.as_str(), text, "must be greater than zero");
            basic_amount_error(&field, text).into_iter().chain((!is_positive).then(wrong)).collect::<Vec<_>>()
        });
        let check = Check::at(spec, "spec")
            .required("accessModes")
            .also(mode_errors(spec, "spec"))
            .required("capacity")
            .refuse(!alone || !spec.has("/capacity/storage"), || {
                FieldError::unsupported("capacity", capacity.unwrap_or(&Json::Null), &["storage"])
            })
            .also(amounts)
            .one_of("persistentVolumeReclaimPolicy", &["Delete", "Recycle", "Retain"])
            .inside("nodeAffinity", |affinity| {
                match affinity.object().get("required").filter(|terms| !terms.is_null()) {
                    Some(terms) => affinity.also(pod::placing::terms(terms, "spec.nodeAffinity.required")),
                    None => affinity.required_because("required", "must specify required node constraints"),
                }
            })
            .also(source_errors(spec, "spec"));
        let root = matches!(spec.text("/hostPath/path").trim_end_matches('/'), "" | "/.") && spec.has("/hostPath");
        let recycles = spec.text("/persistentVolumeReclaimPolicy") == "Recycle";
        let class = spec.get("volumeAttributesClassName").and_then(Json::as_str);
        check
            .refuse(root && recycles && !spec.text("/hostPath/path").is_empty(), || {
                FieldError::forbidden(
                    "persistentVolumeReclaimPolicy",
                    "may not be 'recycle' for a hostPath mount of '/'",
                )
            })
            .name("storageClassName", NameRule::Subdomain)
            .known("volumeMode", &["Block", "Filesystem"])
            .required_if(class == Some(""), "volumeAttributesClassName", "an empty string is disallowed")
            .name("volumeAttributesClassName", NameRule::Subdomain)
            .refuse(class.is_some() && !spec.has("/csi"), || {
                FieldError::required("csi", "has to be specified when using volumeAttributesClassName")
            })
            .done()
    }

    fn validate_update(&self, new: &Json, old: &Json, subresource: Subresource) -> FieldErrors {
        if subresource != Subresource::None {
            return FieldErrors::default();
        }
        // kube-apiserver validates the volume twice, so each error occurs twice.
        let mut errors = self.validate_create(new);
        errors.extend(self.validate_create(new));
        let why = "spec.persistentvolumesource is immutable after creation";
        errors.forbidden_if(sources(new) != sources(old), "spec.persistentvolumesource", why);
        if new.text("/spec/volumeMode") != old.text("/spec/volumeMode") {
            let mode = new.text("/spec/volumeMode");
            errors.push(FieldError::invalid_text("volumeMode", mode, "field is immutable"));
        }
        let affinity = |volume: &Json| volume.at("/spec/nodeAffinity").cloned().unwrap_or_default();
        if !affinity(old).is_null() && affinity(new) != affinity(old) {
            let why = "field is immutable, except for updating from beta label to GA";
            errors.push(FieldError::invalid("nodeAffinity", &affinity(new), why));
        }
        errors
    }

    fn admit(&self, _: &dyn Cluster, object: &mut Json, old: Option<&Json>, _: Subresource) -> Outcome<()> {
        if old.is_none() {
            add_finalizer(object, "kubernetes.io/pv-protection");
        }
        Ok(())
    }

    fn computed_cells(&self) -> ComputedCells {
        &[("Claim", Cell::Computed(claim))]
    }
}

fn claim(volume: &Json) -> Json {
    match volume.text("/spec/claimRef/name") {
        "" => "".into(),
        name => format!("{}/{name}", volume.text("/spec/claimRef/namespace")).into(),
    }
}

fn sources(object: &Json) -> Vec<(&Text, &Json)> {
    const OTHERS: &[&str] = &[
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    ];
    let members = object.members("/spec");
    members.filter(|(key, value)| !OTHERS.contains(&key.as_str()) && !value.is_null()).collect()
}

const PERSISTENT_SOURCES: &[(&str, &str)] = &[
    ("hostPath", "hostPath"),
    ("gcePersistentDisk", "gcePersistentDisk"),
    ("awsElasticBlockStore", "awsElasticBlockStore"),
    ("glusterfs", "glusterfs"),
    ("flocker", "flocker"),
    ("nfs", "nfs"),
    ("rbd", "rbd"),
    ("quobyte", "quobyte"),
    ("cephfs", "cephFS"),
    ("iscsi", "iscsi"),
    ("cinder", "cinder"),
    ("fc", "fc"),
    ("flexVolume", "flexVolume"),
    ("azureFile", "azureFile"),
    ("vsphereVolume", "vsphereVolume"),
    ("photonPersistentDisk", "photonPersistentDisk"),
    ("portworxVolume", "portworxVolume"),
    ("azureDisk", "azureDisk"),
    ("scaleIO", "scaleIO"),
    ("local", "local"),
    ("storageos", "storageos"),
    ("csi", "csi"),
];

/// Validates the spec of an inline volume, which a VolumeAttachment can contain.
pub(crate) fn inline_errors(spec: &Json, path: &str) -> FieldErrors {
    const WHY: &str = "may not be specified in the context of inline volumes";
    let is_set = |key: &str| spec.get(key).is_some_and(|value| !value.is_empty());
    let policy = spec.text("/persistentVolumeReclaimPolicy");
    let mode = spec.at("/volumeMode").and_then(Json::as_str);
    Check::at(spec, path)
        .forbidden_if(spec.has("/claimRef"), "claimRef", WHY)
        .forbidden_if(is_set("capacity"), "capacity", WHY)
        .required_if(!spec.has("/csi"), "csi", "has to be specified in the context of inline volumes")
        .required("accessModes")
        .also(mode_errors(spec, path))
        .refuse(!matches!(policy, "" | "Retain"), || {
            let why = "may only be Retain in the context of inline volumes";
            FieldError::forbidden("persistentVolumeReclaimPolicy", why)
        })
        .forbidden_if(spec.has("/nodeAffinity"), "nodeAffinity", WHY)
        .also(source_errors(spec, path))
        .forbidden_if(is_set("storageClassName"), "storageClassName", WHY)
        .refuse(mode.is_some_and(|mode| mode != "Filesystem"), || {
            let why = "may not specify volumeMode other than Filesystem in the context of inline volumes";
            FieldError::forbidden("volumeMode", why)
        })
        .done()
}

/// Validates the volume source. A volume must have exactly one source.
fn source_errors(spec: &Json, path: &str) -> FieldErrors {
    let mut there = PERSISTENT_SOURCES.iter().filter(|(source, _)| spec.has(&format!("/{source}")));
    let Some((first, _)) = there.next() else {
        return FieldErrors::from([FieldError::required(path, "must specify a volume type")]);
    };
    let object = &spec[*first];
    let mut errors = match *first {
        "hostPath" => pod::host_path(object, &format!("{path}.hostPath")),
        "local" => {
            let check = Check::at(object, &format!("{path}.local")).required("path");
            check.also(pod::descending(object.text("/path"), &format!("{path}.local.path"))).done()
        }
        "csi" => csi_errors(object, &format!("{path}.csi")),
        plugin => volume_plugins::errors(object, plugin, path, true),
    };
    if *first == "local" && !spec.has("/nodeAffinity") {
        errors.push(FieldError::required(format!("{path}.nodeAffinity"), "Local volume requires node affinity"));
    }
    let why = "may not specify more than 1 volume type";
    for (source, spelling) in there {
        match *source {
            // kube-apiserver allows a flexVolume together with another source.
            "flexVolume" => errors.extend(volume_plugins::errors(&spec["flexVolume"], source, path, true)),
            _ => errors.push(FieldError::forbidden(format!("{path}.{spelling}"), why)),
        }
    }
    errors
}

fn csi_errors(csi: &Json, path: &str) -> FieldErrors {
    let secrets =
        ["controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"];
    let check = Check::at(csi, path)
        .also(volume_plugins::driver_errors(csi.text("/driver"), &format!("{path}.driver")))
        .required("volumeHandle");
    let all = secrets.iter().fold(check, |check, secret| {
        check.inside(secret, |secret| {
            secret.required_name("name", NameRule::Subdomain).required_name("namespace", NameRule::Label)
        })
    });
    all.done()
}
