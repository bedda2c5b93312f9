//! Parses PEM blocks as Go does, skipping invalid blocks and text between blocks.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) label: String,
    pub(super) has_headers: bool,
    pub(super) content: Vec<u8>,
}

pub(super) fn blocks(pem: &[u8]) -> Vec<Block> {
    let text = String::from_utf8_lossy(pem);
    let mut found = Vec::new();
    // The unfinished block, and `true` if the parser has reached its body. A further BEGIN line discards the unfinished
    // block.
    let mut open: Option<(Block, bool)> = None;
    let mut body = String::new();
    for line in text.lines().map(str::trim_end) {
        if let Some(label) = line.strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----")) {
            open = Some((Block { label: label.to_owned(), has_headers: false, content: Vec::new() }, false));
            body.clear();
        } else if let Some(end) = line.strip_prefix("-----END ") {
            if let Some((block, _)) = open.take()
                && end.strip_suffix("-----") == Some(block.label.as_str())
                && let Ok(content) = STANDARD.decode(&body)
            {
                found.push(Block { content, ..block });
            }
        } else if let Some((block, in_body)) = &mut open {
            if !*in_body && line.contains(':') {
                block.has_headers = true
            } else {
                *in_body = true;
                body.extend(line.chars().filter(|c| !c.is_whitespace()));
            }
        }
    }
    found
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
        assert_eq!(blocks(text.as_bytes()), [block("A", false, &[1, 2, 3]), block("B C", true, &[4])]);
    }

    #[test]
    fn broken_blocks_are_skipped() {
        for text in [
            "",
            "-----BEGIN A-----\nAQID\n",
            "-----BEGIN A-----\n!\n-----END A-----",
            "-----BEGIN A-----\nAQID\n-----END B-----",
        ] {
            assert_eq!(blocks(text.as_bytes()), [], "{text}");
        }
    }

    #[test]
    fn unterminated_block_does_not_hide_the_next_one() {
        let text = "-----BEGIN A-----\nAQID\n-----BEGIN B-----\nBA==\n-----END B-----\n-----BEGIN C-----\n";
        let labels: Vec<_> = blocks(text.as_bytes()).into_iter().map(|block| block.label).collect();
        assert_eq!(labels, ["B"]);
    }
}
