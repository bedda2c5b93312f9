//! Storage classes, drivers, attachments.

use serde_json::{Value, json};

use super::check::{Check, immutable};
use super::edit::{default, member};
use super::{Context, Strategy};
use crate::validate::FieldFault;

/// `storage.k8s.io/v1` StorageClass.
#[derive(Clone, Copy, Debug)]
pub(super) struct StorageClass;

impl Strategy for StorageClass {
    fn defaults(&self, object: &mut Value) {
        default(object, "reclaimPolicy", "Delete");
        default(object, "volumeBindingMode", "Immediate");
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        Check::of(object)
            .required("provisioner")
            .one_of("reclaimPolicy", &["Delete", "Retain"])
            .one_of("volumeBindingMode", &["Immediate", "WaitForFirstConsumer"])
            .done()
    }

    fn validate_update(&self, new: &Value, old: &Value, _: Option<&str>) -> Vec<FieldFault> {
        let mut faults = Vec::new();
        if new.get("parameters") != old.get("parameters") {
            faults.push(FieldFault::forbidden("parameters", "updates to parameters are forbidden."));
        }
        faults.extend(immutable(new, old, &["provisioner", "reclaimPolicy", "volumeBindingMode"]));
        faults
    }
}

/// `storage.k8s.io/v1` CSIDriver.
#[derive(Clone, Copy, Debug)]
pub(super) struct CsiDriver;

impl Strategy for CsiDriver {
    fn defaults(&self, object: &mut Value) {
        let Some(spec) = member(object, "spec") else { return };
        default(spec, "attachRequired", true);
        default(spec, "volumeLifecycleModes", json!(["Persistent"]));
        default(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
        for key in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
            default(spec, key, false);
        }
    }
}

/// `storage.k8s.io/v1` VolumeAttachment.
#[derive(Clone, Copy, Debug)]
pub(super) struct VolumeAttachment;

impl Strategy for VolumeAttachment {
    fn defaults(&self, object: &mut Value) {
        if let Some(status) = member(object, "status") {
            default(status, "attached", false);
        }
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Value) {
        super::edit::set(object, "status", json!({"attached": false}));
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        Check::of(object).required("spec.attacher").required("spec.nodeName").done()
    }
}
