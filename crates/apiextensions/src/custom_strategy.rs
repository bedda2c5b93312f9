//! The strategy of custom resources, derived from their definition.

use std::sync::Arc;

use jiff::Timestamp;
use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::object::{differ_outside, metadata, metadata_mut, text};
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::request::webhook_calls::{ConversionWebhook, WebhookCalls, WebhookClient};
use pintle_apimachinery::validate::{FieldError, FieldErrorType, FieldErrors};
use pintle_fieldmanager::Conversion;
use pintle_json::{Json, json};
use pintle_kinds::table::{Column, Table};
use pintle_kinds::{Form, Layout, Origin, PlainFinalizers, Routing, Scale, Strategy, nested_integer, nested_text};
use pintle_schema::Schema;

use super::field_path::FieldPath;
use super::rules::{self, RuleTree};
use super::structural::Structural;
use super::{columns, default, duplicates, embedded, prune, validator};

/// The data that all versions of a custom resource share.
pub(super) struct Versions {
    pub(super) definition: String,
    pub(super) api_versions: Vec<String>,
    pub(super) schemas: Vec<Structural>,
    pub(super) rules: Vec<Option<RuleTree>>,
    /// The cost of validating one object in the version with the most expensive validation. A cost of 1 corresponds to
    /// the time to process one byte of a request body.
    pub(super) weight: usize,
    /// The storage version's index in the lists of `Versions`.
    pub(super) storage_index: usize,
    /// The conversion webhook and a copy of the schemas of all versions, or `None` if a conversion only changes
    /// `apiVersion`.
    pub(super) conversion: Option<(Arc<ConversionWebhook>, Vec<Json>)>,
}

impl Versions {
    /// Returns the index of a version, or of the storage version if the definition does not contain the version.
    fn index_of(&self, api_version: &str) -> usize {
        self.api_versions.iter().position(|known| known == api_version).unwrap_or(self.storage_index)
    }
}

#[derive(Clone)]
pub(super) struct CustomStrategy {
    versions: Arc<Versions>,
    /// This version's index in the lists of `versions`.
    index: usize,
    has_status: bool,
    scale: Option<Scale>,
    selectable_paths: Vec<String>,
    columns: Vec<Column>,
    cells: Vec<columns::Cell>,
    openapi: Json,
    deprecation: Option<String>,
    /// A hash of this version and the current definition.
    form: u64,
    /// The webhook calls of the current request, through which objects are converted.
    calls: Option<WebhookCalls>,
    /// If `true`, this strategy stores objects in its own version instead of the storage version.
    keeps_version: bool,
}

impl CustomStrategy {
    pub(super) fn new(
        version: &Json,
        index: usize,
        versions: Arc<Versions>,
        deprecation: Option<String>,
        versions_hash: u64,
    ) -> Self {
        let path = |key: &str| version.text(&format!("/subresources/scale/{key}")).to_owned();
        let (columns, cells) = columns::read(version);
        Self {
            index,
            has_status: version.has("/subresources/status"),
            scale: version.has("/subresources/scale").then(|| Scale {
                spec_replicas: path("specReplicasPath"),
                status_replicas: path("statusReplicasPath"),
                label_selector: path("labelSelectorPath"),
                is_declared: true,
            }),
            selectable_paths: version
                .list("/selectableFields")
                .map(|field| field.text("/jsonPath").trim_start_matches('.').to_owned())
                .collect(),
            columns,
            cells,
            openapi: published(version),
            deprecation,
            form: super::hash(&(versions_hash, &versions.api_versions, index)),
            calls: None,
            keeps_version: false,
            versions,
        }
    }

    fn schema(&self) -> &Structural {
        static EMPTY: std::sync::OnceLock<Structural> = std::sync::OnceLock::new();
        self.versions.schemas.get(self.index).unwrap_or_else(|| EMPTY.get_or_init(Structural::default))
    }

