//! A place in a YAML text.

/// Where something is. Lines and columns begin with 0; columns and indices count characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) index: usize,
    pub(super) line: usize,
    pub(super) column: usize,
}

/// Why a text is not YAML: libyaml's words, which Go reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct YamlFault {
    problem: String,
    /// The line that Go names; 0 for none.
    line: usize,
}

impl YamlFault {
    /// A fault of the scanner at `at`, in something that began at `context`. As in Go, a fault in the first line has no line, unless what
    /// it is in began later.
    pub(super) fn scanning(problem: impl Into<String>, context: Mark, at: Mark) -> Self {
        let line = if at.line > 0 { at.line + 1 } else { context.line };
        Self { problem: problem.into(), line }
    }

    /// A fault of the parser at a token, in something that began at `context`.
    pub(super) fn parsing(problem: impl Into<String>, context: Mark, at: Mark) -> Self {
        let line = if at.line > 0 { at.line } else { context.line };
        Self { problem: problem.into(), line }
    }

    /// A fault without a place.
    pub(super) fn plain(problem: impl Into<String>) -> Self {
        Self { problem: problem.into(), line: 0 }
    }
}

impl From<YamlFault> for String {
    fn from(fault: YamlFault) -> Self {
        match fault.line {
            0 => fault.problem,
            line => format!("line {line}: {}", fault.problem),
        }
    }
}

/// Reads a text character by character. Behind its end there are zeros.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    mark: Mark,
    /// Where the first character is that YAML does not allow.
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

    /// The byte that comes after so many others.
    pub(super) fn byte(&self, after: usize) -> u8 {
        let at = self.at + after;
        if at < self.end { self.text.as_bytes()[at] } else { 0 }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..self.end).unwrap_or_default()
    }

    /// Whether there is no more text.
    pub(super) fn is_end(&self) -> bool {
        self.at >= self.end
    }

    /// Fails if the text goes on with a character that YAML does not allow.
    pub(super) fn check_end(&self) -> Result<(), YamlFault> {
        match self.is_end() && self.end < self.text.len() {
            true => Err(YamlFault::plain("control characters are not allowed")),
            false => Ok(()),
        }
    }

    /// Whether a line break comes after so many bytes.
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

    /// A letter of anchors, handles and directives.
    pub(super) fn is_word(&self) -> bool {
        let byte = self.byte(0);
        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
    }

    /// Whether the marker of a document's start or end is here.
    pub(super) fn is_document_marker(&self, marker: &str) -> bool {
        self.mark.column == 0 && self.rest().starts_with(marker) && self.is_space_or_end(3)
    }

    pub(super) fn is_byte_order_mark(&self) -> bool {
        self.rest().starts_with('\u{feff}')
    }

    /// Goes on by one character.
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

    /// Moves one character to the end of `to`.
    pub(super) fn read(&mut self, to: &mut String) {
        to.extend(self.rest().chars().next());
        self.skip();
    }

    /// Goes over a line break, if one is here, and returns what it stands for.
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

    /// Goes to the end of the line.
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

    /// Begins a line at the end of the text, unless it has begun.
    pub(super) fn end_line(&mut self) {
        if self.mark.column != 0 {
            self.mark.column = 0;
            self.mark.line += 1;
        }
    }
}
