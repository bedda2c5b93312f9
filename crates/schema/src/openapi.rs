//! Converts the built-in types to OpenAPI 3 schemas with the same names as in kube-apiserver.
//!
//! The schemas contain short descriptions, except for most types of rarely used API groups. Only key fields of lists
//! have default values, because the type table does not contain other default values.

use std::collections::HashMap;

use pintle_json::{Json, Map, json};

use super::builtin_types::{BuiltinTypes, table};
use super::descriptions::Descriptions;
use super::types::{Field, ListType, Merge, Scalar, Struct, StructRef, Topology, Type, Union};

const MACHINERY: &str = "io.k8s.apimachinery.pkg";
const EXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions";

/// The prefix of a `$ref` to a schema in the same document.
pub const PLACE: &str = "#/components/schemas/";

/// Returns the schemas of the given types and of all referenced types, keyed by schema name. Only built-in structs have
/// schemas.
pub fn schemas<'a>(types: impl IntoIterator<Item = &'a Type>) -> Map {
    let mut schemas = Schemas {
        descriptions: Descriptions::read(),
        enums: BuiltinTypes::enums(),
        made: Map::new(),
        pending: Vec::new(),
        defaults: HashMap::new(),
    };
    for struct_type in types {
        schemas.refer(struct_type);
    }
    let kinds = table().types_of_kinds();
    while let Some(struct_type) = schemas.pending.pop() {
        let schema = schemas.of_struct(&struct_type, kinds.get(struct_type.name));
        schemas.made.insert(name(&struct_type), schema);
    }
    for (place, value) in schemas.defaults {
        if let Some(property) =
            schemas.made.get_mut(&place.schema).and_then(|schema| schema["properties"].get_mut(&place.field))
        {
            property["default"] = value;
        }
    }
    schemas.made
}

/// Returns the schema name of a built-in struct, such as `io.k8s.api.core.v1.Pod`.
pub fn name(struct_type: &Struct) -> String {
    let Some((group, version)) = struct_type.group_version() else { return struct_type.name.into() };
    let short = struct_type.short_name();
    match group {
        "meta" => format!("{MACHINERY}.apis.meta.{version}.{short}"),
        "apiextensions" => format!("{EXTENSIONS}.{version}.{short}"),
        "apiregistration" => format!("io.k8s.kube-aggregator.pkg.apis.{group}.{version}.{short}"),
        _ => format!("io.k8s.api.{group}.{version}.{short}"),
    }
}

struct Schemas {
    descriptions: Descriptions,
    enums: HashMap<(&'static str, &'static str), Vec<&'static str>>,
    made: Map,
    /// The referenced structs that do not have a schema yet.
    pending: Vec<StructRef>,
    /// The default values of the key fields of lists. The type table stores these default values with the list, but
    /// OpenAPI stores them with the key field.
    defaults: HashMap<SchemaField, Json>,
}

#[derive(PartialEq, Eq, Hash)]
struct SchemaField {
    schema: String,
    field: String,
}

impl Schemas {
    fn of_struct(&mut self, struct_type: &Struct, kind: Option<&(&str, &str)>) -> Json {
        let properties: Map =
            struct_type.fields.iter().map(|field| (field.name.clone(), self.of_field(struct_type, field))).collect();
        let mut schema = json!({"type": "object"});
        if let Some(description) = self.descriptions.of_type(struct_type.name) {
            schema["description"] = description.into();
        }
        if !properties.is_empty() {
            schema["properties"] = properties.into();
        }
        let required: Vec<_> =
            struct_type.fields.iter().filter(|field| field.required).map(|field| &*field.name).collect();
        if !required.is_empty() {
            schema["required"] = required.into();
        }
        if is_atomic(struct_type) {
            schema["x-kubernetes-map-type"] = "atomic".into();
        }
        if let Some((version, kind)) = kind {
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            schema["x-kubernetes-group-version-kind"] = json!([{"group": group, "version": version, "kind": kind}]);
        }
        schema
    }

    fn of_field(&mut self, struct_type: &Struct, field: &Field) -> Json {
        let mut schema = match field.ty {
            // `fieldsV1` is the only field of type `Any` that has a named schema.
            Type::Any if field.name == "fieldsV1" => {
                self.named(format!("{MACHINERY}.apis.meta.v1.FieldsV1"), json!({"type": "object"}))
            }
            _ => self.of_type(&field.ty),
        };
        if let Some(values) = self.enums.get(&(struct_type.name, &*field.name)) {
            let of_items = matches!(field.ty, Type::List(_));
            let target = if of_items { &mut schema["items"] } else { &mut schema };
            target["enum"] = values.iter().copied().collect();
        }
        let mut extra = extensions(field);
        if let Some(description) = self.descriptions.of_field(struct_type.name, &field.name) {
            extra.insert("description", description.into());
        }
        if !extra.is_empty() {
            // In OpenAPI, an object with a `$ref` cannot have other members.
            if schema.get("$ref").is_some() {
                schema = json!({"allOf": [schema]});
            }
            schema.as_object_mut().into_iter().for_each(|schema| schema.extend(extra.clone()));
        }
        schema
    }

