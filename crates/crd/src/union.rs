//! Combines the converted alternatives of a schema, such as the variants of an enum.

use serde_json::{Value, json};

use crate::schema_object::{INT_OR_STRING, Object, PRESERVE, SchemaError, object};

const VALIDATIONS: &str = "x-kubernetes-validations";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";

/// The keywords of an object schema that a structural schema also allows inside `oneOf` and `anyOf`.
const CONDITIONS: [&str; 6] = ["allOf", "anyOf", "maxProperties", "minProperties", "not", "oneOf"];

/// The names that CEL reserves, with which CEL accesses a field `if` as `__if__`.
const KEYWORDS: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Adds variants of which a value has at most one, such as the variants of a flattened `Option`.
pub(crate) fn optional_union(schema: &mut Object, variants: Vec<Object>, path: &str) -> Result<(), SchemaError> {
    let is_single = variants.len() == 1;
    for mut variant in variants {
        let rule = take_rule(&mut variant, &[]);
        // Skip a single variant without required fields, because it always applies.
        if !is_single || condition("self", &rule).is_some() {
            restrict_validations(&mut variant, &rule, path)?;
        }
        merge(schema, variant, path)?;
    }
    Ok(())
}

/// Adds variants of which a value has one, or with the key `anyOf` at least one.
pub(crate) fn union(schema: &mut Object, key: &str, mut variants: Vec<Object>, path: &str) -> Result<(), SchemaError> {
    let all = |is: fn(&Object) -> bool| variants.iter().all(is);
    match variants.len() {
        0 => Ok(()),
        1 => merge(schema, variants.remove(0), path),
        _ if all(|variant| variant.contains_key("enum")) => enumeration(schema, variants, path),
        _ if is_int_or_string(&variants) => {
            schema.remove("type");
            schema.insert(INT_OR_STRING.into(), true.into());
            Ok(())
        }
        _ if variants.windows(2).all(|pair| same(&pair[0], &pair[1])) => merge(schema, variants.remove(0), path),
        _ if all(|variant| has_type(variant, "object")) => objects(schema, key, variants, path),
        _ if all(|variant| has_type(variant, "integer") || has_type(variant, "number")) => {
            schema.insert("type".into(), "number".into());
            Ok(())
        }
        // One variant accepts all values of the type, such as a variant for unknown strings in an enum of strings.
        _ if variants.windows(2).all(|pair| pair[0].get("type") == pair[1].get("type")) && is_scalar(&variants[0]) => {
            schema.extend(variants.remove(0).remove("type").map(|value_type| ("type".to_owned(), value_type)));
            Ok(())
        }
        _ => Err(SchemaError::new(
            path,
            "the alternatives have different types, but a structural schema has one; give the enum a serde tag, or add \
             #[schemars(schema_with = \"pintle_crd::preserve_unknown_fields\")] to the field",
        )),
    }
}

fn is_scalar(schema: &Object) -> bool {
    ["string", "integer", "number", "boolean"].iter().any(|name| has_type(schema, name))
}

fn has_type(schema: &Object, name: &str) -> bool {
    schema.get("type").is_some_and(|value| value == name)
}

fn is_int_or_string(variants: &[Object]) -> bool {
    let has_variant_of_type = |name: &str| variants.iter().any(|variant| has_type(variant, name));
    let others = |variant: &Object| !has_type(variant, "integer") && !has_type(variant, "string");
    has_variant_of_type("integer") && has_variant_of_type("string") && !variants.iter().any(others)
}

/// Compares two schemas, ignoring descriptions and titles.
fn same(one: &Object, other: &Object) -> bool {
    let plain = |schema: &Object| {
        let mut schema = schema.clone();
        schema.remove("description");
        schema.remove("title");
        schema
    };
    plain(one) == plain(other)
}

/// Merges the values of all variants into one `enum`. The description of the `enum` lists the values with their
/// meanings, as for Kubernetes' built-in types.
fn enumeration(schema: &mut Object, variants: Vec<Object>, path: &str) -> Result<(), SchemaError> {
    let (mut values, mut lines) = (Vec::new(), Vec::new());
    let value_type = variants.first().and_then(|variant| variant.get("type")).cloned();
    for mut variant in variants {
        if variant.get("type") != value_type.as_ref() {
            return Err(SchemaError::new(path, "the values of the enum have different types"));
        }
        let description = variant.remove("description").unwrap_or_default();
        let Some(Value::Array(own)) = variant.remove("enum") else { continue };
        if let (Some(text), [value]) = (description.as_str(), &own[..]) {
            lines.push(format!("- `{value}`: {}", text.replace('\n', " ")));
        }
        values.extend(own.into_iter().filter(|value| !values.contains(value)).collect::<Vec<_>>());
    }
    if !lines.is_empty() {
        let text = schema.get("description").and_then(Value::as_str).map(|text| format!("{text}\n\n"));
        let text = text.unwrap_or_default() + "Possible enum values:\n" + &lines.join("\n");
        schema.insert("description".into(), text.into());
    }
    schema.insert("enum".into(), values.into());
    schema.extend(value_type.map(|value_type| ("type".to_owned(), value_type)));
    Ok(())
}

