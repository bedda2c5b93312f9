//! Answers in another form than the object's own: metadata alone, or a table.

use std::borrow::Cow;

use jiff::Timestamp;
use pintle_schema::protobuf::Enveloped;
use serde_json::{Value, json};

use super::Served;
use crate::failure::{Failure, Outcome};
use crate::kinds::Kind;
use crate::kinds::table::{CREATED, Column, NAME};
use crate::object::Ordered;

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

    /// One object in this form, in protobuf. No table has one.
    pub(crate) fn enveloped(&self, object: &Served) -> Outcome<Enveloped> {
        match self {
            Self::None => object.enveloped(),
            Self::Metadata { api_version } => object.enveloped_metadata(api_version),
            Self::Table { .. } => Err(Failure::internal("a table has no form in protobuf")),
        }
    }

    /// The version and the kind of a list in this form.
    pub(crate) fn list_types<'a>(&'a self, kind: &'a Kind) -> (Cow<'a, str>, &'a str) {
        match self {
            Self::None => (kind.api_version().into(), &kind.list_kind),
            Self::Metadata { api_version } => (api_version.into(), "PartialObjectMetadataList"),
            Self::Table { api_version, .. } => (api_version.into(), "Table"),
        }
    }

    /// The members of a list in this form that come before its objects.
    pub(crate) fn list_head(&self, kind: &Kind, metadata: Value) -> Value {
        let (api_version, list_kind) = self.list_types(kind);
        let mut head = json!({"kind": list_kind, "apiVersion": api_version, "metadata": metadata});
        if let Self::Table { .. } = self {
            head["columnDefinitions"] = definitions(kind);
        }
        head
    }

    /// Appends an object as a list in this form has it. Those of built-in kinds carry neither version nor kind there.
    pub(crate) fn write_item(&self, object: &Served, kind: &Kind, now: Timestamp, to: &mut Vec<u8>) {
        let item = match self {
            Self::None => return object.write(kind.is_custom(), to),
            Self::Metadata { api_version } => partial(api_version, object),
            Self::Table { api_version, include } => row(api_version, *include, object, kind, now),
        };
        serde_json::to_writer(to, &Ordered(&item)).expect("memory takes any value, whose keys are texts");
    }

    /// Whether a list in this form that has no objects says null instead: a table of a kind without a printer of its own does.
    pub(crate) fn is_null_if_empty(&self, kind: &Kind) -> bool {
        matches!(self, Self::Table { .. }) && kind.columns().is_none()
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
