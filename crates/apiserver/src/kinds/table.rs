//! Tables, as `kubectl get` shows them.

mod builtin;
mod cells;
mod durations;
#[cfg(test)]
mod tests;

pub(crate) use builtin::columns;
pub(crate) use cells::cells;
pub(crate) use durations::age;

/// What the API says of the name column.
pub(crate) const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
/// What the API says of an age column.
pub(crate) const CREATED: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// One column of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Column {
    /// The heading.
    pub(crate) name: String,
    /// The JSON type of the cells, or `date`.
    pub(crate) kind: String,
    /// How to read a cell: `name` for the name of the object.
    pub(crate) format: String,
    /// What the column tells.
    pub(crate) description: String,
    /// 0 for what is always shown; more for wide output alone.
    pub(crate) priority: i32,
}

impl Column {
    /// The first column of nearly every table.
    pub(crate) fn name() -> Self {
        Self {
            name: "Name".into(),
            kind: "string".into(),
            format: "name".into(),
            description: NAME.into(),
            priority: 0,
        }
    }
}
