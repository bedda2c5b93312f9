//! Impersonates users.

use http::{HeaderMap, HeaderName, HeaderValue};
use pintle_meta::Impersonate;
use pintle_transport::ConfigError;

#[derive(Debug, Default)]
pub(crate) struct Impersonation(Vec<(HeaderName, HeaderValue)>);

const USER: HeaderName = HeaderName::from_static("impersonate-user");
const UID: HeaderName = HeaderName::from_static("impersonate-uid");
const GROUP: HeaderName = HeaderName::from_static("impersonate-group");

impl Impersonation {
    pub(crate) fn new(whom: Option<&Impersonate>) -> Result<Self, ConfigError> {
        let Some(whom) = whom else { return Ok(Self::default()) };
        if whom.user.is_empty() {
            let present = match whom {
                Impersonate { uid: Some(_), .. } => "impersonate.uid",
                Impersonate { groups, .. } if !groups.is_empty() => "impersonate.groups",
                Impersonate { extra, .. } if !extra.is_empty() => "impersonate.extra",
                _ => return Ok(Self::default()),
            };
            return Err(ConfigError::Missing { present, missing: "impersonate.user" });
        }
        let mut headers = Vec::new();
        let mut add = |name: HeaderName, field, text: &str| {
            let fault = |_| ConfigError::Value {
                field,
                why: format!("{text:?} contains a character that is not allowed in a header"),
            };
            headers.push((name, HeaderValue::from_str(text).map_err(fault)?));
            Ok(())
        };
        add(USER, "impersonate.user", &whom.user)?;
        if let Some(uid) = &whom.uid {
            add(UID, "impersonate.uid", uid)?;
        }
        for group in &whom.groups {
            add(GROUP, "impersonate.groups", group)?;
        }
        for (key, values) in &whom.extra {
            let name = format!("impersonate-extra-{}", escape(key));
            let fault = |_| ConfigError::Value { field: "impersonate.extra", why: format!("{key:?} is too long") };
            let name = HeaderName::try_from(name).map_err(fault)?;
            for value in values {
                add(name.clone(), "impersonate.extra", value)?;
            }
        }
        Ok(Self(headers))
    }

    /// Adds the impersonation headers. Does nothing if the request already has an impersonation header, because a group
    /// of the request must not be added to the configured user.
    pub(crate) fn apply(&self, headers: &mut HeaderMap) {
        if headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
            return;
        }
        for (name, value) in &self.0 {
            headers.append(name, value.clone());
        }
    }
}

/// Percent-encodes `%` and all bytes that are not allowed in a header name. The hexadecimal digits are lower case,
/// because HTTP/2 header names are lower case.
fn escape(key: &str) -> String {
    let mut escaped = String::with_capacity(key.len());
    for byte in key.bytes() {
        match byte {
            b'!' | b'#' | b'$' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~' => {
                escaped.push(byte.into());
            }
            _ if byte.is_ascii_alphanumeric() => escaped.push(byte.to_ascii_lowercase().into()),
            _ => escaped.push_str(&format!("%{byte:02x}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(whom: Impersonate, before: &[(&'static str, &'static str)]) -> Vec<String> {
        let mut map = HeaderMap::new();
        for (name, value) in before {
            map.append(*name, HeaderValue::from_static(value));
        }
        Impersonation::new(Some(&whom)).unwrap().apply(&mut map);
        map.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect()
    }

    #[test]
    fn each_group_and_value_has_its_own_header() {
        let extra = [("test.example.com/thing.thing", "b"), ("a%20b", "c")];
        let extra = extra.map(|(key, value)| (key.to_owned(), vec![value.to_owned(), "z".to_owned()])).into();
        let whom =
            Impersonate { user: "me".into(), uid: Some("7".into()), groups: vec!["g2".into(), "g1".into()], extra };
        assert_eq!(
            headers(whom.clone(), &[]),
            [
                "impersonate-user: me",
                "impersonate-uid: 7",
                "impersonate-group: g2",
                "impersonate-group: g1",
                "impersonate-extra-a%2520b: c",
                "impersonate-extra-a%2520b: z",
                "impersonate-extra-test.example.com%2fthing.thing: b",
                "impersonate-extra-test.example.com%2fthing.thing: z",
            ]
        );
        for (name, value) in
            [("impersonate-user", "other"), ("impersonate-group", "admins"), ("impersonate-extra-a", "b")]
        {
            assert_eq!(headers(whom.clone(), &[(name, value)]), [format!("{name}: {value}")]);
        }
    }

    #[test]
    fn impersonated_groups_and_extras_require_a_user() {
        let group = Impersonate { groups: vec!["g".into()], ..Impersonate::default() };
        let error = Impersonation::new(Some(&group)).unwrap_err().to_string();
        assert!(error.contains("impersonate.groups") && error.contains("impersonate.user"), "{error}");
        assert!(headers(Impersonate::default(), &[]).is_empty());
    }
}
