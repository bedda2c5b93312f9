//! On which line of a file a member stands, for those who have to mend it.

use granit_parser::{Event, Parser, StrInput};

use super::budget;

/// The members of a text with their lines. It is made when something is wrong, and of what was read before.
pub(crate) struct Lines(Node);

/// A value, and the line on which it or its name begins.
#[derive(Default)]
struct Node {
    line: usize,
    /// The text of a plain value.
    text: String,
    /// What it holds; the parts of a list have no name.
    parts: Vec<(String, Node)>,
}

impl Lines {
    /// None of a text that is no YAML, or too much of it.
    pub(crate) fn of(text: &str) -> Option<Self> {
        budget::check(text).ok()?;
        let mut events = Parser::new_from_str_with_options(text, budget::options());
        let (first, line) = next(&mut events)?;
        read(&mut events, first, line).map(Self)
    }

    /// The line of a member that a problem names, such as `clusters["eu-1"].server`; of one that is missing, that of what lacks it.
    pub(crate) fn find(&self, field: &str) -> Option<usize> {
        let list = field.split('[').next().unwrap_or_default();
        let entries = self.0.part(list)?;
        let mut node = entries;
        let mut rest = "";
        for (_, entry) in &entries.parts {
            let named = format!("{list}[{:?}]", entry.part("name").map_or("", |name| &name.text));
            if let Some(member) = field.strip_prefix(&named) {
                // What an entry holds stands in a map that is named like the list.
                (node, rest) = (entry.part(list.trim_end_matches('s')).unwrap_or(entry), member);
            }
        }
        for member in rest.split('.').filter(|member| !member.is_empty()) {
            let Some(part) = node.part(member) else { break };
            node = part;
        }
        Some(node.line)
    }
}

impl Node {
    fn part(&self, name: &str) -> Option<&Node> {
        self.parts.iter().find(|(known, _)| known == name).map(|(_, part)| part)
    }
}

/// The value that begins with this event. It nests no deeper than the budget allows.
fn read<'a>(events: &mut Parser<'a, StrInput<'a>>, first: Event<'a>, line: usize) -> Option<Node> {
    let mut node = Node { line, ..Node::default() };
    let is_map = match first {
        Event::Scalar(text, ..) => {
            node.text = text.into_owned();
            return Some(node);
        }
        Event::SequenceStart(..) => false,
        Event::MappingStart(..) => true,
        // An alias stands elsewhere.
        _ => return Some(node),
    };
    loop {
        let (event, line) = next(events)?;
        if matches!(event, Event::SequenceEnd | Event::MappingEnd) {
            return Some(node);
        }
        let mut part = read(events, event, line)?;
        let name = if is_map { std::mem::take(&mut part.text) } else { String::new() };
        if is_map {
            let (event, begin) = next(events)?;
            part = read(events, event, begin)?;
            part.line = line;
        }
        node.parts.push((name, part));
    }
}

/// The next event that is, begins or ends a value, and its line. Among the others may be comments, where another crate of the program
/// has the parser tell them.
fn next<'a>(events: &mut Parser<'a, StrInput<'a>>) -> Option<(Event<'a>, usize)> {
    loop {
        let (event, span) = events.next_event()?.ok()?;
        if let Event::Scalar(..)
        | Event::Alias(..)
        | Event::SequenceStart(..)
        | Event::SequenceEnd
        | Event::MappingStart(..)
        | Event::MappingEnd = event
        {
            return Some((event, span.start.line()));
        }
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
    fn a_member_is_found_by_what_a_problem_calls_it() {
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
