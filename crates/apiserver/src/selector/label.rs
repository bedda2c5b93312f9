use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

use super::SelectorError;
use crate::validate::{label_key_faults, label_value_faults};

/// A selector of labels: all requirements must hold. Without any it selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    /// The requirements, by key.
    pub requirements: Vec<Requirement>,
}

/// One requirement of a [`LabelSelector`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The key of the label.
    pub key: String,
    /// How the label is held against the values.
    pub operator: Operator,
    /// One value for the comparisons, any number for the sets, none for existence.
    pub values: BTreeSet<String>,
}

/// How a [`Requirement`] holds a label against its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `=`, `==`
    Equals,
    /// `!=`; holds without the label, too.
    NotEquals,
    /// `in`
    In,
    /// `notin`; holds without the label, too.
    NotIn,
    /// The bare key.
    Exists,
    /// `!` and the key.
    DoesNotExist,
    /// `>` between integers.
    GreaterThan,
    /// `<` between integers.
    LessThan,
}

impl LabelSelector {
    /// Reads a selector as it stands in a query.
    ///
    /// # Errors
    ///
    /// The first fault of syntax, or a key or a value that no label can have.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut requirements = Parser { tokens: tokens(text), at: 0 }.selector().map_err(SelectorError)?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements })
    }

    /// Reads the structured form: `matchLabels` and `matchExpressions`.
    ///
    /// # Errors
    ///
    /// An unknown operator.
    pub fn from_value(selector: &Value) -> Result<Self, SelectorError> {
        let mut requirements = Vec::new();
        for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            let values = [value.as_str().unwrap_or_default().to_owned()].into();
            requirements.push(Requirement { key: key.clone(), operator: Operator::In, values });
        }
        for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let text = |key: &str| expression.get(key).and_then(Value::as_str).unwrap_or_default();
            let operator = match text("operator") {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(SelectorError(format!("{other:?} is not a valid label selector operator"))),
            };
            let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
            let values = values.filter_map(Value::as_str).map(Into::into).collect();
            requirements.push(Requirement { key: text("key").into(), operator, values });
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements })
    }

    /// The selector of exactly these labels, as a Service or a ReplicationController has one.
    pub fn from_map(labels: &Map<String, Value>) -> Self {
        let equals = |(key, value): (&String, &Value)| Requirement {
            key: key.clone(),
            operator: Operator::Equals,
            values: [value.as_str().unwrap_or_default().to_owned()].into(),
        };
        Self { requirements: labels.iter().map(equals).collect() }
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether the labels of an object fulfil it.
    pub fn matches(&self, object: &Value) -> bool {
        self.is_empty() || self.matches_labels(object.pointer("/metadata/labels").and_then(Value::as_object))
    }

    /// Whether these labels fulfil it.
    pub fn matches_labels(&self, labels: Option<&Map<String, Value>>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = labels.and_then(|labels| labels.get(&requirement.key)).and_then(Value::as_str);
            requirement.matches(value)
        })
    }
}

impl Requirement {
    fn matches(&self, label: Option<&str>) -> bool {
        let integers = || {
            let label = label?.parse::<i64>().ok()?;
            Some((label, self.values.first()?.parse::<i64>().ok()?))
        };
        match self.operator {
            Operator::Equals | Operator::In => label.is_some_and(|label| self.values.contains(label)),
            Operator::NotEquals | Operator::NotIn => label.is_none_or(|label| !self.values.contains(label)),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan => integers().is_some_and(|(label, value)| label > value),
            Operator::LessThan => integers().is_some_and(|(label, value)| label < value),
        }
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, requirement) in self.requirements.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = || self.values.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        let key = &self.key;
        match self.operator {
            Operator::Equals => write!(f, "{key}={}", values()),
            Operator::NotEquals => write!(f, "{key}!={}", values()),
            Operator::In => write!(f, "{key} in ({})", values()),
            Operator::NotIn => write!(f, "{key} notin ({})", values()),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{}", values()),
            Operator::LessThan => write!(f, "{key}<{}", values()),
        }
    }
}

const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];
const SYMBOLS: [char; 7] = ['=', '!', '(', ')', ',', '>', '<'];

fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(BLANKS);
    while !rest.is_empty() {
        let length = match rest {
            _ if rest.starts_with("==") || rest.starts_with("!=") => 2,
            _ if rest.starts_with(SYMBOLS) => 1,
            _ => rest.find(|c| SYMBOLS.contains(&c) || BLANKS.contains(&c)).unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after.trim_start_matches(BLANKS);
    }
    tokens
}

fn is_identifier(token: &str) -> bool {
    !token.is_empty() && !token.starts_with(SYMBOLS)
}

/// `in` and `notin` are words only where an operator may stand; the end is the empty token.
struct Parser<'a> {
    tokens: Vec<&'a str>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn selector(mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                "" => return Ok(requirements),
                token if token == "!" || is_identifier(token) => {}
                token => return Err(format!("found '{token}', expected: !, identifier, or 'end of string'")),
            }
            requirements.push(self.requirement().map_err(|why| format!("unable to parse requirement: {why}"))?);
            match self.next() {
                "" => return Ok(requirements),
                "," => {}
                token => return Err(format!("found '{token}', expected: ',' or 'end of string'")),
            }
            let token = self.peek();
            if token != "!" && !is_identifier(token) {
                return Err(format!("found '{token}', expected: identifier after ','"));
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut key = self.next();
        let negated = key == "!";
        if negated {
            key = self.next();
        }
        if !is_identifier(key) {
            return Err(format!("found '{key}', expected: identifier"));
        }
        let faults = label_key_faults(key);
        if !faults.is_empty() {
            return Err(format!("<nil>: Invalid value: {}: {}", Value::from(key), faults.join("; ")));
        }
        if negated {
            return Ok(Requirement { key: key.into(), operator: Operator::DoesNotExist, values: BTreeSet::new() });
        }
        if matches!(self.peek(), "" | ",") {
            return Ok(Requirement { key: key.into(), operator: Operator::Exists, values: BTreeSet::new() });
        }
        let (operator, values) = match self.next() {
            "in" => (Operator::In, self.set()?),
            "notin" => (Operator::NotIn, self.set()?),
            "=" | "==" => (Operator::Equals, self.value()?),
            "!=" => (Operator::NotEquals, self.value()?),
            ">" => (Operator::GreaterThan, self.value()?),
            "<" => (Operator::LessThan, self.value()?),
            token => return Err(format!("found '{token}', expected: in, notin, =, ==, !=, gt, lt")),
        };
        for (at, value) in values.iter().enumerate() {
            if matches!(operator, Operator::GreaterThan | Operator::LessThan) && value.parse::<i64>().is_err() {
                let why = "for 'Gt', 'Lt' operators, the value must be an integer";
                return Err(format!("values[{at}]: Invalid value: {}: {why}", Value::from(value.as_str())));
            }
            let faults = label_value_faults(value);
            if !faults.is_empty() {
                return Err(format!(
                    "values[{at}][{key}]: Invalid value: {}: {}",
                    Value::from(value.as_str()),
                    faults.join("; ")
                ));
            }
        }
        Ok(Requirement { key: key.into(), operator, values })
    }

    fn value(&mut self) -> Result<BTreeSet<String>, String> {
        match self.peek() {
            "" | "," => Ok([String::new()].into()),
            _ => match self.next() {
                token if is_identifier(token) => Ok([token.to_owned()].into()),
                token => Err(format!("found '{token}', expected: identifier")),
            },
        }
    }

    /// What stands in parentheses; an empty place is the empty value.
    fn set(&mut self) -> Result<BTreeSet<String>, String> {
        match self.next() {
            "(" => {}
            token => return Err(format!("found '{token}' expected: '('")),
        }
        let mut values = BTreeSet::new();
        loop {
            let value = if is_identifier(self.peek()) { self.next() } else { "" };
            values.insert(value.to_owned());
            match self.next() {
                "," => {}
                ")" => return Ok(values),
                token => return Err(format!("found '{token}', expected: ',' or ')'")),
            }
        }
    }

    fn peek(&self) -> &'a str {
        self.tokens.get(self.at).copied().unwrap_or_default()
    }

    fn next(&mut self) -> &'a str {
        let token = self.peek();
        self.at += 1;
        token
    }
}
