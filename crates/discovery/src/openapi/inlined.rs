//! Creates the schema of a kind without references, for the type check of policies.

use pintle_json::{Json, Map, json};
use pintle_kinds::Kind;
use pintle_schema::openapi::{self, PLACE};

use super::kind_schemas;
use crate::schema_names::schema_name;

/// The maximum number of nested schemas in an inlined schema. For comparison, the schemas of the largest built-in kinds
/// contain a few thousand nested schemas.
const MAX_PARTS: usize = 100_000;

/// Returns the published OpenAPI schema of a kind, without references, descriptions and constraints. As in
/// kube-apiserver, a recursive type ends with an object without fields.
///
/// Returns `None` if the kind has no schema or the schema is too large.
pub fn inlined(kind: &Kind) -> Option<Json> {
    let declared = kind.strategy.openapi().cloned().map(kind_schemas::declared);
    let mut types = vec![pintle_schema::named("meta.ObjectMeta")];
    if declared.is_none() {
        types.push(kind.schema()?.root().clone());
    }
    let mut schemas = openapi::schemas(&types);
    let mut root = match declared {
        Some(declared) => declared,
        None => schemas.remove(&schema_name(kind))?,
    };
    kind_schemas::complete(kind, &mut root);
    Inliner { schemas: &schemas, open: Vec::new(), left: MAX_PARTS }.parts(&root)
}

struct Inliner<'a> {
    schemas: &'a Map,
    open: Vec<&'a str>,
    left: usize,
}

impl<'a> Inliner<'a> {
    fn schema(&mut self, schema: &'a Json) -> Option<Json> {
        let Some(name) = reference(schema) else { return self.parts(schema) };
        if self.open.contains(&name) {
            return Some(json!({"type": "object"}));
        }
        let schema = self.schemas.get(name)?;
        self.open.push(name);
        let inlined = self.parts(schema);
        self.open.pop();
        inlined
    }

    fn parts(&mut self, schema: &'a Json) -> Option<Json> {
        const COPIED: [&str; 5] = [
            "type",
            "format",
            "x-kubernetes-int-or-string",
            "x-kubernetes-embedded-resource",
            "x-kubernetes-preserve-unknown-fields",
        ];
        self.left = self.left.checked_sub(1)?;
        let mut parts = Map::new();
        for name in COPIED {
            parts.extend(schema.get(name).map(|value| (name.to_owned(), value.clone())));
        }
        if schema.text("/format") == "int-or-string" {
            // Set the extension `x-kubernetes-int-or-string`, because built-in types only have the format
            // `int-or-string`.
            parts.insert("x-kubernetes-int-or-string", true.into());
        }
        if let Some(Json::Object(properties)) = schema.get("properties") {
            let mut inlined = Map::new();
            for (name, property) in properties.iter() {
                inlined.insert(name.as_str(), self.schema(property)?);
            }
            parts.insert("properties", inlined.into());
        }
        for name in ["items", "additionalProperties"] {
            if let Some(part) = schema.get(name).filter(|part| part.is_object()) {
                parts.insert(name, self.schema(part)?);
            }
        }
        Some(parts.into())
    }
}

/// Returns the name of the schema that a reference refers to, or `None` if `schema` is not a reference. A reference
/// with a description is wrapped in an `allOf`.
fn reference(schema: &Json) -> Option<&str> {
    let direct = |schema: &'_ Json| schema.get("$ref").is_some();
    let referring = if direct(schema) { schema } else { schema.list("/allOf").find(|part| direct(part))? };
    referring.get("$ref")?.as_str()?.strip_prefix(PLACE)
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn all_built_in_kinds_are_inlined() {
        let kinds = pintle_builtin::kinds();
        for kind in kinds.kinds() {
            let schema = inlined(kind).expect("a schema");
            // Search only for references with a string value, because JSONSchemaProps has a field named `$ref`.
            assert!(!schema.to_string().contains("\"$ref\":\""), "{kind:?}");
        }
        let of = |group: &str, kind: &str| inlined(kinds.group_kind(group, kind).expect("a kind")).expect("a schema");
        let deployment = of("apps", "Deployment");
        let container = "/properties/spec/properties/template/properties/spec/properties/containers/items/properties";
        assert_eq!(deployment.text(&format!("{container}/ports/items/properties/containerPort/type")), "integer");
        assert_eq!(deployment.text("/properties/metadata/properties/creationTimestamp/format"), "date-time");
        let port = format!("{container}/readinessProbe/properties/httpGet/properties/port/x-kubernetes-int-or-string");
        assert_eq!(deployment.at(&port), Some(&true.into()));
    }

    #[test]
    fn recursive_type_ends() {
        let kinds = pintle_builtin::kinds();
        let kind = kinds.group_kind("apiextensions.k8s.io", "CustomResourceDefinition").expect("a kind");
        let schema = inlined(kind).expect("a schema");
        let props =
            "/properties/spec/properties/versions/items/properties/schema/properties/openAPIV3Schema/properties";
        assert_eq!(schema.at(&format!("{props}/not")), Some(&json!({"type": "object"})));
        assert_eq!(schema.at(&format!("{props}/properties/additionalProperties")), Some(&json!({"type": "object"})));
    }
}