/// Merges the properties of all variants, and adds a `oneOf` or `anyOf` with one entry per variant.
fn objects(schema: &mut Object, key: &str, mut variants: Vec<Object>, path: &str) -> Result<(), SchemaError> {
    let is_embedded = |variant: &Object| variant.contains_key(EMBEDDED);
    if variants.iter().any(is_embedded) && !variants.iter().all(is_embedded) {
        return Err(SchemaError::new(
            path,
            "only some variants are embedded resources; move the resources into a field",
        ));
    }
    let required: Vec<Vec<String>> = variants.iter().map(required).collect();
    let in_all = |name: &String| required.iter().all(|names| names.contains(name));
    let common: Vec<String> = required.first().into_iter().flatten().filter(|name| in_all(name)).cloned().collect();
    let rules: Vec<Object> = variants.iter_mut().map(|variant| take_rule(variant, &common)).collect();
    let has_own_validations = variants.windows(2).any(|pair| pair[0].get(VALIDATIONS) != pair[1].get(VALIDATIONS));
    for (mut variant, rule) in variants.into_iter().zip(&rules) {
        if has_own_validations {
            restrict_validations(&mut variant, rule, path)?;
        }
        variant.remove("description");
        variant.remove("title");
        merge(schema, variant, path)?;
    }
    let names: Vec<String> = self::required(schema);
    let names = names.into_iter().chain(common).collect::<std::collections::BTreeSet<_>>();
    if !names.is_empty() {
        schema.insert("required".into(), names.into_iter().collect());
    }
    // If one variant has no condition, a `oneOf` or `anyOf` would restrict nothing, so skip the rules.
    if rules.iter().all(|rule| !rule.is_empty()) {
        add_rules(schema, key, rules);
    }
    Ok(())
}

fn required(schema: &Object) -> Vec<String> {
    let names = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// Removes the conditions of a variant from its schema, and returns them. Conditions are the variant's tag, the fields
/// that only it requires, and its rules, such as the `oneOf` of a nested enum.
fn take_rule(variant: &mut Object, common: &[String]) -> Object {
    let names = required(variant);
    variant.remove("required");
    let mut rule = Object::new();
    let own: Vec<&String> = names.iter().filter(|name| !common.contains(name)).collect();
    if !own.is_empty() {
        rule.insert("required".into(), json!(own));
    }
    let properties = variant.get("properties").and_then(Value::as_object).into_iter().flatten();
    for (name, property) in properties {
        let is_tag = names.contains(name) && property["enum"].as_array().is_some_and(|values| values.len() == 1);
        if is_tag {
            let tags = rule.entry("properties").or_insert_with(|| json!({}));
            tags[name] = json!({ "enum": property["enum"] });
        }
    }
    let own = CONDITIONS.iter().filter_map(|key| Some(((*key).to_owned(), variant.remove(*key)?)));
    rule.extend(own);
    rule
}

/// Restricts the variant's CEL rules to objects that `rule` selects. The restriction is necessary because a structural
/// schema allows no CEL rules inside `oneOf` and `anyOf`.
fn restrict_validations(variant: &mut Object, rule: &Object, path: &str) -> Result<(), SchemaError> {
    let Some(Value::Array(validations)) = variant.get_mut(VALIDATIONS) else { return Ok(()) };
    let (Some(new), Some(old)) = (condition("self", rule), condition("oldSelf", rule)) else {
        let why = "a CEL rule of one variant would apply to all variants; give the enum a serde tag, or move the rule to \
                   the enum";
        return Err(SchemaError::new(path, why));
    };
    for validation in validations {
        if validation["optionalOldSelf"] == true {
            let why = "a CEL rule of one variant has `optionalOldSelf`, but the old object can be another variant; move \
                       the rule to the enum";
            return Err(SchemaError::new(path, why));
        }
        let Some(text) = validation["rule"].as_str() else { continue };
        let applies = if text.contains("oldSelf") { format!("{new} && {old}") } else { new.clone() };
        validation["rule"] = format!("!({applies}) ? true : {text}").into();
    }
    Ok(())
}

/// Returns a CEL expression that is true if `rule` selects the object in the CEL variable `object`. Returns `None` if
/// required fields and tags cannot identify the variant.
fn condition(object: &str, rule: &Object) -> Option<String> {
    let mut parts = Vec::new();
    for name in required(rule) {
        parts.push(format!("has({object}.{})", identifier(&name)?));
    }
    for (name, tag) in rule.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if let Some([value]) = tag["enum"].as_array().map(Vec::as_slice) {
            parts.push(format!("{object}.{} == {value}", identifier(name)?));
        }
    }
    let parts_of = |key: &str| rule.get(key).and_then(Value::as_array).into_iter().flatten();
    let nested = |part: &Value| part.as_object().and_then(|part| condition(object, part));
    parts.extend(parts_of("allOf").filter_map(nested));
    for key in ["oneOf", "anyOf"] {
        let alternatives: Option<Vec<String>> = parts_of(key).map(nested).collect();
        match alternatives.as_deref() {
            None | Some([]) => {}
            Some(alternatives) => parts.push(format!("({})", alternatives.join(" || "))),
        }
    }
    (!parts.is_empty()).then(|| parts.join(" && "))
}

