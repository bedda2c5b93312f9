//! An incremental JSON scanner that validates JSON and finds the boundaries of values.

/// Scans JSON that arrives in chunks. Chunks can start and end at any byte. The scanner stores only its state and the
/// last string, and no string that is nested more deeply than `keep`.
///
/// The scanner accepts the grammar of RFC 8259, with the same nesting limit as Go's decoder. UTF-8 in strings and the
/// range of numbers are not checked, because the decoder checks both later. The scanner does no I/O.
pub(crate) struct Json {
    expects: Expects,
    /// The objects and arrays that enclose the current position, from the outermost to the innermost.
    open: Vec<Container>,
    /// The maximum nesting depth of strings that the scanner stores.
    keep: usize,
    /// The raw content of the last string with a nesting depth of at most `keep`. A string longer than [`MAX_TEXT`] is
    /// truncated.
    text: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Container {
    Array,
    Object,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Open(Container),
    Close,
    Name,
    Null,
    Scalar,
    Text,
}

/// The maximum nesting depth, as in Go's decoder.
const MAX_DEPTH: usize = 10_000;

/// The maximum size of a stored string in bytes. Object names are shorter than this limit, because they have at most
/// 253 bytes.
const MAX_TEXT: usize = 1024;

#[derive(Clone, Copy, Debug)]
enum Expects {
    Value,
    ValueOrEnd,
    Name,
    NameOrEnd,
    Colon,
    CommaOrEnd,
    Text {
        is_name: bool,
    },
    Escape {
        is_name: bool,
    },
    Hex {
        is_name: bool,
        left: u8,
    },
    /// Inside a literal such as `true`. The field contains the bytes of the literal that are still missing.
    Word(&'static [u8]),
    Number(Number),
}

#[derive(Clone, Copy, Debug)]
enum Number {
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    Exponent,
    Sign,
    Power,
}

impl Json {
    /// Creates a scanner for a single value. The scanner stores strings up to a nesting depth of `keep`. The fields of
    /// the outermost object have depth 1.
    pub(crate) fn new(keep: usize) -> Self {
        Self { expects: Expects::Value, open: Vec::new(), keep, text: Vec::new() }
    }

    /// Scans `bytes` up to and including the next token whose depth is at most `deepest`. Returns the number of scanned
    /// bytes and the token, or `None` instead of the token if `bytes` contains no such token.
    ///
    /// # Errors
    ///
    /// If a byte is invalid, returns its position as an error.
    pub(crate) fn next(&mut self, bytes: &[u8], deepest: usize) -> Result<Option<(usize, Token)>, usize> {
        let mut at = 0;
        loop {
            if self.open.len() > deepest.max(self.keep) {
                at = self.skim(bytes, at, deepest.max(self.keep));
            }
            if at == bytes.len() {
                return Ok(None);
            }
            let token = self.step(bytes, &mut at)?;
            if let Some(token) = token {
                let depth = self.open.len() - usize::from(matches!(token, Token::Open(_)));
                if depth <= deepest {
                    return Ok(Some((at, token)));
                }
            }
        }
    }

    pub(crate) fn depth(&self) -> usize {
        self.open.len()
    }

    /// Returns the raw content of the last string or field name, or `None` if the string was nested too deeply or was
    /// too long.
    pub(crate) fn text(&self) -> Option<&[u8]> {
        (self.open.len() <= self.keep && self.text.len() <= MAX_TEXT).then_some(&self.text)
    }

    pub(crate) fn is_whole(&self) -> bool {
        let has_ended = match self.expects {
            Expects::CommaOrEnd => true,
            Expects::Number(number) => number.is_whole(),
            _ => false,
        };
        has_ended && self.open.is_empty()
    }

