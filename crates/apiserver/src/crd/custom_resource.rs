//! Makes the kinds that an established definition serves, with their rules.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use jiff::Timestamp;
use pintle_json::{Json, json};
use pintle_meta::{GroupVersion, GroupVersionKind, Scope};

use super::at::At;
use super::naming::Names;
use super::structural::Structural;
use super::{columns, default, embedded, is_established, is_terminating, prune, validator};
use crate::kinds::reset::{ALL_BUT_STATUS, Reset};
use crate::kinds::table::Column;
use crate::kinds::without_effect::RULES;
use crate::kinds::{Conduct, Context, Form, Kind, Origin, Scale, Strategy, Subresource, compare_versions};
use crate::object::{differ_outside, has, is_true, list, metadata, set, text, text_at};
use crate::request::{Part, Verb};
use crate::validate::{Faults, FieldFault, NameRule};

const VERBS: [Verb; 8] =
    [Verb::Delete, Verb::DeleteCollection, Verb::Get, Verb::List, Verb::Patch, Verb::Create, Verb::Update, Verb::Watch];

/// The kinds of an established definition, one for each served version; none before.
pub(crate) fn kinds(definition: &Json) -> Vec<Kind> {
    if !is_established(definition) {
        return Vec::new();
    }
    let versions: Vec<_> = list(definition, "/spec/versions").collect();
    let schemas: Vec<_> = versions.iter().map(|version| schema(version)).collect();
    let storage = versions.iter().position(|version| is_true(version, "/storage")).unwrap_or(0);
    let Some(stored_name) = versions.get(storage).map(|version| text_at(version, "/name")) else { return Vec::new() };
    let group = text_at(definition, "/spec/group");
    let names = Names::accepted(definition);
    let text = hash(&definition["spec"]["versions"].to_string());
    let stored = Arc::new(Stored {
        definition: metadata::uid(definition).into(),
        api_versions: versions.iter().map(|version| format!("{group}/{}", text_at(version, "/name"))).collect(),
        schemas,
        at: storage,
    });
    let served = versions.iter().enumerate().filter(|(_, version)| is_true(version, "/served"));
    let made = served.map(|(at, version)| {
        let scope = if text_at(definition, "/spec/scope") == "Cluster" { Scope::Cluster } else { Scope::Namespaced };
        Kind {
            group: group.into(),
            version: text_at(version, "/name").into(),
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
                terminating: is_terminating(definition),
                ..Conduct::default()
            },
            columns: std::sync::OnceLock::new(),
            types: std::sync::OnceLock::new(),
            strategy: Arc::new(Custom::new(version, at, Arc::clone(&stored), deprecation(definition, version), text)),
            plural: names.plural.clone(),
        }
    });
    made.collect()
}

fn schema(version: &Json) -> Structural {
    Structural::read(version.at("/schema/openAPIV3Schema").unwrap_or(&Json::Null))
}

/// 0 stands for none.
fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish().max(1)
}

/// What to warn of in each request of a version that is on its way out.
fn deprecation(definition: &Json, version: &Json) -> Option<String> {
    let is = |version: &Json, key: &str| version.get(key) == Some(&Json::Bool(true));
    if !is(version, "deprecated") {
        return None;
    }
    if let Some(text) = version.get("deprecationWarning").and_then(Json::as_str) {
        return Some(text.into());
    }
    let (group, kind) = (text_at(definition, "/spec/group"), text_at(definition, "/spec/names/kind"));
    let name = text_at(version, "/name");
    let mut better: Vec<&str> = list(definition, "/spec/versions")
        .filter(|other| is(other, "served") && !is(other, "deprecated"))
        .map(|other| text_at(other, "/name"))
        .filter(|other| compare_versions(other, name).is_lt())
        .collect();
    better.sort_by(|a, b| compare_versions(a, b));
    let instead = better.first().map_or_else(String::new, |other| format!("; use {group}/{other} {kind}"));
    Some(format!("{group}/{name} {kind} is deprecated{instead}"))
}