/// Returns the CEL identifier of a field, or `None` if CEL cannot access it.
fn identifier(name: &str) -> Option<String> {
    if KEYWORDS.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let has_first = name.starts_with(|first: char| !first.is_ascii_digit());
    let is_valid = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '-' | '/');
    let escapes = [("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")];
    let escaped = || escapes.iter().fold(name.to_owned(), |name, (from, to)| name.replace(from, to));
    (has_first && name.chars().all(is_valid)).then(escaped)
}

/// Adds a `oneOf` or `anyOf` to the schema, combined by `allOf` if another flattened enum has already added one.
fn add_rules(schema: &mut Object, key: &str, rules: Vec<Object>) {
    let new = json!({ key: rules });
    if let Some(Value::Array(all)) = schema.get_mut("allOf") {
        all.push(new);
        return;
    }
    let present = ["oneOf", "anyOf"].into_iter().find_map(|key| Some(json!({ key: schema.remove(key)? })));
    match (present, new) {
        (Some(present), new) => {
            schema.insert("allOf".into(), json!([present, new]));
        }
        (None, Value::Object(new)) => schema.extend(new),
        (None, _) => {}
    }
}

/// Adds the keywords of another schema for the same value, except for a second description.
pub(crate) fn merge(schema: &mut Object, other: Object, path: &str) -> Result<(), SchemaError> {
    for (key, value) in other {
        let Some(present) = schema.get_mut(&key) else {
            schema.insert(key, value);
            continue;
        };
        match (key.as_str(), present, value) {
            (_, present, value) if *present == value => {}
            ("description" | "title" | "default", _, _) => {}
            ("required", Value::Array(names), Value::Array(more)) => {
                let new: Vec<Value> = more.into_iter().filter(|name| !names.contains(name)).collect();
                names.extend(new);
            }
            ("properties", Value::Object(properties), Value::Object(more)) => {
                for (name, property) in more {
                    add_property(properties, name, property, path)?;
                }
            }
            ("oneOf" | "anyOf", _, Value::Array(rules)) => {
                let rules = rules.into_iter().map(object).collect();
                add_rules(schema, &key, rules);
            }
            ("allOf", Value::Array(all), Value::Array(more)) => all.extend(more),
            (VALIDATIONS, Value::Array(all), Value::Array(more)) => {
                let is_new = |new: &Value| !all.iter().any(|validation| validation["rule"] == new["rule"]);
                let new: Vec<Value> = more.into_iter().filter(is_new).collect();
                all.extend(new);
            }
            _ => return Err(SchemaError::new(path, format!("its parts have different values of `{key}`"))),
        }
    }
    if schema.contains_key("type") && !has_type(schema, "object") {
        schema.remove(PRESERVE);
    }
    Ok(())
}

/// Adds a property of a variant to the merged properties. Several variants may have the same property, such as a tag
/// with a different value in each variant.
fn add_property(properties: &mut Object, name: String, new: Value, path: &str) -> Result<(), SchemaError> {
    let Some(Value::Object(present)) = properties.get_mut(&name) else {
        properties.insert(name, new);
        return Ok(());
    };
    let Value::Object(mut new) = new else { return Ok(()) };
    if same(present, &new) {
        return Ok(());
    }
    if present.get("type") == new.get("type")
        && let (Some(Value::Array(values)), Some(Value::Array(more))) = (present.get_mut("enum"), new.remove("enum"))
    {
        let more: Vec<Value> = more.into_iter().filter(|value| !values.contains(value)).collect();
        values.extend(more);
        // Remove the description, which applies to only one of the variants.
        present.remove("description");
        return Ok(());
    }
    let why =
        "two variants have this field with different schemas; rename one of them, or give the enum another serde tag";
    Err(SchemaError::new(&if path.is_empty() { name } else { format!("{path}.{name}") }, why))
}
