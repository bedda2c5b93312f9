//! Request options and patches.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::selector::{FieldSelector, LabelSelector};

/// The options of a list request. By default, the request returns the newest state of all objects in one page.
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
    /// Selects objects by labels.
    pub label_selector: LabelSelector,
    /// Selects objects by fields. The kind determines which fields a selector can use. A server rejects other fields.
    pub field_selector: FieldSelector,
    /// The revision to read. An empty string means the newest revision. `"0"` means any revision that the server has in
    /// its cache. For other values, `resource_version_match` determines the meaning.
    pub resource_version: String,
    /// The rule for interpreting `resource_version`.
    pub resource_version_match: Option<ResourceVersionMatch>,
    /// Selects objects by the hash of a field (KEP-5866), for example `shardRange(object.metadata.uid,
    /// '0x0000000000000000', '0x8000000000000000')`. Kubernetes supports this selector since version 1.36, with the
    /// feature gate `ShardedListAndWatch`. Older servers ignore the selector and send all objects. An empty string
    /// selects all objects.
    pub shard_selector: String,
    /// The maximum number of objects in a page. 0 means all.
    pub limit: u32,
    /// The continue token from the previous page. The token is empty for the first page.
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
    /// Selects objects by their labels, as in [`ListOptions`]. When an object starts to match the selector, the watch
    /// sends an added event. When an object no longer matches, the watch sends a deleted event.
    pub label_selector: LabelSelector,
    /// As in [`ListOptions`].
    pub field_selector: FieldSelector,
    /// As in [`ListOptions`].
    pub shard_selector: String,
    /// The revision at which the watch starts. The watch sends only later events. If the revision is an empty string or
    /// `"0"`, the watch starts with an added event for each existing object.
    pub resource_version: String,
    /// The rule for interpreting `resource_version`. A streaming list needs `NotOlderThan`.
    pub resource_version_match: Option<ResourceVersionMatch>,
    /// Whether the server may send bookmark events.
    pub allow_bookmarks: bool,
    /// Whether the watch starts with a streaming list. If `true`, the watch first sends the current objects, and then a
    /// bookmark event with the annotation `k8s.io/initial-events-end`.
    pub send_initial_events: bool,
    /// The maximum duration of the watch, in whole seconds. The server ends the watch after this time. `None` lets the
    /// server decide.
    pub timeout: Option<Duration>,
}

/// The meaning of the resourceVersion in a list request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceVersionMatch {
    /// The list contains the state at exactly this revision.
    Exact,
    /// The list contains the state at this revision or at a later one.
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

/// The options of a create, update or patch request.
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
    /// Whether the server processes the request without storing the result.
    pub dry_run: bool,
    /// The field manager, which becomes the owner of the written fields. If it is empty, the server derives a field
    /// manager from the user agent.
    pub field_manager: String,
    /// How the server treats unknown and duplicate fields. `None` means the server's default.
    pub field_validation: Option<FieldValidation>,
    /// Whether the request takes over fields that other managers own. Allowed only for apply patches.
    pub force: bool,
}

impl WriteOptions {
    /// Returns the options that a controller uses for server-side apply. The field manager is the name of the
    /// controller. The option `force` is set, because a controller owns the fields that it applies.
    pub fn apply(field_manager: impl Into<String>) -> Self {
        Self { field_manager: field_manager.into(), force: true, ..Self::default() }
    }
}

/// How a server treats unknown and duplicate fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FieldValidation {
    /// The server drops the fields without a warning.
    Ignore,
    /// The server drops the fields and sends a warning. Since Kubernetes 1.27, this setting is the default of servers.
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
    /// Conditions that the object must meet before it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preconditions: Option<Preconditions>,
    /// How the server treats the dependents of the object. `None` means the default of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub propagation_policy: Option<PropagationPolicy>,
    /// Whether the server processes the request without deleting the object. In JSON, the value `true` is the list
    /// `["All"]`, which names the stages of a dry run.
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

/// The conditions that an object must meet before it is deleted. If the object does not meet them, the delete request
/// fails with a conflict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preconditions {
    /// The uid that the object must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The resourceVersion that the object must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

/// How the server treats the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum PropagationPolicy {
    /// The object is deleted immediately, and its dependents are deleted afterwards.
    Background,
    /// The dependents are deleted before the object.
    Foreground,
    /// The dependents are not deleted.
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
    /// A server-side apply patch. The apply configuration must contain all fields that the field manager sets.
    Apply(Value),
    /// A JSON patch (RFC 6902). The patch is a list of operations.
    Json(Value),
    /// A JSON merge patch (RFC 7386). The patch replaces members and whole lists, and removes members whose value is
    /// `null`.
    Merge(Value),
    /// A strategic merge patch. Such a patch works like a merge patch, but merges lists of built-in kinds by key.
    Strategic(Value),
}

impl Patch {
    /// Returns the HTTP content type of the patch format.
    pub fn content_type(&self) -> &'static str {
        match self {
            Self::Apply(_) => "application/apply-patch+yaml",
            Self::Json(_) => "application/json-patch+json",
            Self::Merge(_) => "application/merge-patch+json",
            Self::Strategic(_) => "application/strategic-merge-patch+json",
        }
    }

    /// Returns the patch document in JSON. An apply patch must be YAML, but every JSON document is also valid YAML.
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
