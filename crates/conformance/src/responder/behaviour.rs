//! The webhook responses that a case specifies.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Response;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http_body_util::Full;
use indexmap::IndexMap;
use serde::{Deserialize, Deserializer};

use super::convert::{Operation, convert};
use super::template::fill;
use crate::json::Json;

/// The response of a webhook to a review, with optional members. Strings in `response`, `patch`, `review` and `body`
/// are [templates](fill).
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Behaviour {
    /// Members that replace the default members of the review's response.
    response: Option<Json>,
    /// A JSON patch, which is sent in base64 with the patch type `JSONPatch`.
    patch: Option<Json>,
    /// The operations that convert an object, keyed by the requested version without the group.
    convert: Option<BTreeMap<String, Vec<Operation>>>,
    review: Option<Json>,
    /// The HTTP status code of the response. The default is 200.
    status: Option<u16>,
    headers: BTreeMap<String, String>,
    text: Option<String>,
    body: Option<Json>,
    #[serde(deserialize_with = "seconds")]
    pub(super) delay: Duration,
    #[serde(rename = "hang up")]
    pub(super) hangs_up: bool,
}

fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    Duration::try_from_secs_f64(f64::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

/// Parses the field `webhooks` of a case, which maps each path to a behaviour or a list of behaviours.
///
/// # Errors
///
/// Returns an error that names the path of an invalid behaviour.
pub(super) fn parse(webhooks: &Json) -> anyhow::Result<BTreeMap<String, Vec<Arc<Behaviour>>>> {
    let paths = webhooks.members().context("the webhooks of the case are not an object")?;
    let parsed = paths.iter().map(|(path, value)| {
        let all = if let Json::Array(all) = value { all.as_slice() } else { std::slice::from_ref(value) };
        let all: Result<Vec<_>, _> =
            all.iter().map(|one| serde_json::from_str(&one.to_string()).map(Arc::new)).collect();
        Ok((path.clone(), all.with_context(|| format!("invalid behaviour of the webhook {path}"))?))
    });
    parsed.collect()
}

impl Behaviour {
    pub(super) fn allowing() -> Self {
        Self { response: Some(Json::object([("allowed", Json::Bool(true))])), ..Self::default() }
    }

    pub(super) fn missing() -> Self {
        Self { status: Some(404), text: Some("the case has no webhook at this path".to_owned()), ..Self::default() }
    }

    /// Returns the HTTP response to a review.
    ///
    /// # Errors
    ///
    /// Returns an error if the status code or a header is invalid.
    pub(super) fn response(&self, review: &Json) -> anyhow::Result<Response<Full<Bytes>>> {
        let (kind, body) = match (&self.text, &self.body) {
            (Some(text), _) => ("text/plain", text.clone().into_bytes()),
            (None, Some(body)) => ("application/json", fill(body, review).as_sent()),
            (None, None) => ("application/json", self.answer(review).as_sent()),
        };
        let mut response = Response::builder().status(self.status.unwrap_or(200)).body(Full::new(body.into()))?;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        for (name, value) in &self.headers {
            headers.insert(HeaderName::from_bytes(name.as_bytes())?, value.parse()?);
        }
        Ok(response)
    }

    fn answer(&self, review: &Json) -> Json {
        let part = |pointer: &str| review.at(pointer).cloned().unwrap_or(Json::Null);
        let mut response = IndexMap::from([("uid".to_owned(), part("/request/uid"))]);
        if let Some(versions) = &self.convert {
            let wanted = review.at("/request/desiredAPIVersion").and_then(Json::text).unwrap_or_default();
            let version = wanted.rsplit('/').next().unwrap_or_default();
            let operations = versions.get(version).map_or(&[][..], Vec::as_slice);
            let objects = match review.at("/request/objects") {
                Some(Json::Array(objects)) => objects.iter().map(|one| convert(one, wanted, operations)).collect(),
                _ => Vec::new(),
            };
            let success = Json::object([("status", Json::from("Success"))]);
            response.insert("result".to_owned(), success);
            response.insert("convertedObjects".to_owned(), Json::Array(objects));
        }
        if let Some(Json::Object(members)) = self.response.as_ref().map(|members| fill(members, review)) {
            response.extend(members);
        }
        if let Some(patch) = &self.patch {
            let encoded = STANDARD.encode(fill(patch, review).as_sent());
            response.insert("patch".to_owned(), Json::Text(encoded));
            response.entry("patchType".to_owned()).or_insert_with(|| Json::from("JSONPatch"));
        }
        let names = ["apiVersion", "kind"];
        let mut answer = IndexMap::from(names.map(|name| (name.to_owned(), part(name))));
        answer.insert("response".to_owned(), Json::Object(response));
        if let Some(Json::Object(members)) = self.review.as_ref().map(|members| fill(members, review)) {
            answer.extend(members);
        }
        Json::Object(answer)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    fn json(text: &str) -> Json {
        serde_json::from_str(text).expect("test JSON")
    }

    #[track_caller]
    fn check(behaviour: &str, review: &str, answer: &str) {
        let behaviour: Behaviour = serde_json::from_str(behaviour).expect("a behaviour");
        assert_eq!(behaviour.answer(&json(review)), json(answer));
    }

    const REVIEW: &str = r#"{"apiVersion":"g/v1","kind":"K","request":{"uid":"u","name":"a"}}"#;

    #[test]
    fn response_has_the_uid_of_the_request_unless_overridden() {
        check("{}", REVIEW, r#"{"apiVersion":"g/v1","kind":"K","response":{"uid":"u"}}"#);
        let behaviour = r#"{"response":{"allowed":true,"uid":"{{/request/name}}"}}"#;
        check(behaviour, REVIEW, r#"{"apiVersion":"g/v1","kind":"K","response":{"allowed":true,"uid":"a"}}"#);
    }

    #[test]
    fn members_of_the_review_are_overridden() {
        let behaviour = r#"{"review":{"kind":"Other","response":null}}"#;
        check(behaviour, REVIEW, r#"{"apiVersion":"g/v1","kind":"Other","response":null}"#);
        check("{}", "{}", r#"{"apiVersion":null,"kind":null,"response":{"uid":null}}"#);
    }

    #[test]
    fn patch_is_sent_in_base64_with_its_type() {
        let response = |kind: &str| {
            let patch = STANDARD.encode(r#"["a"]"#);
            format!(
                r#"{{"apiVersion":"g/v1","kind":"K","response":{{"uid":"u","patch":"{patch}","patchType":{kind}}}}}"#
            )
        };
        check(r#"{"patch":["{{/request/name}}"]}"#, REVIEW, &response(r#""JSONPatch""#));
        check(r#"{"patch":["a"],"response":{"patchType":"X","patch":1}}"#, REVIEW, &response(r#""X""#));
        check(r#"{"patch":["a"],"response":{"patchType":null}}"#, REVIEW, &response("null"));
    }

    #[test]
    fn objects_are_converted_to_the_requested_version() {
        let review = r#"{"request":{"uid":"u","desiredAPIVersion":"g/v2","objects":[{"apiVersion":"g/v1","a":1}]}}"#;
        let answer = |objects: &str| {
            let result = r#""uid":"u","result":{"status":"Success"}"#;
            format!(r#"{{"apiVersion":null,"kind":null,"response":{{{result},"convertedObjects":{objects}}}}}"#)
        };
        let behaviour = r#"{"convert":{"v2":[{"move":["/a","/b"]}]}}"#;
        check(behaviour, review, &answer(r#"[{"apiVersion":"g/v2","b":1}]"#));
        check(r#"{"convert":{}}"#, review, &answer(r#"[{"apiVersion":"g/v2","a":1}]"#));
        check(r#"{"convert":{},"response":{"convertedObjects":[]}}"#, review, &answer("[]"));
        check(r#"{"convert":{}}"#, r#"{"request":{"uid":"u"}}"#, &answer("[]"));
    }

    #[tokio::test]
    async fn text_and_body_replace_the_review() {
        let review = json(REVIEW);
        for (behaviour, expected) in [
            (r#"{"text":"x","status":201,"headers":{"Location":"/w"}}"#, "201 text/plain /w x"),
            (r#"{"body":{"n":"{{/request/name}}"}}"#, r#"200 application/json  {"n": "a"}"#),
            (r#"{"text":"","headers":{"content-type":"a/b"}}"#, "200 a/b  "),
        ] {
            let behaviour: Behaviour = serde_json::from_str(behaviour).expect("a behaviour");
            let response = behaviour.response(&review).expect("a valid response");
            let header = |name: &str| response.headers().get(name).map_or("", |value| value.to_str().expect("ASCII"));
            let head = format!("{} {} {}", response.status().as_u16(), header("content-type"), header("location"));
            let body = response.into_body().collect().await.expect("a body").to_bytes();
            assert_eq!(format!("{head} {}", String::from_utf8_lossy(&body)), expected);
        }
    }

    #[test]
    fn invalid_behaviours_are_reported_with_their_path() {
        for webhooks in [r#"{"/v":{"unknown":1}}"#, r#"{"/v":[{},{"delay":-1}]}"#, r#"{"/v":7}"#] {
            let error = parse(&json(webhooks)).expect_err("an invalid behaviour");
            assert!(error.to_string().contains("/v"), "{error}");
        }
        assert!(parse(&json("[]")).is_err());
    }
}