    fn of_type(&mut self, ty: &Type) -> Json {
        match ty {
            Type::Any => self.named(format!("{EXTENSIONS}.v1.JSON"), json!({})),
            Type::Scalar(scalar) => self.of_scalar(*scalar),
            Type::Struct { .. } => self.refer(ty),
            Type::Map(map) => json!({"type": "object", "additionalProperties": self.of_type(&map.value)}),
            Type::List(list) => self.of_list(list),
            Type::Union(union) => {
                // Include JSONSchemaProps in the document, although no schema refers to it.
                self.refer(&table().named("apiextensions.JSONSchemaProps").unwrap_or(Type::Any));
                let alternative = match union {
                    Union::Bool => "Bool",
                    Union::List => "Array",
                    Union::Strings => "StringArray",
                };
                self.named(format!("{EXTENSIONS}.v1.JSONSchemaPropsOr{alternative}"), json!({}))
            }
        }
    }

    fn of_list(&mut self, list: &ListType) -> Json {
        let mut schema = json!({"type": "array", "items": self.of_type(&list.item)});
        let (topology, keys) = match &list.topology {
            Topology::Atomic => ("atomic", &[][..]),
            Topology::Set => ("set", &[][..]),
            Topology::Keyed(keys) => ("map", &keys[..]),
        };
        schema["x-kubernetes-list-type"] = topology.into();
        if !keys.is_empty() {
            schema["x-kubernetes-list-map-keys"] = keys.iter().map(|key| &*key.name).collect();
        }
        if let Type::Struct { struct_type, .. } = &list.item {
            let defaults = keys.iter().filter_map(|key| Some((&key.name, key.default.clone()?)));
            self.defaults.extend(
                defaults.map(|(field, value)| (SchemaField { schema: name(struct_type), field: field.clone() }, value)),
            );
        }
        schema
    }

    fn of_scalar(&mut self, scalar: Scalar) -> Json {
        let text = |format| json!({"type": "string", "format": format});
        match scalar {
            Scalar::String => json!({"type": "string"}),
            Scalar::Bool => json!({"type": "boolean"}),
            Scalar::Int32 => json!({"type": "integer", "format": "int32"}),
            Scalar::Int64 => json!({"type": "integer", "format": "int64"}),
            Scalar::Number => json!({"type": "number", "format": "double"}),
            Scalar::Bytes => text("byte"),
            Scalar::Quantity | Scalar::ResourceQuantity => {
                let either = json!({"oneOf": [{"type": "string"}, {"type": "number"}]});
                self.named(format!("{MACHINERY}.api.resource.Quantity"), either)
            }
            Scalar::IntOrString => {
                let either = json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]});
                self.named(format!("{MACHINERY}.util.intstr.IntOrString"), either)
            }
            Scalar::Time => self.named(format!("{MACHINERY}.apis.meta.v1.Time"), text("date-time")),
            Scalar::MicroTime => self.named(format!("{MACHINERY}.apis.meta.v1.MicroTime"), text("date-time")),
            Scalar::Duration => self.named(format!("{MACHINERY}.apis.meta.v1.Duration"), json!({"type": "string"})),
            Scalar::Raw => self.named(format!("{MACHINERY}.runtime.RawExtension"), json!({"type": "object"})),
        }
    }

    /// Returns a reference to the schema of a struct. If the schema does not exist yet, adds the struct to `pending`.
    fn refer(&mut self, ty: &Type) -> Json {
        let Type::Struct { struct_type, .. } = ty else { return json!({}) };
        let name = name(struct_type);
        let reference = reference(&name);
        if !name.is_empty() && !self.made.contains_key(&name) {
            // Insert the name before creating the schema, because a struct can refer to itself.
            self.made.insert(name, Json::Null);
            self.pending.push(struct_type.clone());
        }
        reference
    }

    fn named(&mut self, name: String, schema: Json) -> Json {
        let reference = reference(&name);
        self.made.insert(name, schema);
        reference
    }
}

/// Returns a reference to the schema `name`.
pub fn reference(name: &str) -> Json {
    json!({"$ref": format!("{PLACE}{name}")})
}

/// Returns the OpenAPI extensions of a field, which specify how server-side apply tracks the owners of the field and
/// how patches merge it.
fn extensions(field: &Field) -> Map {
    let Merge { lists, replace, retain_keys, key } = &field.merge;
    let strategies = [(*lists, "merge"), (*replace, "replace"), (*retain_keys, "retainKeys")];
    let strategies: Vec<_> = strategies.iter().filter(|(extra, _)| *extra).map(|(_, strategy)| *strategy).collect();
    let map_type = match &field.ty {
        Type::Struct { struct_type, atomic } if *atomic != is_atomic(struct_type) => {
            Some(if *atomic { "atomic" } else { "granular" })
        }
        Type::Map(map) if map.atomic => Some("atomic"),
        _ => None,
    };
    let extra = [
        ("x-kubernetes-map-type", map_type.map(Into::into)),
        ("x-kubernetes-patch-merge-key", key.clone()),
        ("x-kubernetes-patch-strategy", (!strategies.is_empty()).then(|| strategies.join(","))),
    ];
    extra.into_iter().filter_map(|(name, value)| Some((name.to_owned(), Json::from(value?)))).collect()
}

