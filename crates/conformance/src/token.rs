//! What a token says of itself, as cases keep it: the members of its header, and its claims with times relative to when it was made.

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::Json;

/// Reads a JWT; nobody looks at its signature here.
pub(crate) fn claims(token: &str) -> anyhow::Result<Json> {
    let mut parts = token.split('.').map(|part| -> anyhow::Result<Json> {
        let json = URL_SAFE_NO_PAD.decode(part).context("a part of a token is not in base64")?;
        serde_json::from_slice(&json).context("a part of a token is no JSON")
    });
    let header = parts.next().context("a token without a header")??;
    let claims = parts.next().context("a token without claims")??;
    let issued = claims.member("iat").and_then(number);
    let mut names: Vec<String> = header.members().unwrap_or_default().iter().map(|(name, _)| name.clone()).collect();
    names.sort();
    let names = Json::Array(names.into_iter().map(Json::Text).collect());
    Ok(Json::Object(vec![("header".to_owned(), names), ("claims".to_owned(), relative(&claims, issued))]))
}

fn number(value: &Json) -> Option<i64> {
    match value {
        Json::Number(number) => number.as_i64(),
        _ => None,
    }
}

fn relative(claims: &Json, issued: Option<i64>) -> Json {
    let Json::Object(members) = claims else { return claims.clone() };
    let told = members.iter().map(|(name, value)| {
        let since = number(value).zip(issued).map(|(time, issued)| time - issued);
        let value = match (name.as_str(), since) {
            ("iat", Some(_)) => Json::from("<seconds>"),
            ("exp" | "nbf" | "warnafter", Some(seconds)) => Json::Text(format!("iat+{seconds}")),
            _ => relative(value, issued),
        };
        (name.clone(), value)
    });
    Json::Object(told.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_relative_to_when_the_token_was_made() {
        let part = |json: &str| URL_SAFE_NO_PAD.encode(json);
        let said = r#"{"iat":100,"exp":3700,"nbf":100,"sub":"a","kubernetes.io":{"warnafter":103,"pod":{"uid":"u"}}}"#;
        let token = format!("{}.{}.signature", part(r#"{"kid":"k","alg":"RS256"}"#), part(said));
        assert_eq!(
            claims(&token).expect("a token").to_string(),
            r#"{"header":["alg","kid"],"claims":{"iat":"<seconds>","exp":"iat+3600","nbf":"iat+0","sub":"a","kubernetes.io":{"warnafter":"iat+3","pod":{"uid":"u"}}}}"#
        );
        assert!(claims("no token").is_err());
    }
}
