//! Encodes the position of the next page of a list as a continue token.

use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD, URL_SAFE_NO_PAD};
use base64::{DecodeError, Engine};
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_json::go_error;
use serde::{Deserialize, Serialize};

const VERSION: &str = "meta.k8s.io/v1";

/// A base64 decoder that ignores unused bits at the end, like Go's decoder.
const LENIENT: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

/// A position in a list, and the list's revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContinueToken {
    /// The revision of the list, or `None` if the next page returns the newest state.
    pub revision: Option<u64>,
    /// The first key of the next page, relative to the collection.
    pub start: String,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct Wire {
    v: String,
    rv: i64,
    start: String,
}

impl ContinueToken {
    /// Creates a token for the page that starts directly after `key`, which is relative to the collection.
    pub fn after(key: &str, revision: u64) -> Self {
        Self { revision: Some(revision), start: format!("{key}\0") }
    }

    pub fn encode(&self) -> String {
        let wire = match self.revision {
            Some(revision) => {
                Wire { v: VERSION.into(), rv: i64::try_from(revision).unwrap_or(i64::MAX), start: self.start.clone() }
            }
            None => Wire { v: VERSION.into(), rv: -1, start: self.start.clone() },
        };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&wire).unwrap_or_default())
    }

    pub fn decode(text: &str) -> Outcome<Self> {
        let wrong =
            |why: &str| Failure::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
        let bytes = LENIENT.decode(text).map_err(|error| {
            let at = match error {
                DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol { offset: at, .. } => at,
                DecodeError::InvalidLength(length) => length.saturating_sub(1),
                DecodeError::InvalidPadding => text.find('=').unwrap_or_default(),
            };
            wrong(&format!("illegal base64 data at input byte {at}"))
        })?;
        let wire: Wire = serde_json::from_slice(&bytes)
            .map_err(|error| wrong(&go_error(&error, &String::from_utf8_lossy(&bytes))))?;
        if wire.v != VERSION {
            return Err(wrong(&format!("server does not recognize this encoded version {}", wire.v)));
        }
        if wire.rv == 0 {
            return Err(wrong("incorrect encoded start resourceVersion (version meta.k8s.io/v1)"));
        }
        if wire.start.is_empty() {
            return Err(wrong("encoded start key empty (version meta.k8s.io/v1)"));
        }
        let start = wire.start.strip_prefix('/').unwrap_or(&wire.start);
        if start.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(wrong(&wire.start));
        }
        Ok(Self { revision: u64::try_from(wire.rv).ok(), start: start.into() })
    }
}

/// Checks, as a fuzz target, that decoding and encoding do not change a continue token.
pub fn fuzz(text: &str) {
    if let Ok(token) = ContinueToken::decode(text) {
        assert_eq!(ContinueToken::decode(&token.encode()).ok(), Some(token), "{text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_round_trip_and_match_a_real_server() {
        for token in [ContinueToken::after("a/b", 7), ContinueToken { revision: None, start: "b\0".into() }] {
            assert_eq!(ContinueToken::decode(&token.encode()).unwrap(), token);
        }
        let real = ContinueToken::decode("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIvYlx1MDAwMCJ9").unwrap();
        assert_eq!(real, ContinueToken { revision: Some(1), start: "b\0".into() });
    }

    #[test]
    fn broken_tokens_are_bad_requests() {
        let encode = |json: &str| URL_SAFE_NO_PAD.encode(json);
        for text in [
            "garbage".to_owned(),
            "*".to_owned(),
            encode("{}"),
            encode(r#"{"v":"meta.k8s.io/v2","rv":1,"start":"a"}"#),
            encode(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a"}"#),
            encode(r#"{"v":"meta.k8s.io/v1","rv":1,"start":""}"#),
            encode(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"../a"}"#),
            encode(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"//a"}"#),
            encode(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"a/./b"}"#),
            format!("{}==", encode(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"a"}"#)),
        ] {
            assert_eq!(ContinueToken::decode(&text).unwrap_err().code(), 400, "{text}");
        }
    }
}
