//! The core `Namespace` kind.

use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::object::{metadata, restore_member};
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors, qualified_name_faults};
use pintle_json::{Json, json};
use pintle_kinds::{Kind, Strategy};

/// The store name of namespaces.
pub const NAMESPACES: &str = "namespaces";

/// Returns an active namespace with only a name, for use if the server has no other data about the namespace.
pub fn unknown(name: &str) -> Json {
    json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name},
        "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
    })
}

pub(crate) struct Namespace;

impl Namespace {
    fn label(object: &mut Json) {
        let name = metadata::name(object).to_owned();
        if name.is_empty() {
            return;
        }
        if let Some(labels) = object.member("metadata").and_then(|metadata| metadata.member("labels")) {
            labels.set("kubernetes.io/metadata.name", name);
        }
    }
}

impl Strategy for Namespace {
    fn defaults(&self, object: &mut Json) {
        Self::label(object);
        object.member("spec");
        if let Some(status) = object.member("status")
            && status.text("/phase").is_empty()
        {
            status.set("phase", "Active");
        }
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Json) {
        Self::label(object);
        object.set("status", json!({"phase": "Active"}));
        if let Some(spec) = object.member("spec") {
            let mut finalizers: Vec<Json> = spec.list("/finalizers").cloned().collect();
            if !finalizers.contains(&"kubernetes".into()) {
                finalizers.push("kubernetes".into());
            }
            spec.set("finalizers", finalizers);
        }
    }

    fn prepare_for_update(&self, _: &Context<'_>, new: &mut Json, old: &Json, subresource: Subresource) {
        match subresource {
            Subresource::None => {
                restore_member(new, old, "status");
                let finalizers = old.at("/spec/finalizers").cloned();
                if let Some(spec) = new.member("spec") {
                    match finalizers {
                        Some(finalizers) => spec.set("finalizers", finalizers),
                        None => spec.unset("finalizers"),
                    }
                }
            }
            Subresource::Finalize => restore_member(new, old, "status"),
            _ => {}
        }
        Self::label(new);
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        let mut errors = FieldErrors::default();
        for name in object.texts("/spec/finalizers") {
            let mut why = qualified_name_faults(name);
            if !name.contains('/') && name != "kubernetes" {
                why.push("name is neither a standard finalizer name nor is it fully qualified".to_owned());
            }
            errors.extend(why.iter().map(|why| FieldError::invalid_text("spec.finalizers", name, why)));
        }
        errors
    }

    fn validate_update(&self, new: &Json, old: &Json, subresource: Subresource) -> FieldErrors {
        match subresource {
            Subresource::Status => {
                let phase = new.text("/status/phase");
                let terminating = old.has("/metadata/deletionTimestamp");
                let (wrong, why) = if terminating {
                    (phase != "Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty")
                } else {
                    (phase != "Active", "may only be 'Active' if `deletionTimestamp` is empty")
                };
                if wrong {
                    FieldErrors::from([FieldError::invalid_text("status.Phase", phase, why)])
                } else {
                    FieldErrors::default()
                }
            }
            Subresource::Finalize => {
                let names = new.texts("/spec/finalizers").enumerate();
                let plain = names.filter(|(_, name)| !name.contains('/') && *name != "kubernetes");
                let error = |(at, name): (usize, &str)| {
                    let why = "name is neither a standard finalizer name nor is it fully qualified";
                    FieldError::invalid_text(format!("spec.finalizers[{at}]"), name, why)
                };
                plain.map(error).collect()
            }
            _ => self.validate_create(new),
        }
    }

    fn undeletable(&self, name: &str) -> Option<&'static str> {
        matches!(name, "default" | "kube-system" | "kube-public").then_some("this namespace may not be deleted")
    }

    fn mark_terminating(&self, object: &mut Json, _: &str) -> bool {
        if let Some(status) = object.member("status") {
            status.set("phase", "Terminating");
        }
        true
    }

    // Other writes than `/finalize` cannot change the finalizers in the spec.
    fn is_held(&self, object: &Json) -> bool {
        object.list("/spec/finalizers").any(Json::is_string)
    }

    fn name_in_conflicts<'a>(&self, kind: &'a Kind) -> &'a str {
        &kind.plural
    }
}
