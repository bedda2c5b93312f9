//! Creates the kinds of an established definition.

use std::sync::Arc;

use pintle_apimachinery::object::metadata;
use pintle_apimachinery::request::webhook_calls::{ConversionWebhook, WebhookClient};
use pintle_apimachinery::request::{Subresource, Verb};
use pintle_json::Json;
use pintle_kinds::{Conduct, Kind, ServedSubresource, compare_versions};
use pintle_meta::{GroupVersion, GroupVersionKind, Scope};

use super::custom_strategy::{Custom, Versions, published};
use super::naming::DefinitionNames;
use super::pattern::Patterns;
use super::prune;
use super::rules::RuleTree;
use super::structural::Structural;
use super::weight;
use super::{is_established, is_terminating};

const VERBS: [Verb; 8] =
    [Verb::Delete, Verb::DeleteCollection, Verb::Get, Verb::List, Verb::Patch, Verb::Create, Verb::Update, Verb::Watch];

/// Returns a definition's kinds, one for each served version. Returns no kinds if the definition is not established.
pub fn kinds(definition: &Json) -> Vec<Kind> {
    kinds_of(definition, |version| version.is_true("/served"))
}

/// Returns the kind of an established definition's storage version, which need not be served.
pub fn stored_kind(definition: &Json) -> Option<Kind> {
    kinds_of(definition, |version| version.is_true("/storage")).pop()
}

fn kinds_of(definition: &Json, is_wanted: impl Fn(&Json) -> bool) -> Vec<Kind> {
    if !is_established(definition) {
        return Vec::new();
    }
    let versions: Vec<_> = definition.list("/spec/versions").collect();
    let mut patterns = Patterns::default();
    let schemas: Vec<_> = versions.iter().map(|version| schema(version, &mut patterns)).collect();
    let rules: Vec<_> =
        versions.iter().map(|version| version.at("/schema/openAPIV3Schema").and_then(RuleTree::read)).collect();
    let storage = versions.iter().position(|version| version.is_true("/storage")).unwrap_or(0);
    let Some(stored_name) = versions.get(storage).map(|version| version.text("/name")) else { return Vec::new() };
    let group = definition.text("/spec/group");
    let names = DefinitionNames::accepted(definition);
    let text = super::hash(&definition["spec"]["versions"].to_string());
    let stored = Arc::new(Versions {
        definition: metadata::uid(definition).into(),
        api_versions: versions.iter().map(|version| format!("{group}/{}", version.text("/name"))).collect(),
        weight: patterns.weight()
            + schemas.iter().map(weight::of_schema).max().unwrap_or(0)
            + rules.iter().flatten().map(RuleTree::weight).max().unwrap_or(0),
        schemas,
        rules,
        at: storage,
        conversion: conversion(definition, &names.kind),
    });
    let wanted = versions.iter().enumerate().filter(|(_, version)| is_wanted(version));
    let made = wanted.map(|(at, version)| {
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
            store: super::store(group, &names.plural),
            stored_version: Some(GroupVersion::new(group, stored_name)),
            subresources: subresources(version),
            conduct: Conduct {
                generation: true,
                needs_version: true,
                status_keeps_metadata: true,
                terminating: is_terminating(definition),
                ..Conduct::default()
            },
            resource_key: std::sync::OnceLock::new(),
            columns: std::sync::OnceLock::new(),
            types: std::sync::OnceLock::new(),
            strategy: Arc::new(Custom::new(version, at, Arc::clone(&stored), deprecation(definition, version), text)),
            plural: names.plural.clone(),
        }
    });
    made.collect()
}

/// Returns the conversion webhook and the schemas of all versions, or `None` if the definition has no webhook.
fn conversion(definition: &Json, kind: &str) -> Option<(Arc<ConversionWebhook>, Vec<Json>)> {
    let conversion = definition.at("/spec/conversion").filter(|conversion| conversion["strategy"] == "Webhook")?;
    let webhook = &conversion["webhook"];
    let known = webhook.texts("/conversionReviewVersions").find(|version| matches!(*version, "v1" | "v1beta1"))?;
    // As in kube-apiserver, the conversion timeout is 30 s.
    let client = Arc::new(WebhookClient { timeout_seconds: 30, ..WebhookClient::read(webhook) });
    let schemas = definition.list("/spec/versions").map(published).collect();
    Some((Arc::new(ConversionWebhook { client, kind: kind.into(), is_v1: known == "v1" }), schemas))
}

fn schema(version: &Json, patterns: &mut Patterns) -> Structural {
    let mut schema = Structural::read(version.at("/schema/openAPIV3Schema").unwrap_or(&Json::Null), patterns);
    prune::prune_defaults(&mut schema);
    schema
}

fn deprecation(definition: &Json, version: &Json) -> Option<String> {
    let flag = |version: &Json, key: &str| version[key] == true;
    if !flag(version, "deprecated") {
        return None;
    }
    if let Some(text) = version["deprecationWarning"].as_str() {
        return Some(text.into());
    }
    let (group, kind) = (definition.text("/spec/group"), definition.text("/spec/names/kind"));
    let name = version.text("/name");
    let mut better: Vec<&str> = definition
        .list("/spec/versions")
        .filter(|other| flag(other, "served") && !flag(other, "deprecated"))
        .map(|other| other.text("/name"))
        .filter(|other| compare_versions(other, name).is_lt())
        .collect();
    better.sort_by(|a, b| compare_versions(a, b));
    let instead = better.first().map_or_else(String::new, |other| format!("; use {group}/{other} {kind}"));
    Some(format!("{group}/{name} {kind} is deprecated{instead}"))
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
