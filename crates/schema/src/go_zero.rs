//! The values of unset fields in Go, and the empty values that Go's JSON encoder omits.

use pintle_json::Json;

use super::types::{Field, Scalar, Type};

/// Returns the value that Go's JSON encoder writes for an unset value of this type.
pub(super) fn zero(ty: &Type) -> Json {
    match ty {
        Type::Scalar(scalar) => scalar.zero(),
        Type::Struct { struct_type, .. } => {
            let always = struct_type.always.iter().map(|&index| &struct_type.fields[index]);
            Json::Object(always.map(|field| (field.name.as_str(), unset_value(field))).collect())
        }
        Type::Any | Type::Map(_) | Type::List(_) | Type::Union(_) => Json::Null,
    }
}

/// Returns the value that Go's JSON encoder writes for an unset field without `omitempty`.
pub(super) fn unset_value(field: &Field) -> Json {
    if field.pointer { Json::Null } else { zero(&field.ty) }
}

/// Returns `true` if Go omits a field with this value. Go omits most empty values.
pub(super) fn is_omitted(field: &Field, value: &Json, may_keep: bool) -> bool {
    // Go always writes an empty struct.
    let is_kept = || field.pointer || matches!(field.ty, Type::Struct { .. }) || (field.keeps_empty && may_keep);
    !field.always && (value.is_null() || (is_empty(value) && !is_kept()))
}

fn is_empty(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::Bool(value) => !value,
        Json::Number(value) => value.as_f64() == Some(0.0),
        Json::String(value) => value.is_empty(),
        Json::Array(items) => items.is_empty(),
        Json::Object(members) => members.is_empty(),
    }
}

/// Returns `true` if Go keeps a field's earlier value when the field occurs again as null. In Go, null clears lists,
/// maps, and values of most types that implement `Unmarshaler`.
pub(super) fn survives_null(ty: &Type, earlier: &Json) -> bool {
    match ty {
        Type::Struct { .. } => true,
        Type::Scalar(Scalar::IntOrString) => earlier.is_number(),
        Type::Scalar(scalar) => matches!(
            scalar,
            Scalar::String | Scalar::Bool | Scalar::Int32 | Scalar::Int64 | Scalar::Number | Scalar::Raw
        ),
        Type::Any | Type::Map(_) | Type::List(_) | Type::Union(_) => false,
    }
}
