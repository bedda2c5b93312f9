//! What requests ask for beside their objects: the options of reads and writes, and patches.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::{FieldSelector, LabelSelector};

/// What a LIST asks for. The default asks for the newest state of everything, in one page.
///
/// # Examples
///
/// ```
/// use pintle_meta::{FieldSelector, ListOptions};
///
/// let options = ListOptions {
///     label_selector: "app=web,tier in (front,back)".parse()?,
///     field_selector: FieldSelector::everything().equals("status.phase", "Running"),
///     limit: 500,
///     ..ListOptions::default()
/// };
/// assert_eq!(options.field_selector.exact("status.phase"), Some("Running"));
/// # Ok::<(), pintle_meta::InvalidSelector>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// Only objects whose labels match.
    pub label_selector: LabelSelector,
    /// Only objects whose fields match. Which fields can be selected depends on the kind; a server refuses others.
    pub field_selector: FieldSelector,
    /// Empty: the newest. `"0"`: whatever the server holds. Else as `resource_version_match` says.
    pub resource_version: String,
    /// How `resource_version` binds.
    pub resource_version_match: Option<ResourceVersionMatch>,
    /// Only objects in these ranges of hashes (KEP-5866), such as
    /// `shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')`. Servers take it since 1.36, behind the feature
    /// `ShardedListAndWatch`; one that does not know it sends all objects. Empty: all.
    pub shard_selector: String,
    /// At most this many objects in a page; 0 for all.
    pub limit: u32,
    /// The token of the page before; empty for the first.
    pub continue_token: String,
}

/// What a WATCH asks for.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use pintle_meta::WatchOptions;
///
/// let options = WatchOptions {
///     label_selector: "app=web".parse()?,
///     resource_version: "1042".into(),
///     allow_bookmarks: true,
///     timeout: Some(Duration::from_secs(300)),
///     ..WatchOptions::default()
/// };
/// assert!(options.field_selector.is_everything());
/// # Ok::<(), pintle_meta::InvalidSelector>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchOptions {
    /// As in [`ListOptions`]. An object that comes to match is seen as added, one that ceases to as deleted.
    pub label_selector: LabelSelector,
    /// As in [`ListOptions`].
    pub field_selector: FieldSelector,
    /// As in [`ListOptions`].
    pub shard_selector: String,
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

/// The options of a create, update or patch.
///
/// # Examples
///
/// ```
/// use pintle_meta::{FieldValidation, WriteOptions};
///
/// let options = WriteOptions {
///     field_manager: "website-controller".into(),
///     field_validation: Some(FieldValidation::Strict),
///     ..WriteOptions::default()
/// };
/// assert!(!options.dry_run && !options.force);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Do all but store it.
    pub dry_run: bool,
    /// Under which name the written fields are recorded. Empty: the user agent's.
    pub field_manager: String,
    /// What becomes of unknown and duplicate fields. None: the server's default.
    pub field_validation: Option<FieldValidation>,
    /// Take the fields of other managers over. Apply patches only.
    pub force: bool,
}

impl WriteOptions {
    /// The options of a server-side apply by a controller: its name as field manager, and `force`, since a controller wants the fields
    /// that it applies whoever wrote them before.
    pub fn apply(field_manager: impl Into<String>) -> Self {
        Self { field_manager: field_manager.into(), force: true, ..Self::default() }
    }
}

/// What a server does about fields that it does not know, and about those that stand twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FieldValidation {
    /// It drops them silently.
    Ignore,
    /// It drops them and warns. The default of servers since Kubernetes 1.27.
    #[default]
    Warn,
    /// It refuses the request.
    Strict,
}

impl FieldValidation {
    /// The value of the query parameter.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ignore => "Ignore",
            Self::Warn => "Warn",
            Self::Strict => "Strict",
        }
    }
}

/// The body of a DELETE.
///
/// # Examples
///
/// ```
/// use pintle_meta::{DeleteOptions, Preconditions, PropagationPolicy};
/// use serde_json::json;
///
/// let options = DeleteOptions {
///     preconditions: Some(Preconditions { uid: Some("4f9a".into()), ..Preconditions::default() }),
///     propagation_policy: Some(PropagationPolicy::Foreground),
///     ..DeleteOptions::default()
/// };
/// let body = json!({"preconditions": {"uid": "4f9a"}, "propagationPolicy": "Foreground"});
/// assert_eq!(serde_json::to_value(&options)?, body);
/// # Ok::<(), serde_json::Error>(())
/// ```
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
    /// Do all but delete. Written as `["All"]`, the stages that are left out.
    #[serde(
        default,
        skip_serializing_if = "is_false",
        serialize_with = "write_stages",
        deserialize_with = "read_stages"
    )]
    pub dry_run: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn write_stages<S: Serializer>(dry_run: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    let stages: &[&str] = if *dry_run { &["All"] } else { &[] };
    stages.serialize(serializer)
}

fn read_stages<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let stages = Option::<Vec<String>>::deserialize(deserializer)?.unwrap_or_default();
    match stages.iter().find(|stage| *stage != "All") {
        Some(other) => Err(serde::de::Error::custom(format!("{other:?} is no stage of a dry run: expected \"All\""))),
        None => Ok(!stages.is_empty()),
    }
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
///
/// # Examples
///
/// ```
/// use pintle_meta::Patch;
/// use serde_json::json;
///
/// let scale = Patch::Merge(json!({"spec": {"replicas": 3}}));
/// assert_eq!(scale.content_type(), "application/merge-patch+json");
///
/// let unlabel = Patch::Json(json!([{"op": "remove", "path": "/metadata/labels/tier"}]));
/// assert_eq!(unlabel.body()[0]["op"], "remove");
/// ```
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_dry_run_is_written_as_the_stages_it_leaves_out() {
        let write = |dry_run| serde_json::to_value(DeleteOptions { dry_run, ..DeleteOptions::default() }).unwrap();
        assert_eq!((write(true), write(false)), (json!({"dryRun": ["All"]}), json!({})));
        let read = |stages: Value| serde_json::from_value::<DeleteOptions>(json!({"dryRun": stages}));
        for (stages, expected) in
            [(json!(["All"]), true), (json!(["All", "All"]), true), (json!([]), false), (json!(null), false)]
        {
            assert_eq!(read(stages.clone()).unwrap().dry_run, expected, "{stages}");
        }
        assert!(read(json!(["Some"])).unwrap_err().to_string().starts_with("\"Some\" is no stage of a dry run"));
        assert!(read(json!("All")).is_err());
    }
}
