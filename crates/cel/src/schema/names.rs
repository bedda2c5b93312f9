//! Escapes and unescapes field names for expressions.

const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Returns `true` if `name` is a CEL keyword. Some keywords do not have to be escaped in field selections.
pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// Returns `true` if `name` is a CEL identifier that is not a reserved word.
///
/// ```
/// assert!(pintle_cel::is_identifier("replicas_1"));
/// assert!(!pintle_cel::is_identifier("namespace"));
/// ```
pub fn is_identifier(name: &str) -> bool {
    name.starts_with(|first: char| first == '_' || first.is_ascii_alphabetic())
        && name.chars().all(|character| character == '_' || character.is_ascii_alphanumeric())
        && !is_reserved(name)
}

/// Returns the identifier that selects the field `name` in expressions, or `None` if expressions cannot select this
/// field.
///
/// ```
/// assert_eq!(pintle_cel::escape("x-y").as_deref(), Some("x__dash__y"));
/// assert_eq!(pintle_cel::escape("1st"), None);
/// ```
pub fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut escaped = String::with_capacity(name.len());
    let mut chars = name.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '_' if chars.next_if_eq(&'_').is_some() => escaped.push_str("__underscores__"),
            '.' => escaped.push_str("__dot__"),
            '-' => escaped.push_str("__dash__"),
            '/' => escaped.push_str("__slash__"),
            '_' => escaped.push(c),
            _ if c.is_ascii_alphanumeric() => escaped.push(c),
            _ => return None,
        }
    }
    Some(escaped)
}

/// Returns the field name that an identifier selects, or `None` if the identifier contains an invalid escape sequence.
pub fn unescape(identifier: &str) -> Option<std::borrow::Cow<'_, str>> {
    if !identifier.contains("__") {
        return Some(identifier.into());
    }
    let mut name = String::with_capacity(identifier.len());
    let mut rest = identifier;
    while let Some(start) = rest.find("__") {
        name.push_str(&rest[..start]);
        let after = &rest[start + 2..];
        // Search after the first character, because an escape sequence has at least one character between its
        // underscores.
        let length = after.find('_').unwrap_or(after.len());
        if length == 0 || !after[length..].starts_with("__") {
            name.push('_');
            rest = &rest[start + 1..];
            continue;
        }
        match &after[..length] {
            "underscores" => name.push_str("__"),
            "dot" => name.push('.'),
            "dash" => name.push('-'),
            "slash" => name.push('/'),
            word if RESERVED.contains(&word) && length + 4 == identifier.len() => name.push_str(word),
            _ => return None,
        }
        rest = &after[length + 2..];
    }
    name.push_str(rest);
    Some(name.into())
}

#[cfg(test)]
mod tests {
    use super::{escape, unescape};

    #[test]
    fn escaped_names_are_unescaped_again() {
        let cases = [
            ("a", "a"),
            ("a_b", "a_b"),
            ("a__b", "a__underscores__b"),
            ("a.b/c-d", "a__dot__b__slash__c__dash__d"),
            ("namespace", "__namespace__"),
            ("in", "__in__"),
            ("self", "self"),
        ];
        for (name, escaped) in cases {
            assert_eq!(escape(name).as_deref(), Some(escaped));
            assert_eq!(unescape(escaped).as_deref(), Some(name));
        }
        for name in ["", "1a", "ä", "a b", "a$"] {
            assert_eq!(escape(name), None, "{name}");
        }
        assert_eq!(unescape("a__nope__b"), None);
    }
}
