//! Encodes the objects in a response as whole objects, as metadata or as a table.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;

use jiff::Timestamp;
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::Ordered;
use pintle_json::{Json, json};
use pintle_kinds::table::{CREATED, Column, NAME};
use pintle_kinds::{Form, Kind};
use pintle_schema::protobuf::Enveloped;
use pintle_storage::{Encoding, SAME};
use serde::Serialize;

use super::Served;

#[derive(Clone, Debug)]
pub(crate) enum Transform {
    None,
    Metadata { api_version: String },
    Table { api_version: String, include: Include },
}

/// The form of `object` in each table row, which the client selects with the parameter `includeObject`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    Metadata,
    Object,
    Nothing,
    /// The parameter `includeObject` is invalid. The server reports this error when it encodes the table, after the
    /// write of a write request has been committed.
    Unknown,
}

/// Returns the metadata of a table with one object. The object of a dry run has no revision.
fn table_metadata(object: &Served) -> Json {
    match &object.metadata()["resourceVersion"] {
        Json::Null => json!({}),
        revision => json!({"resourceVersion": revision}),
    }
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

    pub(crate) fn check(&self, include: &str) -> Outcome<()> {
        match self {
            Self::Table { include: Include::Unknown, .. } => Err(Failure::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {include:?}: must be 'Metadata', \
                 'Object', 'None', or empty"
            ))),
            _ => Ok(()),
        }
    }

    pub(crate) fn write_one(&self, object: &Served, kind: &Kind, columns: bool, now: Timestamp, to: &mut Vec<u8>) {
        match self {
            Self::None => object.write(true, to),
            Self::Metadata { api_version } => to.extend_from_slice(&partial(api_version, object)),
            Self::Table { api_version, include } => {
                let mut head = self.list_head(kind, table_metadata(object));
                if !columns {
                    head["columnDefinitions"] = Json::Null;
                }
                to.extend(json_of(&Ordered(&head)));
                to.pop();
                to.extend_from_slice(b",\"rows\":[");
                write_row(api_version, *include, object, kind, now, to);
                to.extend_from_slice(b"]}");
            }
        }
    }

    pub(crate) fn enveloped(&self, object: &Served) -> Outcome<Enveloped> {
        match self {
            Self::None => object.enveloped(),
            Self::Metadata { api_version } => object.enveloped_metadata(api_version),
            Self::Table { .. } => Err(Failure::internal("a table has no form in protobuf")),
        }
    }

    pub(crate) fn list_types<'a>(&'a self, kind: &'a Kind) -> (Cow<'a, str>, &'a str) {
        match self {
            Self::None => (kind.api_version().into(), &kind.list_kind),
            Self::Metadata { api_version } => (api_version.into(), "PartialObjectMetadataList"),
            Self::Table { api_version, .. } => (api_version.into(), "Table"),
        }
    }

    pub(crate) fn list_head(&self, kind: &Kind, metadata: Json) -> Json {
        let (api_version, list_kind) = self.list_types(kind);
        let mut head = json!({"kind": list_kind, "apiVersion": api_version, "metadata": metadata});
        if let Self::Table { .. } = self {
            head["columnDefinitions"] = definitions(kind);
        }
        head
    }

    /// Appends an object to a list's items. List items of most kinds have no `apiVersion` and `kind`.
    pub(crate) fn write_item(&self, object: &Served, kind: &Kind, now: Timestamp, to: &mut Vec<u8>) {
        match self {
            Self::None => object.write(kind.lists_in_full(), to),
            Self::Metadata { api_version } => to.extend_from_slice(&partial(api_version, object)),
            Self::Table { api_version, include } => write_row(api_version, *include, object, kind, now, to),
        }
    }

    /// Returns `true` if the items of an empty list are `null` instead of `[]`. An empty list of metadata has `null`
    /// items. Empty tables have `null` items only if the kind has no declared columns.
    pub(crate) fn is_null_if_empty(&self, kind: &Kind) -> bool {
        match self {
            Self::None => false,
            Self::Metadata { .. } => true,
            Self::Table { .. } => kind.columns().is_none(),
        }
    }
}

fn partial(api_version: &str, object: &Served) -> Arc<[u8]> {
    let Ok(json) = object.encode(Encoding::Metadata(api_version.into()), || {
        let kind = "PartialObjectMetadata";
        let partial = json!({"kind": kind, "apiVersion": api_version, "metadata": object.metadata()});
        Ok::<_, Infallible>(json_of(&Ordered(&partial)))
    });
    json
}

fn write_row(api_version: &str, include: Include, object: &Served, kind: &Kind, now: Timestamp, to: &mut Vec<u8>) {
    to.extend_from_slice(b"{\"cells\":");
    to.extend_from_slice(&cells(kind, object, now));
    to.extend_from_slice(b",\"object\":");
    match include {
        Include::Metadata | Include::Unknown => to.extend_from_slice(&partial(api_version, object)),
        Include::Object => object.write(true, to),
        Include::Nothing => to.extend_from_slice(b"null"),
    }
    to.push(b'}');
}

fn json_of(value: &impl Serialize) -> Vec<u8> {
    pintle_json::to_vec(value).expect("all keys are strings, and memory accepts all writes")
}

fn definitions(kind: &Kind) -> Json {
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

/// Returns the cells of an object's table row. The cells are cached for one second, because they show ages in whole
/// seconds.
fn cells(kind: &Kind, object: &Served, now: Timestamp) -> Arc<[u8]> {
    let form = match kind.strategy.form() {
        Form::Checked(form) => form,
        Form::Stored | Form::Converted => SAME,
    };
    let Ok(json) = object.encode(Encoding::Cells(kind.api_version(), form, now.as_second()), || {
        let cells = match kind.columns() {
            Some(_) => kind.cells(&object.tree(), now),
            None => {
                let metadata = object.metadata();
                vec![metadata["name"].clone(), metadata["creationTimestamp"].clone()]
            }
        };
        Ok::<_, Infallible>(json_of(&cells))
    });
    json
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use pintle_storage::{Draft, Expect, History, Order, Store};

    use super::*;

    #[test]
    fn encodings_of_an_object_are_cached() {
        let kinds = pintle_builtin::kinds();
        let pods = kinds.kind("", "v1", "Pod").expect("a built-in kind");
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}});
        let mut store = Store::new(1, History::default());
        let draft = Draft::new(store.interner(), &pod, Order::Declared, Vec::new());
        let stored = store.put(Instant::now(), &"pods".into(), "p", Expect::Absent, draft).expect("absent").new.clone();
        let v1 = "meta.k8s.io/v1";
        let second = |second| Timestamp::from_second(second).expect("a time");
        let shown = || {
            let object = Served::stored(pods, &stored);
            let metadata = Transform::Metadata { api_version: v1.into() };
            [
                partial(v1, &object),
                metadata.enveloped(&object).expect("protobuf").message,
                object.enveloped().expect("protobuf").message,
                cells(pods, &object, second(1)),
            ]
        };
        for (one, other) in shown().iter().zip(shown()) {
            assert!(Arc::ptr_eq(one, &other), "{}", String::from_utf8_lossy(one));
        }
        let object = Served::stored(pods, &stored);
        assert_ne!(partial(v1, &object), partial("meta.k8s.io/v1beta1", &object));
        assert!(!Arc::ptr_eq(&shown()[3], &cells(pods, &object, second(2))), "cells of another second are not cached");
    }
}