    /// Skips tokens that are nested more deeply than `deepest`. Most tokens of a typical body are skipped. The method
    /// leaves incomplete tokens and escapes to [`step`](Self::step).
    fn skim(&mut self, bytes: &[u8], mut at: usize, deepest: usize) -> usize {
        self.text.clear();
        while let Some(byte) = bytes.get(at) {
            (self.expects, at) = match (self.expects, byte) {
                (Expects::Name | Expects::NameOrEnd, b'"') => match end_of_text(bytes, at) {
                    Some(end) if bytes.get(end) == Some(&b':') => (Expects::Value, end + 1),
                    _ => return at,
                },
                (Expects::Value | Expects::ValueOrEnd, b'"') => match end_of_text(bytes, at) {
                    Some(end) => (Expects::CommaOrEnd, end),
                    None => return at,
                },
                (Expects::CommaOrEnd, b',') => match self.open.last() {
                    Some(Container::Object) => (Expects::Name, at + 1),
                    _ => (Expects::Value, at + 1),
                },
                (Expects::Value | Expects::ValueOrEnd, b'{') if self.open.len() < MAX_DEPTH => {
                    self.open.push(Container::Object);
                    (Expects::NameOrEnd, at + 1)
                }
                (Expects::Value | Expects::ValueOrEnd, b'[') if self.open.len() < MAX_DEPTH => {
                    self.open.push(Container::Array);
                    (Expects::ValueOrEnd, at + 1)
                }
                (Expects::NameOrEnd | Expects::CommaOrEnd, b'}')
                    if self.open.len() > deepest + 1 && self.open.last() == Some(&Container::Object) =>
                {
                    self.open.pop();
                    (Expects::CommaOrEnd, at + 1)
                }
                (Expects::ValueOrEnd | Expects::CommaOrEnd, b']')
                    if self.open.len() > deepest + 1 && self.open.last() == Some(&Container::Array) =>
                {
                    self.open.pop();
                    (Expects::CommaOrEnd, at + 1)
                }
                _ => return at,
            };
        }
        at
    }

    /// Consumes one byte, or several bytes within a string. At the end of a number, it returns the number without
    /// consuming the next byte.
    fn step(&mut self, bytes: &[u8], at: &mut usize) -> Result<Option<Token>, usize> {
        let fault = *at;
        let byte = bytes[fault];
        if let Expects::Text { is_name } = self.expects {
            return self.read_text(bytes, at, is_name);
        }
        if let Expects::Number(number) = self.expects {
            let Some(number) = number.next(byte) else {
                self.expects = Expects::CommaOrEnd;
                return if number.is_whole() { Ok(Some(Token::Scalar)) } else { Err(fault) };
            };
            *at += 1;
            self.expects = Expects::Number(number);
            return Ok(None);
        }
        *at += 1;
        let (expects, token) = match (self.expects, byte) {
            (Expects::Escape { is_name }, b'u') => (Expects::Hex { is_name, left: 4 }, None),
            (Expects::Escape { is_name }, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                (Expects::Text { is_name }, None)
            }
            (Expects::Hex { is_name, left }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                (if left > 1 { Expects::Hex { is_name, left: left - 1 } } else { Expects::Text { is_name } }, None)
            }
            (Expects::Word([expected, rest @ ..]), _) if byte == *expected => match rest {
                // `null` is the only literal that ends with the letter `l`.
                [] => (Expects::CommaOrEnd, Some(if byte == b'l' { Token::Null } else { Token::Scalar })),
                _ => (Expects::Word(rest), None),
            },
            (Expects::Escape { .. } | Expects::Hex { .. } | Expects::Word(_), _) => return Err(fault),
            (expects, b' ' | b'\n' | b'\r' | b'\t') => (expects, None),
            (Expects::Value | Expects::ValueOrEnd, b'{') => self.open(Container::Object).ok_or(fault)?,
            (Expects::Value | Expects::ValueOrEnd, b'[') => self.open(Container::Array).ok_or(fault)?,
            (Expects::ValueOrEnd | Expects::CommaOrEnd, b']') => self.close(Container::Array).ok_or(fault)?,
            (Expects::NameOrEnd | Expects::CommaOrEnd, b'}') => self.close(Container::Object).ok_or(fault)?,
            (Expects::CommaOrEnd, b',') => match self.open.last().ok_or(fault)? {
                Container::Array => (Expects::Value, None),
                Container::Object => (Expects::Name, None),
            },
            (Expects::Colon, b':') => (Expects::Value, None),
            (Expects::Name | Expects::NameOrEnd, b'"') => (self.begin_text(true), None),
            (Expects::Value | Expects::ValueOrEnd, _) => match byte {
                b'"' => (self.begin_text(false), None),
                b'-' => (Expects::Number(Number::Minus), None),
                b'0' => (Expects::Number(Number::Zero), None),
                b'1'..=b'9' => (Expects::Number(Number::Whole), None),
                b'f' => (Expects::Word(b"alse"), None),
                b'n' => (Expects::Word(b"ull"), None),
                b't' => (Expects::Word(b"rue"), None),
                _ => return Err(fault),
            },
            _ => return Err(fault),
        };
        if matches!(self.expects, Expects::Escape { .. } | Expects::Hex { .. }) {
            self.keep_text(&[byte]);
        }
        self.expects = expects;
        Ok(token)
    }

