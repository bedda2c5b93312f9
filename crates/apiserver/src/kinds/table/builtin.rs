//! The table columns of the built-in kinds, read once from their text.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::{CREATED, Column, NAME};

const COLUMNS: &str = include_str!("columns.txt");
const DESCRIPTIONS: &str = include_str!("descriptions.txt");

/// The columns of a built-in kind; `None` where it has none of its own.
pub(crate) fn columns(group: &str, kind: &str) -> Option<&'static [Column]> {
    static ALL: LazyLock<HashMap<&str, Vec<Column>>> = LazyLock::new(read);
    let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
    ALL.get(qualified.as_str()).map(Vec::as_slice)
}

fn read() -> HashMap<&'static str, Vec<Column>> {
    let descriptions: HashMap<&str, &str> = entries(DESCRIPTIONS).collect();
    let of_kind = |(kind, columns): (&'static str, &'static str)| {
        let name = kind.split('.').next().unwrap_or_default();
        let columns = columns.split(", ").map(|column| read_column(name, column, &descriptions)).collect();
        (kind, columns)
    };
    entries(COLUMNS).map(of_kind).collect()
}

fn entries(table: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    table.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(" = "))
}

fn read_column(kind: &str, text: &str, descriptions: &HashMap<&str, &str>) -> Column {
    let (text, priority) = text.strip_suffix('*').map_or((text, 0), |text| (text, 1));
    let (name, type_name) = text.split_once(':').unwrap_or((text, ""));
    let key = format!("{kind}.{name}");
    match name {
        "Name" if type_name.is_empty() => Column { priority, ..Column::name() },
        name => Column {
            name: name.into(),
            kind: if type_name.is_empty() { "string".into() } else { type_name.into() },
            format: String::new(),
            description: match descriptions.get(key.as_str()) {
                Some(text) => text.replace("\\n", "\n"),
                None if name == "Age" => CREATED.into(),
                None if name == "Name" => NAME.into(),
                None => String::new(),
            },
            priority,
        },
    }
}
