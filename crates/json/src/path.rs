//! Finding values by JSON pointers.

use std::borrow::Cow;

use crate::Json;

impl Json {
    /// The value at a path, which is a JSON pointer: "/spec/containers/0/name"; "" is the value itself. In a name, `~1` is a slash and
    /// `~0` a tilde.
    pub fn at(&self, path: &str) -> Option<&Json> {
        steps(path)?.try_fold(self, |value, step| match value {
            Self::Object(members) => members.get(&plain(step)),
            Self::Array(items) => items.get(index(step)?),
            _ => None,
        })
    }

    /// The value at a path, to be changed.
    pub fn at_mut(&mut self, path: &str) -> Option<&mut Json> {
        steps(path)?.try_fold(self, |value, step| match value {
            Self::Object(members) => members.get_mut(&plain(step)),
            Self::Array(items) => items.get_mut(index(step)?),
            _ => None,
        })
    }
}

fn steps(path: &str) -> Option<impl Iterator<Item = &str>> {
    // What comes before the first slash is no step, and has to be empty.
    let mut steps = path.split('/');
    steps.next().is_some_and(str::is_empty).then_some(steps)
}

fn plain(step: &str) -> Cow<'_, str> {
    match step.contains('~') {
        true => step.replace("~1", "/").replace("~0", "~").into(),
        false => step.into(),
    }
}

fn index(step: &str) -> Option<usize> {
    match step.starts_with('+') || (step.starts_with('0') && step.len() > 1) {
        true => None,
        false => step.parse().ok(),
    }
}
