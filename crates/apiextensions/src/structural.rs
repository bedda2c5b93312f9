//! Structural schemas.

use std::collections::BTreeMap;
use std::sync::Arc;

use pintle_json::Json;

use super::allowed::Allowed;
use super::field_path::FieldPath;
use super::pattern::{Pattern, Patterns};

/// A structural schema, parsed once from a definition's JSON.
///
/// Parsing cannot fail, because the parser ignores invalid parts, which the validation of definitions rejects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Structural {
    pub type_name: String,
    pub format: String,
    pub nullable: bool,
    pub int_or_string: bool,
    pub preserve_unknown: bool,
    pub embedded: bool,
    pub list_type: String,
    pub list_map_keys: Vec<String>,
    pub default: Option<Json>,
    pub properties: BTreeMap<String, Structural>,
    defaulted: Vec<String>,
    pub additional: Option<Additional>,
    pub items: Option<Box<Structural>>,
    pub required: Vec<String>,
    pub limits: Limits,
    pub all_of: Vec<Structural>,
    pub any_of: Vec<Structural>,
    pub one_of: Vec<Structural>,
    pub not: Option<Box<Structural>>,
}

#[derive(Clone, Debug)]
pub(crate) enum Additional {
    /// Allows every additional property if `true`, and none if `false`.
    Allowed(bool),
    Schema(Box<Structural>),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    pub values: Option<Allowed>,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub multiple_of: Option<f64>,
    pub min_length: Option<u64>,
    pub max_length: Option<u64>,
    pub pattern: Option<Arc<Pattern>>,
    pub min_items: Option<u64>,
    pub max_items: Option<u64>,
    pub min_properties: Option<u64>,
    pub max_properties: Option<u64>,
}

impl Structural {
    /// Reads a schema and adds its patterns to `patterns`, which contains the patterns of the whole
    /// definition.
    pub(super) fn read(schema: &Json, patterns: &mut Patterns) -> Self {
        let is_set = |key: &str| schema[key] == true;
        let mut read_one = |schema: &Json| Self::read(schema, patterns);
        let mut schemas = |key: &str| schema.list(&format!("/{key}")).map(&mut read_one).collect();
        let (all_of, any_of, one_of) = (schemas("allOf"), schemas("anyOf"), schemas("oneOf"));
        let properties = schema.members("/properties");
        let mut read = Self {
            type_name: schema.text("/type").into(),
            format: schema.text("/format").into(),
            nullable: is_set("nullable"),
            int_or_string: is_set("x-kubernetes-int-or-string"),
            preserve_unknown: is_set("x-kubernetes-preserve-unknown-fields"),
            embedded: is_set("x-kubernetes-embedded-resource"),
            list_type: schema.text("/x-kubernetes-list-type").into(),
            list_map_keys: texts(schema, "/x-kubernetes-list-map-keys"),
            default: schema.get("default").filter(|default| !default.is_null() || is_set("nullable")).cloned(),
            properties: properties.map(|(name, schema)| (name.to_string(), read_one(schema))).collect(),
            additional: schema.get("additionalProperties").and_then(|additional| match additional {
                Json::Bool(allowed) => Some(Additional::Allowed(*allowed)),
                Json::Object(_) => Some(Additional::Schema(Box::new(read_one(additional)))),
                _ => None,
            }),
            items: schema.get("items").filter(|items| items.is_object()).map(|items| Box::new(read_one(items))),
            required: texts(schema, "/required"),
            all_of,
            any_of,
            one_of,
            not: schema.get("not").filter(|not| not.is_object()).map(|not| Box::new(read_one(not))),
            limits: Limits::read(schema, patterns),
            defaulted: Vec::new(),
        };
        let defaulted = read.properties.iter().filter(|(_, schema)| schema.default.is_some());
        read.defaulted = defaulted.map(|(name, _)| name.clone()).collect();
        read
    }

    pub(super) fn keep_defaults(&mut self, kept: impl Fn(&str) -> bool) {
        self.defaulted.retain(|name| kept(name));
        self.properties.iter_mut().filter(|(name, _)| !kept(name)).for_each(|(_, schema)| schema.default = None);
    }

    pub(crate) fn defaulted(&self) -> impl Iterator<Item = (&String, &Self)> {
        self.defaulted.iter().filter_map(|name| self.properties.get_key_value(name))
    }

    /// Returns the path of a member of an object at `path`. Error messages write the keys of maps in brackets.
    pub(crate) fn path_of<'p>(&self, name: &'p str, path: &'p FieldPath<'p>) -> FieldPath<'p> {
        if self.properties.contains_key(name) { path.member(name) } else { FieldPath::Key(path, name) }
    }

    pub(crate) fn member(&self, name: &str) -> Option<&Self> {
        match (self.properties.get(name), &self.additional) {
            (Some(schema), _) => Some(schema),
            (None, Some(Additional::Schema(schema))) => Some(schema),
            _ => None,
        }
    }

    /// Returns `true` if the schema contains `additionalProperties` with a boolean. As in kube-apiserver, pruning then
    /// keeps all members, and validation rejects undeclared members if the boolean is `false`.
    pub(crate) fn keeps_undeclared_members(&self) -> bool {
        matches!(self.additional, Some(Additional::Allowed(_)))
    }
}

impl Limits {
    fn read(schema: &Json, patterns: &mut Patterns) -> Self {
        let number = |key: &str| schema[key].as_f64();
        let count = |key: &str| schema[key].as_u64();
        let is_set = |key: &str| schema[key] == true;
        Self {
            values: schema["enum"].as_array().filter(|values| !values.is_empty()).map(|values| Allowed::new(values)),
            minimum: number("minimum"),
            exclusive_minimum: is_set("exclusiveMinimum"),
            maximum: number("maximum"),
            exclusive_maximum: is_set("exclusiveMaximum"),
            multiple_of: number("multipleOf").filter(|factor| *factor != 0.0),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            pattern: schema["pattern"].as_str().map(|text| patterns.shared(text)),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
        }
    }
}

fn texts(schema: &Json, pointer: &str) -> Vec<String> {
    schema.texts(pointer).map(Into::into).collect()
}