    fn read_text(&mut self, bytes: &[u8], at: &mut usize, is_name: bool) -> Result<Option<Token>, usize> {
        let rest = &bytes[*at..];
        let end = plain(rest);
        self.keep_text(&rest[..end]);
        *at += end;
        let Some(byte) = rest.get(end) else { return Ok(None) };
        match byte {
            b'"' => {
                *at += 1;
                self.expects = if is_name { Expects::Colon } else { Expects::CommaOrEnd };
                Ok(Some(if is_name { Token::Name } else { Token::Text }))
            }
            b'\\' => {
                *at += 1;
                self.keep_text(b"\\");
                self.expects = Expects::Escape { is_name };
                Ok(None)
            }
            _ => Err(*at),
        }
    }

    fn open(&mut self, container: Container) -> Option<(Expects, Option<Token>)> {
        if self.open.len() == MAX_DEPTH {
            return None;
        }
        self.open.push(container);
        let expects = match container {
            Container::Array => Expects::ValueOrEnd,
            Container::Object => Expects::NameOrEnd,
        };
        Some((expects, Some(Token::Open(container))))
    }

    fn close(&mut self, container: Container) -> Option<(Expects, Option<Token>)> {
        self.open.pop_if(|open| *open == container)?;
        Some((Expects::CommaOrEnd, Some(Token::Close)))
    }

    fn begin_text(&mut self, is_name: bool) -> Expects {
        self.text.clear();
        Expects::Text { is_name }
    }

    fn keep_text(&mut self, part: &[u8]) {
        if self.open.len() <= self.keep {
            // Store one byte more than the limit, which shows that the string is too long.
            let room = MAX_TEXT + 1 - self.text.len();
            self.text.extend_from_slice(&part[..part.len().min(room)]);
        }
    }
}

/// Returns the position after the string that starts at `start`. Returns `None` if the string is incomplete or contains
/// an escape.
fn end_of_text(bytes: &[u8], start: usize) -> Option<usize> {
    let end = start + 1 + plain(&bytes[start + 1..]);
    (bytes.get(end) == Some(&b'"')).then_some(end + 1)
}

/// Returns the number of bytes before the first quote, backslash or control character. The loop checks eight bytes at a
/// time, because bodies consist mostly of strings.
fn plain(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGHS: u64 = ONES << 7;
    // Set the highest bit of each byte that is zero. Bits of later bytes may be set incorrectly, so use only the first
    // bit that is set.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    let (words, rest) = bytes.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let controls = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        let stops = zeros(word ^ (ONES * b'"' as u64)) | zeros(word ^ (ONES * b'\\' as u64)) | controls;
        if stops != 0 {
            return at * 8 + stops.trailing_zeros() as usize / 8;
        }
    }
    let end = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..0x20));
    words.len() * 8 + end.unwrap_or(rest.len())
}

impl Number {
    /// Returns the state of the number after `byte`. Returns `None` if `byte` does not continue the number.
    fn next(self, byte: u8) -> Option<Self> {
        use Number::{Exponent, Fraction, Minus, Point, Power, Sign, Whole, Zero};
        Some(match (self, byte) {
            (Minus, b'0') => Zero,
            (Minus, b'1'..=b'9') | (Whole, b'0'..=b'9') => Whole,
            (Zero | Whole, b'.') => Point,
            (Point | Fraction, b'0'..=b'9') => Fraction,
            (Zero | Whole | Fraction, b'e' | b'E') => Exponent,
            (Exponent, b'+' | b'-') => Sign,
            (Exponent | Sign | Power, b'0'..=b'9') => Power,
            _ => return None,
        })
    }

    fn is_whole(self) -> bool {
        matches!(self, Self::Zero | Self::Whole | Self::Fraction | Self::Power)
    }
}

#[cfg(test)]
mod tests {
    use serde::de::IgnoredAny;

