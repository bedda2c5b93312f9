//! A definition's printer columns, and the table cells of its custom resources.

use jiff::Timestamp;
use pintle_apimachinery::object::metadata;
use pintle_json::Json;
use pintle_kinds::table::{Column, age};

use super::json_path::{self, Hop};

#[derive(Clone, Debug)]
pub(super) struct Cell {
    kind: String,
    steps: Vec<Hop>,
}

/// Returns a version's columns, and the functions that compute their cells. The columns are the name, followed by the
/// additional printer columns or, if there are none, by the age.
pub(super) fn read(version: &Json) -> (Vec<Column>, Vec<Cell>) {
    let mut columns = vec![Column::name()];
    let mut cells = vec![Cell { kind: "name".into(), steps: Vec::new() }];
    let mut add = |column: Column, jsonpath: &str| {
        if let Ok(steps) = json_path::parse(jsonpath) {
            cells.push(Cell { kind: column.kind.clone(), steps });
            columns.push(column);
        }
    };
    let mut additional: Vec<_> = version.list("/additionalPrinterColumns").collect();
    if additional.iter().any(|column| json_path::parse(column.text("/jsonPath")).is_err()) {
        // As in kube-apiserver, one invalid path disables all additional printer columns.
        additional.clear();
    }
    for column in &additional {
        let jsonpath = column.text("/jsonPath");
        let description = match column.text("/description") {
            "" => format!("Custom resource definition column (in JSONPath format): {jsonpath}"),
            text => text.into(),
        };
        let made = Column {
            name: column.text("/name").into(),
            kind: column.text("/type").into(),
            format: column.text("/format").into(),
            description,
            priority: column.integer("/priority").and_then(|priority| i32::try_from(priority).ok()).unwrap_or(0),
        };
        add(made, jsonpath);
    }
    if additional.is_empty() {
        let age = Column {
            name: "Age".into(),
            kind: "date".into(),
            description: pintle_kinds::table::CREATED.into(),
            ..Column::default()
        };
        add(age, ".metadata.creationTimestamp");
    }
    (columns, cells)
}

impl Cell {
    /// Returns the cell of an object in a printer column, or null if the column's path has no value of the column's
    /// type.
    pub(super) fn of(&self, object: &Json, now: Timestamp) -> Json {
        if self.kind == "name" {
            return metadata::name(object).into();
        }
        let found = json_path::find(&self.steps, object);
        let Some(first) = found.first() else { return Json::Null };
        match (self.kind.as_str(), *first) {
            ("date", Json::String(text)) => match text.parse::<Timestamp>() {
                Ok(time) if time <= now => age(time, now).into(),
                _ => "<invalid>".into(),
            },
            ("integer", Json::Number(number)) if number.is_i64() || number.is_u64() => Json::Number(number.clone()),
            ("integer", Json::Number(number)) => {
                #[expect(clippy::cast_possible_truncation, reason = "a column of integers truncates fractions")]
                let whole = number.as_f64().unwrap_or_default() as i64;
                whole.into()
            }
            ("number", Json::Number(_)) | ("boolean", Json::Bool(_)) | ("string", Json::String(_)) => {
                Json::clone(first)
            }
            ("string", Json::Null) => "<no value>".into(),
            ("string", other) => other.to_string().into(),
            _ => Json::Null,
        }
    }
}
