//! PEM blocks, as Go reads them: what stands around them is skipped, and so is a block that is broken.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// One block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) label: String,
    pub(super) has_headers: bool,
    pub(super) content: Vec<u8>,
}

/// The blocks of a text, in order.
pub(super) fn blocks(pem: &[u8]) -> impl Iterator<Item = Block> + use<> {
    let text = String::from_utf8_lossy(pem).into_owned();
    let mut found = Vec::new();
    let mut lines = text.lines().map(str::trim_end);
    while let Some(line) = lines.next() {
        let Some(label) = line.strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----")) else {
            continue;
        };
        let end = format!("-----END {label}-----");
        let (mut body, mut has_headers, mut ended) = (String::new(), false, false);
        for line in lines.by_ref() {
            match line {
                line if line == end => {
                    ended = true;
                    break;
                }
                line if line.contains(':') => has_headers = true,
                line => body.extend(line.chars().filter(|c| !c.is_whitespace())),
            }
        }
        if let (true, Ok(content)) = (ended, STANDARD.decode(&body)) {
            found.push(Block { label: label.to_owned(), has_headers, content });
        }
    }
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_between_other_text() {
        let text =
            "x\n-----BEGIN A-----\nAQ\nID\n-----END A-----\ny\n-----BEGIN B C-----\nK: v\n\nBA==\n-----END B C-----\n";
        let block = |label: &str, has_headers, content: &[u8]| Block {
            label: label.into(),
            has_headers,
            content: content.into(),
        };
        let all: Vec<_> = blocks(text.as_bytes()).collect();
        assert_eq!(all, [block("A", false, &[1, 2, 3]), block("B C", true, &[4])]);
    }

    #[test]
    fn what_is_broken_is_no_block() {
        for text in [
            "",
            "-----BEGIN A-----\nAQID\n",
            "-----BEGIN A-----\n!\n-----END A-----",
            "-----BEGIN A-----\nAQID\n-----END B-----",
        ] {
            assert_eq!(blocks(text.as_bytes()).count(), 0, "{text}");
        }
    }
}
