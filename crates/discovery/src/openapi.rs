//! Creates the OpenAPI 3 document of a group and version, which contains the operations and schemas of the kinds.

mod inlined;
mod kind_schemas;

use std::sync::Arc;

use pintle_json::{Json, Map, json};
use pintle_schema::{Type, openapi};

pub use inlined::inlined;
use pintle_apimachinery::request::Verb;
use pintle_kinds::Kind;

use super::operations;
use super::schema_names::{PATCH_SCHEMA, built_in, list_schema_name, schema_name};

pub(super) fn document(kinds: &[Arc<Kind>]) -> Json {
    let custom = kinds.iter().any(|kind| kind.strategy.openapi().is_some());
    let mut paths = Map::new();
    paths.extend(kinds.first().filter(|_| !custom).map(|kind| operations::resources(&kind.group_version())));
    paths.extend(kinds.iter().flat_map(|kind| operations::paths(kind)));
    json!({
        "openapi": "3.0.0",
        "info": {"title": title(custom), "version": version(custom)},
        "paths": paths,
        "components": {"schemas": schemas(kinds, custom)},
    })
}

pub(super) fn title(custom: bool) -> &'static str {
    if custom { "Kubernetes CRD Swagger" } else { "Kubernetes" }
}

pub(super) fn version(custom: bool) -> &'static str {
    if custom { "v0.1.0" } else { "unversioned" }
}

fn schemas(kinds: &[Arc<Kind>], custom: bool) -> Map {
    let mut names = if custom { Vec::new() } else { vec!["meta.APIResourceList"] };
    // Check for stored objects, because objects of some kinds, such as reviews, are not stored.
    let stored = kinds.iter().any(|kind| kind.supports(Verb::List));
    if stored {
        names.extend(["meta.ObjectMeta", "meta.ListMeta", "meta.Status", "meta.DeleteOptions"]);
    }
    let mut types: Vec<Type> = names.into_iter().map(pintle_schema::named).collect();
    for kind in kinds {
        let own = kind.strategy.openapi().is_none().then(|| kind.schema()).flatten();
        types.extend(own.map(|schema| schema.root().clone()));
        types.extend(kind.subresources.iter().filter_map(|part| built_in(part.kind.as_ref()?)));
    }
    let mut schemas = openapi::schemas(&types);
    schemas.extend(stored.then(|| (PATCH_SCHEMA.to_owned(), json!({"type": "object"}))));
    for kind in kinds {
        let name = schema_name(kind);
        let declared = kind.strategy.openapi().cloned().map(kind_schemas::declared);
        if let Some(mut schema) = declared.or_else(|| schemas.remove(&name)) {
            kind_schemas::complete(kind, &mut schema);
            schemas.insert(name, schema);
        }
        if kind.supports(Verb::List) {
            schemas.insert(list_schema_name(kind), kind_schemas::list(kind));
        }
    }
    schemas
}
