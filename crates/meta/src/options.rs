//! Request options and patches.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::null::is_default;
use crate::selector::{FieldSelector, LabelSelector};

/// List request options. The default options request the latest state of all objects in one page.
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
    /// The list contains only objects whose labels match this selector. The default selector matches all objects.
    pub label_selector: LabelSelector,
    /// The list contains only objects whose fields match this selector. The server rejects a selector with a field that
    /// the kind does not support.
    pub field_selector: FieldSelector,
    /// The revision to read. An empty string requests the latest revision. `"0"` accepts any revision that the server
    /// has in its cache. For other values, see `resource_version_match`.
    pub resource_version: String,
    /// How the server interprets the `resource_version` of this list request.
    pub resource_version_match: Option<ResourceVersionMatch>,
    /// The list contains only objects for which the hash of a field is in a range (KEP-5866), for example
    /// `shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')`. The selector requires Kubernetes
    /// 1.36 with the feature gate `ShardedListAndWatch`. Older servers ignore the selector and return all objects. An
    /// empty `shard_selector` selects all objects.
    pub shard_selector: String,
    /// The maximum number of objects in a page. 0 means no limit.
    pub limit: u32,
    /// The continue token of the previous page, or an empty string for the first page.
    pub continue_token: String,
}

/// Watch request options.
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
    /// The watch reports only objects whose labels match this selector, as in [`ListOptions`]. The watch sends an added
    /// event when an object starts to match the selector, and a deleted event when an object stops matching it.
    pub label_selector: LabelSelector,
    /// The watch reports only objects whose fields match this selector, as in [`ListOptions`].
    pub field_selector: FieldSelector,
    /// The watch reports only the objects of one shard. A shard is a range of the hash of a field, as in [`ListOptions`].
    pub shard_selector: String,
    /// The revision after which the watch starts. If the revision is empty or `"0"`, the watch first sends an added
    /// event for each existing object.
    pub resource_version: String,
    /// How the server interprets the `resource_version` of this watch request. A streaming list requires
    /// `NotOlderThan`.
    pub resource_version_match: Option<ResourceVersionMatch>,
    /// Whether the server may send bookmark events.
    pub allow_bookmarks: bool,
    /// Whether the watch starts with a streaming list. In a streaming list, the server first sends all existing
    /// objects, followed by a bookmark event with the annotation `k8s.io/initial-events-end`.
    pub send_initial_events: bool,
    /// The time after which the server ends the watch, in whole seconds. If `None`, the server chooses the time.
    pub timeout: Option<Duration>,
}

/// How the server interprets the `resourceVersion` in a list or watch request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceVersionMatch {
    /// The server returns the state at exactly the requested revision.
    Exact,
    /// The server returns the state at the requested revision or at a later revision.
    NotOlderThan,
}

impl ResourceVersionMatch {
    /// Returns the value of the query parameter `resourceVersionMatch`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "Exact",
            Self::NotOlderThan => "NotOlderThan",
        }
    }
}

/// Options of create, update and patch requests.
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
    /// Whether to run validation and admission without storing the result.
    pub dry_run: bool,
    /// The name of the field manager that owns the written fields. If the name is empty, the server derives it from the
    /// user agent.
    pub field_manager: String,
    /// How the server treats unknown and duplicate fields. If `None`, the server uses its default.
    pub field_validation: Option<FieldValidation>,
    /// Whether the request takes over fields that other field managers own. Only apply patches support `force`.
    pub force: bool,
}

impl WriteOptions {
    /// Returns the options for server-side apply by a controller. `field_manager` is the name of the controller. The
    /// option `force` is set, because a controller should own all fields that it applies.
    pub fn apply(field_manager: impl Into<String>) -> Self {
        Self { field_manager: field_manager.into(), force: true, ..Self::default() }
    }
}

/// How a server treats unknown and duplicate fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FieldValidation {
    /// The server silently drops unknown and duplicate fields.
    Ignore,
    /// The server drops unknown and duplicate fields, and sends a warning. `Warn` is the server's default since
    /// Kubernetes 1.27.
    #[default]
    Warn,
    /// The server rejects the request.
    Strict,
}

impl FieldValidation {
    /// Returns the value of the query parameter `fieldValidation`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ignore => "Ignore",
            Self::Warn => "Warn",
            Self::Strict => "Strict",
        }
    }
}

/// Options of delete requests, which are sent in the request body.
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
    /// The grace period in seconds. If `None`, the default grace period of the kind applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
    /// Preconditions that the object must meet before it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preconditions: Option<Preconditions>,
    /// How the server treats the dependents of the object. If `None`, the default policy of the kind applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub propagation_policy: Option<PropagationPolicy>,
    /// Whether to process the request without deleting the object. In JSON, `true` is represented as `["All"]`.
    #[serde(
        default,
        skip_serializing_if = "is_default",
        serialize_with = "write_stages",
        deserialize_with = "read_stages"
    )]
    pub dry_run: bool,
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

/// Preconditions that an object must meet to be deleted. If the object does not meet the preconditions, the delete
/// request fails with a conflict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preconditions {
    /// The uid that the object must have, if set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The `resourceVersion` that the object must have, if set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

/// How the server treats the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum PropagationPolicy {
    /// The server immediately deletes the object, and then deletes its dependents in the background.
    Background,
    /// The server deletes the dependents before it deletes the object.
    Foreground,
    /// The server does not delete the dependents.
    Orphan,
}

/// A patch in one of the four formats that Kubernetes supports.
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
    /// A server-side apply patch. An apply patch must include all fields that the field manager wants to own. The
    /// server removes fields that the manager owns and the patch omits.
    Apply(Value),
    /// A JSON patch (RFC 6902): a list of operations.
    Json(Value),
    /// A JSON merge patch (RFC 7386): it replaces fields and entire lists, and removes fields whose value is `null`.
    Merge(Value),
    /// A strategic merge patch: it works like a merge patch, but merges the lists of built-in kinds by key.
    Strategic(Value),
}

impl Patch {
    /// Returns the media type of the patch format.
    pub fn content_type(&self) -> &'static str {
        match self {
            Self::Apply(_) => "application/apply-patch+yaml",
            Self::Json(_) => "application/json-patch+json",
            Self::Merge(_) => "application/merge-patch+json",
            Self::Strategic(_) => "application/strategic-merge-patch+json",
        }
    }

    /// Returns the patch document as JSON. JSON is also valid for apply patches, whose format is YAML, because JSON is
    /// valid YAML.
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
