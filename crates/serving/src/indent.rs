//! Pretty-prints JSON.

/// Indents compact JSON incrementally, with two spaces per level. `Indent` stores only the current position, and
/// no text.
#[derive(Debug, Default)]
pub struct Indent {
    depth: usize,
    /// Whether a backslash escapes the next character of a JSON string, or `None` outside of strings.
    text: Option<bool>,
    after_open: bool,
}

impl Indent {
    /// Indents the next segment of the JSON, which may be split at any byte.
    pub fn part(&mut self, json: &[u8]) -> Vec<u8> {
        let mut indented = Vec::with_capacity(json.len() * 2);
        for &byte in json {
            if let Some(escaped) = self.text {
                indented.push(byte);
                self.text = (escaped || byte != b'"').then_some(!escaped && byte == b'\\');
            } else if !byte.is_ascii_whitespace() {
                self.token(byte, &mut indented);
            }
        }
        indented
    }

    fn token(&mut self, byte: u8, to: &mut Vec<u8>) {
        let ends = matches!(byte, b']' | b'}');
        if ends {
            self.depth = self.depth.saturating_sub(1);
        }
        // Write an empty list or object on one line.
        if std::mem::take(&mut self.after_open) != ends {
            self.line(to);
        }
        to.push(byte);
        match byte {
            b'[' | b'{' => (self.depth, self.after_open) = (self.depth + 1, true),
            b',' => self.line(to),
            b':' => to.push(b' '),
            b'"' => self.text = Some(false),
            _ => {}
        }
    }

    fn line(&self, to: &mut Vec<u8>) {
        to.push(b'\n');
        to.extend(std::iter::repeat_n(b' ', 2 * self.depth));
    }
}

#[cfg(test)]
mod tests {
    use pintle_json::{Json, json};
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<i64>().prop_map(Json::from),
            "[a\"\\\\{},: ]{0,4}".prop_map(Json::from)
        ];
        leaf.prop_recursive(4, 30, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
                proptest::collection::btree_map("[a\"\\\\]{0,2}", inner, 0..4).prop_map(|map| json!(map)),
            ]
        })
    }

    proptest! {
        #[test]
        fn indented_parts_equal_pretty_serde_json(value in value(), cut in 0..100usize) {
            let json = serde_json::to_vec(&value).unwrap();
            let (first, second) = json.split_at(cut.min(json.len()));
            let mut indent = Indent::default();
            let indented = [indent.part(first), indent.part(second)].concat();
            prop_assert_eq!(String::from_utf8(indented).unwrap(), serde_json::to_string_pretty(&value).unwrap());
        }
    }
}
