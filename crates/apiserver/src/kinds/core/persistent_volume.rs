//! PersistentVolume.

use super::{add_finalizer, default_phase, pod};
use crate::failure::Outcome;
use crate::kinds::check::Check;
use crate::kinds::table::{self, Column, Row};
use crate::kinds::{Context, Strategy, warnings};
use crate::object::text;
use crate::request::Part;
use crate::validate::{FieldFault, FieldFaults, NameRule};
use jiff::Timestamp;
use pintle_json::{Json, Text, json};

/// The annotation that named the storage class before there was a field.
pub(in crate::kinds) const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// `v1` PersistentVolume.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct PersistentVolume;

impl Strategy for PersistentVolume {
    fn warnings(&self, object: &Json, _: Option<&Json>, part: Part) -> Vec<String> {
        if part != Part::Object {
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
            spec.set_default("persistentVolumeReclaimPolicy", "Retain");
            spec.set_default("volumeMode", "Filesystem");
            if let Some(path) = spec.get_mut("hostPath") {
                path.set_default("type", "");
            }
        }
        default_phase(object);
    }

    fn prepare_for_create(&self, context: &Context<'_>, object: &mut Json) {
        object.set("status", json!({"phase": "Pending", "lastPhaseTransitionTime": context.time()}));
    }

    fn prepare_for_update(&self, context: &Context<'_>, new: &mut Json, old: &Json, part: Part) {
        if part == Part::Status
            && new.text("/status/phase") != old.text("/status/phase")
            && let Some(status) = new.get_mut("status")
        {
            let sent = status.text("/lastPhaseTransitionTime") != old.text("/status/lastPhaseTransitionTime");
            if !sent || !status.has("/lastPhaseTransitionTime") {
                status.set("lastPhaseTransitionTime", context.time());
            }
        }
    }

    fn validate_create(&self, object: &Json) -> FieldFaults {
        let modes = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
        let odd =
            object.list("/spec/accessModes").find(|mode| !mode.as_str().is_some_and(|mode| modes.contains(&mode)));
        let capacity = object.at("/spec/capacity").filter(|capacity| !capacity.is_empty());
        let storage = object.has("/spec/capacity/storage");
        let there = sources(object);
        let check = Check::of(object)
            .required("spec.accessModes")
            .refuse(odd.is_some(), || FieldFault::unsupported("spec.accessModes", odd.unwrap_or(&Json::Null), &modes))
            .required("spec.capacity")
            .refuse(!storage, || {
                let value = capacity.unwrap_or(&Json::Null);
                FieldFault::unsupported("spec.capacity", value, &["storage"])
            });
        let check = there.iter().skip(1).fold(check, |check, (source, _)| {
            let field = format!("spec.{source}");
            check.refuse(true, || FieldFault::forbidden(field, "may not specify more than 1 volume type"))
        });
        check
            .refuse(there.is_empty(), || FieldFault::required("spec", "must specify a volume type"))
            .one_of("spec.persistentVolumeReclaimPolicy", &["Delete", "Recycle", "Retain"])
            .one_of("spec.volumeMode", &["Block", "Filesystem"])
            .name("spec.storageClassName", NameRule::Subdomain)
            .done()
    }

    fn validate_update(&self, new: &Json, old: &Json, part: Part) -> FieldFaults {
        if part != Part::Object {
            return FieldFaults::default();
        }
        let mut faults = self.validate_create(new);
        if sources(new) != sources(old) {
            let why = "spec.persistentvolumesource is immutable after creation";
            faults.push(FieldFault::forbidden("spec.persistentvolumesource", why));
        }
        if new.text("/spec/volumeMode") != old.text("/spec/volumeMode") {
            let mode = new.text("/spec/volumeMode");
            faults.push(FieldFault::invalid_text("volumeMode", mode, "field is immutable"));
        }
        faults
    }

    fn admit(&self, _: &Context<'_>, object: &mut Json, old: Option<&Json>, _: Part) -> Outcome<()> {
        if old.is_none() {
            add_finalizer(object, "kubernetes.io/pv-protection");
        }
        Ok(())
    }

    fn columns(&self) -> Option<Vec<Column>> {
        table::columns(
            "Name, Capacity, Access Modes, Reclaim Policy, Status, Claim, StorageClass, \
             VolumeAttributesClass, Reason, Age, VolumeMode*",
        )
    }

    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        let row = Row::new(object, now);
        let claim = match object.text("/spec/claimRef/name") {
            "" => String::new(),
            name => format!("{}/{name}", object.text("/spec/claimRef/namespace")),
        };
        vec![
            row.name(),
            text(object.at("/spec/capacity/storage")).into(),
            table::access_modes(object, "/spec/accessModes").into(),
            row.text("/spec/persistentVolumeReclaimPolicy"),
            row.phase(),
            claim.into(),
            row.text("/spec/storageClassName"),
            row.text_or("/spec/volumeAttributesClassName", "<unset>"),
            row.text("/status/reason"),
            row.age(),
            row.text_or("/spec/volumeMode", "<unset>"),
        ]
    }
}

/// The members of a volume's spec that say where it is stored.
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
