//! Scans plain scalars, quoted scalars and block scalars.

use super::{Scanned, Scanner};
use crate::yaml::cursor::{Mark, YamlError};

/// The blanks and line breaks between two parts of a scalar.
#[derive(Default)]
struct Gap {
    blanks: String,
    /// The first line break of the gap, if any.
    first: Option<&'static str>,
    further: String,
}

impl Gap {
    /// Appends the folded line breaks to the scalar, or the blanks if the gap contains no line break.
    fn fold(&mut self, to: &mut String) {
        match self.first.take() {
            None => to.push_str(&self.blanks),
            Some("\n") if self.further.is_empty() => to.push(' '),
            Some("\n") => to.push_str(&self.further),
            Some(first) => {
                to.push_str(first);
                to.push_str(&self.further);
            }
        }
        self.blanks.clear();
        self.further.clear();
    }
}

impl Scanner<'_> {
    /// Reads blanks and line breaks. Calls `allows` for each blank, which can return an error, for example for a tab.
    fn scan_gap(&mut self, gap: &mut Gap, allows: impl Fn(&Self, bool) -> Scanned<()>) -> Scanned<()> {
        while self.cursor.is_blank(0) || self.cursor.is_break(0) {
            if self.cursor.is_blank(0) {
                allows(self, gap.first.is_some())?;
                match gap.first {
                    None => self.cursor.read(&mut gap.blanks),
                    Some(_) => self.cursor.skip(),
                }
                continue;
            }
            let broken = self.cursor.read_break();
            match gap.first {
                None => {
                    gap.blanks.clear();
                    gap.first = Some(broken);
                }
                Some(_) => gap.further.push_str(broken),
            }
        }
        Ok(())
    }

    /// Scans a plain scalar. In a flow collection, the scalar ends at a `?`, or at a `:` that is followed by a blank.
    pub(super) fn scan_plain(&mut self) -> Scanned<String> {
        let (start, indent) = (self.cursor.mark(), self.indent + 1);
        let (mut text, mut gap) = (String::new(), Gap::default());
        let mut broken = false;
        loop {
            let marker = self.cursor.is_document_marker("---") || self.cursor.is_document_marker("...");
            if marker || self.cursor.byte(0) == b'#' {
                break;
            }
            while !self.cursor.is_space_or_end(0) && !self.ends_plain() {
                if broken || !gap.blanks.is_empty() {
                    gap.fold(&mut text);
                    broken = false;
                }
                self.cursor.read(&mut text);
            }
            if !self.cursor.is_blank(0) && !self.cursor.is_break(0) {
                break;
            }
            self.scan_gap(&mut gap, |scanner, broken| {
                let early = broken && (scanner.cursor.mark().column as isize) < indent;
                if early && scanner.cursor.byte(0) == b'\t' {
                    let problem = "found a tab character that violates indentation";
                    Err(YamlError::scanning(problem, start, scanner.cursor.mark()))
                } else {
                    Ok(())
                }
            })?;
            broken = gap.first.is_some();
            if !self.in_flow() && (self.cursor.mark().column as isize) < indent {
                break;
            }
        }
        self.key_allowed |= broken;
        Ok(text)
    }

    fn ends_plain(&self) -> bool {
        let byte = self.cursor.byte(0);
        (byte == b':' && self.cursor.is_space_or_end(1)) || (self.in_flow() && b",?[]{}".contains(&byte))
    }

    pub(super) fn scan_quoted(&mut self, quote: u8) -> Scanned<String> {
        let start = self.cursor.mark();
        let (mut text, mut gap) = (String::new(), Gap::default());
        self.cursor.skip();
        loop {
            if self.cursor.is_document_marker("---") || self.cursor.is_document_marker("...") {
                return Err(self.error("found unexpected document indicator", start));
            }
            if self.cursor.is_end() {
                self.cursor.check_end()?;
                return Err(self.error("found unexpected end of stream", start));
            }
            let escaped_break = self.scan_quoted_part(quote, start, &mut text)?;
            if self.cursor.byte(0) == quote {
                self.cursor.skip();
                return Ok(text);
            }
            if escaped_break {
                // Skip an escaped line break and the blanks at the start of the next line.
                gap.first = Some("");
            }
            self.scan_gap(&mut gap, |_, _| Ok(()))?;
            gap.fold(&mut text);
        }
    }

    /// Reads text up to a blank, a line break or the closing quote. Returns `true` if the text ended at an escaped line
    /// break.
    fn scan_quoted_part(&mut self, quote: u8, start: Mark, text: &mut String) -> Scanned<bool> {
        while !self.cursor.is_space_or_end(0) {
            match self.cursor.byte(0) {
                b'\'' if quote == b'\'' && self.cursor.byte(1) == b'\'' => {
                    text.push('\'');
                    self.cursor.skip_many(2);
                }
                byte if byte == quote => return Ok(false),
                b'\\' if quote == b'"' && self.cursor.is_break(1) => {
                    self.cursor.skip();
                    self.cursor.read_break();
                    return Ok(true);
                }
                b'\\' if quote == b'"' => self.scan_escape(start, text)?,
                _ => self.cursor.read(text),
            }
        }
        Ok(false)
    }

    fn scan_escape(&mut self, start: Mark, text: &mut String) -> Scanned<()> {
        let (c, digits) = match self.cursor.byte(1) {
            b'0' => ('\0', 0),
            b'a' => ('\u{7}', 0),
            b'b' => ('\u{8}', 0),
            b't' | b'\t' => ('\t', 0),
            b'n' => ('\n', 0),
            b'v' => ('\u{b}', 0),
            b'f' => ('\u{c}', 0),
            b'r' => ('\r', 0),
            b'e' => ('\u{1b}', 0),
            byte @ (b' ' | b'"' | b'\'' | b'\\') => (char::from(byte), 0),
            b'N' => ('\u{85}', 0),
            b'_' => ('\u{a0}', 0),
            b'L' => ('\u{2028}', 0),
            b'P' => ('\u{2029}', 0),
            b'x' => ('\0', 2),
            b'u' => ('\0', 4),
            b'U' => ('\0', 8),
            _ => return Err(self.error("found unknown escape character", start)),
        };
        self.cursor.skip_many(2);
        if digits == 0 {
            text.push(c);
            return Ok(());
        }
        let mut value = 0_u32;
        for at in 0..digits {
            let Some(digit) = char::from(self.cursor.byte(at)).to_digit(16) else {
                return Err(self.error("did not find expected hexdecimal number", start));
            };
            value = value << 4 | digit;
        }
        let Some(c) = char::from_u32(value) else {
            return Err(self.error("found invalid Unicode character escape code", start));
        };
        self.cursor.skip_many(digits);
        text.push(c);
        Ok(())
    }

    pub(super) fn error(&self, problem: &str, start: Mark) -> YamlError {
        YamlError::scanning(problem, start, self.cursor.mark())
    }

    pub(super) fn scan_block(&mut self, literal: bool) -> Scanned<String> {
        let start = self.cursor.mark();
        self.cursor.skip();
        let (chomping, increment) = self.scan_block_header(start)?;
        let mut indent = match increment {
            0 => 0,
            increment => self.indent.max(0) + increment,
        };
        let (mut text, mut first, mut further) = (String::new(), "", String::new());
        self.scan_block_breaks(&mut indent, &mut further, start)?;
        let mut was_blank = false;
        while self.cursor.mark().column as isize == indent && !self.cursor.is_end() {
            let is_blank = self.cursor.is_blank(0);
            if !literal && first == "\n" && !was_blank && !is_blank {
                text.push_str(if further.is_empty() { " " } else { "" });
            } else {
                text.push_str(first);
            }
            text.push_str(&further);
            further.clear();
            was_blank = is_blank;
            while !self.cursor.is_break_or_end(0) {
                self.cursor.read(&mut text);
            }
            first = self.cursor.read_break();
            self.scan_block_breaks(&mut indent, &mut further, start)?;
        }
        if chomping != b'-' {
            text.push_str(first);
        }
        if chomping == b'+' {
            text.push_str(&further);
        }
        Ok(text)
    }

    /// Scans the header of a block scalar. Returns the chomping indicator (`+`, `-`, or 0 if absent) and the
    /// indentation indicator (0 if absent).
    fn scan_block_header(&mut self, start: Mark) -> Scanned<(u8, isize)> {
        let (mut chomping, mut increment) = (0, 0);
        for _ in 0..2 {
            match self.cursor.byte(0) {
                byte @ (b'+' | b'-') if chomping == 0 => chomping = byte,
                b'0' if increment == 0 => return Err(self.error("found an indentation indicator equal to 0", start)),
                digit @ b'1'..=b'9' if increment == 0 => increment = isize::from(digit - b'0'),
                _ => break,
            }
            self.cursor.skip();
        }
        self.cursor.skip_blanks();
        if self.cursor.byte(0) == b'#' {
            self.cursor.skip_line_rest();
        }
        if !self.cursor.is_break_or_end(0) {
            return Err(self.error("did not find expected comment or line break", start));
        }
        self.cursor.read_break();
        Ok((chomping, increment))
    }

    /// Reads empty lines and the indentation of the next line. If the block's indentation is unknown, uses the longest
    /// indentation that it has read.
    fn scan_block_breaks(&mut self, indent: &mut isize, breaks: &mut String, start: Mark) -> Scanned<()> {
        let mut furthest = 0;
        loop {
            let inside = |scanner: &Self| *indent == 0 || (scanner.cursor.mark().column as isize) < *indent;
            while inside(self) && self.cursor.byte(0) == b' ' {
                self.cursor.skip();
            }
            furthest = furthest.max(self.cursor.mark().column as isize);
            if inside(self) && self.cursor.byte(0) == b'\t' {
                let problem = "found a tab character where an indentation space is expected";
                return Err(self.error(problem, start));
            }
            match self.cursor.read_break() {
                "" => break,
                broken => breaks.push_str(broken),
            }
        }
        if *indent == 0 {
            *indent = furthest.max(self.indent + 1).max(1);
        }
        Ok(())
    }
}
