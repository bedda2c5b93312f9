//! What requests ask for.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a LIST asks for. The default asks for the newest state of everything, in one page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// Only objects whose labels match, such as `app=web,tier in (a, b)`. Empty matches all.
    pub label_selector: String,
    /// Only objects whose fields match, such as `metadata.name=a`. Empty matches all.
    pub field_selector: String,
    /// Empty: the newest. `"0"`: whatever the server holds. Else as `resource_version_match` says.
    pub resource_version: String,
    /// How `resource_version` binds.
    pub resource_version_match: Option<ResourceVersionMatch>,
    /// At most this many objects in a page; 0 for all.
    pub limit: u32,
    /// The token of the page before; empty for the first.
    pub continue_token: String,
}

/// What a WATCH asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchOptions {
    /// As in [`ListOptions`]. An object that comes to match is seen as added, one that ceases to as deleted.
    pub label_selector: String,
    /// As in [`ListOptions`].
    pub field_selector: String,
    /// Events after this revision. Empty or `"0"`: begin with the present state as added events.
    pub resource_version: String,
    /// How `resource_version` binds; a streaming list wants `NotOlderThan`.
    pub resource_version_match: Option<ResourceVersionMatch>,
    /// Whether bookmarks may come.
    pub allow_bookmarks: bool,
    /// A streaming list: the present state first, closed by an annotated bookmark.
    pub send_initial_events: bool,
    /// When the server ends the stream, in whole seconds. None: when it likes.
    pub timeout: Option<Duration>,
}

/// How the resourceVersion of a list binds its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceVersionMatch {
    /// The state at that revision.
    Exact,
    /// That state or a later one.
    NotOlderThan,
}

impl ResourceVersionMatch {
    /// The value of the query parameter.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "Exact",
            Self::NotOlderThan => "NotOlderThan",
        }
    }
}

/// What a create, update or patch asks for beside its body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PostOptions {
    /// Do all but store it.
    pub dry_run: bool,
    /// Under which name the written fields are recorded. Empty: the user agent's.
    pub field_manager: String,
    /// `Ignore`, `Warn` or `Strict`: what becomes of unknown and duplicate fields. Empty: the server's default.
    pub field_validation: String,
    /// Take the fields of other managers over. Apply patches only.
    pub force: bool,
}

/// The body of a DELETE.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeleteOptions {
    /// Seconds to end by itself; None for the kind's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
    /// What must hold of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preconditions: Option<Preconditions>,
    /// What becomes of dependents; None for the kind's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub propagation_policy: Option<PropagationPolicy>,
    /// `["All"]`: do all but delete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dry_run: Vec<String>,
}

/// Conditions on the object that a DELETE meets; otherwise it fails with a conflict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preconditions {
    /// It is this very object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// It has not changed since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

/// What becomes of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum PropagationPolicy {
    /// The object goes at once, its dependents after it.
    Background,
    /// The dependents go first.
    Foreground,
    /// The dependents stay.
    Orphan,
}

/// A partial change, in one of the four languages that servers know.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// Server-side apply: the fields that the manager wants.
    Apply(Value),
    /// RFC 6902: a list of operations.
    Json(Value),
    /// RFC 7386: members replace, null removes, lists replace as a whole.
    Merge(Value),
    /// As merge, but lists of built-in kinds merge by key.
    Strategic(Value),
}

impl Patch {
    /// The content type by which a server tells the languages apart.
    pub fn content_type(&self) -> &'static str {
        match self {
            Self::Apply(_) => "application/apply-patch+yaml",
            Self::Json(_) => "application/json-patch+json",
            Self::Merge(_) => "application/merge-patch+json",
            Self::Strategic(_) => "application/strategic-merge-patch+json",
        }
    }

    /// The document to send. JSON is valid YAML, so it serves an apply as well.
    pub fn body(&self) -> &Value {
        match self {
            Self::Apply(value) | Self::Json(value) | Self::Merge(value) | Self::Strategic(value) => value,
        }
    }
}
