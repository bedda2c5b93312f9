//! Reads the subset of the protobuf text format that the test data of cel-spec uses.

use std::iter::Peekable;
use std::str::Chars;

/// A protobuf message with its fields in text order. Each value of a repeated field is a separate entry.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Message(pub(super) Vec<(String, Field)>);

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Field {
    Message(Message),
    Text(Vec<u8>),
    /// A number, or a name such as `true`.
    Word(String),
}

impl Message {
    pub(super) fn field(&self, name: &str) -> Option<&Field> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, field)| field)
    }

    pub(super) fn messages<'m>(&'m self, name: &'m str) -> impl Iterator<Item = &'m Message> {
        self.0.iter().filter(move |(known, _)| known == name).filter_map(|(_, field)| match field {
            Field::Message(message) => Some(message),
            _ => None,
        })
    }

    pub(super) fn message<'m>(&'m self, name: &'m str) -> Option<&'m Message> {
        self.messages(name).next()
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        match self.field(name)? {
            Field::Text(bytes) => String::from_utf8(bytes.clone()).ok(),
            Field::Word(word) => Some(word.clone()),
            Field::Message(_) => None,
        }
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.text(name).as_deref() == Some("true")
    }
}

pub(super) fn read(text: &str) -> Result<Message, String> {
    let mut reader = Reader { chars: text.chars().peekable(), line: 1 };
    let message = reader.message(None)?;
    match reader.chars.peek() {
        None => Ok(message),
        Some(c) => Err(format!("line {}: unexpected {c:?}", reader.line)),
    }
}

struct Reader<'a> {
    chars: Peekable<Chars<'a>>,
    line: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Result<char, String> {
        let c = self.chars.next().ok_or("the text ends too early")?;
        self.line += usize::from(c == '\n');
        Ok(c)
    }

    fn skip(&mut self) {
        while let Some(c) = self.chars.peek().copied() {
            match c {
                '#' => while self.chars.next_if(|c| *c != '\n').is_some() {},
                c if c.is_whitespace() || matches!(c, ',' | ';') => {
                    let _ = self.next();
                }
                _ => break,
            }
        }
    }

    fn take_if(&mut self, c: char) -> bool {
        self.skip();
        self.chars.next_if_eq(&c).is_some()
    }

    fn message(&mut self, close: Option<char>) -> Result<Message, String> {
        let mut fields = Vec::new();
        loop {
            self.skip();
            match self.chars.peek() {
                None if close.is_none() => return Ok(Message(fields)),
                Some(c) if Some(*c) == close => {
                    self.next()?;
                    return Ok(Message(fields));
                }
                _ => {}
            }
            let name = self.name()?;
            self.take_if(':');
            if self.take_if('[') {
                while !self.take_if(']') {
                    fields.push((name.clone(), self.value()?));
                }
            } else {
                fields.push((name, self.value()?));
            }
        }
    }

    fn name(&mut self) -> Result<String, String> {
        if !self.take_if('[') {
            return self.word();
        }
        let mut name = String::new();
        loop {
            match self.next()? {
                ']' => return Ok(name),
                c => name.push(c),
            }
        }
    }

    fn word(&mut self) -> Result<String, String> {
        let mut word = String::new();
        while let Some(c) = self.chars.next_if(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '+')) {
            word.push(c);
        }
        if word.is_empty() { Err(format!("line {}: expected a name or a number", self.line)) } else { Ok(word) }
    }

    fn value(&mut self) -> Result<Field, String> {
        self.skip();
        match self.chars.peek() {
            Some('{') => {
                self.next()?;
                self.message(Some('}')).map(Field::Message)
            }
            Some('"' | '\'') => {
                let mut bytes = Vec::new();
                while let Some(quote) = self.chars.next_if(|c| matches!(c, '"' | '\'')) {
                    self.string(quote, &mut bytes)?;
                    self.skip();
                }
                Ok(Field::Text(bytes))
            }
            _ => self.word().map(Field::Word),
        }
    }

    fn string(&mut self, quote: char, bytes: &mut Vec<u8>) -> Result<(), String> {
        loop {
            match self.next()? {
                c if c == quote => return Ok(()),
                '\\' => self.escape(bytes)?,
                c => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), String> {
        let first = self.next()?;
        let (radix, most, mut digits) = match first {
            'a' => return plain(bytes, 7),
            'b' => return plain(bytes, 8),
            'f' => return plain(bytes, 12),
            'n' => return plain(bytes, b'\n'),
            'r' => return plain(bytes, b'\r'),
            't' => return plain(bytes, b'\t'),
            'v' => return plain(bytes, 11),
            '\\' | '\'' | '"' | '?' => return plain(bytes, first as u8),
            'x' | 'X' => (16, 2, String::new()),
            'u' => (16, 4, String::new()),
            'U' => (16, 8, String::new()),
            '0'..='7' => (8, 3, String::from(first)),
            _ => return Err(format!("line {}: unknown escape {first:?}", self.line)),
        };
        while digits.len() < most {
            match self.chars.next_if(|c| c.is_digit(radix)) {
                Some(digit) => digits.push(digit),
                None => break,
            }
        }
        let code = u32::from_str_radix(&digits, radix).map_err(|error| format!("line {}: {error}", self.line))?;
        match (first, u8::try_from(code)) {
            ('u' | 'U', _) => {
                let c = char::from_u32(code).ok_or(format!("line {}: no character", self.line))?;
                bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            (_, Ok(byte)) => bytes.push(byte),
            _ => return Err(format!("line {}: no byte", self.line)),
        }
        Ok(())
    }
}

fn plain(bytes: &mut Vec<u8>, byte: u8) -> Result<(), String> {
    bytes.push(byte);
    Ok(())
}
