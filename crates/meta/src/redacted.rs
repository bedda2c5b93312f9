//! Removes secrets from text for display.

use thiserror::Error;

/// Removes the user name and password from a URL that is displayed.
///
/// `url` can be any text, even an invalid URL. Everything before the last `@` is removed, except for a scheme such as
/// `https://`.
///
/// # Examples
///
/// ```
/// use pintle_meta::redacted_url;
///
/// assert_eq!(redacted_url("https://me:s3cret@10.0.0.1:6443/prefix"), "https://10.0.0.1:6443/prefix");
/// assert_eq!(redacted_url("me:s3cret@10.0.0.1"), "10.0.0.1");
/// ```
pub fn redacted_url(url: &str) -> String {
    // Search for the last `@`, because an unescaped password may contain a slash or another `@`.
    let Some((before, after)) = url.rsplit_once('@') else { return url.into() };
    let is_scheme = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    match before.split_once("://").filter(|(scheme, _)| is_scheme(scheme)) {
        Some((scheme, _)) => format!("{scheme}://{after}"),
        None => after.into(),
    }
}

/// Implements `Debug` for a struct whose fields can contain secrets. A call must list all fields of the struct, so that
/// a new field is never printed by accident. For a field that is listed as `field => show`, the output contains the
/// result of `show(field)`.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_fields {
    ($type:ident { $($field:ident $(=> $show:expr)?),* $(,)? }) => {
        impl ::std::fmt::Debug for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                let Self { $($field),* } = self;
                f.debug_struct(stringify!($type))
                    $(.field(stringify!($field), &$crate::debug_fields!(@show $field $($show)?)))*
                    .finish()
            }
        }
    };
    (@show $field:ident) => { $field };
    (@show $field:ident $show:expr) => { ($show)($field) };
}

/// Implements `Debug` for a struct that hides some of its fields or prints computed values. For example,
/// `debug_struct!(Cache<T: Object> |self| { name, len = self.objects.len(), .. });` prints `self.name` and the number
/// of objects. `..` calls `finish_non_exhaustive`. `|self|` is needed only if an expression uses `self`.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_struct {
    ($type:ident $(<$($param:ident $(: $bound:path)?),+>)? { $($fields:tt)* }) => {
        $crate::debug_struct!($type $(<$($param $(: $bound)?),+>)? |self| { $($fields)* });
    };
    ($type:ident $(<$($param:ident $(: $bound:path)?),+>)? |$self:ident| { $($fields:tt)* }) => {
        impl $(<$($param $(: $bound)?),+>)? ::std::fmt::Debug for $type $(<$($param),+>)? {
            fn fmt(&$self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                $crate::debug_struct!(@fields f.debug_struct(stringify!($type)), $self, $($fields)*)
            }
        }
    };
    (@fields $shown:expr, $self:ident, $($field:ident $(= $value:expr)?,)* ..) => {
        $shown
            $(.field(stringify!($field), &$crate::debug_struct!(@value $self $field $($value)?)))*
            .finish_non_exhaustive()
    };
    (@fields $shown:expr, $self:ident, $($field:ident $(= $value:expr)?),* $(,)?) => {
        $shown$(.field(stringify!($field), &$crate::debug_struct!(@value $self $field $($value)?)))*.finish()
    };
    (@value $self:ident $field:ident) => { $self.$field };
    (@value $self:ident $field:ident $value:expr) => { $value };
}

/// An error that occurred while decoding JSON. The message is serde's message without the invalid value, which may be a
/// secret. For example, the message is `invalid type: string, expected u32 at line 1 column 7`.
///
/// Messages of manual `Deserialize` implementations are not changed, even if they quote a value.
///
/// # Examples
///
/// ```
/// use pintle_meta::DecodeError;
///
/// let error = serde_json::from_str::<u32>(r#""s3cret""#).map_err(DecodeError::from).unwrap_err();
/// assert_eq!(error.to_string(), "invalid type: string, expected u32 at line 1 column 8");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct DecodeError {
    message: Box<str>,
}

impl From<serde_json::Error> for DecodeError {
    fn from(error: serde_json::Error) -> Self {
        Self { message: without_value(&error.to_string()).into() }
    }
}

fn without_value(message: &str) -> String {
    let markers = ["invalid type: ", "invalid value: ", "unknown variant "];
    let found = markers.into_iter().filter_map(|marker| Some(message.find(marker)? + marker.len())).min();
    let cut = found.map(|start| {
        let rest = &message[start..];
        let what = if rest.starts_with('`') { "" } else { rest.split([' ', ',']).next().unwrap_or_default() };
        let expected = rest.rfind(", expected").map_or("", |at| &rest[at..]);
        format!("{}{what}{expected}", &message[..start])
    });
    cut.unwrap_or_else(|| message.to_owned())
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde::de::value::Error;
    use serde::{Deserialize, de};

    use super::*;

    #[test]
    fn redacted_url_lacks_user_and_password() {
        for (url, expected) in [
            ("https://host:6443/prefix?q=1", "https://host:6443/prefix?q=1"),
            ("host:6443", "host:6443"),
            ("https://me:hush@host/prefix", "https://host/prefix"),
            ("me:hush@host/prefix", "host/prefix"),
            ("https://me:hu/sh?hush#hush@host", "https://host"),
            ("https://me:hu@sh@host", "https://host"),
            ("me:hu://sh@host", "host"),
            ("socks5+x://hush@host", "socks5+x://host"),
            ("https://hush@", "https://"),
            ("@", ""),
        ] {
            assert_eq!(redacted_url(url), expected, "{url}");
        }
    }

    #[test]
    fn decode_error_omits_the_value() {
        #[derive(Debug, Deserialize)]
        #[serde(rename_all = "lowercase")]
        enum Colour {
            Red,
        }
        #[derive(Debug, Deserialize)]
        enum Nothing {}
        #[derive(Debug)]
        struct Short;
        impl<'de> Deserialize<'de> for Short {
            fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Err(de::Error::invalid_value(de::Unexpected::Str(&text), &"a short text"))
            }
        }
        fn check<T: DeserializeOwned + std::fmt::Debug>(json: &str, expected: &str) {
            let error = DecodeError::from(serde_json::from_str::<T>(json).unwrap_err()).to_string();
            assert!(error.starts_with(expected) && !error.contains("hush"), "{error}");
        }
        check::<u32>(r#""hush, expected hush""#, "invalid type: string, expected u32");
        check::<u32>("-4711.5", "invalid type: floating, expected u32");
        check::<u8>("4711", "invalid value: integer, expected u8");
        check::<bool>("4711", "invalid type: integer, expected a boolean");
        check::<Colour>(r#""hush""#, "unknown variant , expected `red`");
        check::<Nothing>(r#""hush""#, "unknown variant ");
        check::<Short>(r#""hush""#, "invalid value: string, expected a short text");
        check::<String>("[1", "invalid type: sequence, expected a string");
        check::<Vec<u8>>("[1", "EOF");
        let nested: Error = de::Error::custom(r#"spec.size: invalid type: string "hush", expected u32"#);
        assert_eq!(without_value(&nested.to_string()), "spec.size: invalid type: string, expected u32");
    }
}
