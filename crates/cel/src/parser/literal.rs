//! Parses the values of literals.

use crate::ast::Literal;
use crate::lexer::Token;

pub(super) fn value(token: Token, text: &str, negative: bool) -> Result<Literal, &'static str> {
    match token {
        Token::True => Ok(Literal::Bool(true)),
        Token::False => Ok(Literal::Bool(false)),
        Token::Null => Ok(Literal::Null),
        Token::Int => int(text, negative).map(Literal::Int).ok_or("invalid int literal"),
        Token::Uint => uint(text).map(Literal::Uint).ok_or("invalid uint literal"),
        Token::Float => double(text, negative).map(Literal::Double).ok_or("invalid double literal"),
        Token::String => {
            let bytes = unquoted(text, false)?;
            String::from_utf8(bytes).map(|text| Literal::String(text.into())).map_err(|_| WRONG)
        }
        Token::Bytes => unquoted(&text[1..], true).map(|bytes| Literal::Bytes(bytes.into())),
        _ => Err("unknown literal"),
    }
}

const WRONG: &str = "unable to unescape string";

fn int(text: &str, negative: bool) -> Option<i64> {
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |hex| (hex, 16));
    let sign = if negative { "-" } else { "" };
    i64::from_str_radix(&format!("{sign}{digits}"), radix).ok()
}

fn uint(text: &str) -> Option<u64> {
    let text = text.trim_end_matches(['u', 'U']);
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |hex| (hex, 16));
    u64::from_str_radix(digits, radix).ok()
}

/// Parses a floating-point number. As in Go, rejects a number that is out of range.
fn double(text: &str, negative: bool) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    number.is_finite().then_some(if negative { -number } else { number })
}

/// Returns the content of a string literal with its escape sequences decoded. Each line break in the
/// literal becomes `\n`.
fn unquoted(text: &str, bytes: bool) -> Result<Vec<u8>, &'static str> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let raw = text.starts_with(['r', 'R']);
    let quoted = if raw { &text[1..] } else { &text[..] };
    let quotes = if quoted.len() >= 6 && (quoted.starts_with("\"\"\"") || quoted.starts_with("'''")) { 3 } else { 1 };
    let inner = quoted.get(quotes..quoted.len() - quotes).ok_or(WRONG)?;
    if raw || !inner.contains('\\') {
        return Ok(inner.into());
    }
    let mut content = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(index) = rest.find('\\') {
        content.extend_from_slice(&rest.as_bytes()[..index]);
        rest = escaped(&rest[index + 1..], bytes, &mut content)?;
    }
    content.extend_from_slice(rest.as_bytes());
    Ok(content)
}

/// Decodes an escape sequence into `out` and returns the text after the sequence.
fn escaped<'a>(text: &'a str, bytes: bool, content: &mut Vec<u8>) -> Result<&'a str, &'static str> {
    let first = *text.as_bytes().first().ok_or("unable to unescape string, found '\\' as last character")?;
    let (radix, from, length) = match first {
        b'a' => return plain(text, content, 0x07),
        b'b' => return plain(text, content, 0x08),
        b'f' => return plain(text, content, 0x0c),
        b'n' => return plain(text, content, b'\n'),
        b'r' => return plain(text, content, b'\r'),
        b't' => return plain(text, content, b'\t'),
        b'v' => return plain(text, content, 0x0b),
        b'\\' | b'\'' | b'"' | b'`' | b'?' => return plain(text, content, first),
        b'x' | b'X' => (16, 1, 2),
        b'u' if !bytes => (16, 1, 4),
        b'U' if !bytes => (16, 1, 8),
        b'0'..=b'3' => (8, 0, 3),
        _ => return Err(WRONG),
    };
    let digits = text.get(from..from + length).ok_or(WRONG)?;
    let code = u32::from_str_radix(digits, radix).map_err(|_| WRONG)?;
    match (bytes, u8::try_from(code)) {
        (true, Ok(byte)) => content.push(byte),
        _ => {
            let character = char::from_u32(code).ok_or("invalid unicode code point")?;
            content.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    Ok(&text[from + length..])
}

fn plain<'a>(text: &'a str, content: &mut Vec<u8>, byte: u8) -> Result<&'a str, &'static str> {
    content.push(byte);
    Ok(&text[1..])
}
