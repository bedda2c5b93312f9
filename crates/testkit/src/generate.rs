//! Generates custom resources from a seed and the schema of their definition.

mod numbers;
mod text;

use std::any::type_name;

use fastrand::Rng;
use pintle_crd::CustomResource;
use pintle_meta::{ResourceScope, Scope};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use self::numbers::number;
use self::text::{label, text};

/// The maximum nesting depth of random values. At deeper levels, the generator uses the smallest valid value.
const DEPTH: usize = 12;
/// The maximum number of attempts to generate a decodable value.
const ATTEMPTS: u64 = 200;
/// The maximum number of items in a generated list or map, unless the schema requires more items.
const ITEMS: usize = 3;

const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

/// Generates a valid custom resource. Equal seeds produce equal resources.
///
/// The object is valid for the schema in [`CustomResource::crd`]. The generator supports types, required and nullable
/// fields, enums, bounds, lengths, patterns, formats, defaults, maps, sets, and int-or-string fields. Optional fields
/// are often omitted, and values are often equal to a bound in the schema. The generated object has no status, and its
/// name ends with the seed. Namespaced objects are in the namespace `default`.
///
/// The generator does not evaluate CEL rules. If the type has CEL rules, filter the generated objects:
/// `(0..).map(generate).filter(…)`.
///
/// # Examples
///
/// ```
/// use pintle_crd::Resource;
/// use pintle_meta::ObjectMeta;
/// use pintle_testkit::generate;
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Resource, Debug, Deserialize, Serialize, JsonSchema)]
/// #[resource(crate = pintle_crd, group = "example.com", version = "v1")]
/// struct Website {
///     metadata: ObjectMeta,
///     spec: Spec,
/// }
///
/// #[derive(Debug, Deserialize, Serialize, JsonSchema)]
/// struct Spec {
///     #[schemars(regex(pattern = r"^[a-z]+\.example\.com$"))]
///     domain: String,
///     #[schemars(range(min = 1, max = 20))]
///     replicas: u32,
/// }
///
/// for seed in 0..100 {
///     let site: Website = generate(seed);
///     assert!(site.spec.domain.ends_with(".example.com") && (1..=20).contains(&site.spec.replicas));
/// }
/// ```
///
/// # Panics
///
/// Panics if no valid value is found, for example because a pattern and a length exclude each other. The panic message
/// names the field.
pub fn generate<K: CustomResource + DeserializeOwned>(seed: u64) -> K {
    let definition = K::crd();
    let schema = &definition.spec["versions"][0]["schema"]["openAPIV3Schema"];
    let mut last = String::new();
    for attempt in 0..ATTEMPTS {
        let mut random = Rng::with_seed(seed.wrapping_mul(ATTEMPTS).wrapping_add(attempt));
        // Discard the first random value, because it is similar for consecutive seeds.
        random.u64(..);
        match object::<K>(schema, seed, &mut random).map(serde_json::from_value::<K>) {
            Ok(Ok(object)) => return object,
            Ok(Err(error)) => last = error.to_string(),
            Err(why) => last = why.to_string(),
        }
    }
    panic!("no valid {} for the seed {seed} in {ATTEMPTS} attempts: {last}", type_name::<K>());
}

#[derive(Debug, thiserror::Error)]
#[error("{path}: {why}")]
struct Unsatisfied {
    path: String,
    why: String,
}

fn object<K: CustomResource>(schema: &Value, seed: u64, random: &mut Rng) -> Result<Value, Unsatisfied> {
    let mut fields = generate_fields(schema, "", DEPTH, random, &["apiVersion", "kind", "metadata", "status"])?;
    let mut metadata = json!({"name": format!("{}-{seed}", K::KIND.to_lowercase())});
    if K::Scope::SCOPE == Scope::Namespaced {
        metadata["namespace"] = "default".into();
    }
    fields.insert("apiVersion".into(), K::API_VERSION.into());
    fields.insert("kind".into(), K::KIND.into());
    fields.insert("metadata".into(), metadata);
    Ok(fields.into())
}

