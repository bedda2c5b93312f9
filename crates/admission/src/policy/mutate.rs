//! Evaluates the mutations of a MutatingAdmissionPolicy.

use pintle_cel::{Failure, Value};
use pintle_json::{Json, json};
use pintle_schema::Schema;
use pintle_schema::patch::{PatchBody, PatchError};

use super::CompiledPolicy;
use super::compile::Mutation;
use super::evaluate::{Inputs, OUT_OF_BUDGET, Scope, Stop, VALIDATION_BUDGET};

const MAX_DEPTH: usize = 256;

/// The error of a mutation that does not result in a valid object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MutationError {
    /// The mutation failed. The failure policy determines whether this error denies the request.
    Failed(String),
    /// The result of the mutation is not a valid object of its kind. The server then denies the request even if the
    /// failure policy is `Ignore`.
    Undecodable(String),
}

impl CompiledPolicy {
    /// Applies the mutation with index `at` to the object in `inputs`, without checking the match conditions.
    ///
    /// # Panics
    ///
    /// Panics if `at` is not the index of a mutation.
    pub fn mutate(&self, at: usize, inputs: &Inputs<'_>, schema: &Schema) -> Result<Json, MutationError> {
        let Some(object) = inputs.object else { return Ok(Json::Null) };
        let mutation = &self.mutations[at];
        let scope = Scope::new(self, inputs, VALIDATION_BUDGET);
        let value = evaluate(&scope, mutation).map_err(MutationError::Failed)?;
        let changed = if mutation.is_patch {
            patched(object, &value, schema)?
        } else {
            merged(object, &value, schema).map_err(MutationError::Failed)?
        };
        let undecodable = |why: String| {
            if mutation.is_patch {
                MutationError::Undecodable(why)
            } else {
                let (version, kind) = (object.text("/apiVersion"), object.text("/kind"));
                let slash = if version.contains('/') { "" } else { "/" };
                MutationError::Failed(format!(
                    "unable to convert unstructured object to {slash}{version}, Kind={kind}: {why}"
                ))
            }
        };
        let decoded = schema.read(changed).map_err(|error| undecodable(error.to_string()))?;
        match pintle_schema::strict_decoding_error(&decoded.findings) {
            Some(words) => Err(undecodable(words)),
            None => Ok(decoded.object),
        }
    }
}

fn evaluate<'a>(scope: &Scope<'a>, mutation: &Mutation) -> Result<Value<'a>, String> {
    let expression = &mutation.expression;
    let program = expression.program.as_ref().map_err(String::clone)?;
    match scope.run(program) {
        Err(Stop) => Err(OUT_OF_BUDGET.into()),
        Ok(value) => {
            value.map_err(|error| format!("expression '{}' resulted in error: {}", expression.text, error.message()))
        }
    }
}

fn merged(object: &Json, value: &Value<'_>, schema: &Schema) -> Result<Json, String> {
    // Convert the value to JSON first, because this conversion limits the size of the value.
    let json = to_json(value);
    check_type_names(value, &json)?;
    let mut configuration = json?;
    check_scalars(value, &mut String::new(), MAX_DEPTH)?;
    for name in ["apiVersion", "kind"] {
        configuration.set(name, object[name].clone());
    }
    let merged = pintle_fieldmanager::merge_configuration(schema, object, &configuration);
    merged.map_err(|why| format!("error applying patch: {why}"))
}

fn patched(object: &Json, value: &Value<'_>, schema: &Schema) -> Result<Json, MutationError> {
    let operations = operations(value).map_err(MutationError::Failed)?;
    let failed = |why: &dyn std::fmt::Display| MutationError::Failed(format!("JSON Patch: {why}"));
    let patch = PatchBody::json_of_policy(operations.to_string().as_bytes()).map_err(|error| failed(&error))?;
    match patch.apply(object, schema) {
        Ok(changed) => Ok(changed),
        // As in kube-apiserver, the patch changes nothing if a `test` operation fails.
        Err(PatchError::TestFailed(_)) => Ok(object.clone()),
        Err(error) => Err(failed(&error)),
    }
}

