//! PersistentVolumeClaim.

use super::pod::claim_spec;
use super::{BETA_CLASS, add_finalizer, default_phase};
use crate::failure::Outcome;
use crate::kinds::check::Check;
use crate::kinds::table::{self, Column, Row};
use crate::kinds::{Context, Strategy, warnings};
use crate::object::{has, list, member, remove, set, text, text_at};
use crate::request::Part;
use crate::validate::{FieldFault, FieldFaults, NameRule};
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
        found.extend(warnings::claim(object.get("spec").unwrap_or(&Json::Null), "spec"));
        found
    }

    fn defaults(&self, object: &mut Json) {
        if let Some(spec) = member(object, "spec") {
            claim_spec(spec);
        }
        default_phase(object);
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Json) {
        set(object, "status", json!({"phase": "Pending"}));
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

    fn validate_create(&self, object: &Json) -> FieldFaults {
        let mut faults = FieldFaults::default();
        if list(object, "/spec/accessModes").next().is_none() {
            faults.push(FieldFault::required("spec.accessModes", "at least 1 access mode is required"));
        }
        for mode in list(object, "/spec/accessModes") {
            let known = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
            if !mode.as_str().is_some_and(|mode| known.contains(&mode)) {
                faults.push(FieldFault::unsupported("spec.accessModes", mode, &known));
            }
        }
        match object.at("/spec/resources/requests/storage").and_then(Json::as_str) {
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
            let mut spec = object.get("spec").cloned().unwrap_or_default();
            for key in ["storageClassName", "volumeName"] {
                if !has(old, &format!("/spec/{key}")) {
                    remove(&mut spec, key);
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
        let volume = text_at(object, "/spec/volumeName");
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
