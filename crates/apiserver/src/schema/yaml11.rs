//! The words that are booleans in YAML 1.1 alone, spelt so that a parser of YAML 1.2 sees them.

/// Puts `true` and `false` in place of the plain scalars `yes`, `no`, `on`, `off`, `y`, `n`, keys included.
pub(super) fn spell_booleans(text: &str) -> String {
    let mut scan = Scan { out: String::with_capacity(text.len()), quote: None, block: None, depth: 0, tagged: false };
    for line in text.split_inclusive('\n') {
        scan.line(line);
    }
    scan.out
}

struct Scan {
    out: String,
    /// The quote that is open.
    quote: Option<char>,
    /// The indentation of the line that opened a block scalar.
    block: Option<usize>,
    /// How many brackets are open.
    depth: usize,
    /// A tag says what the next scalar is.
    tagged: bool,
}

impl Scan {
    fn line(&mut self, line: &str) {
        let indent = line.len() - line.trim_start_matches(' ').len();
        if let Some(opened) = self.block {
            if line.trim().is_empty() || indent > opened {
                self.out.push_str(line);
                return;
            }
            self.block = None;
        }
        let mut rest = line;
        while !rest.is_empty() {
            rest = self.token(rest, indent);
        }
    }

    /// Copies one token; answers what follows it.
    fn token<'a>(&mut self, rest: &'a str, indent: usize) -> &'a str {
        let mut chars = rest.chars();
        let Some(first) = chars.next() else { return "" };
        let ends = |next: Option<char>| next.is_none_or(char::is_whitespace);
        let length = match (self.quote, first) {
            (Some(quote), _) => self.quoted(rest, quote),
            (None, '"' | '\'') => {
                self.quote = Some(first);
                1
            }
            (None, '#') => rest.len(),
            (None, '-' | '?' | ':') if ends(chars.next()) => 1,
            (None, '[' | '{') => {
                self.depth += 1;
                1
            }
            (None, ']' | '}') => {
                self.depth = self.depth.saturating_sub(1);
                1
            }
            (None, ',' | ':') if self.depth > 0 => 1,
            (None, '|' | '>') if self.depth == 0 => {
                self.block = Some(indent);
                rest.len()
            }
            (None, '&' | '!' | '*') => {
                self.tagged |= first == '!';
                rest.find(char::is_whitespace).unwrap_or(rest.len())
            }
            (None, c) if c.is_whitespace() => c.len_utf8(),
            (None, _) => {
                let length = self.plain(rest);
                let scalar = rest[..length].trim_end();
                let tagged = std::mem::take(&mut self.tagged);
                self.out.push_str(boolean(scalar).filter(|_| !tagged).unwrap_or(scalar));
                self.out.push_str(&rest[scalar.len()..length]);
                return &rest[length..];
            }
        };
        self.out.push_str(&rest[..length]);
        &rest[length..]
    }

    /// The length of what is left of a quoted scalar on this line.
    fn quoted(&mut self, rest: &str, quote: char) -> usize {
        let mut chars = rest.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' if quote == '"' => {
                    chars.next();
                }
                '\'' if quote == '\'' && chars.next_if(|(_, next)| *next == '\'').is_some() => {}
                c if c == quote => {
                    self.quote = None;
                    return at + c.len_utf8();
                }
                _ => {}
            }
        }
        rest.len()
    }

    /// The length of a plain scalar.
    fn plain(&self, rest: &str) -> usize {
        let mut before = ' ';
        for (at, c) in rest.char_indices() {
            let next = rest[at + c.len_utf8()..].chars().next();
            let ends = match c {
                ':' => next.is_none_or(|next| next.is_whitespace() || (self.depth > 0 && ",[]{}".contains(next))),
                '#' => before.is_whitespace() && at > 0,
                ',' | '[' | ']' | '{' | '}' => self.depth > 0,
                '\n' => true,
                _ => false,
            };
            if ends {
                return at;
            }
            before = c;
        }
        rest.len()
    }
}

fn boolean(scalar: &str) -> Option<&'static str> {
    match scalar {
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "True" | "TRUE" => Some("true"),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "False" | "FALSE" => Some("false"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn plain_words_alone_are_booleans() {
        for (text, spelt) in [
            ("a: yes", "a: true"),
            ("n: x", "false: x"),
            ("- on # no\n- 'off'\n- \"no\"\n", "- true # no\n- 'off'\n- \"no\"\n"),
            ("{a: no, b: [y, yes]}", "{a: false, b: [true, true]}"),
            ("a: |\n  yes\n  no\nb: no\n", "a: |\n  yes\n  no\nb: false\n"),
            ("a: yes please", "a: yes please"),
            ("a: 'it''s\n  on'\nb: on", "a: 'it''s\n  on'\nb: true"),
            ("a: x:on", "a: x:on"),
            ("a: &b no", "a: &b false"),
            ("a: !!str no", "a: !!str no"),
            ("url: http://no/yes", "url: http://no/yes"),
        ] {
            assert_eq!(spell_booleans(text), spelt);
        }
    }

    proptest! {
        #[test]
        fn text_without_such_words_stays_as_it_is(text in "[a-m\\[\\]{},:#'\"|> \\n\\-&*!é]{0,60}") {
            prop_assert_eq!(spell_booleans(&text), text);
        }
    }
}