fn subresources(version: &Json) -> Vec<Subresource> {
    let verbs = vec![Verb::Get, Verb::Patch, Verb::Update];
    let mut found = Vec::new();
    if has(version, "/subresources/status") {
        found.push(Subresource { part: Part::Status, verbs: verbs.clone(), kind: None });
    }
    if has(version, "/subresources/scale") {
        let kind = GroupVersionKind::new("autoscaling", "v1", "Scale");
        found.push(Subresource { part: Part::Scale, verbs, kind: Some(kind) });
    }
    found
}

/// What all versions of one definition share.
struct Stored {
    /// The uid of the definition.
    definition: String,
    api_versions: Vec<String>,
    schemas: Vec<Structural>,
    at: usize,
}

/// One version of a custom resource.
struct Custom {
    stored: Arc<Stored>,
    at: usize,
    has_status: bool,
    scale: Option<Scale>,
    selectable: Vec<String>,
    columns: Vec<Column>,
    cells: Vec<columns::Cell>,
    openapi: Json,
    deprecation: Option<String>,
    /// Tells this version of the definition, as it is now, from all others.
    form: u64,
}

impl Custom {
    fn new(version: &Json, at: usize, stored: Arc<Stored>, deprecation: Option<String>, versions: u64) -> Self {
        let path = |key: &str| text_at(version, &format!("/subresources/scale/{key}")).to_owned();
        let (columns, cells) = columns::read(version);
        Self {
            at,
            has_status: has(version, "/subresources/status"),
            scale: has(version, "/subresources/scale").then(|| Scale {
                spec_replicas: path("specReplicasPath"),
                status_replicas: path("statusReplicasPath"),
                label_selector: path("labelSelectorPath"),
            }),
            selectable: list(version, "/selectableFields")
                .map(|field| text_at(field, "/jsonPath").trim_start_matches('.').to_owned())
                .collect(),
            columns,
            cells,
            openapi: published(version),
            deprecation,
            form: hash(&(versions, &stored.api_versions, at)),
            stored,
        }
    }

    fn schema(&self) -> &Structural {
        static EMPTY: std::sync::OnceLock<Structural> = std::sync::OnceLock::new();
        self.stored.schemas.get(self.at).unwrap_or_else(|| EMPTY.get_or_init(Structural::default))
    }

    fn faults(&self, object: &Json, old: Option<&Json>) -> Faults {
        let mut faults = validator::validate(self.schema(), object, old, "");
        if let Some(scale) = &self.scale {
            let replicas = super::json_path::lookup(&scale.spec_replicas, object).and_then(Json::as_i64);
            if let Some(replicas) = replicas.filter(|replicas| *replicas < 0) {
                let field = scale.spec_replicas.clone();
                faults.push(FieldFault::invalid(field, &replicas.into(), "should be a non-negative integer"));
            }
        }
        faults.extend(embedded::faults(self.schema(), object));
        faults.extend(validator::duplicates(self.schema(), object, old, ""));
        faults
    }
}

/// The schema of a version, as clients are shown it: with what can be selected by.
fn published(version: &Json) -> Json {
    let mut schema = version.at("/schema/openAPIV3Schema").cloned().unwrap_or_default();
    let fields = list(version, "/selectableFields").map(|field| text_at(field, "/jsonPath").trim_start_matches('.'));
    let fields: Vec<_> = fields.map(|path| json!({"fieldPath": path})).collect();
    if !fields.is_empty() {
        set(&mut schema, "x-kubernetes-selectable-fields", fields.into());
    }
    schema
}

impl Strategy for Custom {
    fn origin(&self) -> Origin {
        Origin::Custom
    }

    fn definition(&self) -> Option<&str> {
        Some(&self.stored.definition)
    }

    fn prune(&self, object: &mut Json) -> Vec<String> {
        default::normalise_numbers(object);
        let version = text_at(object, "/apiVersion");
        let at = self.stored.api_versions.iter().position(|known| known == version);
        match at.and_then(|at| self.stored.schemas.get(at)) {
            Some(schema) => prune::prune(schema, object),
            // Nothing is known of a version that the definition has not. The object is refused soon.
            None => {
                let fields = object.as_object().into_iter().flat_map(|members| members.keys());
                fields
                    .filter(|name| !["apiVersion", "kind", "metadata"].contains(&name.as_str()))
                    .map(Into::into)
                    .collect()
            }
        }
    }

