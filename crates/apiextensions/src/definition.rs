//! The strategy of CustomResourceDefinitions.

use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::object::{metadata, set_condition};
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::FieldErrors;
use pintle_json::{Json, json};
use pintle_kinds::without_effect::{BUILT_IN_VERSIONS, without_effect};
use pintle_kinds::{PlainFinalizers, Strategy};

use super::default::normalise_numbers;
use super::{definition_errors, formats, prune, storage_versions};

/// The finalizer that keeps a definition until all its custom resources are deleted.
pub const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// `apiextensions.k8s.io/v1` CustomResourceDefinition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Definition;

impl Strategy for Definition {
    fn plain_finalizers(&self) -> PlainFinalizers {
        PlainFinalizers::Accepted
    }

    fn without_effect(&self, object: &Json, is_built_in: &dyn Fn(&str, &str) -> bool) -> Vec<String> {
        let group = object.text("/spec/group");
        let name = metadata::name(object);
        let versions = object.list("/spec/versions").map(|version| version.text("/name"));
        let built_in = versions.filter(|version| is_built_in(group, version));
        let warn = |version| without_effect(&format!("the version {group}/{version} of {name:?}"), BUILT_IN_VERSIONS);
        built_in.map(warn).collect()
    }

    fn defaults(&self, object: &mut Json) {
        normalise_numbers(object);
        let Some(spec) = object.member("spec") else { return };
        if let Some(names) = spec.member("names") {
            let kind = names.text("/kind").to_owned();
            if names.text("/singular").is_empty() && !kind.is_empty() {
                names.set("singular", kind.to_lowercase());
            }
            if names.text("/listKind").is_empty() && !kind.is_empty() {
                names.set("listKind", format!("{kind}List"));
            }
        }
        if let Some(conversion) = spec.member("conversion") {
            conversion.set_default("strategy", "None");
            if let Some(service) = conversion.at_mut("/webhook/clientConfig/service") {
                service.set_default("port", 443);
            }
        }
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Json) {
        let stored: Vec<&str> = storage_versions(object).take(1).collect();
        let status = json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored});
        object.set("status", status);
        prune_defaults(object);
    }

    fn prepare_for_update(&self, _: &Context<'_>, new: &mut Json, _: &Json, subresource: Subresource) {
        prune_defaults(new);
        if subresource != Subresource::None && new.list("/status/storedVersions").next().is_some() {
            return;
        }
        let wanted: Vec<String> = storage_versions(new).take(1).map(Into::into).collect();
        let mut stored: Vec<Json> = new.list("/status/storedVersions").cloned().collect();
        for version in wanted {
            if !stored.contains(&version.as_str().into()) {
                stored.push(version.into());
            }
        }
        if let Some(status) = new.member("status") {
            status.set("storedVersions", stored);
        }
    }

    fn mark_terminating(&self, object: &mut Json, now: &str) -> bool {
        let mut finalizers: Vec<String> = metadata::finalizers(object).into_iter().map(str::to_owned).collect();
        if !finalizers.iter().any(|name| name == CLEANUP) {
            finalizers.push(CLEANUP.into());
            metadata::set_finalizers(object, &finalizers);
        }
        set_condition(
            object,
            json!({
                "type": "Terminating", "status": "True", "reason": "InstanceDeletionPending",
                "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
            }),
            now,
        );
        true
    }

    fn changes_generation(&self, new: &Json, old: &Json) -> bool {
        new.get("spec") != old.get("spec")
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        definition_errors::definition(object, None)
    }

    fn validate_update(&self, new: &Json, old: &Json, subresource: Subresource) -> FieldErrors {
        match subresource {
            Subresource::None => definition_errors::definition(new, Some(old)),
            _ => FieldErrors::default(),
        }
    }

    fn warnings(&self, object: &Json, old: Option<&Json>, _: Subresource) -> Vec<String> {
        if old.is_some_and(|old| old.get("spec") == object.get("spec")) {
            return Vec::new();
        }
        let mut found = Vec::new();
        for version in object.list("/spec/versions") {
            unknown_formats(version.at("/schema/openAPIV3Schema").unwrap_or(&Json::Null), &mut found);
        }
        found.sort();
        found.dedup();
        found.into_iter().map(|format| format!("unrecognized format \"{format}\"")).collect()
    }
}

/// Removes unknown metadata fields from the defaults of embedded resources, as the validation in kube-apiserver does.
fn prune_defaults(definition: &mut Json) {
    for version in definition.get_mut("spec").into_iter().flat_map(|spec| spec.items_mut("versions")) {
        if let Some(schema) = version.get_mut("schema").and_then(|schema| schema.get_mut("openAPIV3Schema")) {
            prune::prune_schema_defaults(schema);
        }
    }
}

fn unknown_formats(schema: &Json, found: &mut Vec<String>) {
    match schema {
        Json::Object(members) => {
            if let Some(format) = members["format"].as_str()
                && !format.is_empty()
                && !formats::is_known(format, members["type"].text(""))
            {
                found.push(format.into());
            }
            members.iter().filter(|(key, _)| !matches!(key.as_str(), "default" | "enum" | "example")).for_each(
                |(_, value)| {
                    unknown_formats(value, found);
                },
            );
        }
        Json::Array(items) => items.iter().for_each(|item| unknown_formats(item, found)),
        _ => {}
    }
}
