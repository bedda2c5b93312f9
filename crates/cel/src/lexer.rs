//! Splits a text into tokens.

use crate::source::Issue;

/// The kind of a token. Syntax errors list the expected tokens in the order of these variants, which is the order of
/// the tokens in the CEL grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Token {
    End,
    Equal,
    NotEqual,
    In,
    Less,
    LessEqual,
    GreaterEqual,
    Greater,
    And,
    Or,
    OpenBracket,
    CloseBracket,
    OpenBrace,
    CloseBrace,
    OpenParen,
    CloseParen,
    Dot,
    Comma,
    Minus,
    Not,
    Question,
    Colon,
    Plus,
    Star,
    Slash,
    Percent,
    True,
    False,
    Null,
    Float,
    Int,
    Uint,
    String,
    Bytes,
    Ident,
    EscapedIdent,
}

impl Token {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::End => "<EOF>",
            Self::Equal => "'=='",
            Self::NotEqual => "'!='",
            Self::In => "'in'",
            Self::Less => "'<'",
            Self::LessEqual => "'<='",
            Self::GreaterEqual => "'>='",
            Self::Greater => "'>'",
            Self::And => "'&&'",
            Self::Or => "'||'",
            Self::OpenBracket => "'['",
            Self::CloseBracket => "']'",
            Self::OpenBrace => "'{'",
            Self::CloseBrace => "'}'",
            Self::OpenParen => "'('",
            Self::CloseParen => "')'",
            Self::Dot => "'.'",
            Self::Comma => "','",
            Self::Minus => "'-'",
            Self::Not => "'!'",
            Self::Question => "'?'",
            Self::Colon => "':'",
            Self::Plus => "'+'",
            Self::Star => "'*'",
            Self::Slash => "'/'",
            Self::Percent => "'%'",
            Self::True => "'true'",
            Self::False => "'false'",
            Self::Null => "'null'",
            Self::Float => "NUM_FLOAT",
            Self::Int => "NUM_INT",
            Self::Uint => "NUM_UINT",
            Self::String => "STRING",
            Self::Bytes => "BYTES",
            Self::Ident => "IDENTIFIER",
            Self::EscapedIdent => "ESC_IDENTIFIER",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Lexeme<'a> {
    pub(crate) token: Token,
    pub(crate) text: &'a str,
    pub(crate) at: u32,
}

/// Returns the tokens of a text, and an error for each invalid token. The last token is `Token::End`.
pub(crate) fn tokens(text: &str) -> (Vec<Lexeme<'_>>, Vec<Issue>) {
    let mut lexer = Lexer { rest: text, at: 0 };
    let (mut found, mut issues) = (Vec::new(), Vec::new());
    while !lexer.rest.is_empty() {
        let at = lexer.at;
        match scan(lexer.rest) {
            Scan::Token(token, length) => found.push(Lexeme { token, text: lexer.take(length), at }),
            Scan::Blank(length) => drop(lexer.take(length)),
            Scan::Failure(length) => {
                let shown = lexer.take(length).replace('\n', "\\n").replace('\t', "\\t").replace('\r', "\\r");
                issues.push(Issue::new(at, format!("Syntax error: token recognition error at: '{shown}'")));
            }
        }
    }
    found.push(Lexeme { token: Token::End, text: "<EOF>", at: lexer.at });
    (found, issues)
}

struct Lexer<'a> {
    rest: &'a str,
    at: u32,
}

impl<'a> Lexer<'a> {
    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        self.at += u32::try_from(taken.chars().count()).unwrap_or(u32::MAX);
        taken
    }
}

/// The result of scanning a token. Each variant contains the scanned length in bytes.
enum Scan {
    Token(Token, usize),
    Blank(usize),
    /// An invalid token, with its length up to and including the first invalid character.
    Failure(usize),
}

