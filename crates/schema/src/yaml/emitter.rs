//! Writes JSON as YAML. Strings are quoted if a YAML parser could parse them as another type. For example, YAML 1.1
//! parsers interpret `no` as false and `2024-01-01` as a time.

use std::fmt::Write as _;

use pintle_json::Json;

use super::{float_text, plain};

/// The maximum length of a key that is written without a `?`.
const MAX_KEY_LEN: usize = 1000;

pub(crate) fn write(value: &Json) -> String {
    let mut out = String::new();
    block(value, 0, &mut out);
    out
}

/// Writes a value on a single line as JSON. JSON is valid YAML, except for some characters that must be escaped.
pub(crate) fn write_line(value: &Json) -> String {
    let mut line = String::new();
    for c in value.to_string().chars() {
        match c {
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                let _ = write!(line, "\\u{:04x}", c as u32);
            }
            c => line.push(c),
        }
    }
    line
}

/// Writes a value that starts on the current line, and a line break.
fn block(value: &Json, indent: usize, out: &mut String) {
    match value {
        Json::Object(members) if !members.is_empty() => {
            for (at, (key, value)) in members.iter().enumerate() {
                begin(at, indent, out);
                let key = text(key);
                if key.len() > MAX_KEY_LEN {
                    let _ = write!(out, "? {key}\n{:indent$}:", "");
                } else {
                    let _ = write!(out, "{key}:");
                }
                match value {
                    Json::Object(members) if !members.is_empty() => below(value, indent + 2, out),
                    // A list in a map has the same indentation as its key.
                    Json::Array(items) if !items.is_empty() => below(value, indent, out),
                    scalar => {
                        out.push(' ');
                        block(scalar, indent, out);
                    }
                }
            }
        }
        Json::Array(items) if !items.is_empty() => {
            for (at, item) in items.iter().enumerate() {
                begin(at, indent, out);
                out.push_str("- ");
                block(item, indent + 2, out);
            }
        }
        Json::String(content) => {
            out.push_str(&text(content));
            out.push('\n');
        }
        Json::Number(number) if number.is_f64() => {
            let _ = writeln!(out, "{}", float_text(number.as_f64().unwrap_or_default()));
        }
        // The syntax of null, booleans, integers, `{}` and `[]` is the same in YAML and JSON.
        other => {
            let _ = writeln!(out, "{other}");
        }
    }
}

fn below(value: &Json, indent: usize, out: &mut String) {
    let _ = write!(out, "\n{:indent$}", "");
    block(value, indent, out);
}

/// Indents a line. Does not indent the first line of a block, because this line already contains text.
fn begin(at: usize, indent: usize, out: &mut String) {
    if at > 0 {
        let _ = write!(out, "{:indent$}", "");
    }
}

/// Formats a string. The string is not quoted if every YAML parser would parse the text as a string.
fn text(text: &str) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || " _./@+-".contains(c);
    let bare = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(harmless)
        && !text.ends_with(' ')
        && plain(text).is_string();
    if bare {
        return text.into();
    }
    write_line(&text.into())
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::*;

    #[test]
    fn maps_and_lists_are_blocks() {
        let value = json!({
            "a": {"b": [1, {"c": "d", "e": []}, ["f", ["g"]]], "h": {}},
            "i": null,
            "j": true,
            "k": 1.5,
        });
        let expected = "a:\n  b:\n  - 1\n  - c: d\n    e: []\n  - - f\n    - - g\n  h: {}\ni: null\nj: true\nk: 1.5\n";
        assert_eq!(write(&value), expected);
        for (value, expected) in [(json!({}), "{}\n"), (json!([]), "[]\n"), (json!("yes"), "\"yes\"\n")] {
            assert_eq!(write(&value), expected);
        }
    }

    #[test]
    fn written_strings_are_read_back() {
        let texts = [
            "",
            "a",
            "a b",
            "a ",
            " a",
            "yes",
            "No",
            "on",
            "OFF",
            "y",
            "n",
            "null",
            "~",
            "true",
            "1",
            "1.5",
            "0x1",
            "1_000",
            "1:30",
            "2024-01-01",
            "2024-01-01T00:00:00Z",
            ".inf",
            "-",
            "- a",
            "a: b",
            "a:",
            "a #b",
            "#a",
            "*a",
            "&a",
            "!a",
            "|",
            ">",
            "%a",
            "@a",
            "`a",
            "\"",
            "'",
            "a\nb\n",
            "\t",
            "\u{7f}",
            "\u{85}",
            "\u{2028}",
            "\u{feff}",
            "\u{ffff}",
            "\u{1f600}",
            "\\",
            "[a]",
            "{a}",
            "=",
            "<<",
            "v1",
            "/a/b",
            "kube-system",
            "apps/v1",
        ];
        let long = "x".repeat(3000);
        for text in texts.iter().copied().chain([long.as_str()]) {
            for value in [json!({"a": text}), json!([text]), json!({text: [{"b": text}]}), json!({text: {"b": {}}})] {
                let written = write(&value);
                let (read, findings) =
                    super::super::read(written.as_bytes()).unwrap_or_else(|why| panic!("{why}: {written}"));
                assert_eq!((read, findings), (value.clone(), Vec::new()), "{written}");
                if text.len() <= MAX_KEY_LEN {
                    let line = write_line(&value);
                    let read = super::super::read(line.as_bytes()).map(|(read, _)| read);
                    assert_eq!((read, line.lines().count()), (Ok(value), 1), "{line}");
                }
            }
        }
    }
}