    fn validation_errors(&self, object: &Json, old: Option<&Json>) -> FieldErrors {
        let mut errors = validator::validate(self.schema(), object, old, "");
        // Validate `apiVersion` and `kind` even if they are unchanged.
        for key in ["apiVersion", "kind"] {
            if let (Some(schema), Some(value)) = (self.schema().properties.get(key), object.get(key))
                && old.is_some_and(|old| old.get(key) == Some(value))
            {
                errors.extend(validator::validate(schema, value, None, key));
            }
        }
        if let Some(scale) = &self.scale {
            errors.extend(replicas_error(&scale.spec_replicas, object));
        }
        errors.extend(self.status_scale_errors(object));
        errors.extend(embedded::errors(self.schema(), object));
        errors.extend(duplicates::errors(self.schema(), object, old, ""));
        self.add_rule_errors(&mut errors, object, old);
        errors
    }

    /// Evaluates the CEL rules for an object. Skips the rules if the object has an error that could make a rule fail.
    fn add_rule_errors(&self, errors: &mut FieldErrors, object: &Json, old: Option<&Json>) {
        let Some(tree) = self.versions.rules.get(self.index).and_then(Option::as_ref) else { return };
        // Skip the rules for an object without a name, because the metadata validation has already reported it.
        let has_name = !metadata::name(object).is_empty();
        if !has_name || errors.has_type(&BLOCKING_ERROR_TYPES) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete \
                       validation";
            return errors.push(FieldError::invalid("<nil>", &Json::Null, why));
        }
        let mut rule_errors = rules::evaluate(tree, self.schema(), object, old);
        rule_errors.take_warnings().into_iter().for_each(|text| errors.warn(|| text));
        errors.extend(rule_errors);
    }

    /// Converts an object with the definition's webhook. Returns `None` if there is no webhook, or if the converted
    /// object is not available yet. If the conversion fails, returns `None`, and the request fails.
    fn convert_by_webhook(&self, object: &Json, from: &str, to: &str) -> Option<Json> {
        self.convert(object, from, to).unwrap_or_else(|why| {
            self.calls.iter().for_each(|calls| calls.fail_conversion(why.clone()));
            None
        })
    }

    fn status_scale_errors(&self, object: &Json) -> FieldErrors {
        let Some(scale) = &self.scale else { return FieldErrors::default() };
        let selector = &scale.label_selector;
        let selector_error =
            nested_text(selector, object).err().map(|why| FieldError::invalid(selector, &"".into(), why));
        replicas_error(&scale.status_replicas, object).into_iter().chain(selector_error).collect()
    }
}

const BLOCKING_ERROR_TYPES: [FieldErrorType; 5] = [
    FieldErrorType::NotSupported,
    FieldErrorType::Required,
    FieldErrorType::TooLong,
    FieldErrorType::TooMany,
    FieldErrorType::TypeInvalid,
];

/// Checks the number of replicas at a path of the scale subresource. Returns an error if the path has a value that is
/// not a valid number of replicas. As in kube-apiserver, the error for a value of a wrong type shows 0 instead of this
/// value.
fn replicas_error(path: &str, object: &Json) -> Option<FieldError> {
    let replicas = match nested_integer(path, object) {
        Ok(replicas) => replicas?,
        Err(why) => return Some(FieldError::invalid(path, &0.into(), why)),
    };
    let why = match replicas {
        ..0 => "should be a non-negative integer".to_owned(),
        _ if replicas > i64::from(i32::MAX) => format!("should be less than or equal to {}", i32::MAX),
        _ => return None,
    };
    Some(FieldError::invalid(path, &replicas.into(), why))
}

/// Returns a version's OpenAPI schema, including its selectable fields.
pub(super) fn published(version: &Json) -> Json {
    let mut schema = version.at("/schema/openAPIV3Schema").cloned().unwrap_or_default();
    let fields = version.list("/selectableFields").map(|field| field.text("/jsonPath").trim_start_matches('.'));
    let fields: Vec<_> = fields.map(|path| json!({"fieldPath": path})).collect();
    if !fields.is_empty() {
        schema.set("x-kubernetes-selectable-fields", fields);
    }
    schema
}

