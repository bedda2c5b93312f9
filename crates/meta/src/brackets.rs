//! Finds the end of a JSON object or array by counting brackets.

use wide::u8x64;

/// Finds the end of a JSON object or array that arrives in chunks. `Brackets` only checks strings and brackets. The
/// decoder validates the JSON later. Use a new `Brackets` for each object or array.
#[derive(Debug)]
pub struct Brackets {
    depth: u32,
    nested: u32,
    is_in_string: bool,
    /// Whether the next byte follows a backslash that escapes it.
    is_escaped: bool,
    /// The last byte so far that is not white space.
    last: u8,
}

/// The end of an object or array.
#[derive(Debug, PartialEq)]
pub struct End {
    /// The number of bytes at the start of the chunk that belong to the object or array.
    pub at: usize,
    /// Whether the brackets are balanced.
    pub shape: Shape,
}

/// The result of counting the brackets of an object or array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// The brackets are balanced.
    Balanced {
        /// The number of objects and arrays directly inside the outermost brackets.
        nested: u32,
    },
    /// The last byte that `Brackets` read is not allowed at its position.
    Invalid,
}

/// The number of bytes that are read at once, each of which corresponds to one bit of a `u64`.
const BLOCK: usize = 64;

/// The maximum nesting depth, as in Go's decoder.
const MAX_DEPTH: u32 = 10_000;

impl Default for Brackets {
    fn default() -> Self {
        // Start in the state after a comma, because a bracket may follow a comma.
        Self { depth: 0, nested: 0, is_in_string: false, is_escaped: false, last: b',' }
    }
}

impl Brackets {
    /// Reads the next chunk. Returns `None` if the object or array continues in the next chunk.
    ///
    /// The text is invalid if it does not start with a bracket, if a string contains a control character, if an opening
    /// bracket follows a complete value, or if brackets are nested more than 10,000 levels deep. The check for opening
    /// brackets detects an object that is cut off and followed by another object, unless the object is cut off after a
    /// colon or a comma.
    pub fn read(&mut self, chunk: &[u8]) -> Option<End> {
        if self.depth == 0 && !matches!(chunk.first()?, b'{' | b'[') {
            return Some(End { at: 1, shape: Shape::Invalid });
        }
        let (blocks, rest) = chunk.as_chunks();
        for (nth, block) in blocks.iter().enumerate() {
            if let Some((at, shape)) = self.read_block(block, BLOCK) {
                return Some(End { at: nth * BLOCK + at, shape });
            }
        }
        if rest.is_empty() {
            return None;
        }
        let mut block = [b' '; BLOCK];
        block[..rest.len()].copy_from_slice(rest);
        let (at, shape) = self.read_block(&block, rest.len())?;
        Some(End { at: blocks.len() * BLOCK + at, shape })
    }

    /// Reads a block whose first `len` bytes belong to the chunk.
    fn read_block(&mut self, block: &[u8; BLOCK], len: usize) -> Option<(usize, Shape)> {
        let bytes = u8x64::new(*block);
        let strings = self.strings(bytes, len);
        // Set this bit to convert `[` to `{`, and `]` to `}`.
        let braces = bytes | u8x64::splat(0x20);
        let opening = positions(braces, b'{') & !strings;
        let closing = positions(braces, b'}') & !strings;
        let controls = bytes.simd_lt(u8x64::splat(b' ')).to_bitmask() & strings;
        let invalid = first(controls | self.misplaced(block, opening));
        self.last = *block[..len].iter().rfind(|byte| !is_white(**byte)).unwrap_or(&self.last);
        match self.count(opening, closing) {
            Some((end, shape)) if end < invalid => Some((end + 1, shape)),
            _ => (invalid < BLOCK).then_some((invalid + 1, Shape::Invalid)),
        }
    }

    /// Returns one bit for each byte that belongs to a string. A string includes its opening quote, but not its closing
    /// quote.
    fn strings(&mut self, bytes: u8x64, len: usize) -> u64 {
        let backslashes = positions(bytes, b'\\');
        let mut escaped = u64::from(std::mem::take(&mut self.is_escaped));
        let mut left = backslashes & !escaped;
        while left != 0 {
            let backslash = first(left);
            self.is_escaped = backslash + 1 == len;
            let next = (1 << backslash) << 1;
            escaped |= next;
            left &= !(next | 1 << backslash);
        }
        let mut strings = positions(bytes, b'"') & !escaped;
        // After this loop, each bit shows whether the number of quotes up to this bit is odd.
        for distance in [1, 2, 4, 8, 16, 32] {
            strings ^= strings << distance;
        }
        strings ^= if self.is_in_string { u64::MAX } else { 0 };
        self.is_in_string = strings >> (len - 1) & 1 == 1;
        strings
    }

