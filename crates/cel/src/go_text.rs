//! Formats strings and numbers as Go does.

/// Quotes a string like Go's `%q`.
pub(crate) fn quoted(text: &str) -> String {
    quoted_with(text, |quoted, c| match c {
        _ if (c as u32) < 0x20 || c == '\u{7f}' => quoted.push_str(&format!("\\x{:02x}", c as u32)),
        '\u{80}'..='\u{a0}' | '\u{ad}' | '\u{2028}'..='\u{202f}' | '\u{feff}' => {
            quoted.push_str(&format!("\\u{:04x}", c as u32));
        }
        _ => quoted.push(c),
    })
}

/// Quotes a string. Escapes quotes, backslashes and the characters for which Go has a single-letter escape sequence.
/// `push` appends the other characters.
pub(crate) fn quoted_with(text: &str, push: impl Fn(&mut String, char)) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            _ => push(&mut quoted, c),
        }
    }
    quoted.push('"');
    quoted
}