pintle_meta::debug_struct!(CustomStrategy |self| { version = self.versions.api_versions.get(self.index), .. });

impl Conversion for CustomStrategy {
    fn convert(&self, object: &Json, from: &str, to: &str) -> Result<Option<Json>, String> {
        let Some((webhook, _)) = self.versions.conversion.as_ref().filter(|_| from != to) else { return Ok(None) };
        let Some(calls) = &self.calls else { return Ok(None) };
        let Some(converted) = calls.find_conversion(webhook, object, from, to).transpose()? else { return Ok(None) };
        let mut converted = Json::clone(&*converted);
        if let Some(version) = object["metadata"].get("resourceVersion") {
            metadata_mut(&mut converted).set("resourceVersion", version.clone());
        }
        Ok(Some(converted))
    }

    fn schema(&self, api_version: &str, kind: &str) -> Option<Schema> {
        let (_, schemas) = self.versions.conversion.as_ref()?;
        let index = self.versions.api_versions.iter().position(|known| known == api_version)?;
        Some(Schema::custom(kind, schemas.get(index)?))
    }
}

impl Strategy for CustomStrategy {
    fn origin(&self) -> Origin {
        Origin::Custom
    }

    fn definition(&self) -> Option<&str> {
        Some(&self.versions.definition)
    }

    fn layout(&self) -> Layout {
        Layout::Free
    }

    fn routing(&self) -> Routing {
        Routing::CatchAll
    }

    fn plain_finalizers(&self) -> PlainFinalizers {
        PlainFinalizers::Warned
    }

