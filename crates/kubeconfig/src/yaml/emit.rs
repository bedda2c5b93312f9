//! Writes YAML in kubectl's style. The emitter quotes strings that a YAML 1.1 or 1.2 parser could read as
//! another type.

use serde_json::Value;
use zeroize::{Zeroize, Zeroizing};

use super::scalar::{Meaning, resolve};

/// Formats a value as a YAML document, and erases the value's memory.
pub(super) fn document(mut value: Value) -> Zeroizing<String> {
    // Reserve enough capacity up front, because a string that grows would leave copies of secrets in
    // memory.
    let mut out = Zeroizing::new(String::with_capacity(2 * size(&value, 0)));
    if is_block(&value) {
        block(&mut out, &value, 0, false)
    } else {
        flow(&mut out, &value);
        out.push('\n');
    }
    wipe(&mut value);
    out
}

/// Returns `true` if the value is written in block style, with each item or field on a separate line.
fn is_block(value: &Value) -> bool {
    match value {
        Value::Object(members) => !members.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    }
}

/// Writes a map or a list. If `continues` is `true`, the first line is already indented.
fn block(out: &mut String, value: &Value, indent: usize, mut continues: bool) {
    let mut begin = |out: &mut String| {
        if !std::mem::take(&mut continues) {
            out.extend(std::iter::repeat_n(' ', indent));
        }
    };
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                begin(out);
                text(out, key);
                out.push(':');
                if is_block(value) {
                    out.push('\n');
                    // Do not indent list items, like kubectl.
                    block(out, value, if value.is_array() { indent } else { indent + 2 }, false);
                } else {
                    out.push(' ');
                    flow(out, value);
                    out.push('\n');
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                begin(out);
                out.push_str("- ");
                if is_block(item) {
                    block(out, item, indent + 2, true)
                } else {
                    flow(out, item);
                    out.push('\n');
                }
            }
        }
        _ => {}
    }
}

fn flow(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&number.to_string()),
        Value::String(value) => text(out, value),
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
    }
}

fn text(out: &mut String, text: &str) {
    if is_plain(text) {
        return out.push_str(text);
    }
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            ' '..='~' | '\u{a1}'..='\u{1fff}' | '\u{3000}'..='\u{d7ff}' => out.push(character),
            // Escape characters that some YAML parsers reject or drop, such as control characters and line
            // breaks.
            other if u32::from(other) <= 0xffff => out.push_str(&format!("\\u{:04x}", u32::from(other))),
            other => out.push_str(&format!("\\U{:08x}", u32::from(other))),
        }
    }
    out.push('"');
}

/// Returns `true` if all YAML parsers read `text` without quotes as the same string.
fn is_plain(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@+=".contains(&byte);
    let is_time_like = text.bytes().all(|byte| byte.is_ascii_digit() || b":._-+".contains(&byte));
    text.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '/')
        && text.bytes().all(fits)
        && !text.ends_with(':')
        && !is_time_like
        && resolve(text) == Meaning::Text
}

fn size(value: &Value, indent: usize) -> usize {
    let own = indent + 8;
    own + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(|item| size(item, indent + 2)).sum(),
        Value::Object(members) => members.iter().map(|(key, value)| key.len() + size(value, indent + 2)).sum(),
        _ => 16,
    }
}

fn wipe(value: &mut Value) {
    match value {
        Value::String(text) => text.zeroize(),
        Value::Array(items) => items.iter_mut().for_each(wipe),
        Value::Object(members) => members.values_mut().for_each(wipe),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;
    use crate::yaml::node::Document;

    #[test]
    fn written_string_reads_back_unchanged() {
        let odd = [
            "",
            " ",
            "a b",
            "yes",
            "n",
            "~",
            "1",
            "0x1f",
            "1e3",
            ".5",
            "2001-01-01",
            "1:30",
            "-",
            "- a",
            "a: b",
            "a #b",
        ];
        let odder =
            ["#", "<<", "=", "!a", "&a", "*a", "{", "'", "\"", "\\/", "a\nb\n", "\t", "\u{7f}\u{85}\u{2028}\u{feff}"];
        let oddest =
            ["---", "...", "%a", "null", "a:", "https://[::1]:6443/a?b=c", "\u{e4}\u{1f600}\u{0}\r", "aGk=", "k+/=="];
        let texts = [odd.as_slice(), &odder, &oddest].concat();
        let members = texts.iter().map(|text| (text.to_string(), json!([text, {"a": text}]))).collect();
        let whole = json!({"list": [[1, [2, -3.5]], [], {}, {"b": {"c": null}}], "map": Value::Object(members)});
        let written = document(whole.clone());
        let read = Document::read(&written).unwrap();
        assert!(read.repeated.is_empty());
        assert_eq!(Value::deserialize(&*read.root.unwrap()).unwrap(), whole, "{}", *written);
    }

    #[test]
    fn layout_matches_kubectl() {
        let value = json!({"apiVersion": "v1", "users": [{"name": "me", "user": {"as-groups": ["a"], "exec": {}}}]});
        let expected = "apiVersion: v1\nusers:\n- name: me\n  user:\n    as-groups:\n    - a\n    exec: {}\n";
        assert_eq!(*document(value), expected);
        assert_eq!(*document(json!({})), "{}\n");
    }
}