/// Returns `true` if the struct is atomic in server-side apply. A field whose type is this struct can override whether
/// the struct is atomic.
fn is_atomic(struct_type: &Struct) -> bool {
    matches!(table().named(struct_type.name), Some(Type::Struct { atomic: true, .. }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Schema;

    #[track_caller]
    fn check(version: &str, kind: &str, pointer: &str, expected: Json) {
        let schema = Schema::builtin(version, kind).expect("a built-in kind");
        let mut actual = Json::Object(schemas([schema.root()])).at(pointer).cloned().expect("a schema");
        drop_descriptions(&mut actual);
        assert_eq!(actual, expected, "{pointer}");
    }

    fn drop_descriptions(value: &mut Json) {
        if value.get("description").is_some_and(Json::is_string) {
            value.unset("description");
        }
        value.as_object_mut().into_iter().flat_map(Map::values_mut).for_each(drop_descriptions);
    }

    #[test]
    fn types_and_fields_have_descriptions() {
        let pod = Schema::builtin("v1", "Pod").expect("a built-in kind");
        let actual = Json::Object(schemas([pod.root()]));
        for (pointer, begins) in [
            ("/io.k8s.api.core.v1.Pod/description", "A set of containers"),
            ("/io.k8s.api.core.v1.Container/properties/image/description", "The image of the container"),
            // The description table has a single entry for all fields named `reason`.
            ("/io.k8s.api.core.v1.PodCondition/properties/reason/description", "A short machine-readable reason"),
            ("/io.k8s.api.core.v1.Pod/properties/spec/description", "The containers of the pod"),
        ] {
            assert!(actual.text(pointer).starts_with(begins), "{pointer}: {}", actual.text(pointer));
        }
        assert!(actual.has("/io.k8s.api.core.v1.Pod/properties/spec/allOf/0/$ref"));
    }

    #[test]
    fn fields_have_type_ownership_and_patch_strategy() {
        let core = "/io.k8s.api.core.v1";
        for (pointer, expected) in [
            (
                "/io.k8s.api.apps.v1.DeploymentSpec/properties/replicas".to_owned(),
                json!({"type": "integer", "format": "int32"}),
            ),
            (
                "/io.k8s.api.apps.v1.DeploymentSpec/properties/strategy".into(),
                json!({
                    "allOf": [{"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentStrategy"}],
                    "x-kubernetes-patch-strategy": "retainKeys",
                }),
            ),
            (format!("{core}.PodSpec/properties/volumes/x-kubernetes-patch-strategy"), json!("merge,retainKeys")),
            ("/io.k8s.api.apps.v1.DeploymentSpec/required".into(), json!(["selector", "template"])),
            (
                format!("{core}.Container/properties/ports"),
                json!({
                    "type": "array",
                    "items": {"$ref": "#/components/schemas/io.k8s.api.core.v1.ContainerPort"},
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["containerPort", "protocol"],
                    "x-kubernetes-patch-merge-key": "containerPort",
                    "x-kubernetes-patch-strategy": "merge",
                }),
            ),
            (
                format!("{core}.ContainerPort/properties/protocol"),
                json!({"type": "string", "default": "TCP", "enum": ["SCTP", "TCP", "UDP"]}),
            ),
            (
                format!("{core}.PodSpec/properties/nodeSelector"),
                json!({"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic"}),
            ),
            ("/io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector/x-kubernetes-map-type".into(), json!("atomic")),
            (
                "/io.k8s.api.apps.v1.Deployment/x-kubernetes-group-version-kind".into(),
                json!([{"group": "apps", "version": "v1", "kind": "Deployment"}]),
            ),
        ] {
            check("apps/v1", "Deployment", &pointer, expected);
        }
    }

    #[test]
    fn fields_and_list_items_have_permitted_values() {
        let spec = "/io.k8s.api.core.v1";
        let types = json!({"type": "string", "enum": ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]});
        check("v1", "Service", &format!("{spec}.ServiceSpec/properties/type"), types);
        let modes = json!(["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"]);
        let place = format!("{spec}.PersistentVolumeClaimSpec/properties/accessModes/items");
        check("v1", "PersistentVolumeClaim", &place, json!({"type": "string", "enum": modes}));
        let usages = "/io.k8s.api.certificates.v1.CertificateSigningRequestSpec/properties/usages/items/enum/1";
        check("certificates.k8s.io/v1", "CertificateSigningRequest", usages, json!("cert sign"));
    }

    #[test]
    fn recursive_type_is_a_reference() {
        let props = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
        let reference = json!({"$ref": format!("{PLACE}{props}")});
        check("apiextensions.k8s.io/v1", "CustomResourceDefinition", &format!("/{props}/properties/not"), reference);
    }
}
