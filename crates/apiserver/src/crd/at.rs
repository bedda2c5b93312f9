//! Where in an object a value stands.

use std::fmt;

/// Where in an object a value stands. It is written out only where something is told of it: paths may be as long as the object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum At<'a> {
    /// What was begun with; empty for a whole object.
    Start(&'a str),
    Member(&'a At<'a>, &'a str),
    Item(&'a At<'a>, usize),
    /// A value of a map, where it is told as one.
    Key(&'a At<'a>, &'a str),
}

impl<'a> At<'a> {
    pub(crate) fn member(&'a self, name: &'a str) -> Self {
        Self::Member(self, name)
    }

    /// What the path begins with.
    pub(crate) fn start(self) -> &'a str {
        match self {
            Self::Start(path) => path,
            Self::Member(of, _) | Self::Item(of, _) | Self::Key(of, _) => of.start(),
        }
    }

    pub(crate) fn item(&'a self, at: usize) -> Self {
        Self::Item(self, at)
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(path) => f.write_str(path),
            Self::Member(Self::Start(""), name) => f.write_str(name),
            Self::Member(of, name) => write!(f, "{of}.{name}"),
            Self::Item(of, at) => write!(f, "{of}[{at}]"),
            Self::Key(of, key) => write!(f, "{of}[{key}]"),
        }
    }
}

impl From<At<'_>> for String {
    fn from(at: At<'_>) -> Self {
        at.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_told_in_dots_and_brackets() {
        let start = At::Start("");
        let (spec, status) = (start.member("spec"), At::Start("status"));
        let items = spec.member("items");
        for (at, path) in
            [(start, ""), (spec, "spec"), (items.item(2), "spec.items[2]"), (status.member("a"), "status.a")]
        {
            assert_eq!(String::from(at), path);
        }
    }
}
