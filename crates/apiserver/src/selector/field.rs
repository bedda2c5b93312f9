use std::fmt;

use serde_json::Value;

use super::SelectorError;
use crate::kinds::Kind;

/// A selector of fields: all terms must hold. Without any it selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    /// The terms.
    pub terms: Vec<FieldTerm>,
}

/// One term of a [`FieldSelector`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTerm {
    /// The label of the field, such as `metadata.name`.
    pub label: String,
    /// What the field is held against.
    pub value: String,
    /// Whether they have to be equal, or to differ.
    pub equal: bool,
}

impl FieldSelector {
    /// Reads a selector as it stands in a query. Nothing is trimmed; empty parts are skipped.
    ///
    /// # Errors
    ///
    /// A part without an operator, or a value with a wrong escape.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut terms = Vec::new();
        for part in split(text).into_iter().filter(|part| !part.is_empty()) {
            let Some((label, equal, value)) = term(part) else {
                return Err(SelectorError(format!("invalid selector: '{text}'; can't understand '{part}'")));
            };
            let value = unescape(value).map_err(|why| SelectorError(format!("invalid field selector: {why}")))?;
            if !(label.is_empty() && value.is_empty()) {
                terms.push(FieldTerm { label: label.into(), value, equal });
            }
        }
        Ok(Self { terms })
    }

    /// The selector with the labels as the kind spells them.
    ///
    /// # Errors
    ///
    /// The alphabetically first label that the kind does not have.
    pub fn for_kind(mut self, kind: &Kind) -> Result<Self, SelectorError> {
        let labels = kind.strategy.field_labels();
        for term in &mut self.terms {
            if labels.is_some() && kind.kind == "Pod" && term.label == "spec.host" {
                term.label = "spec.nodeName".into();
            }
        }
        let known = |label: &str| match label {
            "metadata.name" => true,
            "metadata.namespace" => labels.is_none() || kind.namespaced(),
            label => labels.as_ref().is_some_and(|labels| labels.contains(&label)),
        };
        let unknown = self.terms.iter().map(|term| term.label.as_str()).filter(|label| !known(label)).min();
        let Some(label) = unknown else { return Ok(self) };
        Err(SelectorError(match (&labels, kind.kind.as_str()) {
            (Some(_), "Job") => format!("field label \"{label}\" not supported for Job"),
            (Some(_), "ResourceSlice") => format!("field label not supported for {}: {label}", kind.gvk()),
            (Some(_), _) => format!("field label not supported: {label}"),
            (None, _) => {
                format!("\"{label}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
            }
        }))
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether an object of the kind, in its served form, fulfils it.
    pub fn matches(&self, kind: &Kind, object: &Value) -> bool {
        self.terms.iter().all(|term| (value(kind, object, &term.label) == term.value) == term.equal)
    }

    /// The one name that it asks for with `=`, if it does.
    pub fn name(&self) -> Option<&str> {
        self.exact("metadata.name")
    }

    /// The one namespace that it asks for with `=`, if it does.
    pub fn namespace(&self) -> Option<&str> {
        self.exact("metadata.namespace")
    }

    fn exact(&self, label: &str) -> Option<&str> {
        self.terms.iter().find(|term| term.equal && term.label == label).map(|term| term.value.as_str())
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, term) in self.terms.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let operator = if term.equal { "=" } else { "!=" };
            write!(f, "{comma}{}{operator}{}", term.label, escape(&term.value))?;
        }
        Ok(())
    }
}

fn value(kind: &Kind, object: &Value, label: &str) -> String {
    let metadata = |key: &str| object.pointer(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    match label {
        "metadata.name" => metadata("/metadata/name"),
        "metadata.namespace" => metadata("/metadata/namespace"),
        label => kind.strategy.field(object, label).unwrap_or_default(),
    }
}

/// Splits at commas that are not escaped.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// The label, whether equal, and the escaped value, split at the first operator.
fn term(part: &str) -> Option<(&str, bool, &str)> {
    part.char_indices().find_map(|(at, _)| {
        let (label, rest) = part.split_at(at);
        let operators = [("!=", false), ("==", true), ("=", true)];
        operators.iter().find_map(|(operator, equal)| Some((label, *equal, rest.strip_prefix(operator)?)))
    })
}

fn unescape(value: &str) -> Result<String, String> {
    let mut text = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => text.push(escaped),
                Some(other) => return Err(format!("invalid escape sequence: \\{other}")),
                None => return Err("invalid escape sequence: \\".into()),
            },
            ',' | '=' => return Err(format!("unescaped character in value: {}", c as u32)),
            c => text.push(c),
        }
    }
    Ok(text)
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=")
}
