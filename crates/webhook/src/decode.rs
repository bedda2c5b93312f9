//! Decodes a review's objects.

use pintle_meta::DecodeError;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::answer::Denial;

/// Decodes a part of a review, such as the object under review. Errors name this part and the invalid field, but
/// do not contain the field's value.
pub(crate) fn decode<T: DeserializeOwned>(part: &str, json: &RawValue) -> Result<T, Denial> {
    fields(json).map_err(|problem| Denial::bad_request(format!("cannot decode the {part}: {problem}")))
}

/// Decodes an object. Decode errors begin with the path of the invalid field.
pub(crate) fn fields<T: DeserializeOwned>(json: &RawValue) -> Result<T, String> {
    let mut deserializer = serde_json::Deserializer::from_str(json.get());
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let problem = DecodeError::from(error.into_inner());
        if path == "." { problem.to_string() } else { format!("{path}: {problem}") }
    })
}