    fn malformed(&self, object: &Json) -> Option<String> {
        embedded::malformed(self.schema(), object, At::Start(""))
    }

    fn drop_nulls(&self, object: &mut Json) {
        default::drop_nulls(self.schema(), object);
    }

    fn defaults(&self, object: &mut Json) {
        default::default(self.schema(), object);
    }

    fn prepare_for_update(&self, _: &Context<'_>, new: &mut Json, _: &Json, _: Part) {
        prune::prune(self.schema(), new);
    }

    fn changes_generation(&self, new: &Json, old: &Json) -> bool {
        let aside: &[&str] = if self.has_status {
            &["apiVersion", "kind", "metadata", "status"]
        } else {
            &["apiVersion", "kind", "metadata"]
        };
        differ_outside(new, old, aside)
    }

    fn validate_create(&self, object: &Json) -> Faults {
        self.faults(object, None)
    }

    fn validate_update(&self, new: &Json, old: &Json, part: Part) -> Faults {
        if part != Part::Status {
            return self.faults(new, Some(old));
        }
        let (Some(schema), Some(status)) = (self.schema().properties.get("status"), new.get("status")) else {
            return Faults::default();
        };
        // The messages leave the first part of the path out.
        let shortened = |mut fault: FieldFault| {
            fault.message = fault.message.replace("status.", "");
            fault
        };
        let faults = validator::validate(schema, status, old.get("status"), "status").into_iter().map(shortened);
        faults.chain(validator::duplicates(schema, status, old.get("status"), "status")).collect()
    }

    fn warnings(&self, object: &Json, _: Option<&Json>, part: Part) -> Vec<String> {
        let ruled = match part {
            Part::Status => {
                let schema = self.schema().properties.get("status");
                schema.and_then(|schema| schema.ruled(object.get("status")?, At::Start("status")))
            }
            _ => self.schema().ruled(object, At::Start("")),
        };
        ruled
            .map(|path| format!("x-kubernetes-validations of {path} have no effect: {}", RULES.1))
            .into_iter()
            .collect()
    }

    fn deprecation(&self) -> Option<&str> {
        self.deprecation.as_deref()
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Subdomain
    }

    fn field_labels(&self) -> Option<Vec<&str>> {
        Some(self.selectable.iter().map(String::as_str).collect())
    }

    fn field(&self, object: &Json, label: &str) -> Option<String> {
        Some(text(super::json_path::lookup(label, object)))
    }

    fn to_stored(&self, mut object: Json) -> Json {
        if let Some(api_version) = self.stored.api_versions.get(self.stored.at) {
            set(&mut object, "apiVersion", api_version.as_str().into());
        }
        object
    }

    fn form(&self) -> Form {
        Form::Checked(self.form)
    }

    fn shown(&self, object: &Arc<Json>, written: &str) -> Arc<Json> {
        let written = self.stored.api_versions.iter().position(|known| known == written).unwrap_or(self.stored.at);
        let (Some(mine), own) = (self.stored.api_versions.get(self.at), self.schema()) else {
            return Arc::clone(object);
        };
        // What an object lacks, it lacks by the schema that it was written with; other versions only leave out.
        let Some(schema) = self.stored.schemas.get(written) else { return Arc::clone(object) };
        let fits = prune::is_pruned(schema, object) && default::is_defaulted(schema, object);
        if fits && written == self.at {
            return Arc::clone(object);
        }
        let mut shown = Json::clone(object);
        if !fits {
            prune::prune(schema, &mut shown);
            default::drop_nulls(schema, &mut shown);
            default::default(schema, &mut shown);
        }
        if written != self.at {
            set(&mut shown, "apiVersion", mine.as_str().into());
            prune::prune(own, &mut shown);
        }
        Arc::new(shown)
    }

    fn openapi(&self) -> Option<Json> {
        Some(self.openapi.clone())
    }

    fn scale(&self) -> Option<&Scale> {
        self.scale.as_ref()
    }

    fn reset_fields(&self, part: Part) -> Option<Reset> {
        (part == Part::Status).then_some(ALL_BUT_STATUS)
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(self.columns.clone())
    }

    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        self.cells.iter().map(|cell| cell.of(object, now)).collect()
    }
}
