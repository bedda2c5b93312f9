//! Decodes a review's objects.

use pintle_meta::DecodeError;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::answer::Denial;
use crate::shortened::{NAME, PROBLEM, shortened};

/// Decodes a part of a review, such as the object under review. Errors name this part and the invalid field, but
/// do not contain the field's value.
pub(crate) fn decode<T: DeserializeOwned>(part: &str, json: &RawValue) -> Result<T, Denial> {
    fields(json).map_err(|problem| Denial::bad_request(format!("cannot decode the {part}: {problem}")))
}

/// Decodes an object. Decode errors begin with the path of the invalid field, and are shortened to [`PROBLEM`] bytes.
pub(crate) fn fields<T: DeserializeOwned>(json: &RawValue) -> Result<T, String> {
    let mut deserializer = serde_json::Deserializer::from_str(json.get());
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let problem = DecodeError::from(error.into_inner());
        // A path can contain any text from the object, such as the key of a label.
        let path = if path == "." { String::new() } else { format!("{}: ", shortened(&path, NAME)) };
        shortened(&format!("{path}{problem}"), PROBLEM).into_owned()
    })
}