fn scan(text: &str) -> Scan {
    let bytes = text.as_bytes();
    match bytes[0] {
        b' ' | b'\t' | b'\r' | b'\n' | 0x0c => {
            Scan::Blank(text.find(|c| !matches!(c, ' ' | '\t' | '\r' | '\n' | '\u{c}')).unwrap_or(text.len()))
        }
        b'/' if bytes.get(1) == Some(&b'/') => Scan::Blank(text.find('\n').unwrap_or(text.len())),
        b'"' | b'\'' => string(text, 0, false, Token::String),
        b'0'..=b'9' => number(bytes),
        b'.' if bytes.get(1).is_some_and(u8::is_ascii_digit) => {
            let fraction = 1 + digits(&bytes[1..]);
            Scan::Token(Token::Float, fraction + exponent(&bytes[fraction..]))
        }
        b'a'..=b'z' | b'A'..=b'Z' | b'_' => word(text),
        b'`' => escaped(text),
        _ => symbol(text),
    }
}

fn symbol(text: &str) -> Scan {
    let two = |token| Scan::Token(token, 2);
    let single_char_token = |token| Scan::Token(token, 1);
    let (first, second) = (text.as_bytes()[0], text.as_bytes().get(1).copied());
    match (first, second) {
        (b'=', Some(b'=')) => two(Token::Equal),
        (b'!', Some(b'=')) => two(Token::NotEqual),
        (b'<', Some(b'=')) => two(Token::LessEqual),
        (b'>', Some(b'=')) => two(Token::GreaterEqual),
        (b'&', Some(b'&')) => two(Token::And),
        (b'|', Some(b'|')) => two(Token::Or),
        (b'=' | b'&' | b'|', _) => failure(text, 1),
        (b'<', _) => single_char_token(Token::Less),
        (b'>', _) => single_char_token(Token::Greater),
        (b'!', _) => single_char_token(Token::Not),
        (b'[', _) => single_char_token(Token::OpenBracket),
        (b']', _) => single_char_token(Token::CloseBracket),
        (b'{', _) => single_char_token(Token::OpenBrace),
        (b'}', _) => single_char_token(Token::CloseBrace),
        (b'(', _) => single_char_token(Token::OpenParen),
        (b')', _) => single_char_token(Token::CloseParen),
        (b'.', _) => single_char_token(Token::Dot),
        (b',', _) => single_char_token(Token::Comma),
        (b'-', _) => single_char_token(Token::Minus),
        (b'?', _) => single_char_token(Token::Question),
        (b':', _) => single_char_token(Token::Colon),
        (b'+', _) => single_char_token(Token::Plus),
        (b'*', _) => single_char_token(Token::Star),
        (b'/', _) => single_char_token(Token::Slash),
        (b'%', _) => single_char_token(Token::Percent),
        _ => failure(text, 0),
    }
}

fn failure(text: &str, index: usize) -> Scan {
    Scan::Failure(index + text[index..].chars().next().map_or(0, char::len_utf8))
}

fn word(text: &str) -> Scan {
    let length = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let quoted = matches!(text.as_bytes().get(length), Some(b'"' | b'\''));
    let token = match &text[..length] {
        "r" | "R" if quoted => return string(text, length, true, Token::String),
        "b" | "B" if quoted => return string(text, length, false, Token::Bytes),
        "br" | "bR" | "Br" | "BR" if quoted => return string(text, length, true, Token::Bytes),
        "true" => Token::True,
        "false" => Token::False,
        "null" => Token::Null,
        "in" => Token::In,
        _ => Token::Ident,
    };
    Scan::Token(token, length)
}

fn escaped(text: &str) -> Scan {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' ');
    let end = 1 + text[1..].find(|c| !inner(c)).unwrap_or(text.len() - 1);
    if text[end..].starts_with('`') && end > 1 { Scan::Token(Token::EscapedIdent, end + 1) } else { failure(text, end) }
}

