//! A cursor that reads a YAML text character by character.

/// A position in a YAML text. Line and column numbers start at 0. Columns and indexes count characters instead of
/// bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) index: usize,
    pub(super) line: usize,
    pub(super) column: usize,
}

/// The error for invalid YAML. The messages are the same as in libyaml and Go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct YamlError {
    problem: String,
    /// The line number in Go's error message, or 0 if the message has no line number.
    line: usize,
}

impl YamlError {
    /// Creates a scanner error at `at`, inside a construct that starts at `context`. As in Go, the error has no line
    /// number if both positions are in the first line.
    pub(super) fn scanning(problem: impl Into<String>, context: Mark, at: Mark) -> Self {
        let line = if at.line > 0 { at.line + 1 } else { context.line };
        Self { problem: problem.into(), line }
    }

    /// Creates a parser error for the token at `at`, inside a construct that starts at `context`.
    pub(super) fn parsing(problem: impl Into<String>, context: Mark, at: Mark) -> Self {
        let line = if at.line > 0 { at.line } else { context.line };
        Self { problem: problem.into(), line }
    }

    pub(super) fn plain(problem: impl Into<String>) -> Self {
        Self { problem: problem.into(), line: 0 }
    }
}

impl From<YamlError> for String {
    fn from(error: YamlError) -> Self {
        match error.line {
            0 => error.problem,
            line => format!("line {line}: {}", error.problem),
        }
    }
}

/// A cursor that reads a text character by character. At the end of the text, the cursor returns zero bytes.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    mark: Mark,
    /// The offset of the first character that is not allowed in YAML, or the length of the text.
    end: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let allowed = |c: char| match c {
            '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' => true,
            c => c >= '\u{10000}',
        };
        let end = text.find(|c| !allowed(c)).unwrap_or(text.len());
        Self { text, at: 0, mark: Mark::default(), end }
    }

    pub(super) fn mark(&self) -> Mark {
        self.mark
    }

    pub(super) fn byte(&self, after: usize) -> u8 {
        let at = self.at + after;
        if at < self.end { self.text.as_bytes()[at] } else { 0 }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..self.end).unwrap_or_default()
    }

    pub(super) fn is_end(&self) -> bool {
        self.at >= self.end
    }

    /// Returns an error if the next character is not allowed in YAML.
    pub(super) fn check_end(&self) -> Result<(), YamlError> {
        if self.is_end() && self.end < self.text.len() {
            Err(YamlError::plain("control characters are not allowed"))
        } else {
            Ok(())
        }
    }

    /// Returns `true` if a line break starts `after` bytes ahead of the cursor.
    pub(super) fn is_break(&self, after: usize) -> bool {
        match self.byte(after) {
            b'\r' | b'\n' => true,
            0xc2 => self.byte(after + 1) == 0x85,
            0xe2 => self.byte(after + 1) == 0x80 && matches!(self.byte(after + 2), 0xa8 | 0xa9),
            _ => false,
        }
    }

    pub(super) fn is_blank(&self, after: usize) -> bool {
        matches!(self.byte(after), b' ' | b'\t')
    }

    pub(super) fn is_break_or_end(&self, after: usize) -> bool {
        self.at + after >= self.end || self.is_break(after)
    }

    pub(super) fn is_space_or_end(&self, after: usize) -> bool {
        self.is_blank(after) || self.is_break_or_end(after)
    }

    /// Returns `true` if anchors, tag handles and directive names may contain the current character.
    pub(super) fn is_word(&self) -> bool {
        let byte = self.byte(0);
        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
    }

    /// Returns `true` at a `---` or `...` marker, which starts or ends a document.
    pub(super) fn is_document_marker(&self, marker: &str) -> bool {
        self.mark.column == 0 && self.rest().starts_with(marker) && self.is_space_or_end(3)
    }

    pub(super) fn is_byte_order_mark(&self) -> bool {
        self.rest().starts_with('\u{feff}')
    }

    pub(super) fn skip(&mut self) {
        if let Some(c) = self.rest().chars().next() {
            self.at += c.len_utf8();
            self.mark.index += 1;
            self.mark.column += 1;
        }
    }

    pub(super) fn skip_many(&mut self, count: usize) {
        (0..count).for_each(|_| self.skip());
    }

    pub(super) fn read(&mut self, to: &mut String) {
        to.extend(self.rest().chars().next());
        self.skip();
    }

    /// Skips a line break and returns it in normalized form. Returns an empty string if there is no line break at the
    /// current position.
    pub(super) fn read_break(&mut self) -> &'static str {
        if !self.is_break(0) {
            return "";
        }
        let width = if self.rest().starts_with("\r\n") { 2 } else { 1 };
        let kept = match self.rest().chars().next() {
            Some('\u{2028}') => "\u{2028}",
            Some('\u{2029}') => "\u{2029}",
            _ => "\n",
        };
        self.skip_many(width);
        self.mark.column = 0;
        self.mark.line += 1;
        kept
    }

    pub(super) fn skip_line_rest(&mut self) {
        while !self.is_break_or_end(0) {
            self.skip();
        }
    }

    pub(super) fn skip_blanks(&mut self) {
        while self.is_blank(0) {
            self.skip();
        }
    }

    /// At the end of the text, ends an incomplete last line: moves the cursor to the start of a new line.
    pub(super) fn end_line(&mut self) {
        if self.mark.column != 0 {
            self.mark.column = 0;
            self.mark.line += 1;
        }
    }
}
