//! The parser for label selectors, which reads the text once from left to right.

use std::str::FromStr;

use super::label::{LabelRequirement, LabelSelector, SelectorOperator};
use super::names::label_key_faults;
use super::{InvalidSelector, quoted};

impl FromStr for LabelSelector {
    type Err = InvalidSelector;

    /// Parses a selector. Parsing `n` bytes takes O(n log n) time and O(n) memory. The parser is not recursive.
    ///
    /// # Errors
    ///
    /// Returns an error if the syntax is invalid, or if a label key or label value is invalid. The error describes the
    /// first problem in the text, with the same message as kube-apiserver.
    fn from_str(text: &str) -> Result<Self, InvalidSelector> {
        let mut parser = Parser { rest: text.trim_start_matches(BLANKS) };
        let requirements = parser.selector().map_err(InvalidSelector::new)?;
        Ok(requirements.into_iter().collect())
    }
}

const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];
const SYMBOLS: [char; 7] = ['=', '!', '(', ')', ',', '>', '<'];

/// The parser state. `in` and `notin` are keywords only where an operator is allowed. An empty token represents the end
/// of the text.
struct Parser<'a> {
    /// The remaining text, without leading whitespace.
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn selector(&mut self) -> Result<Vec<LabelRequirement>, String> {
        let mut requirements = Vec::new();
        match self.peek() {
            "" => return Ok(requirements),
            token if begins_requirement(token) => {}
            token => return Err(format!("found '{token}', expected: !, identifier, or 'end of string'")),
        }
        loop {
            requirements.push(self.requirement().map_err(|why| format!("unable to parse requirement: {why}"))?);
            match self.next() {
                "" => return Ok(requirements),
                "," => {}
                token => return Err(format!("found '{token}', expected: ',' or 'end of string'")),
            }
            let token = self.peek();
            if !begins_requirement(token) {
                return Err(format!("found '{token}', expected: identifier after ','"));
            }
        }
    }

    fn requirement(&mut self) -> Result<LabelRequirement, String> {
        let is_negated = self.peek() == "!";
        if is_negated {
            self.next();
        }
        let key = self.next();
        if !is_identifier(key) {
            return Err(format!("found '{key}', expected: identifier"));
        }
        let faults = label_key_faults(key);
        if !faults.is_empty() {
            // Kubernetes prefixes this message with a field path, which is `<nil>` for label selectors.
            return Err(format!("<nil>: Invalid value: {}: {}", quoted(key), faults.join("; ")));
        }
        let (operator, values) = match self.peek() {
            _ if is_negated => (SelectorOperator::DoesNotExist, Vec::new()),
            "" | "," => (SelectorOperator::Exists, Vec::new()),
            _ => match self.next() {
                "in" => (SelectorOperator::In, self.set()?),
                "notin" => (SelectorOperator::NotIn, self.set()?),
                "=" | "==" => (SelectorOperator::Equals, self.value()?),
                "!=" => (SelectorOperator::NotEquals, self.value()?),
                ">" => (SelectorOperator::GreaterThan, self.value()?),
                "<" => (SelectorOperator::LessThan, self.value()?),
                token => return Err(format!("found '{token}', expected: in, notin, =, ==, !=, gt, lt")),
            },
        };
        LabelRequirement::new(key, operator, values).map_err(|error| error.to_string())
    }

    fn value(&mut self) -> Result<Vec<&'a str>, String> {
        match self.peek() {
            "" | "," => Ok(vec![""]),
            _ => match self.next() {
                token if is_identifier(token) => Ok(vec![token]),
                token => Err(format!("found '{token}', expected: identifier")),
            },
        }
    }

    /// Parses the values in parentheses, and returns them sorted and without duplicates. An empty item means the empty
    /// string.
    fn set(&mut self) -> Result<Vec<&'a str>, String> {
        match self.next() {
            "(" => {}
            token => return Err(format!("found '{token}' expected: '('")),
        }
        let mut values = Vec::new();
        loop {
            let (value, others) = match self.peek() {
                token if is_identifier(token) => (self.next(), "',' or ')'"),
                _ if values.is_empty() => ("", "',', ')' or identifier"),
                _ => ("", "',', or identifier"),
            };
            values.push(value);
            match self.next() {
                "," => {}
                ")" => break,
                token => return Err(format!("found '{token}', expected: {others}")),
            }
        }
        values.sort_unstable();
        values.dedup();
        Ok(values)
    }

    fn peek(&self) -> &'a str {
        let symbol = match self.rest.as_bytes() {
            [b'=' | b'!', b'=', ..] => 2,
            _ => usize::from(self.rest.starts_with(SYMBOLS)),
        };
        let length = match symbol {
            0 => self.rest.find(|c| SYMBOLS.contains(&c) || BLANKS.contains(&c)).unwrap_or(self.rest.len()),
            symbol => symbol,
        };
        &self.rest[..length]
    }

    fn next(&mut self) -> &'a str {
        let token = self.peek();
        self.rest = self.rest[token.len()..].trim_start_matches(BLANKS);
        token
    }
}

fn begins_requirement(token: &str) -> bool {
    token == "!" || is_identifier(token)
}

fn is_identifier(token: &str) -> bool {
    !token.is_empty() && !token.starts_with(SYMBOLS)
}
