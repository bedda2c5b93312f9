//! The OpenAPI documents, versions 2 and 3, as far as clients read them.

use pintle_json::{Json, Map, json};
use pintle_meta::GroupVersionKind;

use super::etag;
use super::operations::{self, DELETE_OPTIONS_SCHEMA, STATUS_SCHEMA, schema_name_of_list};
use crate::kinds::{Kind, Kinds};
use crate::request::Verb;

const PATCHES: &[&str] =
    &["application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json"];
pub(super) const APPLY: &str = "application/apply-patch+yaml";
pub(super) const PATCH_SCHEMA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
const METADATA_SCHEMA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_METADATA_SCHEMA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// `/openapi/v3`: each group and version with the path of its document, by which the document can be kept for ever.
pub(crate) fn index(kinds: &Kinds) -> Json {
    let mut paths = Map::new();
    for (group, versions) in kinds.groups() {
        for version in versions {
            let path = if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
            let Some(document) = document(kinds, group, version) else { continue };
            let hash = etag(document.to_string().as_bytes());
            paths.insert(path.clone(), json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")}));
        }
    }
    json!({"paths": paths})
}

/// The OpenAPI 3 document of one group and version: its paths, and the schemas of its custom resources.
pub(crate) fn document(kinds: &Kinds, group: &str, version: &str) -> Option<Json> {
    let kinds = kinds.version(group, version);
    let custom = kinds.first()?.is_custom();
    let mut paths = Map::new();
    let mut schemas = Map::new();
    schemas.insert(PATCH_SCHEMA, json!({"type": "object"}));
    // Of what is not a custom resource's own, the documents say no more than that it is there.
    let shared =
        |name: &str| (name.to_owned(), json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    schemas.extend([METADATA_SCHEMA, LIST_METADATA_SCHEMA].map(shared));
    for kind in kinds {
        if !kind.is_custom() {
            paths.extend(kind_paths(kind, Form::Three));
            continue;
        }
        paths.extend(operations::paths(kind));
        schemas.extend([STATUS_SCHEMA, DELETE_OPTIONS_SCHEMA].map(shared));
        let elsewhere = kind.subresources.iter().filter_map(|subresource| subresource.kind.as_ref());
        schemas.extend(elsewhere.map(|gvk| shared(&schema_of(gvk))));
        if let Some(schema) = kind.strategy.openapi() {
            schemas.extend(custom_schemas(kind, schema));
        }
    }
    let title = if custom { "Kubernetes CRD Swagger" } else { "Kubernetes" };
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": title, "version": if custom { "v0.1.0" } else { "unversioned" }},
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}

/// `/openapi/v2`: the paths of all kinds in one OpenAPI 2 document.
pub(crate) fn document_v2(kinds: &Kinds) -> Json {
    let mut paths = Map::new();
    let mut definitions = Map::new();
    for kind in kinds.kinds().filter(|kind| !kind.conduct.transient) {
        paths.extend(kind_paths(kind, Form::Two));
        let schema =
            json!({"x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-group-version-kind": [gvk(kind)]});
        definitions.insert(schema_name(kind), schema);
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
        "definitions": definitions,
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Two,
    Three,
}

/// The paths of single objects, with what clients look for there: how PATCH can be asked.
fn kind_paths(kind: &Kind, form: Form) -> Vec<(String, Json)> {
    if !kind.allows(Verb::Patch) {
        return Vec::new();
    }
    let root = kind.group_version().path();
    let place = if kind.namespaced() { "/namespaces/{namespace}" } else { "" };
    let object = format!("{root}{place}/{}/{{name}}", kind.plural);
    let patchable = kind.subresources.iter().filter(|subresource| subresource.verbs.contains(&Verb::Patch));
    let below: Vec<_> = patchable.map(|subresource| format!("{object}/{}", subresource.part.name())).collect();
    let paths = std::iter::once(object).chain(below);
    paths.map(|path| (path, json!({"patch": patch_operation(kind, form)}))).collect()
}

fn patch_operation(kind: &Kind, form: Form) -> Json {
    let parameter = |(name, of_type): (&str, &str)| match form {
        Form::Two => json!({"name": name, "in": "query", "type": of_type, "uniqueItems": true}),
        Form::Three => json!({"name": name, "in": "query", "schema": {"type": of_type, "uniqueItems": true}}),
    };
    let parameters: Vec<_> =
        [("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"), ("force", "boolean")]
            .map(parameter)
            .into();
    let types = patch_types(kind).chain([APPLY]);
    let mut operation = json!({
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": gvk(kind),
    });
    match form {
        Form::Two => operation.set("consumes", types.collect::<Vec<_>>()),
        Form::Three => {
            let schema = json!({"schema": {"$ref": format!("#/components/schemas/{PATCH_SCHEMA}")}});
            let content: Map = types.map(|content| (content.to_owned(), schema.clone())).collect();
            operation.set("requestBody", json!({"content": content, "required": true}));
        }
    }
    operation
}

/// How a patch of it may be written, but for one that is applied.
pub(super) fn patch_types(kind: &Kind) -> impl Iterator<Item = &'static str> {
    let is_custom = kind.is_custom();
    PATCHES.iter().copied().filter(move |content| !(is_custom && content.contains("strategic")))
}

const CONVENTIONS: &str =
    "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";

/// The schemas of a custom resource and of its list.
fn custom_schemas(kind: &Kind, mut schema: Json) -> [(String, Json); 2] {
    spell_out(&mut schema);
    let object = documented(METADATA_SCHEMA, &format!("Standard object's metadata. {CONVENTIONS}#metadata"));
    let list = documented(LIST_METADATA_SCHEMA, &format!("Standard list metadata. {CONVENTIONS}#types-kinds"));
    let name = schema_name(kind);
    let items = json!({
        "description": format!("List of {}. {CONVENTIONS}", kind.plural),
        "type": "array",
        "items": {"$ref": format!("#/components/schemas/{name}")},
    });
    let mut of_list = json!({
        "description": format!("{} is a list of {}", kind.list_kind, kind.kind),
        "type": "object",
        "required": ["items"],
        "properties": {"items": items},
        "x-kubernetes-group-version-kind": [{"group": kind.group, "kind": kind.list_kind, "version": kind.version}],
    });
    for (schema, metadata) in [(&mut schema, object), (&mut of_list, list)] {
        if let Some(properties) = schema.member("properties") {
            properties.set("apiVersion", text(&format!("{API_VERSION} {CONVENTIONS}#resources")));
            properties.set("kind", text(&format!("{KIND} {CONVENTIONS}#types-kinds")));
            properties.set("metadata", metadata);
        }
    }
    schema.set("x-kubernetes-group-version-kind", json!([gvk(kind)]));
    [(schema_name_of_list(kind), of_list), (name, schema)]
}

const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should convert \
                           recognized schemas to the latest internal value, and may reject unrecognized values.";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this from the \
                    endpoint the client submits requests to. Cannot be updated. In CamelCase.";
const EMBEDDED_API_VERSION: &str = "apiVersion defines the versioned schema of this representation of an object.";
const EMBEDDED_KIND: &str = "kind is a string value representing the type of this object. In CamelCase.";

fn text(description: &str) -> Json {
    json!({"description": description, "type": "string"})
}

fn documented(schema: &str, description: &str) -> Json {
    json!({"description": description, "allOf": [{"$ref": format!("#/components/schemas/{schema}")}]})
}

/// Writes into a declared schema what its extensions imply, for clients that know none of them. It nests no deeper than what is stored.
fn spell_out(schema: &mut Json) {
    for parts in ["properties", "allOf", "anyOf", "oneOf"] {
        match schema.get_mut(parts) {
            Some(Json::Object(parts)) => parts.values_mut().for_each(spell_out),
            Some(Json::Array(parts)) => parts.iter_mut().for_each(spell_out),
            _ => (),
        }
    }
    for part in ["items", "additionalProperties", "not"] {
        schema.get_mut(part).into_iter().for_each(spell_out);
    }
    let is = |schema: &Json, extension: &str| schema[extension] == true;
    if is(schema, "x-kubernetes-int-or-string") {
        schema.default("anyOf", json!([{"type": "integer"}, {"type": "string"}]));
    }
    if is(schema, "x-kubernetes-embedded-resource") {
        schema.default("properties", json!({}));
        if let Some(properties) = schema.member("properties") {
            properties.set("apiVersion", text(&format!("{EMBEDDED_API_VERSION} {CONVENTIONS}#resources")));
            properties.set("kind", text(&format!("{EMBEDDED_KIND} {CONVENTIONS}#types-kinds")));
            let metadata = format!("Standard object's metadata. {CONVENTIONS}#metadata");
            properties.set("metadata", documented(METADATA_SCHEMA, &metadata));
        }
        let mut required = schema.list("/required").cloned().collect::<Vec<_>>();
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|known| known == name) {
                required.push(name.into());
            }
        }
        schema.set("required", required);
    }
}

pub(super) fn gvk(kind: &Kind) -> Json {
    json!({"group": kind.group, "kind": kind.kind, "version": kind.version})
}

/// `com.example.v1.Widget`, `io.k8s.api.apps.v1.Deployment`.
pub(super) fn schema_name(kind: &Kind) -> String {
    match kind.is_custom() {
        true => {
            let package = kind.group.rsplit('.').collect::<Vec<_>>().join(".");
            format!("{package}.{}.{}", kind.version, kind.kind)
        }
        false => schema_of(&GroupVersionKind::new(&*kind.group, &*kind.version, &*kind.kind)),
    }
}

/// The same of a built-in kind.
pub(super) fn schema_of(gvk: &GroupVersionKind) -> String {
    let package = gvk.group.split('.').next().filter(|group| !group.is_empty()).unwrap_or("core");
    format!("io.k8s.api.{package}.{}.{}", gvk.version, gvk.kind)
}
