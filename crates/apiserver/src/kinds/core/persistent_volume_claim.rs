//! PersistentVolumeClaim.

use super::pod::claim_spec;
use super::{BETA_CLASS, add_finalizer, default_phase};
use crate::failure::{Failure, Outcome};
use crate::kinds::check::Check;
use crate::kinds::table::{self, Column, Row};
use crate::kinds::{Cluster, Context, GroupResource, Strategy, default_class, warnings};
use crate::object::{metadata, text};
use crate::request::Part;
use crate::validate::{FieldFault, FieldFaults, NameRule};
use jiff::Timestamp;
use pintle_json::{Json, json};
use pintle_schema::quantity;

/// `v1` PersistentVolumeClaim.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct PersistentVolumeClaim;

/// The annotations that make a StorageClass the default.
const DEFAULT_STORAGE_CLASS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
const SIZE: &str = "/spec/resources/requests/storage";

impl Strategy for PersistentVolumeClaim {
    fn warnings(&self, object: &Json, _: Option<&Json>, part: Part) -> Vec<String> {
        if part != Part::Object {
            return Vec::new();
        }
        let mut found = Vec::new();
        if warnings::is_annotated(object, BETA_CLASS) {
            let why = "deprecated since v1.8; use \"storageClassName\" attribute instead";
            found.push(format!("metadata.annotations[{BETA_CLASS}]: {why}"));
        }
        found.extend(warnings::claim(&object["spec"], "spec"));
        found
    }

    fn defaults(&self, object: &mut Json) {
        if let Some(spec) = object.member("spec") {
            claim_spec(spec);
        }
        default_phase(object);
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Json) {
        object.set("status", json!({"phase": "Pending"}));
    }

    fn settles_late(&self, _: &Json) -> bool {
        // The phase is left to defaulting.
        true
    }

    fn admit(&self, context: &Context<'_>, object: &mut Json, old: Option<&Json>, part: Part) -> Outcome<()> {
        match old {
            None => {
                add_finalizer(object, "kubernetes.io/pvc-protection");
                if class(object).is_none()
                    && let Some(default) = default_class(context.cluster, &storage_classes(), &DEFAULT_STORAGE_CLASS)
                {
                    object["spec"].set("storageClassName", default);
                }
                Ok(())
            }
            // What is wrong in itself is told as that.
            Some(old) if part == Part::Object && self.validate_update(object, old, part).is_empty() => {
                check_growth(context.cluster, object, old)
            }
            Some(_) => Ok(()),
        }
    }

    fn validate_create(&self, object: &Json) -> FieldFaults {
        let mut faults = FieldFaults::default();
        if object.list("/spec/accessModes").next().is_none() {
            faults.push(FieldFault::required("spec.accessModes", "at least 1 access mode is required"));
        }
        for mode in object.list("/spec/accessModes") {
            let known = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
            if !mode.as_str().is_some_and(|mode| known.contains(&mode)) {
                faults.push(FieldFault::unsupported("spec.accessModes", mode, &known));
            }
        }
        match object["spec"]["resources"]["requests"]["storage"].as_str() {
            None => faults.push(FieldFault::required("spec.resources[storage]", "")),
            Some(amount) if quantity::nanos(amount).is_some_and(|nanos| nanos <= 0) => {
                faults.push(FieldFault::invalid_text("spec.resources[storage]", amount, "must be greater than zero"));
            }
            Some(_) => {}
        }
        let modes = &["Block", "Filesystem"];
        let more =
            Check::of(object).name("spec.storageClassName", NameRule::Subdomain).one_of("spec.volumeMode", modes);
        faults.extend(more.done());
        faults
    }

    fn validate_update(&self, new: &Json, old: &Json, part: Part) -> FieldFaults {
        if part != Part::Object {
            return FieldFaults::default();
        }
        let mut faults = self.validate_create(new);
        let fixed = |object: &Json| {
            let mut spec = object["spec"].clone();
            for key in ["storageClassName", "volumeName"] {
                if !old.has(&format!("/spec/{key}")) {
                    spec.unset(key);
                }
            }
            if new.text("/status/phase") == "Bound"
                && let Some(requests) = spec.at_mut("/resources/requests")
            {
                requests.unset("storage");
            }
            spec
        };
        if fixed(new) != fixed(old) {
            let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
            faults.push(FieldFault::forbidden("spec", why));
        }
        let present = amount(old, "/status/capacity/storage").unwrap_or(0);
        if amount(new, SIZE) < amount(old, SIZE) && amount(new, SIZE).is_some_and(|size| size <= present) {
            let why = "field can not be less than status.capacity";
            faults.push(FieldFault::forbidden("spec.resources.requests.storage", why));
        }
        faults
    }

    fn looks_at(&self, _: Part) -> &'static [(&'static str, &'static str)] {
        &[("", "LimitRange")]
    }

    fn columns(&self) -> Option<Vec<Column>> {
        table::columns(
            "Name, Status, Volume, Capacity, Access Modes, StorageClass, VolumeAttributesClass, Age, \
             VolumeMode*",
        )
    }

    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        let row = Row::new(object, now);
        let volume = object.text("/spec/volumeName");
        let (capacity, access) = match volume {
            "" => (String::new(), String::new()),
            _ => (text(object.at("/status/capacity/storage")), table::access_modes(object, "/status/accessModes")),
        };
        vec![
            row.name(),
            row.phase(),
            volume.into(),
            capacity.into(),
            access.into(),
            row.text("/spec/storageClassName"),
            row.text_or("/spec/volumeAttributesClassName", "<unset>"),
            row.age(),
            row.text_or("/spec/volumeMode", "<unset>"),
        ]
    }
}

fn storage_classes() -> GroupResource {
    GroupResource::new("storage.k8s.io", "storageclasses")
}

/// The class that the claim names, be it the empty one.
fn class(claim: &Json) -> Option<&str> {
    let annotated = claim.at("/metadata/annotations").and_then(|annotations| annotations.get(BETA_CLASS));
    annotated.or_else(|| claim.at("/spec/storageClassName")).and_then(Json::as_str)
}

fn amount(claim: &Json, path: &str) -> Option<i128> {
    quantity::nanos(claim.at(path)?.as_str()?)
}

/// A claim that is bound grows only if its class says that its volumes can.
fn check_growth(cluster: &dyn Cluster, new: &Json, old: &Json) -> Outcome<()> {
    if amount(new, SIZE) <= amount(old, SIZE) {
        return Ok(());
    }
    let class = class(new).filter(|name| !name.is_empty() && class(old) == Some(name));
    let class = class.and_then(|name| cluster.object(&storage_classes(), "", name));
    if class.is_some_and(|class| class["allowVolumeExpansion"] == true) {
        return Ok(());
    }
    let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
    Err(Failure::forbidden(&GroupResource::new("", "persistentvolumeclaims"), metadata::name(new), why))
}