fn digits(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Returns the length of an exponent including its letter `e`, or 0 if there is no exponent.
fn exponent(bytes: &[u8]) -> usize {
    if !matches!(bytes.first(), Some(b'e' | b'E')) {
        return 0;
    }
    let sign = usize::from(matches!(bytes.get(1), Some(b'+' | b'-')));
    match digits(&bytes[1 + sign..]) {
        0 => 0,
        count => 1 + sign + count,
    }
}

fn number(bytes: &[u8]) -> Scan {
    let suffixed = |length: usize| match bytes.get(length) {
        Some(b'u' | b'U') => Scan::Token(Token::Uint, length + 1),
        _ => Scan::Token(Token::Int, length),
    };
    if bytes.starts_with(b"0x") {
        let hex = bytes[2..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        if hex > 0 {
            return suffixed(2 + hex);
        }
    }
    let whole = digits(bytes);
    let fraction = match bytes.get(whole) {
        Some(b'.') => digits(&bytes[whole + 1..]),
        _ => 0,
    };
    let mantissa = if fraction > 0 { whole + 1 + fraction } else { whole };
    match exponent(&bytes[mantissa..]) {
        0 if fraction == 0 => suffixed(whole),
        exponent => Scan::Token(Token::Float, mantissa + exponent),
    }
}

fn string(text: &str, start: usize, raw: bool, token: Token) -> Scan {
    let bytes = text.as_bytes();
    let quote = bytes[start];
    let triple = bytes[start..].starts_with(&[quote; 3]);
    let mut index = start + if triple { 3 } else { 1 };
    loop {
        match bytes.get(index) {
            None => return ended(text, start, triple, token),
            Some(byte) if *byte == quote && (!triple || bytes[index..].starts_with(&[quote; 3])) => {
                return Scan::Token(token, index + if triple { 3 } else { 1 });
            }
            Some(b'\n' | b'\r') if !triple => return prefix_or(text, start, failure(text, index)),
            Some(b'\\') if !raw => match escape(&bytes[index + 1..]) {
                Ok(length) => index += 1 + length,
                Err(length) => return broken(text, start, triple, index + 1 + length, token),
            },
            Some(_) => index += 1,
        }
    }
}

/// Scans a string literal without a closing quote. If the literal begins with three quotes, the token is an empty
/// string.
fn ended(text: &str, start: usize, triple: bool, token: Token) -> Scan {
    if triple { Scan::Token(token, start + 2) } else { prefix_or(text, start, Scan::Failure(text.len())) }
}

fn broken(text: &str, start: usize, triple: bool, index: usize, token: Token) -> Scan {
    match triple {
        true => Scan::Token(token, start + 2),
        false if index >= text.len() => prefix_or(text, start, Scan::Failure(text.len())),
        false => prefix_or(text, start, failure(text, index)),
    }
}

/// Returns the prefix `r` or `b` of an invalid string literal as an identifier token. If the literal has no prefix,
/// returns `otherwise`.
fn prefix_or(_text: &str, start: usize, otherwise: Scan) -> Scan {
    if start > 0 { Scan::Token(Token::Ident, start) } else { otherwise }
}

/// Returns the length of an escape sequence without its backslash. If the escape sequence is invalid, the error
/// contains the number of valid bytes.
fn escape(bytes: &[u8]) -> Result<usize, usize> {
    let hex = |count: usize| {
        let valid = bytes[1..].iter().take(count).take_while(|byte| byte.is_ascii_hexdigit()).count();
        if valid == count { Ok(1 + count) } else { Err(1 + valid) }
    };
    match bytes.first() {
        Some(b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'"' | b'\'' | b'\\' | b'?' | b'`') => Ok(1),
        Some(b'x' | b'X') => hex(2),
        Some(b'u') => hex(4),
        Some(b'U') => hex(8),
        Some(b'0'..=b'3') => {
            let valid = bytes[1..].iter().take(2).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
            if valid == 2 { Ok(3) } else { Err(1 + valid) }
        }
        _ => Err(0),
    }
}