    use super::*;

    /// Scans `text` in chunks of `step` bytes. Returns the position of the first invalid byte. If the JSON is
    /// incomplete, returns the length of `text`.
    fn fault(text: &[u8], step: usize, deepest: usize) -> Option<usize> {
        let mut json = Json::new(0);
        for (nth, chunk) in text.chunks(step).enumerate() {
            let mut at = 0;
            loop {
                match json.next(&chunk[at..], deepest) {
                    Ok(Some((taken, _))) => at += taken,
                    Ok(None) => break,
                    Err(place) => return Some(nth * step + at + place),
                }
            }
        }
        (!json.is_whole()).then_some(text.len())
    }

    #[test]
    fn scanner_accepts_the_same_json_as_serde() {
        let texts = r#"
            0 -0 01 - -a 1. 1.5 .5 1.e 1e 1e5 1E+05 1e- 1e-7 +1 1x 12345678901234567890 1e999 0x1 00 -01 0.0e0
            true tru truex nul null nulL falsehood "a" "a "\u00e4" "\u00e" "\x" "\"" "\\" "\ud800" 'a' a
            [] [ ] [1] [1,] [,1] [1,,2] [1]2 [1]] [[]] [[] [1} {} {1:2} {"a"} {"a":} {"a":1} {"a":1,} {"a":1,,} {,} {"a":1]
            {"a":1"b":2} {"a":1,"b":[{},{"c":"}"}]} {"a"::1} {"a",1} {"a":1}} [{"a":[1,{"b":null}]},"",-1.5e+3] : , ] }
        "#;
        let more: &[&[u8]] = &[
            b"",
            b" ",
            b"\t[\r\n1 ,\n2 ] ",
            b"1 2",
            b"\"a\" \"b\"",
            b"[1\x0c]",
            b"\"\x01\"",
            b"\"\xff\"",
            b"\xff",
            b"[1 2]",
            b"{} {}",
        ];
        let deep = ["[".repeat(9_999), "]".repeat(9_999)].concat();
        let (mut taken, mut refused) = (0, 0);
        for text in texts.split_whitespace().map(str::as_bytes).chain(more.iter().copied()).chain([deep.as_bytes()]) {
            let is_json = serde_json::from_slice::<IgnoredAny>(text).is_ok();
            *if is_json { &mut taken } else { &mut refused } += 1;
            let whole = fault(text, text.len().max(1), usize::MAX);
            assert_eq!(whole.is_none(), is_json, "{:?}", text.escape_ascii().to_string());
            for (step, deepest) in
                (1..=text.len().min(100)).flat_map(|step| [usize::MAX, 2, 1, 0].map(|deepest| (step, deepest)))
            {
                let found = fault(text, step, deepest);
                assert_eq!(found, whole, "{:?} {step} {deepest}", text.escape_ascii().to_string());
            }
        }
        assert!(taken > 20 && refused > 50, "{taken} {refused}");
    }

    #[test]
    fn too_deep_nesting_is_rejected() {
        for deepest in [usize::MAX, 0] {
            assert_eq!(fault("[".repeat(MAX_DEPTH + 1).as_bytes(), 7, deepest), Some(MAX_DEPTH));
        }
    }

    #[test]
    fn short_strings_near_the_root_are_kept() {
        let (short, long) = ("x".repeat(MAX_TEXT), "x".repeat(MAX_TEXT + 1));
        for (text, expected) in [("a\\\"b", Some("a\\\"b")), (&*short, Some(&*short)), (&*long, None), ("", Some(""))] {
            for step in [1, 3, 5000] {
                let body = format!(r#"{{"{text}":[["deep"]],"name":"value"}}"#);
                let mut json = Json::new(1);
                let mut names = Vec::new();
                for mut chunk in body.as_bytes().chunks(step) {
                    while let Some((taken, token)) = json.next(chunk, 3).unwrap() {
                        chunk = &chunk[taken..];
                        if matches!(token, Token::Name | Token::Text) {
                            names.push(json.text().map(|text| String::from_utf8(text.to_vec()).unwrap()));
                        }
                    }
                }
                let expected = [expected, None, Some("name"), Some("value")].map(|text| text.map(str::to_owned));
                assert_eq!(names, expected, "{step}");
            }
        }
    }
}
