//! Serves `/.well-known/openid-configuration` and `/openid/v1/jwks`,
//! which clients use to verify service account tokens.

use http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderValue};
use pintle_json::{Json, json};
use pintle_kinds::ISSUER;

use super::call::RequestHead;
use super::encode::Reply;
use crate::registry::Registry;

pub(super) fn configuration(registry: &Registry, head: &RequestHead) -> Reply {
    let scheme = if registry.config.tls { "https" } else { "http" };
    let keys = format!("{scheme}://{}/openid/v1/jwks", head.header(HOST));
    let document = json!({
        "issuer": ISSUER,
        "jwks_uri": keys,
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["EdDSA"],
    });
    cached(&document, "application/json")
}

/// Returns the public keys. The list of keys is empty if the operating system provided no random bytes to create a key.
pub(super) fn keys(registry: &Registry) -> Reply {
    let keys: Vec<Json> = registry.authenticator.public_key().into_iter().collect();
    cached(&json!({"keys": keys}), "application/jwk-set+json")
}

fn cached(document: &Json, media: &'static str) -> Reply {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
    Reply::Raw { code: 200, headers, body: document.to_string().into() }
}
