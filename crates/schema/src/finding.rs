//! Problems in a decoded request body, with the paths of the affected fields.

use std::fmt::{self, Write};

use super::types::{Field, Struct};

/// A problem that does not prevent the decoding of a request body. The `fieldValidation` option of the request
/// determines whether the server ignores the problem, sends a warning or rejects the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StrictFinding {
    /// The type has no field with this name.
    Unknown(String),
    /// A member occurs more than once in the same object.
    Duplicate(String),
    /// A YAML map contains a key more than once. The string is the complete message with the line number.
    DuplicateYamlKey(String),
    /// A problem with a field of a JSON patch. The string is the complete message.
    Other(String),
}

/// The maximum number of findings for one body, as in Kubernetes.
const MAX_FINDINGS: usize = 100;
/// The maximum total length of the findings of a body, in bytes. A limit is necessary because a single path can be as
/// long as the body.
const MAX_FINDINGS_LENGTH: usize = 4 << 20;

/// Adds a finding, unless it is a duplicate or the findings have reached their maximum number or total length.
pub fn push_finding(findings: &mut Vec<StrictFinding>, make_finding: impl FnOnce() -> StrictFinding) {
    let length = |finding: &StrictFinding| match finding {
        StrictFinding::Unknown(text)
        | StrictFinding::Duplicate(text)
        | StrictFinding::DuplicateYamlKey(text)
        | StrictFinding::Other(text) => text.len(),
    };
    if findings.len() < MAX_FINDINGS && findings.iter().map(length).sum::<usize>() < MAX_FINDINGS_LENGTH {
        let finding = make_finding();
        if !findings.contains(&finding) {
            findings.push(finding);
        }
    }
}

impl fmt::Display for StrictFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(path) => write!(f, "unknown field {path:?}"),
            Self::Duplicate(path) => write!(f, "duplicate field {path:?}"),
            Self::DuplicateYamlKey(text) | Self::Other(text) => f.write_str(text),
        }
    }
}

/// The path of a value, which consists of the last segment and a reference to the parent path. The path is converted to
/// text only if a finding is reported.
#[derive(Clone, Copy)]
pub(super) struct FieldPath<'a> {
    pub(super) parent: Option<&'a FieldPath<'a>>,
    pub(super) segment: PathSegment<'a>,
}

#[derive(Clone, Copy)]
pub(super) enum PathSegment<'a> {
    Field(&'a Struct, &'a Field),
    /// A member that is not a declared field.
    Member(&'a str),
    Item(usize),
}

impl FieldPath<'_> {
    /// Returns the path with list indices, such as `spec.containers[0].name`.
    pub(super) fn to_text(self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) {
        if let Some(parent) = self.parent {
            parent.write(text);
        }
        let name = match self.segment {
            PathSegment::Field(_, field) => field.name.as_str(),
            PathSegment::Member(name) => name,
            PathSegment::Item(index) => {
                // Ignore the result, because writing to a string cannot fail.
                let _ = write!(text, "[{index}]");
                return;
            }
        };
        if !text.is_empty() {
            text.push('.');
        }
        text.push_str(name);
    }

    /// Returns the path in the format of Go's errors, such as `PodSpec.spec.containers`: the name of the innermost
    /// struct, followed by the names of all fields on the path. The path does not contain list indices and map keys.
    pub(super) fn go_path(&self) -> Option<String> {
        let mut names = Vec::new();
        let mut innermost = None;
        let mut next = Some(self);
        while let Some(path) = next {
            if let PathSegment::Field(struct_type, field) = path.segment {
                innermost = innermost.or(Some(struct_type));
                names.push(field.name.as_str());
            }
            next = path.parent;
        }
        names.reverse();
        Some(format!("{}.{}", innermost?.short_name(), names.join(".")))
    }
}
