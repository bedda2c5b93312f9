//! Creates the kinds of an established definition.

use std::sync::Arc;

use pintle_apimachinery::object::metadata;
use pintle_apimachinery::request::webhook_calls::{ConversionWebhook, WebhookClient};
use pintle_apimachinery::request::{Subresource, Verb};
use pintle_json::Json;
use pintle_kinds::{Kind, KindFlags, ServedSubresource, compare_versions};
use pintle_meta::{GroupVersion, GroupVersionKind, Scope};

use super::custom_strategy::{CustomStrategy, Versions, published};
use super::naming::DefinitionNames;
use super::pattern::Patterns;
use super::prune;
use super::rules::RuleTree;
use super::structural::Structural;
use super::weight;
use super::{is_established, is_terminating};

const VERBS: [Verb; 8] =
    [Verb::Delete, Verb::DeleteCollection, Verb::Get, Verb::List, Verb::Patch, Verb::Create, Verb::Update, Verb::Watch];

/// Returns a definition's kinds, one for each served version, or none if the definition is not established.
pub fn kinds(definition: &Json) -> Vec<Kind> {
    kinds_of(definition, |version| version.is_true("/served"))
}

/// Returns the kind of an established definition's storage version, even if this version is not served.
pub fn storage_version_kind(definition: &Json) -> Option<Kind> {
    kinds_of(definition, |version| version.is_true("/storage")).pop()
}

fn kinds_of(definition: &Json, is_selected: impl Fn(&Json) -> bool) -> Vec<Kind> {
    if !is_established(definition) {
        return Vec::new();
    }
    let versions: Vec<_> = definition.list("/spec/versions").collect();
    let mut patterns = Patterns::default();
    let schemas: Vec<_> = versions.iter().map(|version| schema(version, &mut patterns)).collect();
    let rules: Vec<_> =
        versions.iter().map(|version| version.at("/schema/openAPIV3Schema").and_then(RuleTree::read)).collect();
    let storage_index = versions.iter().position(|version| version.is_true("/storage")).unwrap_or(0);
    let Some(storage_version) = versions.get(storage_index).map(|version| version.text("/name")) else {
        return Vec::new();
    };
    let group = definition.text("/spec/group");
    let names = DefinitionNames::accepted(definition);
    let versions_hash = super::hash(&definition["spec"]["versions"].to_string());
    let all_versions = Arc::new(Versions {
        definition: metadata::uid(definition).into(),
        api_versions: versions.iter().map(|version| format!("{group}/{}", version.text("/name"))).collect(),
        weight: patterns.weight()
            + schemas.iter().map(weight::of_schema).max().unwrap_or(0)
            + rules.iter().flatten().map(RuleTree::weight).max().unwrap_or(0),
        schemas,
        rules,
        storage_index,
        conversion: conversion(definition, &names.kind),
    });
    let selected = versions.iter().enumerate().filter(|(_, version)| is_selected(version));
    let kinds = selected.map(|(index, version)| {
        let scope = if definition.text("/spec/scope") == "Cluster" { Scope::Cluster } else { Scope::Namespaced };
        Kind {
            group: group.into(),
            version: version.text("/name").into(),
            kind: names.kind.clone(),
            list_kind: names.list_kind.clone(),
            singular: names.singular.clone(),
            short_names: names.short_names.clone(),
            categories: names.categories.clone(),
            scope,
            verbs: VERBS.into(),
            stored_as: super::stored_as(group, &names.plural),
            stored_version: Some(GroupVersion::new(group, storage_version)),
            subresources: subresources(version),
            flags: KindFlags {
                maintains_generation: true,
                requires_resource_version: true,
                status_keeps_metadata: true,
                is_terminating: is_terminating(definition),
                ..KindFlags::default()
            },
            field_labels: None,
            defaults: &[],
            table: &[],
            resource_key: std::sync::OnceLock::new(),
            columns: std::sync::OnceLock::new(),
            schema: std::sync::OnceLock::new(),
            strategy: Arc::new(CustomStrategy::new(
                version,
                index,
                Arc::clone(&all_versions),
                deprecation(definition, version),
                versions_hash,
            )),
            plural: names.plural.clone(),
        }
    });
    kinds.collect()
}

/// Returns the conversion webhook and the schemas of all versions, or `None` if the definition has no webhook.
fn conversion(definition: &Json, kind: &str) -> Option<(Arc<ConversionWebhook>, Vec<Json>)> {
    let conversion = definition.at("/spec/conversion").filter(|conversion| conversion["strategy"] == "Webhook")?;
    let webhook = &conversion["webhook"];
    let review_version =
        webhook.texts("/conversionReviewVersions").find(|version| matches!(*version, "v1" | "v1beta1"))?;
    // As in kube-apiserver, the conversion timeout is 30 s.
    let client = Arc::new(WebhookClient { timeout_seconds: 30, ..WebhookClient::read(webhook) });
    let schemas = definition.list("/spec/versions").map(published).collect();
    Some((Arc::new(ConversionWebhook { client, kind: kind.into(), is_v1: review_version == "v1" }), schemas))
}

fn schema(version: &Json, patterns: &mut Patterns) -> Structural {
    let mut schema = Structural::read(version.at("/schema/openAPIV3Schema").unwrap_or(&Json::Null), patterns);
    prune::prune_defaults(&mut schema);
    schema
}

fn deprecation(definition: &Json, version: &Json) -> Option<String> {
    let is_set = |version: &Json, key: &str| version[key] == true;
    if !is_set(version, "deprecated") {
        return None;
    }
    if let Some(text) = version["deprecationWarning"].as_str() {
        return Some(text.into());
    }
    let (group, kind) = (definition.text("/spec/group"), definition.text("/spec/names/kind"));
    let name = version.text("/name");
    let mut newer: Vec<&str> = definition
        .list("/spec/versions")
        .filter(|other| is_set(other, "served") && !is_set(other, "deprecated"))
        .map(|other| other.text("/name"))
        .filter(|other| compare_versions(other, name).is_lt())
        .collect();
    newer.sort_by(|a, b| compare_versions(a, b));
    let suggestion = newer.first().map_or_else(String::new, |other| format!("; use {group}/{other} {kind}"));
    Some(format!("{group}/{name} {kind} is deprecated{suggestion}"))
}

fn subresources(version: &Json) -> Vec<ServedSubresource> {
    let verbs = vec![Verb::Get, Verb::Patch, Verb::Update];
    let mut found = Vec::new();
    if version.has("/subresources/status") {
        found.push(ServedSubresource { subresource: Subresource::Status, verbs: verbs.clone(), kind: None });
    }
    if version.has("/subresources/scale") {
        let kind = GroupVersionKind::new("autoscaling", "v1", "Scale");
        found.push(ServedSubresource { subresource: Subresource::Scale, verbs, kind: Some(kind) });
    }
    found
}
