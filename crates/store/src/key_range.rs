//! Which objects of a resource are meant.

/// A run of keys: those that begin with `prefix`, from `start` on and before `end`.
#[derive(Clone, Debug, Default)]
pub struct KeyRange {
    prefix: String,
    start: String,
    end: Option<String>,
}

impl KeyRange {
    /// All keys of a namespace; of the whole resource, if there is none.
    pub fn namespace(namespace: Option<&str>) -> Self {
        let prefix = namespace.map_or_else(String::new, |namespace| format!("{namespace}/"));
        // What follows a slash.
        let end = namespace.map(|namespace| format!("{namespace}0"));
        Self { start: prefix.clone(), prefix, end }
    }

    /// The key of one object; `namespace` is empty in cluster scope.
    pub fn object(namespace: &str, name: &str) -> Self {
        let range = Self::namespace((!namespace.is_empty()).then_some(namespace));
        let start = format!("{}{name}", range.prefix);
        Self { end: Some(format!("{start}\0")), start, ..range }
    }

    /// The same keys, but none below `start`, which is relative to the prefix.
    pub fn starting_at(mut self, start: &str) -> Self {
        self.start = format!("{}{start}", self.prefix);
        self
    }

    /// That with which all of them begin.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The first key that there may be.
    pub fn start(&self) -> &str {
        &self.start
    }

    /// Leaves out the keys up to that one.
    pub fn start_after(&mut self, key: &str) {
        self.start = format!("{key}\0");
    }

    /// The first key behind all of them; none if they go on to the last.
    pub(super) fn end(&self) -> Option<&str> {
        self.end.as_deref()
    }
}
