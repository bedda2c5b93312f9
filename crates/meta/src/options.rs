//! Request options and patches.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::{FieldSelector, LabelSelector};

/// The options of a list request. The default requests the newest state of all objects, in one page.
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
    /// Only objects whose fields match. The supported fields depend on the kind, and a server rejects others.
    pub field_selector: FieldSelector,
    /// The revision to read. Empty means the newest, `"0"` means any revision that the server has cached, and other
    /// values are interpreted as `resource_version_match` says.
    pub resource_version: String,
    /// How to interpret `resource_version`.
    pub resource_version_match: Option<ResourceVersionMatch>,
    /// Only objects in these hash ranges (KEP-5866), such as `shardRange(object.metadata.uid, '0x0000000000000000',
    /// '0x8000000000000000')`. Servers support it since 1.36, behind the feature gate `ShardedListAndWatch`. Older
    /// servers ignore it and send all objects. Empty means all objects.
    pub shard_selector: String,
    /// The maximum number of objects in a page. 0 means all.
    pub limit: u32,
    /// The continue token of the previous page. Empty for the first page.
    pub continue_token: String,
}

/// The options of a watch request.
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
    /// As in [`ListOptions`]. An object that starts to match appears as added, and one that stops matching as deleted.
    pub label_selector: LabelSelector,
    /// As in [`ListOptions`].
    pub field_selector: FieldSelector,
    /// As in [`ListOptions`].
    pub shard_selector: String,
    /// The revision after which events are sent. Empty or `"0"` starts with the current state as added events.
    pub resource_version: String,
    /// How to interpret `resource_version`. A streaming list needs `NotOlderThan`.
    pub resource_version_match: Option<ResourceVersionMatch>,
    /// Whether the server may send bookmarks.
    pub allow_bookmarks: bool,
    /// Requests a streaming list: the current state first, terminated by an annotated bookmark.
    pub send_initial_events: bool,
    /// The duration after which the server ends the watch, in whole seconds. `None` lets the server decide.
    pub timeout: Option<Duration>,
}

/// How to interpret the resourceVersion of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceVersionMatch {
    /// The state at exactly this revision.
    Exact,
    /// The state at this revision or a later one.
    NotOlderThan,
}

impl ResourceVersionMatch {
    /// Returns the value of the query parameter.
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
    /// Process the request without storing the result.
    pub dry_run: bool,
    /// The field manager of the written fields. Empty means the one that the server derives from the user agent.
    pub field_manager: String,
    /// How to treat unknown and duplicate fields. `None` means the server's default.
    pub field_validation: Option<FieldValidation>,
    /// Take over fields from other managers. Only for apply patches.
    pub force: bool,
}

impl WriteOptions {
    /// Returns the options for server-side apply by a controller: its name as field manager, and `force`, because a
    /// controller owns the fields that it applies.
    pub fn apply(field_manager: impl Into<String>) -> Self {
        Self { field_manager: field_manager.into(), force: true, ..Self::default() }
    }
}

/// How a server treats unknown and duplicate fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FieldValidation {
    /// Drop them silently.
    Ignore,
    /// Drop them and send a warning. The default of servers since Kubernetes 1.27.
    #[default]
    Warn,
    /// Reject the request.
    Strict,
}

impl FieldValidation {
    /// Returns the value of the query parameter.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ignore => "Ignore",
            Self::Warn => "Warn",
            Self::Strict => "Strict",
        }
    }
}

/// The body of a delete request.
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
    /// The grace period in seconds. `None` means the default of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
    /// Conditions that the object must meet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preconditions: Option<Preconditions>,
    /// How to treat dependents. `None` means the default of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub propagation_policy: Option<PropagationPolicy>,
    /// Process the request without deleting. Serialized as the list of skipped stages, `["All"]`.
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
        Some(other) => Err(serde::de::Error::custom(format!("{other:?} is not a dry-run stage: expected \"All\""))),
        None => Ok(!stages.is_empty()),
    }
}

/// Conditions that the object of a delete must meet. Otherwise the request fails with a conflict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preconditions {
    /// The object has this uid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The object has this resourceVersion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

/// How to treat the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum PropagationPolicy {
    /// Delete the object at once, and its dependents afterwards.
    Background,
    /// Delete the dependents first.
    Foreground,
    /// Keep the dependents.
    Orphan,
}

/// A patch, in one of the four formats of Kubernetes.
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
    /// JSON patch (RFC 6902): a list of operations.
    Json(Value),
    /// JSON merge patch (RFC 7386): members replace, null removes, and lists are replaced as a whole.
    Merge(Value),
    /// Strategic merge patch: as a merge patch, but lists of built-in kinds are merged by key.
    Strategic(Value),
}

impl Patch {
    /// Returns the content type of the patch format.
    pub fn content_type(&self) -> &'static str {
        match self {
            Self::Apply(_) => "application/apply-patch+yaml",
            Self::Json(_) => "application/json-patch+json",
            Self::Merge(_) => "application/merge-patch+json",
            Self::Strategic(_) => "application/strategic-merge-patch+json",
        }
    }

    /// Returns the document to send. JSON is valid YAML, so it also works for apply.
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
    fn dry_run_serializes_as_all() {
        let write = |dry_run| serde_json::to_value(DeleteOptions { dry_run, ..DeleteOptions::default() }).unwrap();
        assert_eq!((write(true), write(false)), (json!({"dryRun": ["All"]}), json!({})));
        let read = |stages: Value| serde_json::from_value::<DeleteOptions>(json!({"dryRun": stages}));
        for (stages, expected) in
            [(json!(["All"]), true), (json!(["All", "All"]), true), (json!([]), false), (json!(null), false)]
        {
            assert_eq!(read(stages.clone()).unwrap().dry_run, expected, "{stages}");
        }
        assert!(read(json!(["Some"])).unwrap_err().to_string().starts_with("\"Some\" is not a dry-run stage"));
        assert!(read(json!("All")).is_err());
    }
}
