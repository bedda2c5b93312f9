//! Writes conversion reviews, and reads the responses of conversion webhooks.

use pintle_json::{Json, json};

use super::{ReviewVersion, review_body};
use pintle_apimachinery::object::metadata_mut;
use pintle_apimachinery::request::webhook_calls::ConversionWebhook;

const GROUP: &str = "apiextensions.k8s.io";

fn version(webhook: &ConversionWebhook) -> ReviewVersion {
    if webhook.is_v1 { ReviewVersion::V1 } else { ReviewVersion::V1beta1 }
}

/// Returns a ConversionReview as JSON, which asks the webhook to convert `objects` to the version `to`.
pub fn conversion_review<'a>(webhook: &ConversionWebhook, to: &str, objects: impl Iterator<Item = &'a Json>) -> String {
    let objects: Vec<Json> = objects.cloned().collect();
    let api_version = format!("{GROUP}/{}", version(webhook).name());
    review_body::write("ConversionReview", &api_version, &json!({"desiredAPIVersion": to, "objects": objects}))
}

/// Reads the converted objects from a webhook's response. `sent` contains the objects in the sent review, which
/// have the version `from`.
pub fn read_conversion_response(
    webhook: &ConversionWebhook,
    uid: &str,
    body: &Result<impl AsRef<str>, String>,
    (from, to): (&str, &str),
    sent: &[&Json],
) -> Result<Vec<Json>, String> {
    let kind = &webhook.kind;
    let failed = |why: &str| format!("conversion webhook for {from}, Kind={kind} failed: {why}");
    let body = body.as_ref().map_err(|why| failed(why))?;
    let review =
        review_body::read(GROUP, version(webhook), "ConversionReview", body.as_ref()).map_err(|why| failed(&why))?;
    let objects = objects(webhook, uid, &review).map_err(|why| failed(&why))?;
    let returned = |why: &str| format!("conversion webhook for {from}, Kind={kind} returned {why}");
    if objects.len() != sent.len() {
        return Err(returned(&format!("{} objects, expected {}", objects.len(), sent.len())));
    }
    for (at, object) in objects.iter().enumerate() {
        let (found_version, found_kind) = (object.text("/apiVersion"), object.text("/kind"));
        let why = match () {
            () if found_version != to => format!("invalid groupVersion (expected {to}, received {found_version})"),
            () if found_kind != kind => format!("invalid kind (expected {kind}, received {found_kind})"),
            () => continue,
        };
        return Err(returned(&format!("invalid object at index {at}: {why}")));
    }
    let restored = objects.into_iter().zip(sent).map(|(object, sent)| restored(object, sent));
    restored.collect::<Result<_, _>>().map_err(|why| returned(&why))
}

fn objects(webhook: &ConversionWebhook, uid: &str, review: &Json) -> Result<Vec<Json>, String> {
    let response = &review["response"];
    if response.is_null() {
        return Err("no response provided".into());
    }
    let (found_version, kind) = (review.text("/apiVersion"), review.text("/kind"));
    if webhook.is_v1 && (found_version, kind) != ("apiextensions.k8s.io/v1", "ConversionReview") {
        let shown = if found_version.contains('/') { found_version.to_owned() } else { format!("/{found_version}") };
        let expected = "apiextensions.k8s.io/v1, Kind=ConversionReview";
        return Err(format!("expected webhook response of {expected}, got {shown}, Kind={kind}"));
    }
    let found = response.text("/uid");
    if webhook.is_v1 && found != uid {
        return Err(format!("expected response.uid={uid:?}, got {found:?}"));
    }
    let (status, message) = (response.text("/result/status"), response.text("/result/message"));
    match (status, message) {
        ("Success", _) => Ok(response.list("/convertedObjects").cloned().collect()),
        (_, "") => Err(format!("response.result.status was '{status}', not 'Success'")),
        (_, message) => Err(message.to_owned()),
    }
}

/// Restores the metadata of the sent object. Keeps the webhook's labels and annotations, which a webhook can change.
fn restored(mut object: Json, sent: &Json) -> Result<Json, String> {
    for (field, name) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let path = format!("/metadata/{field}");
        let (sent, found) = (sent.text(&path), object.text(&path));
        if sent != found {
            return Err(format!("invalid object: must have the same {name}: {sent} != {found}"));
        }
    }
    let mut metadata = sent["metadata"].clone();
    for field in ["labels", "annotations"] {
        let changed = &object["metadata"][field];
        if let Some((key, _)) = changed.members("").find(|(_, value)| !value.is_string()) {
            return Err(format!("invalid metadata: metadata.{field}[{key}] must be a string"));
        }
        match changed {
            Json::Object(members) if !members.is_empty() => metadata.set(field, changed.clone()),
            Json::Object(_) | Json::Null => metadata.unset(field),
            _ => return Err(format!("invalid metadata: invalid metadata.{field} in converted object")),
        }
    }
    *metadata_mut(&mut object) = metadata;
    Ok(object)
}
