//! Splits a YAML text into tokens like libyaml. The scanner implements YAML 1.1, with libyaml's rules for plain scalars
//! in `[…]` and `{…}`.

mod properties;
mod scalars;

use std::collections::{HashMap, VecDeque};

use super::cursor::{Cursor, Mark, YamlError};

/// The maximum length of a key without a `?`, in characters.
const MAX_KEY_LEN: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    StreamEnd,
    Version { major: u8, minor: u8 },
    TagDirective { handle: String, prefix: String },
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(String),
    Anchor(String),
    Tag { handle: String, suffix: String },
    Scalar { text: String, plain: bool },
}

#[derive(Clone, Debug)]
pub(super) struct PlacedToken {
    pub(super) token: Token,
    pub(super) mark: Mark,
}

/// A position at which a key without a `?` may start.
#[derive(Clone, Copy, Debug, Default)]
struct SimpleKey {
    possible: bool,
    required: bool,
    /// The sequence number of the first token of the key.
    token: usize,
    mark: Mark,
}

type Scanned<T> = Result<T, YamlError>;

#[derive(Debug)]
pub(super) struct Scanner<'a> {
    cursor: Cursor<'a>,
    tokens: VecDeque<PlacedToken>,
    taken: usize,
    /// The start column of the current block, or -1 outside of blocks.
    indent: isize,
    indents: Vec<isize>,
    /// The possible key starts. `keys` has one entry for each open flow collection, and one for the text outside of
    /// flow collections.
    keys: Vec<SimpleKey>,
    /// The index in `keys` of each possible key, keyed by the sequence number of its first token.
    keys_by_token: HashMap<usize, usize>,
    key_allowed: bool,
    ended: bool,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            cursor: Cursor::new(text),
            tokens: VecDeque::new(),
            taken: 0,
            indent: -1,
            indents: Vec::new(),
            keys: vec![SimpleKey::default()],
            keys_by_token: HashMap::new(),
            key_allowed: true,
            ended: false,
        }
    }

    pub(super) fn peek(&mut self) -> Scanned<&PlacedToken> {
        while !self.ended && self.needs_more()? {
            self.fetch()?;
        }
        self.tokens.front().ok_or_else(|| YamlError::plain("unexpected end of the text"))
    }

    /// Consumes and returns the next token. At the end of the text, each call returns [`Token::StreamEnd`].
    pub(super) fn take(&mut self) -> Scanned<PlacedToken> {
        if self.peek()?.token == Token::StreamEnd {
            return self.peek().cloned();
        }
        self.taken += 1;
        self.tokens.pop_front().ok_or_else(|| YamlError::plain("unexpected end of the text"))
    }

    /// Returns `true` if the scanner needs more tokens before it can return the first token. A later token can turn the
    /// first token into a key.
    fn needs_more(&mut self) -> Scanned<bool> {
        if self.tokens.is_empty() {
            return Ok(true);
        }
        match self.keys_by_token.get(&self.taken) {
            Some(&level) => self.is_possible(level),
            None => Ok(false),
        }
    }

    /// Returns `true` if the text since the possible start of a key can still be a key. A key must be on a single line,
    /// and must not exceed [`MAX_KEY_LEN`].
    fn is_possible(&mut self, level: usize) -> Scanned<bool> {
        let (key, now) = (self.keys[level], self.cursor.mark());
        if !key.possible {
            return Ok(false);
        }
        if key.mark.line == now.line && key.mark.index + MAX_KEY_LEN >= now.index {
            return Ok(true);
        }
        self.forget_key(level)?;
        Ok(false)
    }

    fn forget_key(&mut self, level: usize) -> Scanned<()> {
        let key = self.keys[level];
        if key.possible && key.required {
            return Err(YamlError::scanning("could not find expected ':'", key.mark, self.cursor.mark()));
        }
        if key.possible {
            self.keys[level].possible = false;
            self.keys_by_token.remove(&key.token);
        }
        Ok(())
    }

    fn level(&self) -> usize {
        self.keys.len() - 1
    }

    fn in_flow(&self) -> bool {
        self.keys.len() > 1
    }

    fn save_key(&mut self) -> Scanned<()> {
        let mark = self.cursor.mark();
        let required = !self.in_flow() && self.indent == mark.column as isize;
        if self.key_allowed {
            let level = self.level();
            self.forget_key(level)?;
            let token = self.taken + self.tokens.len();
            self.keys[level] = SimpleKey { possible: true, required, token, mark };
            self.keys_by_token.insert(token, level);
        }
        Ok(())
    }

    fn push(&mut self, token: Token, mark: Mark) {
        self.tokens.push_back(PlacedToken { token, mark });
    }

    /// Opens a block if `column` is greater than the start column of the current block. Inserts the start token of the
    /// block before the token with the sequence number `before`, or at the end if `before` is `None`.
    fn open_block(&mut self, column: usize, before: Option<usize>, token: Token, mark: Mark) {
        if self.in_flow() || self.indent >= column as isize {
            return;
        }
        self.indents.push(self.indent);
        self.indent = column as isize;
        let at = before.map_or(self.tokens.len(), |number| number - self.taken);
        self.tokens.insert(at, PlacedToken { token, mark });
    }

    fn close_blocks(&mut self, column: isize) {
        let mark = self.cursor.mark();
        while !self.in_flow() && self.indent > column {
            self.push(Token::BlockEnd, mark);
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    /// Skips blanks, line breaks and comments. Does not skip a tab that could be used as indentation.
    fn skip_to_token(&mut self) {
        loop {
            if self.cursor.mark().column == 0 && self.cursor.is_byte_order_mark() {
                self.cursor.skip();
            }
            let tabs = self.in_flow() || !self.key_allowed;
            while self.cursor.byte(0) == b' ' || (tabs && self.cursor.byte(0) == b'\t') {
                self.cursor.skip();
            }
            if self.cursor.byte(0) == b'#' {
                self.cursor.skip_line_rest();
            }
            if self.cursor.read_break().is_empty() {
                return;
            }
            self.key_allowed |= !self.in_flow();
        }
    }

    fn fetch(&mut self) -> Scanned<()> {
        self.skip_to_token();
        self.cursor.check_end()?;
        let mark = self.cursor.mark();
        self.close_blocks(mark.column as isize);
        let (first, spaced) = (self.cursor.byte(0), self.cursor.is_space_or_end(1));
        let flow = self.in_flow();
        match first {
            _ if self.cursor.is_end() => self.fetch_end(),
            b'%' if mark.column == 0 => {
                self.begin_line_token()?;
                let token = self.scan_directive()?;
                self.push(token, mark);
                Ok(())
            }
            _ if self.cursor.is_document_marker("---") => self.fetch_marker(Token::DocumentStart),
            _ if self.cursor.is_document_marker("...") => self.fetch_marker(Token::DocumentEnd),
            b'[' => self.fetch_flow_start(Token::FlowSequenceStart),
            b'{' => self.fetch_flow_start(Token::FlowMappingStart),
            b']' => self.fetch_flow_end(Token::FlowSequenceEnd),
            b'}' => self.fetch_flow_end(Token::FlowMappingEnd),
            b',' => self.fetch_indicator(Token::FlowEntry, true),
            b'-' if spaced => self.fetch_block_entry(),
            b'?' if flow || spaced => self.fetch_key(),
            b':' if flow || spaced => self.fetch_value(),
            b'*' | b'&' | b'!' => {
                self.save_key()?;
                self.key_allowed = false;
                let token = if first == b'!' { self.scan_tag()? } else { self.scan_anchor()? };
                self.push(token, mark);
                Ok(())
            }
            b'|' | b'>' if !flow => {
                let level = self.level();
                self.forget_key(level)?;
                self.key_allowed = true;
                let text = self.scan_block(first == b'|')?;
                self.push(Token::Scalar { text, plain: false }, mark);
                Ok(())
            }
            b'\'' | b'"' => {
                self.save_key()?;
                self.key_allowed = false;
                let text = self.scan_quoted(first)?;
                self.push(Token::Scalar { text, plain: false }, mark);
                Ok(())
            }
            _ if self.begins_plain() => {
                self.save_key()?;
                self.key_allowed = false;
                let text = self.scan_plain()?;
                self.push(Token::Scalar { text, plain: true }, mark);
                Ok(())
            }
            _ => Err(YamlError::scanning("found character that cannot start any token", mark, mark)),
        }
    }

    fn begins_plain(&self) -> bool {
        match self.cursor.byte(0) {
            b'-' => !self.cursor.is_blank(1),
            b'?' | b':' => !self.in_flow() && !self.cursor.is_space_or_end(1),
            byte => !b"\t ,[]{}#&*!|>'\"%@`".contains(&byte) && !self.cursor.is_space_or_end(0),
        }
    }

    fn fetch_end(&mut self) -> Scanned<()> {
        self.cursor.end_line();
        self.begin_line_token()?;
        self.push(Token::StreamEnd, self.cursor.mark());
        self.ended = true;
        Ok(())
    }

    /// Closes all blocks before a token that is not allowed inside a block.
    fn begin_line_token(&mut self) -> Scanned<()> {
        self.close_blocks(-1);
        let level = self.level();
        self.forget_key(level)?;
        self.key_allowed = false;
        Ok(())
    }

    fn fetch_marker(&mut self, token: Token) -> Scanned<()> {
        self.begin_line_token()?;
        self.push(token, self.cursor.mark());
        self.cursor.skip_many(3);
        Ok(())
    }

    fn fetch_flow_start(&mut self, token: Token) -> Scanned<()> {
        self.save_key()?;
        self.keys.push(SimpleKey::default());
        self.key_allowed = true;
        self.push(token, self.cursor.mark());
        self.cursor.skip();
        Ok(())
    }

    fn fetch_flow_end(&mut self, token: Token) -> Scanned<()> {
        let level = self.level();
        self.forget_key(level)?;
        if self.in_flow() {
            self.keys.pop();
        }
        self.key_allowed = false;
        self.push(token, self.cursor.mark());
        self.cursor.skip();
        Ok(())
    }

    /// Adds a one-character token. On the current nesting level, the text before the token can no longer be a key.
    fn fetch_indicator(&mut self, token: Token, key_allowed: bool) -> Scanned<()> {
        let level = self.level();
        self.forget_key(level)?;
        self.key_allowed = key_allowed;
        self.push(token, self.cursor.mark());
        self.cursor.skip();
        Ok(())
    }

    fn fetch_block_entry(&mut self) -> Scanned<()> {
        self.open_here(Token::BlockSequenceStart, "block sequence entries are not allowed in this context")?;
        self.fetch_indicator(Token::BlockEntry, true)
    }

    fn fetch_key(&mut self) -> Scanned<()> {
        self.open_here(Token::BlockMappingStart, "mapping keys are not allowed in this context")?;
        let allowed = !self.in_flow();
        self.fetch_indicator(Token::Key, allowed)
    }

    /// Opens a block at an indicator such as `-` or `?`. Fails if a block is not allowed at the current position.
    fn open_here(&mut self, token: Token, problem: &str) -> Scanned<()> {
        let mark = self.cursor.mark();
        if !self.in_flow() && !self.key_allowed {
            return Err(YamlError::scanning(problem, mark, mark));
        }
        self.open_block(mark.column, None, token, mark);
        Ok(())
    }

    fn fetch_value(&mut self) -> Scanned<()> {
        let level = self.level();
        if self.is_possible(level)? {
            let SimpleKey { token, mark, .. } = self.keys[level];
            self.tokens.insert(token - self.taken, PlacedToken { token: Token::Key, mark });
            self.open_block(mark.column, Some(token), Token::BlockMappingStart, mark);
            self.keys[level].possible = false;
            self.keys_by_token.remove(&token);
            self.key_allowed = false;
        } else {
            self.open_here(Token::BlockMappingStart, "mapping values are not allowed in this context")?;
            self.key_allowed = !self.in_flow();
        }
        self.push(Token::Value, self.cursor.mark());
        self.cursor.skip();
        Ok(())
    }
}
