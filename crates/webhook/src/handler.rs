//! Converts typed handlers to functions without type parameters.

use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::admission::Admission;
use crate::answer::{Allowed, Denial, Notes};
use crate::change::{self, Missing};
use crate::decode::decode;
use crate::elements;
use crate::failure_policy::FailurePolicy;
use crate::review::{AdmissionRequest, Operation};
use crate::shortened::{NAME, shortened};

/// A handler's response: an optional JSON patch with warnings and audit annotations, or a denial.
type Answer = Result<(Option<json_patch::Patch>, Notes), Denial>;
pub(crate) type Handle =
    Arc<dyn Fn(AdmissionRequest, FailurePolicy) -> Pin<Box<dyn Future<Output = Answer> + Send>> + Send + Sync>;

pub(crate) fn validating<T, F, Fut, O>(handler: F) -> Handle
where
    T: DeserializeOwned + Send + 'static,
    F: Fn(Admission<T>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, Denial>> + Send,
    O: Into<Allowed>,
{
    let handler = Arc::new(handler);
    Arc::new(move |request, policy| {
        let handler = handler.clone();
        Box::pin(async move {
            let admission = match Admission::decode(&request) {
                Ok(admission) => admission,
                Err(denial) => return unchecked::<T>(&request, policy, denial),
            };
            let allowed = handler(admission).await?;
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
    Arc::new(move |request, policy| {
        let handler = handler.clone();
        Box::pin(async move {
            let admission = match Admission::decode(&request) {
                Ok(admission) => admission,
                Err(denial) => return unchecked::<T>(&request, policy, denial),
            };
            let before = to_json(&admission.object)?;
            let Allowed { object, notes } = handler(admission).await?.into();
            Ok((changes(&request, &before, &object)?, notes))
        })
    })
}

/// Responds to a request whose object cannot be decoded as the handler's type. `denial` is the decode error.
fn unchecked<T: DeserializeOwned>(request: &AdmissionRequest, policy: FailurePolicy, denial: Denial) -> Answer {
    let is_allowed = match (request.operation, &request.object, &request.old_object) {
        (Operation::Delete, _, Some(_)) if policy == FailurePolicy::Fail => {
            let advice = "repair the object with an update before you delete it";
            return Err(Denial::bad_request(format!("{denial}; {advice}")));
        }
        (Operation::Delete, _, old) => old.is_some(),
        // Allow a metadata change of a terminating object that could not be decoded before the change. For example,
        // the operator removes its finalizer from this object.
        (Operation::Update, Some(object), Some(old)) => {
            decode::<T>("oldObject", old).is_err() && only_changes_metadata_of_deleted(object, old)
        }
        _ => false,
    };
    if !is_allowed {
        return Err(denial);
    }
    let (resource, operation) = (&request.resource, request.operation.as_str());
    let warning = format!("the request was not checked: {denial}");
    let (namespace, name) = (&*shortened(&request.namespace, NAME), &*shortened(&request.name, NAME));
    tracing::warn!(%resource, operation, ?namespace, ?name, ?warning, "allowed a request for an undecodable object");
    Ok((None, Allowed::from(()).warn(warning).notes))
}

fn only_changes_metadata_of_deleted(object: &RawValue, old: &RawValue) -> bool {
    let parse = |json: &RawValue| serde_json::from_str::<Map<String, Value>>(json.get());
    let (Ok(mut object), Ok(mut old)) = (parse(object), parse(old)) else { return false };
    let is_deleted = old.get("metadata").is_some_and(|metadata| metadata["deletionTimestamp"].is_string());
    object.remove("metadata");
    old.remove("metadata");
    is_deleted && object == old
}

fn changes<T: DeserializeOwned + Serialize>(
    request: &AdmissionRequest,
    before: &Value,
    object: &T,
) -> Result<Option<json_patch::Patch>, Denial> {
    let after = to_json(object)?;
    let Some(sent) = request.object.as_ref().filter(|_| *before != after) else { return Ok(None) };
    let sent = decode("object", sent)?;
    // Compare re-encoded objects, because the type may change a value when decoding it. If the type cannot decode its own
    // JSON, use the JSON unchanged.
    let expected = || elements::sorted(&re_encoded::<T>(&after).unwrap_or_else(|_| after.clone()));
    let is_expected = |decoded: &Value| *decoded == after || elements::sorted(decoded) == expected();
    let mut merged = change::merge(&sent, before, &after, Missing::Empty);
    if !re_encoded::<T>(&merged).is_ok_and(|decoded| is_expected(&decoded)) {
        merged = change::merge(&sent, before, &after, Missing::Removed);
        let decoded = re_encoded::<T>(&merged)?;
        change::correct(&mut merged, &elements::sorted(&decoded), &expected(), &after);
        if !is_expected(&re_encoded::<T>(&merged)?) {
            let why = "the changed object would decode as another object than the one that the handler returned";
            return Err(Denial::internal(why.into()));
        }
    }
    Ok(change::patch(&sent, &merged))
}

fn re_encoded<T: DeserializeOwned + Serialize>(json: &Value) -> Result<Value, Denial> {
    let object: T = serde_path_to_error::deserialize(json).map_err(|error| {
        Denial::internal(format!(
            "the changed object would not decode as its Rust type, at {}; does the field have two names?",
            shortened(&error.path().to_string(), NAME)
        ))
    })?;
    to_json(&object)
}

fn to_json<T: Serialize>(object: &T) -> Result<Value, Denial> {
    serde_json::to_value(object).map_err(|error| Denial::internal(format!("cannot encode the object: {error}")))
}
