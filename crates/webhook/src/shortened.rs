//! Shortens text from requests for logs and error messages.
//!
//! Without a limit, each client could fill the log and the memory for logged problems.

use std::borrow::Cow;

/// The maximum size in bytes of a name, version or path in a message. Valid Kubernetes names are shorter.
pub(crate) const NAME: usize = 256;
/// The maximum size in bytes of the description of a problem.
pub(crate) const PROBLEM: usize = 1024;

/// Returns the first `most` bytes of `text`, or the whole text if it is not longer. An ellipsis marks shortened text.
pub(crate) fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return text.into();
    }
    format!("{}…", &text[..text.floor_char_boundary(most)]).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_between_characters() {
        for (text, expected) in [("", ""), ("abc", "abc"), ("abcd", "abc…"), ("aüü", "aü…"), ("üü", "ü…")] {
            assert_eq!(shortened(text, 3), expected, "{text}");
        }
    }
}
