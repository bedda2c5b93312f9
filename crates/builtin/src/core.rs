//! The core kinds.

mod component_status;
mod config_map;
mod endpoints;
mod event;
mod kubelet;
mod limit_range;
mod namespace;
mod node;
mod persistent_volume;
mod persistent_volume_claim;
pub(super) mod pod;
mod pod_template;
mod proxy;
mod resource_quota;
mod secret;
mod service;
mod service_account;

pub(super) use component_status::ComponentStatus;
pub(super) use config_map::ConfigMap;
pub(super) use endpoints::Endpoints;
pub(super) use event::{CoreEvent, Event};
pub(super) use limit_range::LimitRange;
pub(super) use namespace::Namespace;
pub use namespace::{NAMESPACES, unknown as unknown_namespace};
pub(super) use node::Node;
pub(super) use persistent_volume::{PersistentVolume, inline_errors};
pub(super) use persistent_volume_claim::{PersistentVolumeClaim, claim_spec, spec_errors as claim_spec_errors};
use pintle_json::{Json, Text};
pub(super) use pod::{Binding, Pod};
pub(super) use pod_template::PodTemplate;
pub(super) use resource_quota::ResourceQuota;
pub(super) use secret::Secret;
pub(super) use service::Service;
pub(super) use service_account::ServiceAccount;

use pintle_apimachinery::object::set_metadata;
use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule, name_errors};

const MAX_DATA: usize = 1024 * 1024;
/// The storage class annotation, which older Kubernetes versions used instead of a field.
pub(super) const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

fn mode_errors(spec: &Json, path: &str) -> FieldErrors {
    const MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    let field = format!("{path}.accessModes");
    let modes = || spec.texts("/accessModes");
    let mut errors: FieldErrors = modes()
        .filter(|mode| !MODES.contains(mode))
        .map(|mode| FieldError::unsupported(field.as_str(), &mode.into(), MODES))
        .collect();
    if modes().any(|mode| mode == "ReadWriteOncePod")
        && modes().any(|mode| mode != "ReadWriteOncePod" && MODES.contains(&mode))
    {
        errors.push(FieldError::forbidden(field, "may not use ReadWriteOncePod with other access modes"));
    }
    errors
}

pub(super) fn add_finalizer(object: &mut Json, name: &str) {
    let mut finalizers: Vec<Json> = object.list("/metadata/finalizers").cloned().collect();
    if !finalizers.contains(&name.into()) {
        finalizers.push(name.into());
        set_metadata(object, "finalizers", finalizers);
    }
}

fn default_phase(object: &mut Json) {
    if let Some(status) = object.member("status")
        && status.text("/phase").is_empty()
    {
        status.set("phase", "Pending");
    }
}

fn members<'a>(object: &'a Json, key: &str) -> impl Iterator<Item = &'a Text> {
    object[key].as_object().into_iter().flat_map(|members| members.keys())
}

/// Validates the keys of `data`, which become file names.
fn key_errors(object: &Json, member: &str) -> FieldErrors {
    let mut errors = FieldErrors::default();
    for key in members(object, member) {
        let field = || format!("{member}[{key}]");
        let why = name_errors(NameRule::ConfigKey, key, false);
        errors.extend(why.into_iter().map(|why| FieldError::invalid_text(field(), key, why)));
    }
    errors
}

fn decoded_size(object: &Json, member: &str) -> usize {
    let texts = object[member].members("").filter_map(|(_, value)| value.as_str());
    texts
        .map(|text| {
            text.len() / 4 * 3 - text.bytes().rev().take_while(|byte| *byte == b'=').count().min(text.len() / 4 * 3)
        })
        .sum()
}

fn immutable(new: &Json, old: &Json, members: &[&str]) -> FieldErrors {
    if !old.is_true("/immutable") {
        return FieldErrors::default();
    }
    let why = "field is immutable when `immutable` is set";
    let mut errors = FieldErrors::default();
    errors.forbidden_if(!new.is_true("/immutable"), "immutable", why);
    errors
        .extend(members.iter().filter(|key| new.get(key) != old.get(key)).map(|key| FieldError::forbidden(*key, why)));
    errors
}
