//! `Authorization` header values.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::HeaderValue;
use zeroize::Zeroizing;

use crate::error::ConfigError;

/// Returns the header value for basic authentication.
pub fn basic(field: &'static str, user: &str, password: &str) -> Result<HeaderValue, ConfigError> {
    let pair = Zeroizing::new([user, ":", password].concat());
    secret(field, "Basic", &Zeroizing::new(BASE64_STANDARD.encode(&*pair)))
}

/// Returns a header value that is marked as sensitive, so that `Debug` does not print it. Dropping the last clone
/// erases the header value from memory.
pub fn secret(field: &'static str, scheme: &str, proof: &str) -> Result<HeaderValue, ConfigError> {
    let text = Bytes::from_owner(Zeroizing::new([scheme, " ", proof].concat()));
    let mut value = HeaderValue::from_maybe_shared(text).map_err(|_| ConfigError::Value {
        field,
        why: "it contains a character that is not allowed in a header, such as a line break".into(),
    })?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credential_header_is_hidden_and_shared_by_its_clones() {
        let value = basic("basic", "me", "hush").unwrap();
        assert_eq!(value, "Basic bWU6aHVzaA==");
        assert!(!format!("{value:?}").contains("bWU6"), "{value:?}");
        assert_eq!(
            value.clone().as_bytes().as_ptr(),
            value.as_bytes().as_ptr(),
            "otherwise an unwiped copy would remain"
        );
        secret("token", "Bearer", "a\nb").unwrap_err();
    }
}
