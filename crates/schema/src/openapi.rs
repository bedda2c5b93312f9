//! The built-in types as OpenAPI 3 has them, by the names that they have in the documents of a real server.
//!
//! Descriptions are short, and most types of rarer groups have none. What the table does not know is not told: the values that fields have when they are left out, but for fields that tell
//! the items of a list apart.

use std::collections::HashMap;

use pintle_json::{Json, Map, json};

use super::builtin_types::table;
use super::descriptions::Descriptions;
use super::types::{Field, ListType, Merge, Scalar, Struct, StructRef, Topology, Type, Union};

const MACHINERY: &str = "io.k8s.apimachinery.pkg";
const EXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions";

/// Where the schemas of a document are, as references to them begin.
pub const PLACE: &str = "#/components/schemas/";

/// The schemas of these types, and of all that they refer to, by their names. What is no built-in struct has none.
pub fn schemas<'a>(types: impl IntoIterator<Item = &'a Type>) -> Map {
    let mut schemas =
        Schemas { descriptions: Descriptions::read(), made: Map::new(), wanted: Vec::new(), defaults: HashMap::new() };
    for of in types {
        schemas.refer(of);
    }
    let kinds = table().types_of_kinds();
    while let Some(of) = schemas.wanted.pop() {
        let schema = schemas.of_struct(&of, kinds.get(of.name));
        schemas.made.insert(name(&of), schema);
    }
    for (place, value) in schemas.defaults {
        if let Some(property) =
            schemas.made.get_mut(&place.of).and_then(|schema| schema["properties"].get_mut(&place.field))
        {
            property["default"] = value;
        }
    }
    schemas.made
}

/// The name of the schema of a built-in struct, such as `io.k8s.api.core.v1.Pod`.
pub fn name(of: &Struct) -> String {
    let Some((group, version)) = of.group_version() else { return of.name.into() };
    let short = of.short_name();
    match group {
        "meta" => format!("{MACHINERY}.apis.meta.{version}.{short}"),
        "apiextensions" => format!("{EXTENSIONS}.{version}.{short}"),
        "apiregistration" => format!("io.k8s.kube-aggregator.pkg.apis.{group}.{version}.{short}"),
        _ => format!("io.k8s.api.{group}.{version}.{short}"),
    }
}

struct Schemas {
    descriptions: Descriptions,
    made: Map,
    /// Structs that something refers to, and that are not made yet.
    wanted: Vec<StructRef>,
    /// What keys of lists are when they are left out: the list knows, the field says it.
    defaults: HashMap<SchemaField, Json>,
}

/// A field of a named schema.
#[derive(PartialEq, Eq, Hash)]
struct SchemaField {
    of: String,
    field: String,
}

impl Schemas {
    fn of_struct(&mut self, of: &Struct, kind: Option<&(&str, &str)>) -> Json {
        let properties: Map = of.fields.iter().map(|field| (field.name.clone(), self.of_field(of, field))).collect();
        let mut schema = json!({"type": "object"});
        if let Some(description) = self.descriptions.of_type(of.name) {
            schema["description"] = description.into();
        }
        if !properties.is_empty() {
            schema["properties"] = properties.into();
        }
        let required: Vec<_> = of.fields.iter().filter(|field| field.required).map(|field| &*field.name).collect();
        if !required.is_empty() {
            schema["required"] = required.into();
        }
        if is_atomic(of) {
            schema["x-kubernetes-map-type"] = "atomic".into();
        }
        if let Some((version, kind)) = kind {
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            schema["x-kubernetes-group-version-kind"] = json!([{"group": group, "version": version, "kind": kind}]);
        }
        schema
    }

    fn of_field(&mut self, of: &Struct, field: &Field) -> Json {
        let mut schema = match field.of {
            // The one field whose values are no JSON schemas but of which no more is known.
            Type::Any if field.name == "fieldsV1" => {
                self.named(format!("{MACHINERY}.apis.meta.v1.FieldsV1"), json!({"type": "object"}))
            }
            _ => self.of_type(&field.of),
        };
        let mut said = extensions(field);
        if let Some(description) = self.descriptions.of_field(of.name, &field.name) {
            said.insert("description", description.into());
        }
        if !said.is_empty() {
            // Nothing stands beside a reference.
            if schema.get("$ref").is_some() {
                schema = json!({"allOf": [schema]});
            }
            schema.as_object_mut().into_iter().for_each(|schema| schema.extend(said.clone()));
        }
        schema
    }

