//! Tables, as `kubectl get` shows them.

/// One column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The heading.
    pub name: String,
    /// The JSON type of the cells, or `date`.
    pub kind: String,
    /// How to read a cell: `name` for the name of the object.
    pub format: String,
    /// What the column tells.
    pub description: String,
    /// 0 for what is always shown; more for wide output alone.
    pub priority: i32,
}
