//! Tables, as `kubectl get` shows them.

mod durations;

pub use durations::age;

/// What an age column tells.
pub(crate) const CREATED: &str = "The time at which the server made the object.";

/// One column of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

impl Column {
    /// The first column of every table.
    pub fn name() -> Self {
        let description = "The name of the object, unique in its namespace.".into();
        Self { name: "Name".into(), kind: "string".into(), format: "name".into(), description, priority: 0 }
    }
}
