//! Label and field selectors: read from text or from an object's `selector`, held against labels and fields, and printed.
//!
//! Client and server read them with this one parser. The grammar, the messages and the printed form are those of
//! `k8s.io/apimachinery` (`labels`, `fields` and `LabelSelectorAsSelector`), but for three things:
//!
//! - The printed form is canonical: selectors that require the same print the same, whatever the order they were written in,
//!   and what is printed reads back as the same selector.
//! - [`LabelSelector::nothing`] prints as text that selects nothing. There it prints as the empty text, which a server takes
//!   for everything.
//! - A NUL in a label selector is refused. There it ends the text, so that the requirements behind it are dropped without a word.

use std::fmt::{self, Write};

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

/// A label or field selector that is none.
///
/// Its message is the one that a Kubernetes API server answers to the same selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSelector {
    message: Box<str>,
}

impl InvalidSelector {
    fn new(message: impl Into<Box<str>>) -> Self {
        Self { message: message.into() }
    }
}

impl fmt::Display for InvalidSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for InvalidSelector {}

/// A text as Go's `%q` writes it.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    // Writing into a String cannot fail.
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

/// Rust's tables say it as well as Go's; but alone, or at the beginning, Rust escapes a combining character too.
fn is_printed(c: char) -> bool {
    let after_another = ['a', c].iter().collect::<String>();
    after_another.escape_debug().nth(1) != Some('\\')
}
