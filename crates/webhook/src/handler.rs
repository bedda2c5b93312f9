//! Converts typed handlers to type-erased functions.

use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::admission::Admission;
use crate::answer::{Allowed, Denial, Notes};
use crate::change;
use crate::decode::decode;
use crate::review::AdmissionRequest;

/// The result of a handler: an optional JSON patch with warnings and audit annotations, or a denial.
type Answer = Result<(Option<json_patch::Patch>, Notes), Denial>;
pub(crate) type Handle = Arc<dyn Fn(AdmissionRequest) -> Pin<Box<dyn Future<Output = Answer> + Send>> + Send + Sync>;

pub(crate) fn validating<T, F, Fut, O>(handler: F) -> Handle
where
    T: DeserializeOwned + Send + 'static,
    F: Fn(Admission<T>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, Denial>> + Send,
    O: Into<Allowed>,
{
    let handler = Arc::new(handler);
    Arc::new(move |request| {
        let handler = handler.clone();
        Box::pin(async move {
            let allowed = handler(Admission::decode(&request)?).await?;
            Ok((None, allowed.into().notes))
        })
    })
}

pub(crate) fn mutating<T, F, Fut, O>(handler: F) -> Handle
where
    T: DeserializeOwned + Serialize + Send + 'static,
    F: Fn(Admission<T>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, Denial>> + Send,
    O: Into<Allowed<T>>,
{
    let handler = Arc::new(handler);
    Arc::new(move |request| {
        let handler = handler.clone();
        Box::pin(async move {
            let admission = Admission::decode(&request)?;
            let before = to_json(&admission.object)?;
            let Allowed { object, notes } = handler(admission).await?.into();
            Ok((changes(&request, &before, &object)?, notes))
        })
    })
}

fn changes<T: DeserializeOwned + Serialize>(
    request: &AdmissionRequest,
    before: &Value,
    object: &T,
) -> Result<Option<json_patch::Patch>, Denial> {
    let after = to_json(object)?;
    let Some(sent) = request.object.as_ref().filter(|_| *before != after) else { return Ok(None) };
    let sent = decode("object", sent)?;
    let mut merged = change::merge(&sent, before, &after);
    let decoded = re_encoded::<T>(&merged)?;
    if decoded != after {
        // The type may change a value when it decodes the value. It may even be unable to decode its own JSON.
        let expected = change::sorted(&re_encoded::<T>(&after).unwrap_or_else(|_| after.clone()));
        change::correct(&mut merged, &change::sorted(&decoded), &expected, &after);
        if change::sorted(&re_encoded::<T>(&merged)?) != expected {
            let why = "the changed object would decode as another object than the one that the handler returned";
            return Err(Denial::internal(why.into()));
        }
    }
    Ok(change::patch(&sent, &merged))
}

/// Decodes `json`, and encodes the result.
fn re_encoded<T: DeserializeOwned + Serialize>(json: &Value) -> Result<Value, Denial> {
    let object: T = serde_path_to_error::deserialize(json).map_err(|error| {
        Denial::internal(format!(
            "the changed object would not decode as its Rust type, at {}; does the field have two names?",
            error.path()
        ))
    })?;
    to_json(&object)
}

fn to_json<T: Serialize>(object: &T) -> Result<Value, Denial> {
    serde_json::to_value(object).map_err(|error| Denial::internal(format!("cannot encode the object: {error}")))
}
