//! PersistentVolumeClaim.

use super::pod::claim_spec;
use super::{BETA_CLASS, add_finalizer, default_phase};
use crate::failure::Outcome;
use crate::kinds::check::Check;
use crate::kinds::table::{self, Column, Row};
use crate::kinds::{Context, Strategy, warnings};
use crate::object::text;
use crate::request::Part;
use crate::validate::{Faults, FieldFault, NameRule};
use jiff::Timestamp;
use pintle_json::{Json, json};
use pintle_schema::quantity;

/// `v1` PersistentVolumeClaim.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct PersistentVolumeClaim;

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

    fn admit(&self, _: &Context<'_>, object: &mut Json, old: Option<&Json>, _: Part) -> Outcome<()> {
        if old.is_none() {
            add_finalizer(object, "kubernetes.io/pvc-protection");
        }
        Ok(())
    }

    fn validate_create(&self, object: &Json) -> Faults {
        let mut faults = Faults::default();
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

    fn validate_update(&self, new: &Json, old: &Json, part: Part) -> Faults {
        if part != Part::Object {
            return Faults::default();
        }
        let mut faults = self.validate_create(new);
        let fixed = |object: &Json| {
            let mut spec = object["spec"].clone();
            for key in ["storageClassName", "volumeName"] {
                if !old.has(&format!("/spec/{key}")) {
                    spec.unset(key);
                }
            }
            spec
        };
        if fixed(new) != fixed(old) {
            let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
            faults.push(FieldFault::forbidden("spec", why));
        }
        faults
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
