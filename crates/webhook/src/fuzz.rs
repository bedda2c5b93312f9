//! Fuzzing entry points for `crates/fuzz/` and for the tests in this module. Each function checks a property of a
//! handler or conversion, and panics on a violation.

#![allow(clippy::unwrap_used, reason = "failed checks panic")]

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use pintle_meta::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tower_service::Service;

use crate::admission::Admission;
use crate::answer::Denial;
use crate::hub::Hub;
use crate::webhook::Webhook;
use crate::webhooks::Webhooks;

#[derive(Debug, PartialEq, Deserialize, Serialize)]
struct Website {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
}
pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);

#[derive(Debug, Default, PartialEq, Deserialize, Serialize)]
struct Spec {
    #[serde(default)]
    replicas: u32,
    #[serde(default)]
    pages: Vec<Page>,
}

#[derive(Debug, PartialEq, Deserialize, Serialize)]
struct Page {
    name: String,
}

#[derive(Deserialize, Serialize)]
struct OldWebsite {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
}
pintle_meta::resource!(OldWebsite, "example.com/v1alpha1", "Website", "websites", Namespaced);

impl From<OldWebsite> for Website {
    fn from(OldWebsite { metadata, spec }: OldWebsite) -> Self {
        Self { metadata, spec }
    }
}

impl From<Website> for OldWebsite {
    fn from(Website { metadata, spec }: Website) -> Self {
        Self { metadata, spec }
    }
}

fn change(site: &mut Website) {
    site.metadata.labels.insert("seen".into(), "yes".into());
    site.spec.replicas = site.spec.replicas.wrapping_add(1);
    site.spec.pages.insert(0, Page { name: "index".into() });
}

fn answer(path: &str, body: &[u8]) -> Option<Value> {
    let mutate = async |request: Admission<Website>| {
        let mut site = request.object;
        change(&mut site);
        Ok::<_, Denial>(site)
    };
    let mut webhooks =
        Webhooks::new().add(Webhook::mutate(mutate)).convert(Hub::<Website>::new().spoke::<OldWebsite>());
    let request = Request::post(path).body(Full::new(Bytes::copy_from_slice(body))).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let response = runtime.block_on(webhooks.call(request)).unwrap();
    let status = response.status().as_u16();
    let body = runtime.block_on(response.into_body().collect()).unwrap().to_bytes();
    assert!([200, 400].contains(&status), "{status}");
    (status == 200).then(|| serde_json::from_slice(&body).unwrap())
}

/// Checks that the response to an admission review contains the uid of the request. If the response contains a patch,
/// also checks that applying the patch results in the handler's object.
pub fn admission_review(body: &[u8]) {
    let Some(answer) = answer("/mutate/example.com/v1/websites", body) else { return };
    let response = &answer["response"];
    // The webhook may accept a review that cannot be parsed here, because serde_json allows fewer nesting levels in a
    // `Value` than in skipped objects.
    let Ok(review) = serde_json::from_slice::<Value>(body) else { return };
    // Skip a review in the form of a list of field values, which the decoder accepts, too.
    let Some(request) = review.get("request").filter(|request| request.is_object()) else { return };
    assert_eq!(response["uid"], request["uid"]);
    let Some(patch) = response.get("patch") else { return };
    assert_eq!(response["allowed"], true);
    let patch: json_patch::Patch = serde_json::from_slice(&STANDARD.decode(patch.as_str().unwrap()).unwrap()).unwrap();
    let mut patched = request["object"].clone();
    json_patch::patch(&mut patched, &patch).unwrap();
    let mut expected: Website = serde_json::from_value(request["object"].clone()).unwrap();
    change(&mut expected);
    assert_eq!(serde_json::from_value::<Website>(patched).unwrap(), expected);
}

/// Checks that the response to a conversion review contains the uid of the request, and either all objects in the
/// desired version or none.
pub fn conversion_review(body: &[u8]) {
    let Some(answer) = answer("/convert/example.com/websites", body) else { return };
    let response = &answer["response"];
    let Ok(review) = serde_json::from_slice::<Value>(body) else { return };
    let Some(request) = review.get("request").filter(|request| request.is_object()) else { return };
    assert_eq!(response["uid"], request["uid"]);
    let converted = response["convertedObjects"].as_array().unwrap();
    if response["result"]["status"] != "Success" {
        assert!(converted.is_empty() && response["result"]["message"].is_string());
        return;
    }
    let sent = request["objects"].as_array().cloned().unwrap_or_default();
    assert_eq!(converted.len(), sent.len());
    for (converted, sent) in converted.iter().zip(&sent) {
        assert_eq!(converted["apiVersion"], request["desiredAPIVersion"]);
        for kept in ["name", "namespace", "uid", "managedFields", "finalizers"] {
            assert_eq!(converted["metadata"].get(kept), sent["metadata"].get(kept), "{kept}");
        }
    }
}

#[cfg(test)]
mod tests {
    use pintle_testing::replay_corpus;

    use super::*;

    fn replay(name: &str, check: fn(&[u8])) {
        replay_corpus(format!("{}/../fuzz/corpus/{name}", env!("CARGO_MANIFEST_DIR")), 1_000, check);
    }

    #[test]
    fn any_admission_review_has_its_own_answer() {
        replay("admission_review", admission_review);
    }

    #[test]
    fn any_conversion_review_converts_all_or_none() {
        replay("conversion_review", conversion_review);
    }
}
