//! Formats errors with their positions in the source text.

use std::fmt;
use std::ops::Range;

/// An error in an expression, reported by the parser or the type checker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    message: String,
    /// The offset of the error in code points, or `None` if the error applies to the whole expression.
    at: Option<u32>,
}

impl Issue {
    pub(crate) fn new(at: u32, message: impl Into<String>) -> Self {
        Self { message: message.into(), at: Some(at) }
    }

    pub(crate) fn whole(message: impl Into<String>) -> Self {
        Self { message: message.into(), at: None }
    }

    /// Returns the error message without its position.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the position of the error in code points from the start of the text, or `None` if the error applies to
    /// the whole expression.
    pub fn offset(&self) -> Option<u32> {
        self.at
    }
}

/// The errors of an expression that does not compile.
///
/// `Display` writes the errors in the same format as cel-go. Each error has three lines: the position with the message,
/// the source line, and a caret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    issues: Vec<Issue>,
    text: String,
    constant: bool,
}

/// The errors of the parser or the type checker. Messages can contain long type names, so errors are dropped after four
/// megabytes of messages.
#[derive(Default)]
pub(crate) struct Findings {
    issues: Vec<Issue>,
    bytes: usize,
}

/// The maximum total length of all error messages about an expression, in bytes.
const MAX_BYTES: usize = 4 << 20;

impl Findings {
    pub(crate) fn push(&mut self, issue: Issue) {
        self.bytes = self.bytes.saturating_add(issue.message.len());
        if self.bytes <= MAX_BYTES {
            self.issues.push(issue);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.issues.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.issues.len()
    }

    /// Reports the issues at these indices again.
    pub(crate) fn repeat(&mut self, indices: Range<usize>) {
        for at in indices {
            self.bytes = self.bytes.saturating_add(self.issues[at].message.len());
            if self.bytes > MAX_BYTES {
                return;
            }
            self.issues.push(self.issues[at].clone());
        }
    }

    pub(crate) fn into_error(self, text: &str) -> CompileError {
        CompileError::new(text, self.issues)
    }
}

/// The maximum number of errors that cel-go reports.
const MAX_REPORTED: usize = 100;
/// The maximum length of a source line that cel-go shows below an error.
const MAX_SNIPPET_BYTES: usize = 16_384;

impl CompileError {
    pub(crate) fn new(text: &str, mut issues: Vec<Issue>) -> Self {
        // Use a stable sort to keep the order of errors at the same position.
        issues.sort_by_key(|issue| issue.at.map_or(-1, i64::from));
        Self { issues, text: text.into(), constant: false }
    }

    pub(crate) fn of_constant(text: &str, message: &str) -> Self {
        Self { issues: vec![Issue::whole(message)], text: text.into(), constant: true }
    }

    /// Returns `true` if the compiler failed to evaluate a constant subexpression, such as `int('x')`. kube-apiserver
    /// reports such an error as an instantiation error.
    pub fn is_in_constant(&self) -> bool {
        self.constant
    }

    /// Returns the errors sorted by position.
    pub fn issues(&self) -> &[Issue] {
        &self.issues
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (true, [issue]) = (self.constant, &*self.issues) {
            return f.write_str(&issue.message);
        }
        let lines = Lines::of(&self.text);
        for (count, issue) in self.issues.iter().take(MAX_REPORTED).enumerate() {
            f.write_str(if count == 0 { "" } else { "\n" })?;
            lines.write(issue, f)?;
        }
        match self.issues.len().checked_sub(MAX_REPORTED) {
            None | Some(0) => Ok(()),
            Some(more) => write!(f, "\n{more} more errors were truncated"),
        }
    }
}

impl std::error::Error for CompileError {}

/// The lines of a source text and their offsets in code points.
struct Lines<'a>(Vec<(u32, &'a str)>);

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Self {
        let mut start = 0;
        let lines = text.split('\n').map(|line| {
            let here = (start, line);
            start += count(line) + 1;
            here
        });
        Self(lines.collect())
    }

    fn write(&self, issue: &Issue, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(at) = issue.at else {
            return write!(f, "ERROR: <input>:-1:0: {}", issue.message);
        };
        let number = self.0.partition_point(|(start, _)| *start <= at).max(1);
        let (start, line) = self.0[number - 1];
        if self.0.len() == 1 && line.is_empty() {
            // For an empty expression, cel-go reports the error at column 0.
            return write!(f, "ERROR: <input>:1:0: {}", issue.message);
        }
        let column = at - start;
        write!(f, "ERROR: <input>:{number}:{}: {}", column + 1, issue.message)?;
        if line.len() > MAX_SNIPPET_BYTES {
            return Ok(());
        }
        write!(f, "\n | {}\n | ", line.replace('\t', " "))?;
        let mut chars = line.chars();
        for before in chars.by_ref().take(column as usize) {
            f.write_str(if before.is_ascii() { "." } else { "\u{ff0e}" })?;
        }
        f.write_str(if chars.next().is_none_or(|here| here.is_ascii()) { "^" } else { "\u{ff3e}" })
    }
}

fn count(text: &str) -> u32 {
    u32::try_from(text.chars().count()).unwrap_or(u32::MAX)
}
