//! Writes admission reviews, and reads the responses of admission webhooks.

use pintle_json::Json;
use pintle_meta::Status;
use pintle_schema::decode_base64;

use super::{ReviewVersion, review_body};

const GROUP: &str = "admission.k8s.io";

/// An admission webhook's verdict.
#[derive(Debug)]
pub struct AdmissionVerdict {
    pub is_allowed: bool,
    /// The reason why the webhook denied the request.
    pub status: Option<Status>,
    /// The patch type and the patch, or `None` if the webhook returned no patch.
    pub patch: Option<(String, Vec<u8>)>,
    pub warnings: Vec<String>,
    pub audit_annotations: Vec<(String, String)>,
}

/// Formats `request`, an AdmissionRequest without a uid, as an AdmissionReview in JSON.
pub fn admission_review(version: ReviewVersion, request: &Json) -> String {
    let api_version = format!("{GROUP}/{}", version.name());
    review_body::write("AdmissionReview", &api_version, request)
}

/// Reads a webhook's response to the AdmissionReview with this uid. If the response is invalid, returns the
/// reason.
pub fn read_admission_response(
    version: ReviewVersion,
    uid: &str,
    body: &str,
    mutating: bool,
) -> Result<AdmissionVerdict, String> {
    let review = review_body::read(GROUP, version, "AdmissionReview", body).map_err(|why| call_failed(&why))?;
    let response = &review["response"];
    check_types(response).map_err(|why| call_failed(&why))?;
    check(version, uid, &review, mutating).map_err(|why| format!("received invalid webhook response: {why}"))?;
    // As in kube-apiserver, v1beta1 reviews contain only JSON patches, and
    // patches from validating webhooks are ignored.
    let patch_type = match version {
        ReviewVersion::V1 => response.text("/patchType"),
        ReviewVersion::V1beta1 => "JSONPatch",
    };
    let patch = patch_of(response).map_err(|why| call_failed(&why))?;
    let patch = if mutating { patch } else { Vec::new() };
    let status = match response.get("status").filter(|status| !status.is_null()) {
        None => None,
        Some(status) => {
            let mut status = status.clone();
            if let Some(code) = status.integer("/code") {
                status.set("code", code.clamp(0, u16::MAX.into()));
            }
            Some(serde_json::from_str(&status.to_string()).map_err(|why| call_failed(&why.to_string()))?)
        }
    };
    Ok(AdmissionVerdict {
        is_allowed: response["allowed"].as_bool() == Some(true),
        status,
        patch: (!patch.is_empty()).then(|| (patch_type.to_owned(), patch)),
        warnings: response.texts("/warnings").map(str::to_owned).collect(),
        audit_annotations: response
            .members("/auditAnnotations")
            .map(|(key, value)| (key.to_string(), value.as_str().unwrap_or_default().to_owned()))
            .collect(),
    })
}

/// Returns a patched object with its type. If the patch removed the type, the result has the type of the object
/// `before` the patch, as in kube-apiserver.
pub fn with_type_of(mut patched: Json, before: &Json) -> Json {
    for field in ["apiVersion", "kind"] {
        if patched.is_object() && patched[field].is_empty() {
            patched.set(field, before[field].clone());
        }
    }
    patched
}

fn call_failed(why: &str) -> String {
    format!("failed to call webhook: {why}")
}

fn patch_of(response: &Json) -> Result<Vec<u8>, String> {
    decode_base64(response.text("/patch"))
}

fn check(version: ReviewVersion, uid: &str, review: &Json, mutating: bool) -> Result<(), String> {
    let response = &review["response"];
    if response.is_null() {
        return Err("webhook response was absent".into());
    }
    if version == ReviewVersion::V1beta1 {
        // As in kube-apiserver, reviews of the version v1beta1 can omit the uid and the patch type.
        return Ok(());
    }
    let found = response.text("/uid");
    if found != uid {
        return Err(format!("expected response.uid={uid:?}, got {found:?}"));
    }
    let (api_version, kind) = (review.text("/apiVersion"), review.text("/kind"));
    if (api_version, kind) != ("admission.k8s.io/v1", "AdmissionReview") {
        let shown = if api_version.contains('/') { api_version.to_owned() } else { format!("/{api_version}") };
        return Err(format!(
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {shown}, Kind={kind}"
        ));
    }
    let has_patch = !response.text("/patch").is_empty();
    let has_type = response.get("patchType").is_some_and(|kind| !kind.is_null());
    match (mutating, has_patch, has_type) {
        (true, true, false) => Err("webhook returned response.patch but not response.patchType".into()),
        (true, true, true) if response.text("/patchType").is_empty() => {
            Err("webhook returned invalid response.patchType of \"\"".into())
        }
        (true, false, true) => Err("webhook returned response.patchType but not response.patch".into()),
        (false, true, _) => Err("validating webhook may not return response.patch".into()),
        (false, false, true) => Err("validating webhook may not return response.patchType".into()),
        _ => Ok(()),
    }
}