    /// Returns one bit for each opening bracket that follows a complete value.
    fn misplaced(&self, block: &[u8; BLOCK], opening: u64) -> u64 {
        let permits = |last: &u8| matches!(last, b':' | b',' | b'[');
        let (mut left, mut misplaced) = (opening, 0);
        while left != 0 {
            let bracket = first(left);
            let last = block[..bracket].iter().rfind(|byte| !is_white(**byte)).unwrap_or(&self.last);
            misplaced |= u64::from(!permits(last)) << bracket;
            left &= left - 1;
        }
        misplaced
    }

    /// Counts the brackets of a block. Returns the position of the bracket that closes the first bracket, or of a
    /// bracket that is nested too deeply.
    fn count(&mut self, opening: u64, closing: u64) -> Option<(usize, Shape)> {
        let (opened, closed) = (opening.count_ones(), closing.count_ones());
        if self.depth >= closed + 2 && self.depth + opened <= MAX_DEPTH {
            self.depth = self.depth + opened - closed;
            return None;
        }
        let mut brackets = opening | closing;
        while brackets != 0 {
            let bracket = first(brackets);
            if opening >> bracket & 1 == 1 {
                self.depth += 1;
                self.nested = self.nested.saturating_add(u32::from(self.depth == 2));
                if self.depth > MAX_DEPTH {
                    return Some((bracket, Shape::Invalid));
                }
            } else {
                self.depth -= 1;
                if self.depth == 0 {
                    return Some((bracket, Shape::Balanced { nested: self.nested }));
                }
            }
            brackets &= brackets - 1;
        }
        None
    }
}

fn positions(bytes: u8x64, byte: u8) -> u64 {
    bytes.simd_eq(u8x64::splat(byte)).to_bitmask()
}

/// Returns the position of the lowest bit that is set, or [`BLOCK`] if there is none.
fn first(bits: u64) -> usize {
    bits.trailing_zeros() as usize
}

fn is_white(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `text` in chunks of `step` bytes. Returns the length of the first JSON value and its shape.
    fn read(text: &str, step: usize) -> Option<(usize, Shape)> {
        let mut brackets = Brackets::default();
        let mut chunks = text.as_bytes().chunks(step).enumerate();
        chunks.find_map(|(nth, chunk)| brackets.read(chunk).map(|end| (nth * step + end.at, end.shape)))
    }

    #[test]
    fn value_ends_with_its_last_bracket() {
        let balanced = |nested| Shape::Balanced { nested };
        for (value, rest, shape) in [
            ("{}", "{}", balanced(0)),
            ("[]", "]", balanced(0)),
            (r#"{"a":1,"b":[{"c":{}},{}]}"#, "\n{}", balanced(1)),
            (r#"[{},[[]] , {"a":"b"}]"#, "", balanced(3)),
            (r#"{"{":"}","\"}":"\\","\\\"{":"a\u0022}"}"#, "}", balanced(0)),
            ("{\"a\" :\n\t{\r} }", "", balanced(1)),
            ("{\"ä\":\"é\u{7f}🦀\"}", "}", balanced(0)),
            ("{}", "\n\"\n", balanced(0)),
            ("u", "pstream connect error", Shape::Invalid),
            ("\"", "{}\"", Shape::Invalid),
            ("}", "", Shape::Invalid),
            ("{\"a\":\"\n", "\"}", Shape::Invalid),
            (r#"{"a":"b"{"#, "}}", Shape::Invalid),
            ("{\"a\":{}\n{", "}", Shape::Invalid),
            ("{\"a\":1\n{", "}", Shape::Invalid),
            ("{\"a\"\n{", "}", Shape::Invalid),
            ("{{", "}}", Shape::Invalid),
        ] {
            // Vary the number of spaces, which determines the position of the brackets in a block.
            for spaces in 0..=BLOCK {
                let text = format!("{}{}{}{rest}", &value[..1], " ".repeat(spaces), &value[1..]);
                let end = if value.len() == 1 { 1 } else { value.len() + spaces };
                for step in (1..=text.len()).step_by(1 + spaces / 8) {
                    assert_eq!(read(&text, step), Some((end, shape)), "{text} {step}");
                }
            }
        }
    }

    #[test]
    fn too_deep_nesting_is_invalid() {
        let depth = MAX_DEPTH as usize;
        let text = |depth| "[".repeat(depth) + &"]".repeat(depth);
        for step in [7, 64, 30_000] {
            assert_eq!(read(&text(depth), step), Some((2 * depth, Shape::Balanced { nested: 1 })));
            assert_eq!(read(&text(depth + 1), step), Some((depth + 1, Shape::Invalid)));
        }
    }

    #[test]
    fn incomplete_value_has_no_end() {
        let value = r#"{"a":["\"",{"b":"\\"}],"c":"}","d":[0,1,2,3,4,5,6,7,8,9,10,{"e":"[\\\\\"]}"}]}"#;
        assert!(value.len() > BLOCK);
        for end in 0..value.len() {
            assert_eq!((read(&value[..end], 5), read(&value[..end], BLOCK)), (None, None), "{end}");
        }
        assert_eq!(read(value, value.len()), Some((value.len(), Shape::Balanced { nested: 2 })));
    }
}
