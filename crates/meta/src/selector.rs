//! Label and field selectors.
//!
//! Clients and servers share this implementation. The grammar, the error messages and the string form of selectors
//! match `k8s.io/apimachinery` (`labels`, `fields` and `LabelSelectorAsSelector`), except for three differences:
//!
//! - Selectors with the same requirements have the same string form, even if the requirements were added in different
//!   orders. Parsing the string form returns an equal selector.
//! - The string form of [`LabelSelector::nothing`] matches no objects. In Kubernetes, a selector that matches no
//!   objects is formatted as an empty string, which a server parses as a selector for all objects.
//! - A NUL character in a label selector is rejected. Kubernetes stops parsing at a NUL character, and silently ignores
//!   all requirements after it.

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
pub use names::{is_dns_label, is_dns_part, is_dns_subdomain, label_key_faults, label_value_faults};
pub use spec::{LabelSelectorExpression, LabelSelectorSpec};

/// The error when a label or field selector is invalid, with kube-apiserver's message.
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

/// Quotes a string like Go's `%q`.
pub fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    // Ignore the results, because writing to a `String` cannot fail.
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

/// Returns `true` if Go's `%q` prints `c` without an escape sequence. Rust's `escape_debug` escapes the same characters
/// as `%q`, and in addition a combining character at the start of a string.
fn is_printed(c: char) -> bool {
    let after_another = ['a', c].iter().collect::<String>();
    after_another.escape_debug().nth(1) != Some('\\')
}
