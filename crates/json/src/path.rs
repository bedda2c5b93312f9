//! Access by JSON pointer.

use std::borrow::Cow;

use crate::json::Json;

impl Json {
    /// Returns the value at `path`, which is a JSON pointer such as "/spec/containers/0/name". The empty path refers to
    /// the value itself. In a member name, `~1` represents a slash and `~0` represents a tilde.
    pub fn at(&self, path: &str) -> Option<&Json> {
        steps(path)?.try_fold(self, |value, step| match value {
            Self::Object(members) => members.get(&unescape(step)),
            Self::Array(items) => items.get(index(step)?),
            _ => None,
        })
    }

    /// Returns a mutable reference to the value at `path`.
    pub fn at_mut(&mut self, path: &str) -> Option<&mut Json> {
        steps(path)?.try_fold(self, |value, step| match value {
            Self::Object(members) => members.get_mut(&unescape(step)),
            Self::Array(items) => items.get_mut(index(step)?),
            _ => None,
        })
    }
}

fn steps(path: &str) -> Option<impl Iterator<Item = &str>> {
    // This part must be empty, because a pointer begins with a slash.
    let mut steps = path.split('/');
    steps.next().is_some_and(str::is_empty).then_some(steps)
}

fn unescape(step: &str) -> Cow<'_, str> {
    if step.contains('~') { step.replace("~1", "/").replace("~0", "~").into() } else { step.into() }
}

fn index(step: &str) -> Option<usize> {
    if step.starts_with('+') || (step.starts_with('0') && step.len() > 1) { None } else { step.parse().ok() }
}
