//! Moves over JSON without a look into what is skipped.

use std::ops::Range;

use memchr::memchr2;

/// A place in JSON. Each method leaves the place where it was if it gives nothing, and takes time for the bytes that it passes.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Texts are short as a rule: so many bytes are looked at one by one before a search that is made for long ones begins.
const SHORT: usize = 16;

/// Where something begins or ends outside of texts.
static MARKS: [bool; 256] = {
    let mut marks = [false; 256];
    let (mut at, all) = (0, b"\"[]{}");
    while at < all.len() {
        marks[all[at] as usize] = true;
        at += 1;
    }
    marks
};

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

    /// Past a text: where it stands, without its quotes.
    pub(super) fn text(&mut self) -> Option<Range<usize>> {
        if self.peek()? != b'"' {
            return None;
        }
        let end = end_of_text(self.bytes, self.at + 1)?;
        let text = self.at + 1..end;
        self.at = end + 1;
        Some(text)
    }

    /// Past a value.
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

    /// Past an object or array. Which bracket closes which is not looked at.
    fn skip_nested(&mut self) -> Option<()> {
        let (mut at, mut depth) = (self.at, 0_usize);
        loop {
            at += self.bytes[at..].iter().position(|byte| MARKS[usize::from(*byte)])?;
            match self.bytes[at] {
                b'"' => at = end_of_text(self.bytes, at + 1)?,
                b'{' | b'[' => depth += 1,
                _ => depth -= 1,
            }
            at += 1;
            if depth == 0 {
                self.at = at;
                return Some(());
            }
        }
    }
}

/// Where the quote stands that ends the text which goes on at `at`.
fn end_of_text(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let rest = bytes.get(at..)?;
        let near = rest.iter().take(SHORT).position(|byte| matches!(byte, b'"' | b'\\'));
        let next = near.or_else(|| Some(SHORT + memchr2(b'"', b'\\', rest.get(SHORT..)?)?))?;
        at += next;
        if bytes[at] == b'"' {
            return Some(at);
        }
        // Whatever stands behind a backslash, it ends no text.
        at += 2;
    }
}
