//! Scans anchors, aliases, tags and directives.

use super::{Scanned, Scanner, Token};
use crate::yaml::cursor::Mark;

impl Scanner<'_> {
    pub(super) fn scan_anchor(&mut self) -> Scanned<Token> {
        let start = self.cursor.mark();
        let alias = self.cursor.byte(0) == b'*';
        self.cursor.skip();
        let name = self.scan_word();
        let ends = self.cursor.is_space_or_end(0) || b"?:,]}%@`".contains(&self.cursor.byte(0));
        match !name.is_empty() && ends {
            false => Err(self.error("did not find expected alphabetic or numeric character", start)),
            true if alias => Ok(Token::Alias(name)),
            true => Ok(Token::Anchor(name)),
        }
    }

    fn scan_word(&mut self) -> String {
        let mut word = String::new();
        while self.cursor.is_word() {
            self.cursor.read(&mut word);
        }
        word
    }

    pub(super) fn scan_tag(&mut self) -> Scanned<Token> {
        let start = self.cursor.mark();
        let (mut handle, mut suffix) = (String::new(), String::new());
        if self.cursor.byte(1) == b'<' {
            self.cursor.skip_many(2);
            self.scan_uri(String::new(), false, start).map(|uri| suffix = uri)?;
            if self.cursor.byte(0) != b'>' {
                return Err(self.error("did not find the expected '>'", start));
            }
            self.cursor.skip();
        } else {
            handle = self.scan_handle(false, start)?;
            if handle.len() > 1 && handle.ends_with('!') {
                suffix = self.scan_uri(String::new(), false, start)?;
            } else {
                suffix = self.scan_uri(handle[1..].to_owned(), true, start)?;
                handle = "!".into();
                if suffix.is_empty() {
                    std::mem::swap(&mut handle, &mut suffix);
                }
            }
        }
        if !self.cursor.is_space_or_end(0) {
            return Err(self.error("did not find expected whitespace or line break", start));
        }
        Ok(Token::Tag { handle, suffix })
    }

    /// Scans `!`, `!word` or `!word!`. In a directive, `!word` without a second `!` is an error.
    fn scan_handle(&mut self, directive: bool, start: Mark) -> Scanned<String> {
        if self.cursor.byte(0) != b'!' {
            return Err(self.error("did not find expected '!'", start));
        }
        let mut handle = String::new();
        self.cursor.read(&mut handle);
        handle.push_str(&self.scan_word());
        if self.cursor.byte(0) == b'!' {
            self.cursor.read(&mut handle);
        } else if directive && handle != "!" {
            return Err(self.error("did not find expected '!'", start));
        }
        Ok(handle)
    }

    /// Scans the remaining characters of a tag that starts with `head`. If `has_head` is false, at least one more
    /// character is required.
    fn scan_uri(&mut self, head: String, has_head: bool, start: Mark) -> Scanned<String> {
        let (mut uri, mut found) = (head.into_bytes(), has_head);
        loop {
            match self.cursor.byte(0) {
                b'%' => self.scan_octets(&mut uri, start)?,
                byte if self.cursor.is_word() || b";/?:@&=+$,.!~*'()[]".contains(&byte) => {
                    uri.push(byte);
                    self.cursor.skip();
                }
                _ => break,
            }
            found = true;
        }
        if found {
            Ok(String::from_utf8_lossy(&uri).into_owned())
        } else {
            Err(self.error("did not find expected tag URI", start))
        }
    }

    /// Scans the escaped bytes of a character. Each byte is written as `%` and two hexadecimal digits.
    fn scan_octets(&mut self, to: &mut Vec<u8>, start: Mark) -> Scanned<()> {
        let mut left = None;
        while left != Some(0) {
            let digit = |at: usize| char::from(self.cursor.byte(at)).to_digit(16);
            let (b'%', Some(high), Some(low)) = (self.cursor.byte(0), digit(1), digit(2)) else {
                return Err(self.error("did not find URI escaped octet", start));
            };
            let octet = (high << 4 | low) as u8;
            left = match (left, octet) {
                (None, 0..=0x7f) => Some(0),
                (None, 0xc0..=0xdf) => Some(1),
                (None, 0xe0..=0xef) => Some(2),
                (None, 0xf0..=0xf7) => Some(3),
                (None, _) => return Err(self.error("found an incorrect leading UTF-8 octet", start)),
                (Some(left), 0x80..=0xbf) => Some(left - 1),
                (Some(_), _) => return Err(self.error("found an incorrect trailing UTF-8 octet", start)),
            };
            to.push(octet);
            self.cursor.skip_many(3);
        }
        Ok(())
    }

    pub(super) fn scan_directive(&mut self) -> Scanned<Token> {
        let start = self.cursor.mark();
        self.cursor.skip();
        let name = self.scan_word();
        if name.is_empty() {
            return Err(self.error("could not find expected directive name", start));
        }
        if !self.cursor.is_space_or_end(0) {
            return Err(self.error("found unexpected non-alphabetical character", start));
        }
        self.cursor.skip_blanks();
        let token = match name.as_str() {
            "YAML" => {
                let major = self.scan_version(start)?;
                if self.cursor.byte(0) != b'.' {
                    return Err(self.error("did not find expected digit or '.' character", start));
                }
                self.cursor.skip();
                Token::Version { major, minor: self.scan_version(start)? }
            }
            "TAG" => self.scan_tag_directive(start)?,
            _ => return Err(self.error("found unknown directive name", start)),
        };
        self.cursor.skip_blanks();
        if self.cursor.byte(0) == b'#' {
            self.cursor.skip_line_rest();
        }
        if !self.cursor.is_break_or_end(0) {
            return Err(self.error("did not find expected comment or line break", start));
        }
        self.cursor.read_break();
        Ok(token)
    }

    /// Scans a number with at most two digits.
    fn scan_version(&mut self, start: Mark) -> Scanned<u8> {
        let (mut value, mut length) = (0, 0);
        while let digit @ b'0'..=b'9' = self.cursor.byte(0) {
            length += 1;
            if length > 2 {
                return Err(self.error("found extremely long version number", start));
            }
            value = value * 10 + (digit - b'0');
            self.cursor.skip();
        }
        match length {
            0 => Err(self.error("did not find expected version number", start)),
            _ => Ok(value),
        }
    }

    fn scan_tag_directive(&mut self, start: Mark) -> Scanned<Token> {
        let handle = self.scan_handle(true, start)?;
        if !self.cursor.is_blank(0) {
            return Err(self.error("did not find expected whitespace", start));
        }
        self.cursor.skip_blanks();
        let prefix = self.scan_uri(String::new(), false, start)?;
        if !self.cursor.is_space_or_end(0) {
            return Err(self.error("did not find expected whitespace or line break", start));
        }
        Ok(Token::TagDirective { handle, prefix })
    }
}
