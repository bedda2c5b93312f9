//! Decodes RFC 2047 encoded words, which have the form `=?charset?encoding?text?=`. HTTP headers use encoded words
//! for text outside of ASCII. This module does no I/O.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// Decodes encoded words whose charset is known, and removes the white space between adjacent encoded words.
/// Leaves text outside of encoded words unchanged.
pub(super) fn decode(text: &str) -> String {
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    let mut after_word = false;
    while let Some(start) = rest.find("=?") {
        let (before, candidate) = rest.split_at(start);
        let Some((word, length)) = word(candidate) else {
            decoded.push_str(before);
            decoded.push_str("=?");
            rest = &candidate[2..];
            after_word = false;
            continue;
        };
        if !(after_word && before.chars().all(char::is_whitespace)) {
            decoded.push_str(before);
        }
        decoded.push_str(&word);
        rest = &candidate[length..];
        after_word = true;
    }
    decoded.push_str(rest);
    decoded
}

/// Decodes the encoded word at the start of `text`. Returns the decoded text and the length of the encoded form.
fn word(text: &str) -> Option<(String, usize)> {
    let mut parts = text.strip_prefix("=?")?.splitn(3, '?');
    let (charset, encoding, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let content = &rest[..rest.find("?=")?];
    let bytes = match encoding {
        "q" | "Q" => quoted_printable(content)?,
        "b" | "B" => BASE64_STANDARD.decode(content).ok()?,
        _ => return None,
    };
    let decoded = match charset.to_ascii_lowercase().as_str() {
        "utf-8" | "us-ascii" => String::from_utf8(bytes).ok()?,
        "iso-8859-1" => bytes.into_iter().map(char::from).collect(),
        _ => return None,
    };
    let length = 2 + charset.len() + 1 + encoding.len() + 1 + content.len() + 2;
    (!decoded.chars().any(char::is_control)).then_some((decoded, length))
}

fn quoted_printable(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'_' => b' ',
            b'=' => {
                let hex = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&hex).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    Some(bytes)
}
