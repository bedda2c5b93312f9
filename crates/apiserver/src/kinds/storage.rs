//! Storage classes, drivers, attachments.

use serde_json::{Value, json};

use super::check::{Check, immutable};
use super::{Context, Strategy, warnings};
use crate::object::{default, has, list, member, text_at};
use crate::request::Part;
use crate::validate::FieldFault;

/// `storage.k8s.io/v1` StorageClass.
#[derive(Clone, Copy, Debug)]
pub(super) struct StorageClass;

impl Strategy for StorageClass {
    fn warnings(&self, object: &Value, _: Option<&Value>, _: Part) -> Vec<String> {
        let mut found = Vec::new();
        for (at, topology) in list(object, "/allowedTopologies").enumerate() {
            for (nth, expression) in list(topology, "/matchLabelExpressions").enumerate() {
                let path = format!("allowedTopologies[{at}].matchLabelExpressions[{nth}].key");
                found.extend(warnings::node_label(text_at(expression, "/key")).map(|why| format!("{path}: {why}")));
            }
        }
        found
    }

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

    fn validate_update(&self, new: &Value, old: &Value, _: Part) -> Vec<FieldFault> {
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
    fn warnings(&self, object: &Value, old: Option<&Value>, _: Part) -> Vec<String> {
        const TOKENS: &str = "/spec/tokenRequests";
        let asks = list(object, TOKENS).next().is_some() && !has(object, "/spec/serviceAccountTokenInSecrets");
        let as_before = old.is_some_and(|old| old.pointer(TOKENS) == object.pointer(TOKENS));
        let why = "is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume \
                   attributes";
        match asks && !as_before {
            true => vec![format!("spec.serviceAccountTokenInSecrets {why}")],
            false => Vec::new(),
        }
    }

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

/// `storage.k8s.io/v1` CSIStorageCapacity.
#[derive(Clone, Copy, Debug)]
pub(super) struct CsiStorageCapacity;

impl Strategy for CsiStorageCapacity {
    fn warnings(&self, object: &Value, _: Option<&Value>, _: Part) -> Vec<String> {
        let selector = object.get("nodeTopology");
        selector.map(|selector| warnings::node_selector(selector, "nodeTopology")).unwrap_or_default()
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
        crate::object::set(object, "status", json!({"attached": false}));
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        Check::of(object).required("spec.attacher").required("spec.nodeName").done()
    }
}
