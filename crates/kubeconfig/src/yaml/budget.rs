//! What a text may ask for. The library reads a document as a whole, copies what aliases stand for, and takes quadratic time for what
//! nests deeply; so a text is looked through first, event by event.

use std::collections::HashMap;

use granit_parser::{Event, Options, Parser};

/// The largest text, and the most that it may come to when each alias is replaced, in bytes.
pub(crate) const LARGEST: usize = 16 << 20;
/// What a value weighs beside its text.
const NODE: usize = 64;
/// How many lists and maps may stand one in another: as many as serde reads.
const DEEPEST: usize = 128;
/// How many directives there may be: the library looks through those before for each.
const MOST_DIRECTIVES: usize = 64;

/// Refuses what would cost too much.
pub(super) fn check(text: &str) -> Result<(), String> {
    if text.len() > LARGEST {
        return Err(format!("it is larger than {LARGEST} bytes"));
    }
    if text.lines().filter(|line| line.starts_with('%')).count() > MOST_DIRECTIVES {
        return Err(format!("it has more than {MOST_DIRECTIVES} directives"));
    }
    let mut events = Parser::new_from_str_with_options(text, options());
    let mut anchors: HashMap<usize, usize> = HashMap::new();
    // Of each list or map that is open: its anchor, and what came before it.
    let mut open: Vec<(usize, usize)> = Vec::new();
    let mut weight: usize = 0;
    while let Some(event) = events.next_event() {
        let (event, line) = match event {
            Ok((event, span)) => (event, span.start.line()),
            Err(_) if is_harmless(text) => return Ok(()),
            Err(error) => return Err(format!("no YAML, or too deep, at line {}", error.marker().line())),
        };
        match event {
            Event::Scalar(value, _, anchor, _) => {
                anchors.insert(anchor, value.len() + NODE);
                weight += value.len() + NODE;
            }
            Event::SequenceStart(_, anchor, _) | Event::MappingStart(_, anchor, _) => {
                open.push((anchor, weight));
                weight += NODE;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some((anchor, before)) = open.pop() {
                    anchors.insert(anchor, weight - before);
                }
            }
            Event::Alias(anchor) => weight += anchors.get(&anchor).copied().unwrap_or(NODE),
            _ => {}
        }
        if weight > LARGEST {
            return Err(format!("its aliases and values come to more than {LARGEST} bytes at line {line}"));
        }
    }
    Ok(())
}

/// Of a text that cannot be looked through, the library tells better what is wrong: if that is harmless to ask. Nothing is copied in
/// it then, and nothing nests.
fn is_harmless(text: &str) -> bool {
    text.len() <= 64 << 10 && !text.contains('&') && text.matches(['[', '{', '?']).count() <= DEEPEST
}

/// As the library reads.
pub(super) fn options() -> Options {
    granit_parser::options! {
        strict_indentation: false,
        block_scalar_eof_without_line_feed: true,
        flow_nesting_limit: DEEPEST,
        block_nesting_limit: DEEPEST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row stands for nine of the row before.
    fn bomb(rows: usize) -> String {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
        for n in 1..rows {
            let row = format!("*a{}, ", n - 1).repeat(9);
            text.push_str(&format!("a{n}: &a{n} [{row}]\n"));
        }
        text
    }

    #[test]
    fn what_aliases_stand_for_is_counted_before_it_is_built() {
        assert_eq!(check(&bomb(4)), Ok(()));
        for rows in [7, 12, 40] {
            let error = check(&bomb(rows)).unwrap_err();
            assert!(error.contains("aliases"), "{error}");
        }
        let flat = format!("a: &a {}\nb: [{}]\n", "x".repeat(50_000), "*a, ".repeat(1_000));
        assert!(check(&flat).unwrap_err().contains("line 2"));
    }

    #[test]
    fn what_is_too_large_too_deep_or_broken_is_refused() {
        for text in ["#".repeat(LARGEST + 1), "[".repeat(100_000), "{a: ".repeat(20_000), "a: &a [\n}".into()] {
            assert!(check(&text).is_err(), "{}", &text[..10]);
        }
        assert_eq!(check(&format!("users: [{}]", "{name: a}, ".repeat(10_000))), Ok(()));
        // Short ones, too: the library would take half a minute for some of these.
        for open in ["[", "{a: ", "{\"a\":", "{? ", "[{"] {
            for close in ["", "]", "}"] {
                let text = open.repeat(DEEPEST + 1) + &close.repeat(DEEPEST + 1);
                assert!(check(&text).is_err(), "{open} {close}");
            }
        }
        let directives =
            |count: usize| (0..count).map(|at| format!("%TAG !a{at}! b\n")).collect::<String>() + "---\n{}\n";
        assert_eq!(check(&directives(MOST_DIRECTIVES)), Ok(()));
        assert!(check(&directives(MOST_DIRECTIVES + 1)).is_err());
    }
}
