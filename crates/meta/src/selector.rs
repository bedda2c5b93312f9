//! Label and field selectors: parsing, building, matching and printing.
//!
//! Clients and servers use the same parser. The grammar, the messages and the printed form match `k8s.io/apimachinery`
//! (`labels`, `fields` and `LabelSelectorAsSelector`), with three differences:
//!
//! - The printed form is canonical. Two selectors with the same requirements have the same printed form, even if their
//!   texts had a different order. Parsing the printed form returns an equal selector.
//! - [`LabelSelector::nothing`] is printed as text that matches nothing. Kubernetes prints an empty text, which a
//!   server parses as a selector for all objects.
//! - A NUL character in a label selector is an error. In Kubernetes, a NUL ends the text, so all requirements after it
//!   are silently ignored.

use std::fmt::Write;
use thiserror::Error;

mod field;
mod label;
mod names;
mod parse;
mod spec;
#[cfg(test)]
mod tests;

pub use field::{FieldRequirement, FieldSelector};
pub use label::{LabelRequirement, LabelSelector, SelectorOperator};
pub use names::{label_key_faults, label_value_faults};
pub use spec::{LabelSelectorExpression, LabelSelectorSpec};

/// The error for a text that is not a valid label or field selector.
///
/// The message is the same as in a Kubernetes API server.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct InvalidSelector {
    message: Box<str>,
}

impl InvalidSelector {
    fn new(message: impl Into<Box<str>>) -> Self {
        Self { message: message.into() }
    }
}

/// Quotes a text in the form of Go's `%q`.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    // Writing to a `String` cannot fail.
    for c in text.chars() {
        let _ = match c {
            '"' | '\\' => write!(out, "\\{c}"),
            '\x07' => write!(out, "\\a"),
            '\x08' => write!(out, "\\b"),
            '\t' => write!(out, "\\t"),
            '\n' => write!(out, "\\n"),
            '\x0b' => write!(out, "\\v"),
            '\x0c' => write!(out, "\\f"),
            '\r' => write!(out, "\\r"),
            ' '..='~' => write!(out, "{c}"),
            c if c.is_ascii() => write!(out, "\\x{:02x}", u32::from(c)),
            c if is_printed(c) => write!(out, "{c}"),
            '\0'..='\u{ffff}' => write!(out, "\\u{:04x}", u32::from(c)),
            c => write!(out, "\\U{:08x}", u32::from(c)),
        };
    }
    out.push('"');
    out
}

/// Returns whether Go's `%q` prints the character without an escape sequence. Rust and Go escape the same characters,
/// with one exception. Rust also escapes a combining character at the start of a text.
fn is_printed(c: char) -> bool {
    let after_another = ['a', c].iter().collect::<String>();
    after_another.escape_debug().nth(1) != Some('\\')
}
