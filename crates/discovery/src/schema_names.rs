//! Determines the names of schemas in OpenAPI documents.

use pintle_json::{Json, json};
use pintle_kinds::{Kind, Origin};
use pintle_meta::{GroupVersion, GroupVersionKind};
use pintle_schema::openapi::name;
use pintle_schema::{Schema, Type};

pub(super) const PATCH_SCHEMA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
pub(super) const STATUS_SCHEMA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
pub(super) const DELETE_OPTIONS_SCHEMA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
pub(super) const RESOURCES_SCHEMA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.APIResourceList";
pub(super) const METADATA_SCHEMA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
pub(super) const LIST_METADATA_SCHEMA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

pub(super) fn built_in(gvk: &GroupVersionKind) -> Option<Type> {
    let version = GroupVersion::new(&gvk.group, &gvk.version).to_string();
    Some(Schema::builtin(&version, &gvk.kind)?.root().clone())
}

pub(super) fn gvk(gvk: &GroupVersionKind) -> Json {
    json!({"group": gvk.group, "kind": gvk.kind, "version": gvk.version})
}

pub(super) fn schema_name(kind: &Kind) -> String {
    match kind.origin() {
        Origin::Custom => {
            let package = kind.group.rsplit('.').collect::<Vec<_>>().join(".");
            format!("{package}.{}.{}", kind.version, kind.kind)
        }
        Origin::BuiltIn => built_in_schema_name(&kind.gvk()),
    }
}

pub(super) fn list_schema_name(kind: &Kind) -> String {
    let name = schema_name(kind);
    let package = name.strip_suffix(kind.kind.as_str()).unwrap_or(&name);
    format!("{package}{}", kind.list_kind)
}

pub(super) fn built_in_schema_name(gvk: &GroupVersionKind) -> String {
    match built_in(gvk) {
        Some(Type::Struct { struct_type, .. }) => name(&struct_type),
        _ => gvk.kind.clone(),
    }
}