fn value(schema: &Value, path: &str, depth: usize, random: &mut Rng) -> Result<Value, Unsatisfied> {
    if let Some(default) = schema.get("default")
        && random.u8(..4) == 0
    {
        return Ok(default.clone());
    }
    if let Some(values) = schema["enum"].as_array().filter(|values| !values.is_empty()) {
        return Ok(values[random.usize(..values.len())].clone());
    }
    if schema["nullable"] == true && random.u8(..8) == 0 {
        return Ok(Value::Null);
    }
    if schema[INT_OR_STRING] == true {
        return int_or_string(schema, path, random);
    }
    match schema["type"].as_str() {
        Some("object") => fields_or_map(schema, path, depth, random),
        Some("array") => list(schema, path, depth, random),
        Some("string") => text(schema, random).map(Value::from).map_err(|why| Unsatisfied { path: path.into(), why }),
        Some("integer" | "number") => Ok(number(schema, random)),
        Some("boolean") => Ok(random.bool().into()),
        _ => Ok(match random.u8(..4) {
            0 => json!({}),
            1 => random.u8(..).into(),
            2 => label(random).into(),
            _ => json!([random.bool()]),
        }),
    }
}

/// Returns an integer within the bounds of the schema, or a string with the pattern, format and length of the schema.
/// Without such rules in the schema, returns a port or a percentage.
fn int_or_string(schema: &Value, path: &str, random: &mut Rng) -> Result<Value, Unsatisfied> {
    let has_any = |names: &[&str]| names.iter().any(|name| schema.get(*name).is_some());
    if random.bool() {
        if !has_any(&["minimum", "maximum", "multipleOf"]) {
            return Ok(random.u16(..).into());
        }
        let mut integer = schema.clone();
        integer["type"] = "integer".into();
        return Ok(number(&integer, random));
    }
    if has_any(&["pattern", "format", "minLength", "maxLength"]) {
        text(schema, random).map(Value::from).map_err(|why| Unsatisfied { path: path.into(), why })
    } else {
        Ok(format!("{}%", random.u8(..=100)).into())
    }
}

fn fields_or_map(schema: &Value, path: &str, depth: usize, random: &mut Rng) -> Result<Value, Unsatisfied> {
    if schema["x-kubernetes-embedded-resource"] == true {
        return Ok(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": label(random)}}));
    }
    let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) else {
        return generate_fields(schema, path, depth, random, &[]).map(Value::from);
    };
    let mut map = Map::new();
    let count = count(schema, "minProperties", "maxProperties", depth, random);
    while map.len() < count {
        let item = value(values, &format!("{path}.*"), depth.saturating_sub(1), random)?;
        map.insert(format!("{}{}", label(random), map.len()), item);
    }
    Ok(map.into())
}

fn generate_fields(
    schema: &Value,
    path: &str,
    depth: usize,
    random: &mut Rng,
    without: &[&str],
) -> Result<Map<String, Value>, Unsatisfied> {
    let (mut required, mut excluded) = (names(&schema["required"]), without.to_vec());
    choose_variants(schema, random, &mut required, &mut excluded);
    let mut fields = Map::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let is_required = required.contains(&name.as_str());
        let is_wanted = is_required || depth > 0 && random.u8(..3) > 0;
        if excluded.contains(&name.as_str()) || !is_wanted {
            continue;
        }
        let field = value(property, &format!("{path}.{name}"), depth.saturating_sub(1), random)?;
        fields.insert(name.clone(), field);
    }
    narrow(schema, random, &mut fields);
    Ok(fields)
}

