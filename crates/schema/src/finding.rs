//! Problems in a decoded request body, with the paths of the affected fields.

use std::fmt::{self, Write};

use super::types::{Field, Struct};

/// A problem that does not prevent decoding a request body. The request's `fieldValidation` option
/// determines whether the server ignores the problem, warns about it or rejects the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StrictFinding {
    /// The type has no field with this name.
    Unknown(String),
    /// A member occurs more than once in the same object.
    Duplicate(String),
    /// A complete message, about a duplicate YAML key or a field of a JSON patch.
    Other(String),
}

/// The maximum number of findings for one body. Kubernetes has the same limit.
const MAX_FINDINGS: usize = 100;
/// The maximum total length of a body's findings, in bytes. A limit is needed because a single path can be as long as the body.
const MAX_FINDINGS_LENGTH: usize = 4 << 20;

/// Adds a finding. Does nothing if the finding is a duplicate, or if the number or the total length of the findings has reached its limit.
pub fn note(findings: &mut Vec<StrictFinding>, finding: impl FnOnce() -> StrictFinding) {
    let length = |finding: &StrictFinding| match finding {
        StrictFinding::Unknown(text) | StrictFinding::Duplicate(text) | StrictFinding::Other(text) => text.len(),
    };
    if findings.len() < MAX_FINDINGS && findings.iter().map(length).sum::<usize>() < MAX_FINDINGS_LENGTH {
        let finding = finding();
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
            Self::Other(text) => f.write_str(text),
        }
    }
}

/// The path of a value: its last segment and a reference to the parent's path. The path is converted to text only for a finding.
#[derive(Clone, Copy)]
pub(super) struct FieldPath<'a> {
    pub(super) parent: Option<&'a FieldPath<'a>>,
    pub(super) step: PathStep<'a>,
}

#[derive(Clone, Copy)]
pub(super) enum PathStep<'a> {
    /// A field that the struct's type declares.
    Field(&'a Struct, &'a Field),
    /// Any other member.
    Member(&'a str),
    /// An item of a list.
    Item(usize),
}

impl FieldPath<'_> {
    /// Returns the path with list indices, such as `spec.containers[0].name`.
    pub(super) fn path(&self) -> String {
        let mut path = String::new();
        self.write(&mut path);
        path
    }

    fn write(&self, path: &mut String) {
        if let Some(parent) = self.parent {
            parent.write(path);
        }
        let name = match self.step {
            PathStep::Field(_, field) => field.name.as_str(),
            PathStep::Member(name) => name,
            PathStep::Item(at) => {
                // Writing to a string cannot fail.
                let _ = write!(path, "[{at}]");
                return;
            }
        };
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(name);
    }

    /// Returns the path as in Go's errors, such as `PodSpec.spec.containers`. The text is the name of the struct that
    /// contains the last field, followed by the names of all fields on the path. List indices and map keys are omitted.
    pub(super) fn field(&self) -> Option<String> {
        let mut names = Vec::new();
        let mut innermost = None;
        let mut next = Some(self);
        while let Some(place) = next {
            if let PathStep::Field(of, field) = place.step {
                innermost = innermost.or(Some(of));
                names.push(field.name.as_str());
            }
            next = place.parent;
        }
        names.reverse();
        Some(format!("{}.{}", innermost?.short_name(), names.join(".")))
    }
}
