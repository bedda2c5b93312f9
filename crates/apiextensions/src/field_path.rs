//! Paths to values in an object, for error messages.

use std::fmt;

/// The path from an object's root to a value. Because a path can be as long as the object, only error messages convert
/// it to a string.
#[derive(Clone, Copy, Debug)]
pub enum FieldPath<'a> {
    /// The path of the root value, which is empty if the root is a complete API object.
    Start(&'a str),
    Member(&'a FieldPath<'a>, &'a str),
    Item(&'a FieldPath<'a>, usize),
    /// A map value, written as `[key]`.
    Key(&'a FieldPath<'a>, &'a str),
}

impl<'a> FieldPath<'a> {
    pub fn member(&'a self, name: &'a str) -> Self {
        Self::Member(self, name)
    }

    /// Returns the path of the root value.
    pub fn start(self) -> &'a str {
        match self {
            Self::Start(path) => path,
            Self::Member(parent, _) | Self::Item(parent, _) | Self::Key(parent, _) => parent.start(),
        }
    }

    pub fn item(&'a self, index: usize) -> Self {
        Self::Item(self, index)
    }

    /// Returns the path with a dot before each map key, as in the errors about unknown fields.
    pub fn dotted(&self) -> String {
        match self {
            Self::Key(parent, key) => match parent.dotted() {
                parent if parent.is_empty() => (*key).to_owned(),
                parent => format!("{parent}.{key}"),
            },
            Self::Start(path) => (*path).to_owned(),
            Self::Member(parent, name) => Self::Key(parent, name).dotted(),
            Self::Item(parent, index) => format!("{}[{index}]", parent.dotted()),
        }
    }
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(path) => f.write_str(path),
            Self::Member(Self::Start(""), name) => f.write_str(name),
            Self::Member(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
            Self::Key(parent, key) => write!(f, "{parent}[{key}]"),
        }
    }
}

impl From<FieldPath<'_>> for String {
    fn from(at: FieldPath<'_>) -> Self {
        at.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_written_with_dots_and_brackets() {
        let start = FieldPath::Start("");
        let (spec, status) = (start.member("spec"), FieldPath::Start("status"));
        let items = spec.member("items");
        for (at, path) in
            [(start, ""), (spec, "spec"), (items.item(2), "spec.items[2]"), (status.member("a"), "status.a")]
        {
            assert_eq!(String::from(at), path);
        }
    }
}
