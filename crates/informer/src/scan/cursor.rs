//! Moves through JSON and skips values without parsing them.

use std::ops::Range;

use pintle_meta::__private::{Brackets, Shape};

/// A position in JSON. If a method returns `None`, the position is unchanged. The cost of each method is proportional
/// to the number of bytes it passes.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    pub(super) fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    pub(super) fn skip_white(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// Moves past a string, and returns the range of its content between the quotes.
    pub(super) fn text(&mut self) -> Option<Range<usize>> {
        if self.peek()? != b'"' {
            return None;
        }
        let end = end_of_text(self.bytes, self.at + 1)?;
        let text = self.at + 1..end;
        self.at = end + 1;
        Some(text)
    }

    pub(super) fn skip_value(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => self.text().map(|_| ()),
            b'{' | b'[' => self.skip_nested(),
            _ => {
                let rest = &self.bytes[self.at..];
                let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t');
                self.at += rest.iter().position(is_end).filter(|length| *length > 0)?;
                Some(())
            }
        }
    }

    /// Moves past an object or array without checking that an opening `{` is closed by `}` and not by `]`.
    fn skip_nested(&mut self) -> Option<()> {
        let end = Brackets::default().read(&self.bytes[self.at..]).filter(|end| end.shape != Shape::Invalid)?;
        self.at += end.at;
        Some(())
    }
}

/// Returns the position of the quote that ends the string that contains `at`.
fn end_of_text(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += plain(bytes.get(at..)?);
        if *bytes.get(at)? == b'"' {
            return Some(at);
        }
        // Skip the byte after a backslash, because an escaped quote does not end the string.
        at += 2;
    }
}

/// Returns the number of bytes before the first quote or backslash, reading eight bytes per iteration. Larger vectors
/// would not be faster, because strings are usually short.
fn plain(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
    // In the result, the highest bit of each zero byte is set. Bits after the first zero byte may be wrong, but they
    // are not used.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & (ONES << 7);
    let (words, rest) = bytes.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let stops = zeros(word ^ (ONES * b'"' as u64)) | zeros(word ^ (ONES * b'\\' as u64));
        if stops != 0 {
            return at * 8 + stops.trailing_zeros() as usize / 8;
        }
    }
    let end = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'));
    words.len() * 8 + end.unwrap_or(rest.len())
}
