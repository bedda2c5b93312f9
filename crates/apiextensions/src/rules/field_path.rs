//! Parses a rule's `fieldPath`, which is the path from the validated value to a nested value. A `fieldPath` consists of
//! fields and map keys, for example `.spec.labels['example.com/tier']`.

use pintle_json::Json;

pub(crate) fn is_valid(path: &str, schema: &Json) -> bool {
    normalised(path, schema).is_some()
}

/// Returns the path as error messages show it, without a leading dot, such as `spec.labels[example.com/tier]`.
/// Returns `None` if the path does not refer to a field of the schema.
pub(super) fn normalised(path: &str, schema: &Json) -> Option<String> {
    let (mut left, mut schema, mut written) = (path, schema, String::new());
    while !left.is_empty() {
        let (name, after) = match left.strip_prefix('[') {
            Some(quoted) => {
                let (name, after) = quoted_key(quoted)?;
                (name, after.strip_prefix(']')?)
            }
            None => {
                let plain = left.strip_prefix('.')?;
                let end = plain.find(['.', '[', ']']).unwrap_or(plain.len());
                let (name, after) = plain.split_at(end);
                (if name.is_empty() { None } else { Some(name.to_owned()) }?, after)
            }
        };
        // If the schema of an object declares fields, the object cannot have undeclared members.
        if let Some(properties) = schema.get("properties").filter(|properties| properties.is_object()) {
            schema = properties.get(&name)?;
            if !written.is_empty() {
                written.push('.');
            }
            written.push_str(&name);
        } else {
            schema = schema.get("additionalProperties").filter(|schema| schema.is_object() || **schema == true)?;
            written.push_str(&format!("[{name}]"));
        }
        left = after;
    }
    Some(written)
}

/// Reads a key in single quotes, with Go's escape sequences, and also returns the remaining text.
fn quoted_key(text: &str) -> Option<(String, &str)> {
    let mut key = String::new();
    let text = text.strip_prefix('\'')?;
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\'' => return Some((key, &text[at + 1..])),
            '\\' => key.push(match characters.next()?.1 {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                escaped @ ('\'' | '\\') => escaped,
                _ => return None,
            }),
            other => key.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::*;

    #[test]
    fn path_refers_to_fields_and_map_keys() {
        let leaf = json!({"type": "string"});
        let schema = json!({"properties": {
            "spec": {"properties": {"a.b": leaf, "n": leaf, "list": {"type": "array", "items": {"properties": {"n": leaf}}}}},
            "labels": {"additionalProperties": leaf},
            "flags": {"additionalProperties": true},
        }});
        for (path, expected) in [
            (".spec.n", Some("spec.n")),
            (".spec['a.b']", Some("spec.a.b")),
            ("['spec'].n", Some("spec.n")),
            (".labels['example.com/tier']", Some("labels[example.com/tier]")),
            (".labels.tier", Some("labels[tier]")),
            (".flags.a", Some("flags[a]")),
            (".flags.a.b", None),
            (".labels['it\\'s']", Some("labels[it's]")),
            ("spec", None),
            (".spec.m", None),
            (".spec.n.x", None),
            (".spec.list[0]", None),
            (".spec.list.n", None),
            (".spec.", None),
            (".spec['n", None),
            (".labels['\\q']", None),
            ("..", None),
        ] {
            assert_eq!(normalised(path, &schema).as_deref(), expected, "{path}");
        }
    }
}
