//! What is told of a body that was read all the same, and where in it that stands.

use std::fmt::{self, Write};

use super::types::{Field, Struct};

/// Something that `fieldValidation` decides on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StrictFinding {
    /// A field that the type does not know.
    Unknown(String),
    /// A member that stands twice.
    Duplicate(String),
    /// The same in YAML or in a JSON patch, in whole words.
    Other(String),
}

/// So much is told of one body, as by Go; and no more bytes than these, since a path may be as long as the body.
const MOST_FINDINGS: usize = 100;
const MOST_FINDINGS_TOLD: usize = 4 << 20;

/// Notes a finding, unless it is known or one too many.
pub fn note(findings: &mut Vec<StrictFinding>, finding: impl FnOnce() -> StrictFinding) {
    let told = |finding: &StrictFinding| match finding {
        StrictFinding::Unknown(text) | StrictFinding::Duplicate(text) | StrictFinding::Other(text) => text.len(),
    };
    if findings.len() < MOST_FINDINGS && findings.iter().map(told).sum::<usize>() < MOST_FINDINGS_TOLD {
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

/// Where in an object a value stands: the last step to it, and where that begins. Text is made of it only if there is something to
/// tell.
#[derive(Clone, Copy)]
pub(super) struct FieldPath<'a> {
    pub(super) above: Option<&'a FieldPath<'a>>,
    pub(super) step: PathStep<'a>,
}

/// From an object or a list to a value in it.
#[derive(Clone, Copy)]
pub(super) enum PathStep<'a> {
    /// To a field of a struct.
    Field(&'a Struct, &'a Field),
    /// To any other member.
    Member(&'a str),
    /// To an item.
    Item(usize),
}

impl FieldPath<'_> {
    /// With the indexes of lists: `spec.containers[0].name`.
    pub(super) fn path(&self) -> String {
        let mut path = String::new();
        self.write(&mut path);
        path
    }

    fn write(&self, path: &mut String) {
        if let Some(above) = self.above {
            above.write(path);
        }
        let name = match self.step {
            PathStep::Field(_, field) => field.name.as_str(),
            PathStep::Member(name) => name,
            PathStep::Item(at) => {
                // Text takes all that is written to it.
                let _ = write!(path, "[{at}]");
                return;
            }
        };
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(name);
    }

    /// The innermost field, as Go has it in errors: `PodSpec.spec.containers` without what is between the fields.
    pub(super) fn field(&self) -> Option<String> {
        let mut names = Vec::new();
        let mut within = None;
        let mut next = Some(self);
        while let Some(place) = next {
            if let PathStep::Field(of, field) = place.step {
                within = within.or(Some(of));
                names.push(field.name.as_str());
            }
            next = place.above;
        }
        names.reverse();
        Some(format!("{}.{}", within?.short_name(), names.join(".")))
    }
}
