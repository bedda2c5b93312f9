//! Parses URL queries as Go does.

use percent_encoding::percent_decode;

use crate::failure::Failure;

/// Query parameters in their original order.
#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses the query part of a URL. Drops parameters with an invalid escape or an unescaped `;`.
    pub fn parse(text: &str) -> Self {
        let parts = text.split('&').filter(|part| !part.is_empty() && !part.contains(';'));
        Self(
            parts
                .filter_map(|part| {
                    let (name, value) = part.split_once('=').unwrap_or((part, ""));
                    Some((decode(name)?, decode(value)?))
                })
                .collect(),
        )
    }

    /// Returns the first value of the parameter `name`.
    pub fn first(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// Returns the first value of the parameter `name`, or an empty string if it is absent.
    pub fn text(&self, name: &str) -> &str {
        self.first(name).unwrap_or_default()
    }

    /// Returns all values of the parameter `name`.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Parses the parameter `name` as a boolean. Only `0` and `false` (in any letter case) are false. All other values
    /// are true, even an empty value.
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.first(name).map(is_true)
    }

    /// Parses the parameter `name` as an integer, and returns an error for any other value.
    pub fn integer(&self, name: &str) -> Result<Option<i64>, Failure> {
        let Some(text) = self.first(name) else { return Ok(None) };
        parse_int(text).map(Some)
    }
}

/// Parses a boolean like [`Query::flag`].
pub fn is_true(text: &str) -> bool {
    text != "0" && !text.eq_ignore_ascii_case("false")
}

/// Parses an integer as Go's `strconv.ParseInt` does, with Go's error messages.
pub fn parse_int(text: &str) -> Result<i64, Failure> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let why = match text.parse() {
        Ok(number) => return Ok(number),
        Err(_) if digits.is_empty() || digits.bytes().any(|byte| !byte.is_ascii_digit()) => "invalid syntax",
        Err(_) => "value out of range",
    };
    Err(Failure::bad_request(format!("strconv.ParseInt: parsing {text:?}: {why}")))
}

/// Decodes percent escapes and `+`. Returns `None` if the string contains an invalid escape.
fn decode(text: &str) -> Option<String> {
    if has_broken_escape(text) {
        return None;
    }
    let spaced = text.replace('+', " ");
    Some(percent_decode(spaced.as_bytes()).decode_utf8_lossy().into_owned())
}

/// Returns `true` if the string contains a `%` that is not followed by two hexadecimal digits.
pub fn has_broken_escape(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_hex = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    (0..bytes.len()).any(|at| bytes[at] == b'%' && !(is_hex(at + 1) && is_hex(at + 2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_parts_are_dropped_as_in_go() {
        let query = Query::parse("a=1&b=x;y&c=%zz&d=a+b%2Cc&&e&a=2");
        assert_eq!(query.first("a"), Some("1"));
        assert_eq!(query.all("a").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!((query.first("b"), query.first("c")), (None, None));
        assert_eq!(query.first("d"), Some("a b,c"));
        assert_eq!(query.first("e"), Some(""));
    }

    #[test]
    fn only_zero_and_false_are_false() {
        for (text, expected) in
            [("0", false), ("false", false), ("FaLse", false), ("", true), ("no", true), ("1", true)]
        {
            assert_eq!(Query::parse(&format!("watch={text}")).flag("watch"), Some(expected), "{text:?}");
        }
        assert_eq!(Query::parse("Watch=1").flag("watch"), None);
    }

    #[test]
    fn invalid_integers_report_the_errors_of_go() {
        let message = |text: &str| Query::parse(text).integer("limit").unwrap_err().status.message;
        assert_eq!(message("limit=x"), r#"strconv.ParseInt: parsing "x": invalid syntax"#);
        assert_eq!(message("limit="), r#"strconv.ParseInt: parsing "": invalid syntax"#);
        assert_eq!(
            message("limit=9223372036854775808"),
            r#"strconv.ParseInt: parsing "9223372036854775808": value out of range"#
        );
        assert_eq!(Query::parse("limit=-1").integer("limit").unwrap(), Some(-1));
    }
}
