//! Decodes base64 text like Go.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

/// A decoder that requires padding and ignores unused trailing bits, like Go's.
const DECODER: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// Decodes base64 text, and ignores its line breaks.
///
/// # Errors
///
/// Returns Go's error message if the text is invalid. The message contains the position of the first invalid byte.
pub fn decode_base64(text: &str) -> Result<Vec<u8>, String> {
    let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let decoded = if text.bytes().any(|byte| is_break(&byte)) {
        DECODER.decode(text.bytes().filter(|byte| !is_break(byte)).collect::<Vec<u8>>())
    } else {
        DECODER.decode(text)
    };
    decoded.map_err(|_| format!("illegal base64 data at input byte {}", invalid_at(text.as_bytes())))
}

/// Returns the position that Go's decoder, which reads groups of four characters, reports for invalid text.
fn invalid_at(text: &[u8]) -> usize {
    let skip_breaks = |mut at: usize| {
        while let Some(b'\r' | b'\n') = text.get(at) {
            at += 1;
        }
        at
    };
    let (mut at, mut in_group) = (0, 0);
    while let Some(byte) = text.get(at) {
        match byte {
            b'\r' | b'\n' => {}
            b'=' if in_group >= 2 => {
                let next = skip_breaks(at + 1);
                return match text.get(next) {
                    // Two padding characters must follow two characters.
                    _ if in_group == 3 => next,
                    Some(b'=') => skip_breaks(next + 1),
                    Some(_) => next - 1,
                    None => text.len(),
                };
            }
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' => in_group = (in_group + 1) % 4,
            _ => return at,
        }
        at += 1;
    }
    at - in_group
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_decoded_like_in_go() {
        for (text, decoded) in [("", ""), ("aGk=", "hi"), ("aG\nk=\r\n", "hi"), ("YQ==", "a"), ("YR==", "a")] {
            assert_eq!(decode_base64(text).as_deref(), Ok(decoded.as_bytes()), "{text:?}");
        }
        for (text, at) in [
            ("a b", 1),
            ("Failed", 4),
            ("YQ", 0),
            ("Y\nQ", 1),
            ("YQ=", 3),
            ("YQ=a", 2),
            ("YQ==a", 4),
            ("YWI=a", 4),
            ("=", 0),
            ("Y=", 1),
            ("aGk=\n\u{e4}", 5),
        ] {
            assert_eq!(decode_base64(text), Err(format!("illegal base64 data at input byte {at}")), "{text:?}");
        }
    }
}