    fn of_type(&mut self, of: &Type) -> Json {
        match of {
            Type::Any => self.named(format!("{EXTENSIONS}.v1.JSON"), json!({})),
            Type::Scalar(scalar) => self.of_scalar(*scalar),
            Type::Struct { .. } => self.refer(of),
            Type::Map(map) => json!({"type": "object", "additionalProperties": self.of_type(&map.value)}),
            Type::List(list) => self.of_list(list),
            Type::Union(union) => {
                // Its first alternative refers to itself in turn.
                self.refer(&table().named("apiextensions.JSONSchemaProps").unwrap_or(Type::Any));
                let of = match union {
                    Union::Bool => "Bool",
                    Union::List => "Array",
                    Union::Strings => "StringArray",
                };
                self.named(format!("{EXTENSIONS}.v1.JSONSchemaPropsOr{of}"), json!({}))
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
        if let Type::Struct { of, .. } = &list.item {
            let told = keys.iter().filter_map(|key| Some((&key.name, key.default.clone()?)));
            self.defaults
                .extend(told.map(|(field, value)| (SchemaField { of: name(of), field: field.clone() }, value)));
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
            Scalar::Untyped => json!({}),
        }
    }

    /// A reference to a struct, whose schema will be there too.
    fn refer(&mut self, of: &Type) -> Json {
        let Type::Struct { of, .. } = of else { return json!({}) };
        let name = name(of);
        let reference = reference(&name);
        if !name.is_empty() && !self.made.contains_key(&name) {
            // Its place is taken: it may refer to itself.
            self.made.insert(name, Json::Null);
            self.wanted.push(of.clone());
        }
        reference
    }

    fn named(&mut self, name: String, schema: Json) -> Json {
        let reference = reference(&name);
        self.made.insert(name, schema);
        reference
    }
}

/// A reference to the schema of this name.
pub fn reference(name: &str) -> Json {
    json!({"$ref": format!("{PLACE}{name}")})
}

/// What a field says of its type: how it is owned and patched.
fn extensions(field: &Field) -> Map {
    let Merge { lists, replace, retain_keys, key } = &field.merge;
    let strategies = [(*lists, "merge"), (*replace, "replace"), (*retain_keys, "retainKeys")];
    let strategies: Vec<_> = strategies.iter().filter(|(said, _)| *said).map(|(_, strategy)| *strategy).collect();
    let map_type = match &field.of {
        Type::Struct { of, atomic } if *atomic != is_atomic(of) => Some(if *atomic { "atomic" } else { "granular" }),
        Type::Map(map) if map.atomic => Some("atomic"),
        _ => None,
    };
    let said = [
        ("x-kubernetes-map-type", map_type.map(Into::into)),
        ("x-kubernetes-patch-merge-key", key.clone()),
        ("x-kubernetes-patch-strategy", (!strategies.is_empty()).then(|| strategies.join(","))),
    ];
    said.into_iter().filter_map(|(name, value)| Some((name.to_owned(), Json::from(value?)))).collect()
}

/// Whether server-side apply owns the struct as a whole, where a field does not say otherwise.
fn is_atomic(of: &Struct) -> bool {
    matches!(table().named(of.name), Some(Type::Struct { atomic: true, .. }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Schema;

    #[track_caller]
    fn check(version: &str, kind: &str, pointer: &str, expected: Json) {
        let schema = Schema::builtin(version, kind).expect("a built-in kind");
        let mut told = Json::Object(schemas([schema.root()])).at(pointer).cloned().expect("a schema");
        drop_descriptions(&mut told);
        assert_eq!(told, expected, "{pointer}");
    }

    fn drop_descriptions(value: &mut Json) {
        if value.get("description").is_some_and(Json::is_string) {
            value.unset("description");
        }
        value.as_object_mut().into_iter().flat_map(Map::values_mut).for_each(drop_descriptions);
    }

    #[test]
    fn types_and_fields_are_described() {
        let pod = Schema::builtin("v1", "Pod").expect("a built-in kind");
        let told = Json::Object(schemas([pod.root()]));
        for (pointer, begins) in [
            ("/io.k8s.api.core.v1.Pod/description", "A set of containers"),
            ("/io.k8s.api.core.v1.Container/properties/image/description", "The image of the container"),
            // One that all types share.
            ("/io.k8s.api.core.v1.PodCondition/properties/reason/description", "A short machine-readable reason"),
            ("/io.k8s.api.core.v1.Pod/properties/spec/description", "What the pod runs"),
        ] {
            assert!(told.text(pointer).starts_with(begins), "{pointer}: {}", told.text(pointer));
        }
        assert!(told.has("/io.k8s.api.core.v1.Pod/properties/spec/allOf/0/$ref"));
    }

    #[test]
    fn a_field_says_its_type_and_how_it_is_owned_and_patched() {
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
            (format!("{core}.ContainerPort/properties/protocol"), json!({"type": "string", "default": "TCP"})),
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
    fn a_type_that_contains_itself_is_told_once() {
        let props = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
        let reference = json!({"$ref": format!("{PLACE}{props}")});
        check("apiextensions.k8s.io/v1", "CustomResourceDefinition", &format!("/{props}/properties/not"), reference);
    }
}