fn operations(value: &Value<'_>) -> Result<Json, String> {
    let Value::List(list) = value else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array".into());
    };
    let operation = |item: Result<Value<'_>, Failure>| {
        let item = item.map_err(|error| error.message().to_owned())?;
        let Value::Object(fields) = &item else {
            let found = item.type_of();
            return Err(format!(
                "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch, got element of {found}"
            ));
        };
        let text = |name: &str| fields.field(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut operation = json!({"op": text("op"), "path": text("path")});
        let from = text("from");
        if !from.is_empty() {
            operation.set("from", from);
        }
        if let Some(value) = fields.field("value") {
            if let Value::Optional(None) = value {
                let why = "JSONPath valueExpression evaluated to a type that could not marshal to JSON: optional.none() dereference";
                return Err(why.into());
            }
            let json = to_json(value);
            check_type_names(value, &json)?;
            let value = json.map_err(|why| {
                format!("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {why}")
            })?;
            operation.set("value", value);
        }
        Ok(operation)
    };
    list.items().map(operation).collect::<Result<Vec<_>, _>>().map(Json::from)
}

fn to_json(value: &Value<'_>) -> Result<Json, String> {
    value.to_json().map(Json::from).map_err(|error| error.message().to_owned())
}

/// Checks that the type name of each object in the result is the path of the object's field, such as `Object.spec`.
fn check_type_names(value: &Value<'_>, json: &Result<Json, String>) -> Result<(), String> {
    let (Value::Object(object), Ok(_)) = (value, json) else { return Ok(()) };
    let mut errors = Vec::new();
    type_name_errors(value, &mut object.type_name().to_owned(), MAX_DEPTH, &mut errors);
    if errors.is_empty() { Ok(()) } else { Err(format!("type mismatch: {}", errors.join("\n"))) }
}

/// Returns an error if a value in the result, such as a duration, has no JSON type. For JSON patches, kube-apiserver
/// converts all values to JSON.
fn check_scalars(value: &Value<'_>, path: &mut String, depth: usize) -> Result<(), String> {
    let Some(depth) = depth.checked_sub(1) else { return Err("values are nested too deep".into()) };
    let length = path.len();
    match value {
        Value::Bytes(_) | Value::Duration(_) | Value::Timestamp(_) | Value::Opaque(_) => {
            let found = value.type_of();
            Err(format!("failed to convert patch object to typed object: {path}: expected any scalar, got {found}"))
        }
        Value::Object(object) => object.fields().try_for_each(|(name, value)| {
            path.push('.');
            path.push_str(name);
            check_scalars(value, path, depth)?;
            path.truncate(length);
            Ok(())
        }),
        Value::List(list) => list.items().flatten().enumerate().try_for_each(|(at, item)| {
            path.push_str(&format!("[{at}]"));
            check_scalars(&item, path, depth)?;
            path.truncate(length);
            Ok(())
        }),
        Value::Map(map) => map.values().flatten().try_for_each(|value| check_scalars(&value, path, depth)),
        Value::Optional(Some(value)) => check_scalars(value, path, depth),
        _ => Ok(()),
    }
}

fn type_name_errors(value: &Value<'_>, path: &mut String, depth: usize, errors: &mut Vec<String>) {
    let Some(depth) = depth.checked_sub(1) else {
        errors.push("values are nested too deep".into());
        return;
    };
    let length = path.len();
    match value {
        Value::Object(object) => {
            let name = object.type_name();
            if name != path {
                errors.push(format!(
                    "unexpected type name {name:?}, expected {path:?}, which matches field name path from root Object type"
                ));
            }
            for (name, value) in object.fields() {
                path.push('.');
                path.push_str(name);
                type_name_errors(value, path, depth, errors);
                path.truncate(length);
            }
        }
        Value::List(list) => {
            list.items().flatten().for_each(|item| type_name_errors(&item, path, depth, errors));
        }
        Value::Map(map) => {
            map.values().flatten().for_each(|value| type_name_errors(&value, path, depth, errors));
        }
        _ => {}
    }
}