    fn prune(&self, object: &mut Json) -> Vec<String> {
        let version = object.text("/apiVersion");
        let at = self.versions.api_versions.iter().position(|known| known == version);
        match at.and_then(|at| self.versions.schemas.get(at)) {
            Some(schema) => prune::prune(schema, object),
            // For an unknown version, only report the unknown fields, because later code rejects the object.
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
        embedded::malformed(self.schema(), object, FieldPath::Start("")).map(|error| error.to_string())
    }

    fn drop_nulls(&self, object: &mut Json) {
        default::drop_nulls(self.schema(), object);
        embedded::normalise(self.schema(), object);
    }

    /// Normalizes embedded metadata, which a server-side apply leaves as the client wrote it.
    fn normalise(&self, object: &mut Json) {
        embedded::normalise(self.schema(), object);
    }

    fn defaults(&self, object: &mut Json) {
        default::default(self.schema(), object);
    }

    fn prepare_for_update(&self, _: &Context<'_>, new: &mut Json, _: &Json, _: Subresource) {
        prune::prune(self.schema(), new);
    }

    fn changes_generation(&self, new: &Json, old: &Json) -> bool {
        let ignored: &[&str] = if self.has_status {
            &["apiVersion", "kind", "metadata", "status"]
        } else {
            &["apiVersion", "kind", "metadata"]
        };
        differ_outside(new, old, ignored)
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        self.validation_errors(object, None)
    }

    fn validate_update(&self, new: &Json, old: &Json, part: Subresource) -> FieldErrors {
        if part != Subresource::Status {
            return self.validation_errors(new, Some(old));
        }
        let mut errors = FieldErrors::default();
        if let (Some(schema), Some(status)) = (self.schema().properties.get("status"), new.get("status")) {
            // As in kube-apiserver, the paths in error messages do not contain `status.`.
            let shortened = |mut error: FieldError| {
                error.message = error.message.replace("status.", "");
                error
            };
            let old_status = old.get("status");
            errors.extend(validator::validate(schema, status, old_status, "status").into_iter().map(shortened));
            errors.extend(duplicates::errors(schema, status, old_status, "status"));
        }
        errors.extend(self.status_scale_errors(new));
        self.add_rule_errors(&mut errors, new, Some(old));
        errors
    }

    fn deprecation(&self) -> Option<&str> {
        self.deprecation.as_deref()
    }

    fn field_labels(&self) -> Option<Vec<&str>> {
        Some(self.selectable_paths.iter().map(String::as_str).collect())
    }

    fn field(&self, object: &Json, label: &str) -> Option<String> {
        Some(text(super::json_path::lookup(label, object)))
    }

    fn to_stored(&self, mut object: Json) -> Json {
        let names = &self.versions.api_versions;
        let storage_index = if self.keeps_version { self.index } else { self.versions.storage_index };
        let (Some(own), Some(storage)) = (names.get(self.index), names.get(storage_index)) else {
            return object;
        };
        if let Some(converted) = self.convert_by_webhook(&object, own, storage) {
            object = converted;
            self.versions
                .schemas
                .get(storage_index)
                .into_iter()
                .for_each(|schema| drop(prune::prune(schema, &mut object)));
        }
        object.set("apiVersion", storage.as_str());
        object
    }

    fn conversion(&self) -> Option<&dyn Conversion> {
        self.calls.as_ref().and(self.versions.conversion.as_ref()).map(|_| self as &dyn Conversion)
    }

    fn conversion_webhook(&self) -> Option<&WebhookClient> {
        self.versions.conversion.as_ref().map(|(webhook, _)| &*webhook.client)
    }

    fn with_conversions(&self, calls: &WebhookCalls) -> Option<Arc<dyn Strategy>> {
        self.versions.conversion.as_ref()?;
        Some(Arc::new(Self { calls: Some(calls.clone()), ..self.clone() }))
    }

    fn without_conversions(&self) -> Option<Arc<dyn Strategy>> {
        self.versions.conversion.as_ref()?;
        Some(Arc::new(Self { keeps_version: true, ..self.clone() }))
    }

    fn needs_webhook(&self, stored_version: &str) -> bool {
        let stored_index = self.versions.index_of(stored_version);
        self.calls.is_some() && self.versions.conversion.is_some() && stored_index != self.index
    }

    fn form(&self) -> Form {
        Form::Checked(self.form)
    }

    fn to_version(&self, object: &Arc<Json>, stored_version: &str) -> Arc<Json> {
        let stored_index = self.versions.index_of(stored_version);
        let Some(api_version) = self.versions.api_versions.get(self.index) else {
            return Arc::clone(object);
        };
        // Use the defaults of the version in which the object was written. The schema of the served version is only
        // used to prune unknown fields.
        let Some(schema) = self.versions.schemas.get(stored_index) else { return Arc::clone(object) };
        let fits = prune::is_pruned(schema, object) && default::is_defaulted(schema, object);
        if fits && stored_index == self.index {
            return Arc::clone(object);
        }
        let mut converted = Json::clone(object);
        if !fits {
            prune::prune(schema, &mut converted);
            default::drop_nulls(schema, &mut converted);
            default::default(schema, &mut converted);
        }
        if stored_index != self.index {
            let from = &self.versions.api_versions[stored_index];
            if let Some(answer) = self.convert_by_webhook(&converted, from, api_version) {
                converted = answer;
            }
            converted.set("apiVersion", api_version.as_str());
            prune::prune(self.schema(), &mut converted);
        }
        Arc::new(converted)
    }

    fn schema_weight(&self) -> usize {
        self.versions.weight
    }

    fn openapi(&self) -> Option<&Json> {
        Some(&self.openapi)
    }

    fn scale(&self) -> Option<&Scale> {
        self.scale.as_ref()
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(self.columns.clone())
    }

    fn cells(&self, _: Table, object: &Json, now: Timestamp) -> Vec<Json> {
        self.cells.iter().map(|cell| cell.of(object, now)).collect()
    }
}
