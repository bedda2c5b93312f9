//! Writes reviews, and reads the bodies of responses to them.

use pintle_json::{Json, json};
use pintle_schema as schema;

use super::ReviewVersion;

/// A placeholder for a review's uid, which `with_uid` replaces.
const UID: &str = "00000000-0000-0000-0000-000000000000";

/// Returns a review as JSON. The object `request` must not contain a uid.
pub(super) fn write(kind: &str, api_version: &str, request: &Json) -> String {
    // Write the uid before the request's own fields, so that `with_uid` cannot replace text in these
    // fields.
    let request = request.to_string();
    let members = request.strip_prefix('{').unwrap_or(&request);
    format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"request\":{{\"uid\":\"{UID}\",{members}}}")
}

/// Replaces the placeholder in the review with the uid, and returns the review.
pub fn with_uid(review: &str, uid: &str) -> String {
    review.replacen(UID, uid, 1)
}

/// Reads a webhook's review. Returns an error if the body is not a review of this version.
pub(super) fn read(group: &str, version: ReviewVersion, kind: &str, body: &str) -> Result<Json, String> {
    let undecodable = |why: String| format!("couldn't get version/kind; json parse error: {why}");
    let is_json = body.trim_start().starts_with('{');
    let read = if is_json {
        schema::read_json(body.as_bytes())
    } else {
        schema::read_yaml(body.as_bytes()).map(|(review, _)| review)
    };
    let review = read.map_err(undecodable)?;
    if review.is_null() {
        return Ok(json!({}));
    }
    if !review.is_object() {
        return Err(undecodable(format!(
            "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; \
             Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            review.type_name()
        )));
    }
    let (found_version, found_kind) = (review.text("/apiVersion"), review.text("/kind"));
    let name = version.name();
    let expected = format!("{group}/{name}");
    let is_known =
        found_version.strip_prefix(&format!("{group}/")).is_some_and(|name| matches!(name, "v1" | "v1beta1"));
    match (found_version, found_kind) {
        ("", "") => Ok(review),
        (found, _) if found == expected && found_kind == kind => Ok(review),
        (_, "") | ("", _) => Ok(review),
        (found, found_kind) if is_known && found_kind == kind => {
            let other = found.rsplit('/').next().unwrap_or_default();
            Err(format!("converting ({other}.{kind}) to ({name}.{kind}): unknown conversion"))
        }
        (found, found_kind) => Err(format!(
            "no kind {found_kind:?} is registered for version {found:?} in scheme \"pkg/runtime/scheme.go:111\""
        )),
    }
}
