//! Finds line numbers for error messages.

use std::rc::Rc;

use super::node::{Content, Document, Member, Node};

/// The line numbers of the fields in a YAML text, for error messages. Only error messages use this type, because it
/// parses the text again.
pub(crate) struct Lines(Rc<Node>);

impl Lines {
    pub(crate) fn of(text: &str) -> Option<Self> {
        Document::read(text).ok()?.root.map(Self)
    }

    /// Returns the line of a field path such as `clusters["eu-1"].server`, or the line of its parent if the field is
    /// missing.
    pub(crate) fn find(&self, field: &str) -> Option<usize> {
        let list = field.split('[').next().unwrap_or_default();
        let found = member(&self.0, list)?;
        let (mut line, mut node) = (found.line, &found.node);
        let mut rest = "";
        if let Content::List(entries) = &found.node.content {
            for entry in entries {
                let name = member(entry, "name").map_or("", |name| text(&name.node));
                if let Some(members) = field.strip_prefix(&format!("{list}[{name:?}]")) {
                    // In a named list, each entry has a field named after the singular form of the list's name. For example, each
                    // entry of `clusters` has a field `cluster`.
                    let inner = member(entry, list.trim_end_matches('s'));
                    (line, node) = inner.map_or((entry.line, entry), |inner| (inner.line, &inner.node));
                    rest = members;
                }
            }
        }
        for name in rest.split('.').filter(|name| !name.is_empty()) {
            let Some(part) = member(node, name) else { break };
            (line, node) = (part.line, &part.node);
        }
        Some(line)
    }
}

fn member<'a>(node: &'a Node, key: &str) -> Option<&'a Member> {
    match &node.content {
        Content::Map(members) => members.iter().find(|member| member.key == key),
        _ => None,
    }
}

fn text(node: &Node) -> &str {
    match &node.content {
        Content::Scalar { text, .. } => text,
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"# A comment.
apiVersion: v1
current-context: gone
clusters:
- cluster:
    server: https://a
    proxy-url:
      ftp://p
  name: eu
- {name: 'a "b"', cluster: {
    server: "https://b"}}
users:
- name: me
  user:
    exec:
      command: x
      env: [{name: A, value: *b}]
"#;

    #[test]
    fn field_is_found_by_its_path_in_a_problem() {
        let lines = Lines::of(&TEXT.replace("*b", "b")).unwrap();
        for (field, expected) in [
            ("current-context", Some(3)),
            ("clusters", Some(4)),
            ("clusters[\"eu\"].server", Some(6)),
            ("clusters[\"eu\"].proxy-url", Some(7)),
            ("clusters[\"eu\"].certificate-authority", Some(5)),
            ("clusters[\"a \\\"b\\\"\"].server", Some(11)),
            ("users[\"me\"].exec.command", Some(16)),
            ("users[\"me\"].exec.env", Some(17)),
            ("users[\"me\"].exec.apiVersion", Some(15)),
            ("users[\"me\"].token", Some(14)),
            ("users[\"you\"].token", Some(12)),
            ("contexts[\"c\"].user", None),
        ] {
            assert_eq!(lines.find(field), expected, "{field}");
        }
        for text in ["", "[", "a", &"[".repeat(10_000)] {
            assert_eq!(Lines::of(text).and_then(|lines| lines.find("clusters")), None);
        }
    }
}
