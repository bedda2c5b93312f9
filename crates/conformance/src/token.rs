//! Converts a JWT in a response to its recorded form: its claims and the member names of its header. Recorded times are
//! relative to the creation of the JWT.

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::json::Json;

/// Reads the claims of a JWT without checking its signature.
pub(crate) fn claims(token: &str) -> anyhow::Result<Json> {
    let mut parts = token.split('.').map(|part| -> anyhow::Result<Json> {
        let json = URL_SAFE_NO_PAD.decode(part).context("a part of the token is not base64")?;
        serde_json::from_slice(&json).context("a part of the token is not JSON")
    });
    let header = parts.next().context("the token has no header")??;
    let claims = parts.next().context("the token has no claims")??;
    let issued_at = claims.member("iat").and_then(number);
    let mut names: Vec<String> = header.members().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    names.sort();
    let names = Json::Array(names.into_iter().map(Json::Text).collect());
    Ok(Json::object([("header", names), ("claims", with_relative_times(&claims, issued_at))]))
}

fn number(value: &Json) -> Option<i64> {
    match value {
        Json::Number(number) => number.as_i64(),
        _ => None,
    }
}

fn with_relative_times(claims: &Json, issued_at: Option<i64>) -> Json {
    let Json::Object(members) = claims else { return claims.clone() };
    let converted = members.iter().map(|(name, value)| {
        let since = number(value).zip(issued_at).map(|(time, issued_at)| time - issued_at);
        let value = match (name.as_str(), since) {
            ("iat", Some(_)) => Json::from("<seconds>"),
            ("exp" | "nbf" | "warnafter", Some(seconds)) => Json::Text(format!("iat+{seconds}")),
            _ => with_relative_times(value, issued_at),
        };
        (name.clone(), value)
    });
    Json::Object(converted.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_claims_are_relative_to_the_creation() {
        let part = |json: &str| URL_SAFE_NO_PAD.encode(json);
        let payload =
            r#"{"iat":100,"exp":3700,"nbf":100,"sub":"a","kubernetes.io":{"warnafter":103,"pod":{"uid":"u"}}}"#;
        let token = format!("{}.{}.signature", part(r#"{"kid":"k","alg":"RS256"}"#), part(payload));
        assert_eq!(
            claims(&token).expect("a valid token").to_string(),
            r#"{"header":["alg","kid"],"claims":{"iat":"<seconds>","exp":"iat+3600","nbf":"iat+0","sub":"a","kubernetes.io":{"warnafter":"iat+3","pod":{"uid":"u"}}}}"#
        );
        assert!(claims("no token").is_err());
    }
}
