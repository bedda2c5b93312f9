//! Reads the objects of a conversion review one by one.

use serde_json::Deserializer;
use serde_json::value::RawValue;

/// The elements of a JSON array, which borrow the JSON text.
///
/// A decoded list of the elements could need many times the memory of the text, because an element can be a single
/// digit.
pub(crate) struct Objects<'a> {
    /// The text that begins with `[` or `,` before the next element, or with `]`.
    rest: &'a str,
}

impl<'a> Objects<'a> {
    /// Returns `None` if the JSON value is not an array.
    pub(crate) fn new(json: &'a RawValue) -> Option<Self> {
        json.get().starts_with('[').then_some(Self { rest: json.get() })
    }

    pub(crate) fn empty() -> Self {
        Self { rest: "]" }
    }
}

impl<'a> Iterator for Objects<'a> {
    type Item = &'a RawValue;

    fn next(&mut self) -> Option<&'a RawValue> {
        let rest = self.rest.strip_prefix(['[', ','])?;
        let mut values = Deserializer::from_str(rest).into_iter();
        // The text is valid JSON, so an error means that the array is empty.
        let element = values.next()?.ok()?;
        self.rest = rest[values.byte_offset()..].trim_start();
        Some(element)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    fn elements(text: &str) -> Option<Vec<&str>> {
        let json = serde_json::from_str(text).unwrap();
        Objects::new(json).map(|objects| objects.map(RawValue::get).collect())
    }

    #[test]
    fn elements_are_read_from_the_text() {
        for (text, expected) in [
            ("[]", Some(vec![])),
            (" [ \n] ", Some(vec![])),
            (r#"[{"a":[1,2]}]"#, Some(vec![r#"{"a":[1,2]}"#])),
            ("[ 0 ,-1.5e3\t, null,\"],[\" , [ [],{} ] ]", Some(vec!["0", "-1.5e3", "null", "\"],[\"", "[ [],{} ]"])),
            (r#"{"a":[1]}"#, None),
            ("\"[\"", None),
        ] {
            assert_eq!(elements(text), expected, "{text}");
        }
    }

    #[test]
    fn one_element_is_read_at_a_time() {
        let text = format!("[0{}]", ",0".repeat(1_000));
        let mut objects = Objects::new(serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!(objects.next().map(RawValue::get), Some("0"));
        assert_eq!(objects.rest, &text[2..]);
        assert_eq!(objects.count(), 1_000);
    }
}
