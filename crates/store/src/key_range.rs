//! Ranges of keys.

/// A range of keys. The keys have a common prefix. `start` is inclusive and `end` is exclusive.
#[derive(Clone, Debug, Default)]
pub struct KeyRange {
    prefix: String,
    start: String,
    end: Option<String>,
}

impl KeyRange {
    /// Creates the range of all keys in a namespace. If `namespace` is `None`, the range contains all keys of the
    /// resource.
    pub fn namespace(namespace: Option<&str>) -> Self {
        let prefix = namespace.map_or_else(String::new, |namespace| format!("{namespace}/"));
        // In ASCII, `0` is the character after `/`.
        let end = namespace.map(|namespace| format!("{namespace}0"));
        Self { start: prefix.clone(), prefix, end }
    }

    /// Creates the range that contains the key of a single object. `namespace` must be empty for a cluster-scoped
    /// object.
    pub fn object(namespace: &str, name: &str) -> Self {
        let range = Self::namespace((!namespace.is_empty()).then_some(namespace));
        let start = format!("{}{name}", range.prefix);
        Self { end: Some(format!("{start}\0")), start, ..range }
    }

    /// Moves the start of the range to a key. This key is the prefix of the range, followed by `start`.
    pub fn starting_at(mut self, start: &str) -> Self {
        self.start = format!("{}{start}", self.prefix);
        self
    }

    /// Returns the common prefix of all keys in the range.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the inclusive lower bound of the range.
    pub fn start(&self) -> &str {
        &self.start
    }

    /// Moves the start of the range to the first position after this key.
    pub fn start_after(&mut self, key: &str) {
        self.start = format!("{key}\0");
    }

    /// Returns the exclusive upper bound of the range. Returns `None` if the range has no upper bound.
    pub(super) fn end(&self) -> Option<&str> {
        self.end.as_deref()
    }
}
