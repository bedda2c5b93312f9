//! Problems in a decoded request body, and the paths of the fields that have these problems.

use std::fmt::{self, Write};

use super::types::{Field, Struct};

/// A problem in a request body that does not prevent decoding. The request's `fieldValidation` option determines whether the server
/// ignores the problem, warns about it or rejects the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StrictFinding {
    /// The type has no field with this name.
    Unknown(String),
    /// A member occurs more than once in the same object.
    Duplicate(String),
    /// A complete message. The message describes a duplicate key in YAML or a field of a JSON patch.
    Other(String),
}

/// The maximum number of findings that the decoder keeps for one body. Kubernetes has the same limit.
const MAX_FINDINGS: usize = 100;
/// The maximum total length of all findings of one body, in bytes. The limit is needed because a single path can be as long as the body.
const MAX_FINDINGS_LENGTH: usize = 4 << 20;

/// Adds a finding to the list, unless the list already contains this finding, or the number or total length of the findings has reached its
/// limit.
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

/// The path of a value. A `FieldPath` stores its last segment and a reference to the parent's path. The path is converted to text only when
/// a finding contains it.
#[derive(Clone, Copy)]
pub(super) struct FieldPath<'a> {
    pub(super) parent: Option<&'a FieldPath<'a>>,
    pub(super) step: PathStep<'a>,
}

/// A segment of a path. A segment names the member of an object or the item of a list.
#[derive(Clone, Copy)]
pub(super) enum PathStep<'a> {
    /// A field that the type of the struct declares.
    Field(&'a Struct, &'a Field),
    /// Any other member.
    Member(&'a str),
    /// An item of a list.
    Item(usize),
}

impl FieldPath<'_> {
    /// Returns the path with list indexes, such as `spec.containers[0].name`.
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

    /// Returns the path in the form that Go's errors use, such as `PodSpec.spec.containers`. The text starts with the name of the struct
    /// that contains the last field. The names of all fields on the path follow. The text does not contain list indexes and map keys.
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
