//! Determines which characters Go prints without escaping.

use std::sync::LazyLock;

use regex::Regex;

static PRINTABLE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[\p{L}\p{M}\p{N}\p{P}\p{S} ]$").ok());

/// Returns the result of Go's `unicode.IsPrint`, which is `true` for letters, marks, numbers,
/// punctuation, symbols and the ASCII space. Other spaces, format characters and control characters are
/// not printable.
pub fn is_printable(c: char) -> bool {
    match c {
        ' '..='~' => true,
        c if c.is_ascii() => false,
        c => PRINTABLE.as_ref().is_some_and(|printable| printable.is_match(c.encode_utf8(&mut [0; 4]))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_characters_and_other_spaces_are_not_printable() {
        for (c, expected) in [
            ('a', true),
            (' ', true),
            ('\u{e9}', true),
            ('\u{301}', true),
            ('\u{20ac}', true),
            ('\u{1f600}', true),
            ('\n', false),
            ('\u{7f}', false),
            ('\u{a0}', false),
            ('\u{ad}', false),
            ('\u{200b}', false),
            ('\u{2028}', false),
            ('\u{feff}', false),
            ('\u{e000}', false),
        ] {
            assert_eq!(is_printable(c), expected, "{c:?}");
        }
    }
}
