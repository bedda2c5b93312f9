//! YAML as Kubernetes reads it: the first document, turned into JSON.

use serde::Deserialize as _;

use super::{Finding, Node};

/// Reads the first document. A key that stands twice is a finding; the later one counts.
pub(super) fn read(body: &[u8]) -> Result<(Node, Vec<Finding>), String> {
    let text = super::yaml11::spell_booleans(&String::from_utf8_lossy(body));
    let Some(document) = serde_yaml::Deserializer::from_str(&text).next() else { return Ok((Node::Null, Vec::new())) };
    let node = Node::deserialize(document).map_err(|error| format!("error converting YAML to JSON: yaml: {error}"))?;
    let mut findings = Vec::new();
    let node = resolve(node, &text, &mut findings);
    Ok((node, findings))
}

/// Expands `<<`, drops repeated keys and tells of them.
fn resolve(node: Node, text: &str, findings: &mut Vec<Finding>) -> Node {
    match node {
        Node::List(items) => Node::List(items.into_iter().map(|item| resolve(item, text, findings)).collect()),
        Node::Map(members) => {
            let mut out: Vec<(String, Node)> = Vec::with_capacity(members.len());
            let mut merged: Vec<(String, Node)> = Vec::new();
            for (key, node) in members {
                let node = resolve(node, text, findings);
                match node {
                    Node::Map(base) if key == "<<" => merged.extend(base),
                    Node::List(bases) if key == "<<" => {
                        merged.extend(bases.into_iter().flat_map(|base| match base {
                            Node::Map(members) => members,
                            _ => Vec::new(),
                        }));
                    }
                    node => match out.iter_mut().find(|(known, _)| *known == key) {
                        Some(known) => {
                            let finding = Finding::Other(repeated(&key, text));
                            if !findings.contains(&finding) {
                                findings.push(finding);
                            }
                            known.1 = node;
                        }
                        None => out.push((key, node)),
                    },
                }
            }
            for (key, node) in merged {
                if !out.iter().any(|(known, _)| *known == key) {
                    out.push((key, node));
                }
            }
            Node::Map(out)
        }
        // YAML takes 2.0 for a whole number.
        Node::Number(number) => Node::Number(super::document::plain_number(number)),
        node => node,
    }
}

fn repeated(key: &str, text: &str) -> String {
    let stands = |line: &&str| {
        let mut places = line.match_indices(key).map(|(at, _)| line.get(at + key.len()..).unwrap_or_default());
        places.any(|rest| rest.trim_start_matches(['"', '\'', ' ']).starts_with(':'))
    };
    let lines = text.lines().enumerate().filter(|(_, line)| stands(line)).map(|(at, _)| at + 1);
    // Go quotes the keys that are texts.
    let shown = match matches!(key, "true" | "false") || key.parse::<f64>().is_ok() {
        true => key.to_owned(),
        false => format!("{key:?}"),
    };
    format!("line {}: key {shown} already set in map", lines.last().unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_becomes_json_with_its_anchors_and_merge_keys() {
        let text = b"base: &b {x: 1, z: 2.0}\nthen:\n  <<: *b\n  x: 3\n---\nsecond: 1\n";
        let (node, findings) = read(text).unwrap();
        assert_eq!(node.into_value(), json!({"base": {"x": 1, "z": 2}, "then": {"x": 3, "z": 2}}));
        assert_eq!(findings, []);
    }

    #[test]
    fn a_repeated_key_is_told_with_its_line() {
        let (node, findings) = read(b"a: 1\nb: 2\na: 3\n").unwrap();
        assert_eq!(node.into_value(), json!({"a": 3, "b": 2}));
        assert_eq!(findings, [Finding::Other("line 3: key \"a\" already set in map".into())]);
    }

    #[test]
    fn an_empty_text_is_null() {
        assert_eq!(read(b"").unwrap().0, Node::Null);
    }
}