/// Chooses one variant of each `oneOf` and `anyOf`, also inside the chosen variants. Excludes fields that only other
/// variants require.
fn choose_variants<'a>(schema: &'a Value, random: &mut Rng, required: &mut Vec<&'a str>, excluded: &mut Vec<&'a str>) {
    for key in ["oneOf", "anyOf"] {
        let Some(variants) = schema[key].as_array().filter(|variants| !variants.is_empty()) else { continue };
        let chosen = random.usize(..variants.len());
        let wanted = all_names(&variants[chosen]);
        let others = variants.iter().enumerate().filter(|(index, _)| *index != chosen);
        let unwanted = others.flat_map(|(_, variant)| all_names(variant));
        excluded.extend(unwanted.filter(|name| !wanted.contains(name) && !required.contains(name)));
        required.extend(names(&variants[chosen]["required"]));
        choose_variants(&variants[chosen], random, required, excluded);
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        required.extend(names(&part["required"]));
        choose_variants(part, random, required, excluded);
    }
}

/// Returns the fields that the variant or any of its inner variants requires.
fn all_names(variant: &Value) -> Vec<&str> {
    let inner = ["allOf", "anyOf", "oneOf"].iter().filter_map(|key| variant[*key].as_array()).flatten();
    names(&variant["required"]).into_iter().chain(inner.flat_map(all_names)).collect()
}

/// Chooses a variant of each `oneOf` and `anyOf` whose required fields exist in `fields`. Sets each field with an
/// `enum` in this variant, such as the tag of an enum, to the first value of the `enum`.
fn narrow(schema: &Value, random: &mut Rng, fields: &mut Map<String, Value>) {
    for key in ["oneOf", "anyOf"] {
        let Some(variants) = schema[key].as_array() else { continue };
        let fitting: Vec<&Value> = variants.iter().filter(|variant| fits(variant, fields)).collect();
        let Some(variant) = fitting.get(random.usize(..fitting.len().max(1))) else { continue };
        for (name, property) in variant["properties"].as_object().into_iter().flatten() {
            if let Some(only) = property["enum"].as_array().and_then(|values| values.first()) {
                fields.insert(name.clone(), only.clone());
            }
        }
        narrow(variant, random, fields);
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        narrow(part, random, fields);
    }
}

/// Returns `true` if `fields` contains all fields that the variant and one of its inner variants require.
fn fits(variant: &Value, fields: &Map<String, Value>) -> bool {
    let parts = |key: &str| variant[key].as_array();
    names(&variant["required"]).iter().all(|name| fields.contains_key(*name))
        && parts("allOf").is_none_or(|parts| parts.iter().all(|part| fits(part, fields)))
        && ["oneOf", "anyOf"]
            .iter()
            .all(|key| parts(key).is_none_or(|parts| parts.iter().any(|part| fits(part, fields))))
}

fn list(schema: &Value, path: &str, depth: usize, random: &mut Rng) -> Result<Value, Unsatisfied> {
    let count = count(schema, "minItems", "maxItems", depth, random);
    let keys = match schema["x-kubernetes-list-type"].as_str() {
        Some("map") => Some(names(&schema["x-kubernetes-list-map-keys"])),
        Some("set") => Some(Vec::new()),
        _ => None,
    };
    let key = |item: &Value| match keys.as_deref() {
        Some([]) | None => item.clone(),
        Some(names) => names.iter().map(|name| item[*name].clone()).collect(),
    };
    let mut items = Vec::<Value>::new();
    for _ in 0..count * 8 {
        if items.len() == count {
            break;
        }
        let item = value(&schema["items"], &format!("{path}[]"), depth.saturating_sub(1), random)?;
        if keys.is_none() || !items.iter().any(|present| key(present) == key(&item)) {
            items.push(item);
        }
    }
    let least = schema["minItems"].as_u64().unwrap_or_default() as usize;
    if items.len() < least {
        Err(Unsatisfied { path: path.into(), why: format!("no {least} different items were found") })
    } else {
        Ok(items.into())
    }
}

fn count(schema: &Value, least: &str, most: &str, depth: usize, random: &mut Rng) -> usize {
    let least = schema[least].as_u64().unwrap_or_default() as usize;
    let most = schema[most].as_u64().map_or(usize::MAX, |most| most as usize);
    match depth {
        0 => least,
        _ => random.usize(least..=most.min(least + ITEMS).max(least)),
    }
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}
