//! Ranges of keys.

/// A range of keys with a common prefix, from `start` (inclusive) to `end` (exclusive).
#[derive(Clone, Debug, Default)]
pub struct KeyRange {
    prefix: String,
    start: String,
    end: Option<String>,
}

impl KeyRange {
    /// Creates the range of all keys in a namespace, or of all keys of the resource if `namespace` is `None`.
    pub fn namespace(namespace: Option<&str>) -> Self {
        let prefix = namespace.map_or_else(String::new, |namespace| format!("{namespace}/"));
        // In ASCII, `0` follows `/`.
        let end = namespace.map(|namespace| format!("{namespace}0"));
        Self { start: prefix.clone(), prefix, end }
    }

    /// Creates the range that contains only the key of one object. For a cluster-scoped object, `namespace`
    /// must be empty.
    pub fn object(namespace: &str, name: &str) -> Self {
        let range = Self::namespace((!namespace.is_empty()).then_some(namespace));
        let start = format!("{}{name}", range.prefix);
        Self { end: Some(format!("{start}\0")), start, ..range }
    }

    /// Moves the start of the range to `start`, relative to the range's prefix.
    pub fn starting_at(mut self, start: &str) -> Self {
        self.start = format!("{}{start}", self.prefix);
        self
    }

    /// Returns the common prefix of all keys in the range.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the range's inclusive lower bound.
    pub fn start(&self) -> &str {
        &self.start
    }

    /// Moves the start of the range directly after `key`.
    pub fn start_after(&mut self, key: &str) {
        self.start = format!("{key}\0");
    }

    pub(super) fn end(&self) -> Option<&str> {
        self.end.as_deref()
    }
}
