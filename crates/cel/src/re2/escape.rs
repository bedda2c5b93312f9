//! Translates escape sequences.

use super::{Piece, Scanner};

/// Returns the characters of a class such as `\d`, `\s` or `\w`, without brackets. In RE2, these classes contain
/// only ASCII characters.
pub(super) fn perl_class(name: char) -> Option<&'static str> {
    match name {
        'd' | 'D' => Some("0-9"),
        's' | 'S' => Some(r"\t\n\f\r "),
        'w' | 'W' => Some("0-9A-Za-z_"),
        _ => None,
    }
}

impl Scanner<'_> {
    pub(super) fn escape(&mut self, before: Piece) -> Result<Piece, String> {
        let start = self.at;
        let name = self.rest()[1..].chars().next();
        match name {
            Some('A' | 'z') => self.copy_to(start + 2),
            Some('b' | 'B') => {
                self.at += 2;
                let escape = self.since(start);
                self.out.push_str(&format!("(?-u:{escape})"));
            }
            Some('Q') => {
                self.at += 2;
                let rest = self.rest();
                let (quoted, length) =
                    rest.split_once("\\E").map_or((rest, rest.len()), |(quoted, _)| (quoted, quoted.len() + 2));
                quoted.chars().for_each(|c| self.literal(c));
                self.at += length;
                return Ok(if quoted.is_empty() { before.behind_nothing() } else { Piece::Operand });
            }
            Some('p' | 'P') => self.unicode_class()?,
            Some(name) if let Some(class) = perl_class(name) => {
                self.at += 2;
                let negated = if name.is_ascii_uppercase() { "^" } else { "" };
                self.out.push_str(&format!("[{negated}{class}]"));
            }
            _ => {
                let code = self.escaped_char()?;
                self.code_point(code);
            }
        }
        Ok(Piece::Operand)
    }

    pub(super) fn escaped_char(&mut self) -> Result<u32, String> {
        let start = self.at;
        self.bump();
        let Some(c) = self.bump() else {
            return Err("trailing backslash at end of expression: ``".into());
        };
        let code = match c {
            '1'..='7' if !self.rest().starts_with(|c: char| ('0'..='7').contains(&c)) => None,
            '0'..='7' => Some(self.octal(c)),
            'x' => self.hexadecimal(),
            'a' => Some(7),
            'f' => Some(12),
            'n' => Some(10),
            'r' => Some(13),
            't' => Some(9),
            'v' => Some(11),
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(u32::from(c)),
            _ => None,
        };
        let code = code.filter(|code| *code <= u32::from(char::MAX));
        code.ok_or_else(|| format!("invalid escape sequence: `{}`", self.since(start)))
    }

    /// Reads up to two more octal digits after the digit `first`.
    fn octal(&mut self, first: char) -> u32 {
        let mut code = first.to_digit(8).unwrap_or(0);
        for _ in 0..2 {
            let Some(digit) = self.peek().and_then(|c| c.to_digit(8)) else { break };
            code = code * 8 + digit;
            self.bump();
        }
        code
    }

    /// Reads two hexadecimal digits, or any number of hexadecimal digits in braces.
    fn hexadecimal(&mut self) -> Option<u32> {
        let first = self.bump()?;
        if first != '{' {
            let high = first.to_digit(16);
            let low = self.bump()?.to_digit(16)?;
            return Some(high? * 16 + low);
        }
        let mut code = None;
        loop {
            match self.bump()? {
                '}' => return code,
                digit => {
                    let value = code.unwrap_or(0) * 16 + digit.to_digit(16)?;
                    code = Some(value);
                    if value > u32::from(char::MAX) {
                        return None;
                    }
                }
            }
        }
    }
}
