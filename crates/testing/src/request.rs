//! The entries of the request log.

use std::fmt;

use pintle_meta::{
    DeleteOptions, FieldSelector, LabelSelector, ListOptions, ObjectKey, Patch, WatchOptions, WriteOptions,
};
use serde_json::Value;

/// A request to a collection, which may have failed.
///
/// The `Display` implementation writes the request on one line, such as `LIST rv=0 limit=500`, `WATCH rv=7 initial` or
/// `UPDATE team-a/blog`. The name of the client, if any, precedes the request, as in `replica-1 UPDATE team-a/blog`.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedRequest {
    /// The name of the [`Client`](crate::Client) that sent the request, or an empty string for requests through the
    /// [`Collection`](crate::Collection).
    pub client: String,
    /// The call that the request made, with its arguments.
    pub call: Call,
}

/// The call in a [`RecordedRequest`], with its arguments.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields are the arguments of the methods of `ObjectApi` and `ListWatch`")]
pub enum Call {
    Get { key: ObjectKey },
    List { options: ListOptions },
    Watch { options: WatchOptions },
    Create { key: ObjectKey, object: Value, options: WriteOptions },
    Update { key: ObjectKey, object: Value, options: WriteOptions },
    UpdateStatus { key: ObjectKey, object: Value, options: WriteOptions },
    Patch { key: ObjectKey, patch: Patch, options: WriteOptions },
    Delete { key: ObjectKey, options: DeleteOptions },
}

/// The kind of a [`Call`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "they are named as the methods of `ObjectApi` and `ListWatch`")]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    UpdateStatus,
    Patch,
    Delete,
}

impl RecordedRequest {
    /// Returns the kind of the call.
    pub fn verb(&self) -> Verb {
        match self.call {
            Call::Get { .. } => Verb::Get,
            Call::List { .. } => Verb::List,
            Call::Watch { .. } => Verb::Watch,
            Call::Create { .. } => Verb::Create,
            Call::Update { .. } => Verb::Update,
            Call::UpdateStatus { .. } => Verb::UpdateStatus,
            Call::Patch { .. } => Verb::Patch,
            Call::Delete { .. } => Verb::Delete,
        }
    }

    /// Returns the key of the accessed object, or `None` for a list or a watch.
    pub fn key(&self) -> Option<&ObjectKey> {
        match &self.call {
            Call::List { .. } | Call::Watch { .. } => None,
            Call::Get { key }
            | Call::Create { key, .. }
            | Call::Update { key, .. }
            | Call::UpdateStatus { key, .. }
            | Call::Patch { key, .. }
            | Call::Delete { key, .. } => Some(key),
        }
    }
}

impl fmt::Display for RecordedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.client.is_empty() {
            write!(f, "{} ", self.client)?;
        }
        self.call.fmt(f)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Get { key } => write!(f, "GET {key}"),
            Self::List { options } => {
                let next = if options.continue_token.is_empty() { "" } else { " next" };
                write!(f, "LIST rv={} limit={}{next}", options.resource_version, options.limit)?;
                selectors(f, &options.label_selector, &options.field_selector)
            }
            Self::Watch { options } => {
                let initial = if options.send_initial_events { " initial" } else { "" };
                write!(f, "WATCH rv={}{initial}", options.resource_version)?;
                selectors(f, &options.label_selector, &options.field_selector)
            }
            Self::Create { key, .. } => write!(f, "CREATE {key}"),
            Self::Update { key, .. } => write!(f, "UPDATE {key}"),
            Self::UpdateStatus { key, .. } => write!(f, "UPDATE {key} status"),
            Self::Patch { key, patch, .. } => {
                let kind = match patch {
                    Patch::Apply(_) => "apply",
                    Patch::Json(_) => "json",
                    Patch::Merge(_) => "merge",
                    Patch::Strategic(_) => "strategic",
                };
                write!(f, "PATCH {key} {kind}")
            }
            Self::Delete { key, .. } => write!(f, "DELETE {key}"),
        }
    }
}

fn selectors(f: &mut fmt::Formatter<'_>, labels: &LabelSelector, fields: &FieldSelector) -> fmt::Result {
    if !labels.is_everything() {
        write!(f, " labels={labels}")?;
    }
    if !fields.is_everything() {
        write!(f, " fields={fields}")?;
    }
    Ok(())
}
