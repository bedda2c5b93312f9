//! Builds the tables that `kubectl get` prints.

mod cell;
mod durations;

pub use cell::{Cell, ComputedCells, Table, TableColumn, first_few, ingress_addresses, size};
pub use durations::{age, seconds as duration};

/// The description of the name column in the Kubernetes API.
pub const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
/// The description of the age column in the Kubernetes API.
pub const CREATED: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// A column of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    /// The JSON type of the cells, or `date` for times.
    pub kind: String,
    /// The format of the cells. `name` marks the column that contains the name of the object.
    pub format: String,
    pub description: String,
    /// The priority of the column. kubectl always shows columns with priority 0, and shows columns with a higher
    /// priority only in the wide output.
    pub priority: i32,
}

impl Column {
    /// Returns the name column.
    pub fn name() -> Self {
        Self {
            name: "Name".into(),
            kind: "string".into(),
            format: "name".into(),
            description: NAME.into(),
            priority: 0,
        }
    }
}

/// Returns the columns of a table, or `None` for an empty table.
pub fn columns(table: Table) -> Option<Vec<Column>> {
    let declared = table.iter().filter(|column| column.name != "-");
    (!table.is_empty()).then(|| declared.map(column).collect())
}

fn column(column: &TableColumn) -> Column {
    let priority = column.is_wide.into();
    if (column.name, column.kind) == ("Name", "") {
        return Column { priority, ..Column::name() };
    }
    let description = match (column.name, column.description) {
        ("Age", "") => CREATED.into(),
        ("Name", "") => NAME.into(),
        (_, description) => description.replace("\\n", "\n"),
    };
    let (kind, format) = match column.kind {
        "" => ("string", ""),
        "name" => ("string", "name"),
        kind => (kind, ""),
    };
    Column { name: column.name.into(), kind: kind.into(), format: format.into(), description, priority }
}
