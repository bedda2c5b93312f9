//! Answers in another form than the object's own: metadata alone, or a table.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{ListReply, Served};
use crate::failure::{Failure, Outcome};
use crate::kinds::Kind;
use crate::kinds::table::{CREATED, Column, NAME};

/// The form of an answer.
#[derive(Clone, Debug)]
pub(crate) enum Transform {
    /// The objects as they are.
    None,
    /// `PartialObjectMetadata`, or a list of it.
    Metadata { api_version: String },
    /// A `Table`.
    Table { api_version: String, include: Include },
}

/// What a row of a table holds beside its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    Metadata,
    Object,
    Nothing,
    /// None of the above: told only when the table is made, which for a write is after it.
    Unknown,
}

impl Transform {
    pub(crate) fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    pub(crate) fn table(api_version: String, include: &str) -> Outcome<Self> {
        let include = match include {
            "" | "Metadata" => Include::Metadata,
            "Object" => Include::Object,
            "None" => Include::Nothing,
            _ => Include::Unknown,
        };
        Ok(Self::Table { api_version, include })
    }

    /// Tells of a table whose `includeObject` is unknown.
    pub(crate) fn check(&self, include: &str) -> Outcome<()> {
        match self {
            Self::Table { include: Include::Unknown, .. } => Err(Failure::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {include:?}: must be 'Metadata', \
                 'Object', 'None', or empty"
            ))),
            _ => Ok(()),
        }
    }

    /// One object in this form.
    pub(crate) fn one(&self, object: &Served, kind: &Kind, columns: bool, now: Timestamp) -> Value {
        match self {
            Self::None => object.typed(),
            Self::Metadata { api_version } => partial(api_version, object),
            Self::Table { api_version, include } => {
                let rows = vec![row(api_version, *include, object, kind, now)];
                let metadata = json!({"resourceVersion": object.metadata()["resourceVersion"]});
                table(api_version, kind, columns, rows, metadata)
            }
        }
    }

    /// A list in this form; none if it is to stay a list of the objects themselves.
    pub(crate) fn many(&self, list: &ListReply, kind: &Kind, now: Timestamp) -> Option<Value> {
        let mut metadata = json!({});
        if list.revision > 0 {
            metadata["resourceVersion"] = list.revision.to_string().into();
        }
        if !list.continue_token.is_empty() {
            metadata["continue"] = list.continue_token.as_str().into();
        }
        if let Some(remaining) = list.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
        let objects = list.objects.clone().map(|stored| Served::stored(kind, &stored));
        match self {
            Self::None => None,
            Self::Metadata { api_version } => {
                let items: Vec<_> = objects.map(|object| partial(api_version, &object)).collect();
                Some(json!({
                    "kind": "PartialObjectMetadataList",
                    "apiVersion": api_version,
                    "metadata": metadata,
                    "items": items,
                }))
            }
            Self::Table { api_version, include } => {
                let rows: Vec<_> = objects.map(|object| row(api_version, *include, &object, kind, now)).collect();
                let bare = rows.is_empty() && kind.columns().is_none();
                let mut table = table(api_version, kind, true, rows, metadata);
                if bare {
                    // A kind without a printer of its own has no rows instead of none of them.
                    table["rows"] = Value::Null;
                }
                Some(table)
            }
        }
    }
}

fn partial(api_version: &str, object: &Served) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": object.metadata()})
}

fn table(api_version: &str, kind: &Kind, columns: bool, rows: Vec<Value>, metadata: Value) -> Value {
    let definitions = if columns { definitions(kind) } else { Value::Null };
    json!({
        "kind": "Table",
        "apiVersion": api_version,
        "metadata": metadata,
        "columnDefinitions": definitions,
        "rows": rows,
    })
}

fn row(api_version: &str, include: Include, object: &Served, kind: &Kind, now: Timestamp) -> Value {
    let mut row = json!({"cells": cells(kind, object, now)});
    match include {
        Include::Metadata | Include::Unknown => row["object"] = partial(api_version, object),
        Include::Object => row["object"] = object.typed(),
        Include::Nothing => row["object"] = Value::Null,
    }
    row
}

fn definitions(kind: &Kind) -> Value {
    let Some(columns) = kind.columns() else {
        return json!([
            {"name": "Name", "type": "string", "format": "name", "description": NAME, "priority": 0},
            {"name": "Created At", "type": "date", "format": "", "description": CREATED, "priority": 0},
        ]);
    };
    let column = |column: &Column| {
        let Column { name, kind, format, description, priority } = column;
        json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority})
    };
    columns.iter().map(column).collect()
}

fn cells(kind: &Kind, object: &Served, now: Timestamp) -> Vec<Value> {
    match kind.columns() {
        Some(_) => kind.strategy.cells(&object.tree(), now),
        None => {
            let metadata = object.metadata();
            vec![metadata["name"].clone(), metadata["creationTimestamp"].clone()]
        }
    }
}