/// Checks the types of the fields in a response, with the same error messages as Go.
fn check_types(response: &Json) -> Result<(), String> {
    let wrong = |found: &Json, field: &str, wanted: &str| {
        let shape = go_shape(found);
        format!(
            "json: cannot unmarshal {shape} into Go struct field AdmissionResponse.response.{field} of type {wanted}"
        )
    };
    if !(response.is_null() || response.is_object()) {
        let shape = go_shape(response);
        return Err(format!(
            "json: cannot unmarshal {shape} into Go struct field AdmissionReview.response of type v1.AdmissionResponse"
        ));
    }
    let is_absent = |field: &str| response[field].is_null();
    for (field, wanted) in [("uid", "types.UID"), ("patch", "[]uint8"), ("patchType", "v1.PatchType")] {
        if !is_absent(field) && !response[field].is_string() {
            return Err(wrong(&response[field], field, wanted));
        }
    }
    if !is_absent("allowed") && response["allowed"].as_bool().is_none() {
        return Err(wrong(&response["allowed"], "allowed", "bool"));
    }
    if !is_absent("status") && !response["status"].is_object() {
        return Err(wrong(&response["status"], "status", "v1.Status"));
    }
    if !is_absent("auditAnnotations") && !response["auditAnnotations"].is_object() {
        return Err(wrong(&response["auditAnnotations"], "auditAnnotations", "map[string]string"));
    }
    let mut annotations = response.members("/auditAnnotations").map(|(_, value)| value);
    if let Some(value) = annotations.find(|value| !value.is_string() && !value.is_null()) {
        return Err(wrong(value, "auditAnnotations", "string"));
    }
    match (&response["warnings"], response["warnings"].as_array()) {
        (Json::Null, _) => Ok(()),
        (found, None) => Err(wrong(found, "warnings", "[]string")),
        (_, Some(items)) => match items.iter().find(|item| !item.is_string() && !item.is_null()) {
            None => Ok(()),
            Some(found) => Err(wrong(found, "warnings", "string")),
        },
    }
}

fn go_shape(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "bool",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
        _ => "number",
    }
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::*;

    fn read(body: &Json, mutating: bool) -> Result<AdmissionVerdict, String> {
        read_admission_response(ReviewVersion::V1, "u", &body.to_string(), mutating)
    }

    fn answer(response: Json) -> Json {
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
    }

    #[test]
    fn response_must_have_the_uid_of_its_review() {
        for (body, expected) in [
            (json!({}), "received invalid webhook response: webhook response was absent"),
            (answer(json!({})), "received invalid webhook response: expected response.uid=\"u\", got \"\""),
            (
                json!({"response": {"uid": "u"}}),
                "received invalid webhook response: expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=",
            ),
            (
                answer(json!({"uid": "u", "patch": "W10="})),
                "received invalid webhook response: validating webhook may not return response.patch",
            ),
            (
                answer(json!({"allowed": "true"})),
                "failed to call webhook: json: cannot unmarshal string into Go struct field AdmissionResponse.response.allowed of type bool",
            ),
        ] {
            assert_eq!(read(&body, false).map(|_| ()), Err(expected.into()), "{body}");
        }
    }

    #[test]
    fn patch_is_read_from_base64() {
        let verdict =
            read(&answer(json!({"uid": "u", "allowed": true, "patch": "W10=", "patchType": "JSONPatch"})), true);
        let verdict = verdict.expect("a valid response");
        assert!(verdict.is_allowed);
        assert_eq!(verdict.patch, Some(("JSONPatch".into(), b"[]".to_vec())));
    }

    #[test]
    fn annotations_must_be_texts() {
        let wrong = answer(json!({"uid": "u", "allowed": true, "auditAnnotations": {"a": 1}}));
        let why = read(&wrong, false).expect_err("a wrong type");
        assert!(why.ends_with("Go struct field AdmissionResponse.response.auditAnnotations of type string"), "{why}");
        let unset = answer(json!({"uid": "u", "allowed": true, "auditAnnotations": {"a": null}}));
        assert!(read(&unset, false).is_ok());
    }

    #[test]
    fn removed_types_are_restored() {
        let before = json!({"apiVersion": "v1", "kind": "A"});
        assert_eq!(with_type_of(json!({"apiVersion": "v1", "kind": ""}), &before), before);
        assert_eq!(with_type_of(json!({}), &before), before);
        let other = json!({"apiVersion": "v2", "kind": "B"});
        assert_eq!(with_type_of(other.clone(), &before), other);
        assert_eq!(with_type_of(json!([]), &before), json!([]));
    }

    #[test]
    fn old_review_version_needs_no_uid() {
        let body = json!({"response": {"allowed": true}}).to_string();
        let verdict = read_admission_response(ReviewVersion::V1beta1, "u", &body, true);
        assert!(verdict.is_ok_and(|verdict| verdict.is_allowed && verdict.patch.is_none()));
    }
}
