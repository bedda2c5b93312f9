//! The JSON types of reviews in `admission.k8s.io/v1` and `apiextensions.k8s.io/v1`.

use std::collections::BTreeMap;

use pintle_meta::__private::or_empty;
use pintle_meta::{GroupVersionKind, GroupVersionResource, Status};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub(crate) const ADMISSION: (&str, &str) = ("admission.k8s.io/v1", "AdmissionReview");
pub(crate) const CONVERSION: (&str, &str) = ("apiextensions.k8s.io/v1", "ConversionReview");

/// A review of one client request, which contains either the request of the API server or the response of the
/// webhook.
///
/// [`Webhooks`](crate::Webhooks) reads and writes reviews. This type is public for tests and other servers.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionReview {
    /// `admission.k8s.io/v1`.
    pub api_version: String,
    /// `AdmissionReview`.
    pub kind: String,
    /// The request of the API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<AdmissionRequest>,
    /// The response of the webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<AdmissionResponse>,
}

/// The request in an [`AdmissionReview`], with the objects as raw JSON.
#[derive(Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionRequest {
    /// The uid of the webhook call. The response must contain the same uid.
    pub uid: String,
    /// The kind of the object, in the version that the webhook's rule selects.
    #[serde(with = "ReviewKind")]
    pub kind: GroupVersionKind,
    /// The requested resource, in the version that the webhook's rule selects.
    #[serde(with = "ReviewResource")]
    pub resource: GroupVersionResource,
    /// The subresource, such as `status`, or an empty string if the request is for the object itself.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "String::is_empty")]
    pub sub_resource: String,
    /// The object's name, or an empty string if the server generates the name.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The object's namespace, or an empty string for a cluster-scoped object.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The requested operation.
    pub operation: Operation,
    /// The user that sent the request.
    #[serde(default, deserialize_with = "or_empty")]
    pub user_info: UserInfo,
    /// The new object that the API server would store, or `None` for a deletion.
    pub object: Option<Box<RawValue>>,
    /// The stored object before the request, or `None` for a creation.
    pub old_object: Option<Box<RawValue>>,
    /// Whether the request is a dry run, in which the API server stores nothing.
    #[serde(default, deserialize_with = "or_empty")]
    pub dry_run: bool,
    /// The options of the request, such as `CreateOptions`.
    pub options: Option<Box<RawValue>>,
}

// `Debug` omits the objects, because they may be Secrets.
pintle_meta::debug_struct!(AdmissionRequest { uid, operation, resource, sub_resource, namespace, name, .. });

/// The operation that a user requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// Create an object.
    Create,
    /// Change an object.
    Update,
    /// Delete an object.
    Delete,
    /// A connection to a subresource, such as `pods/exec`.
    Connect,
}

impl Operation {
    /// Returns the name of the operation in a review, such as `CREATE`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// The authenticated user that sent a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct UserInfo {
    /// The name of the user, such as `system:serviceaccount:team-a:builder`.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "String::is_empty")]
    pub username: String,
    /// The user's uid.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The user's groups.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Additional attributes that the authenticator provides.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The response in an [`AdmissionReview`].
#[derive(Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionResponse {
    /// The uid of the request that this response answers.
    pub uid: String,
    /// Whether the request is allowed.
    pub allowed: bool,
    /// The error that the client receives if the request is rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// A JSON patch for the object, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// `JSONPatch` if the response contains a patch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch_type: Option<String>,
    /// Annotations that the API server adds to the audit event.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub audit_annotations: BTreeMap<String, String>,
    /// Warnings that the client receives.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

// `Debug` omits the patch, which contains values of the object.
pintle_meta::debug_struct!(AdmissionResponse |self| {
    uid, allowed, status, has_patch = self.patch.is_some(), audit_annotations, warnings, ..
});

/// A review that contains either the API server's request to convert objects, or the response of the webhook.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversionReview {
    /// `apiextensions.k8s.io/v1`.
    pub api_version: String,
    /// `ConversionReview`.
    pub kind: String,
    /// The request of the API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<ConversionRequest>,
    /// The response of the webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<ConversionResponse>,
}

/// The request in a [`ConversionReview`].
#[derive(Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversionRequest {
    /// The uid of the webhook call. The response must contain the same uid.
    pub uid: String,
    /// The `apiVersion` to which the webhook must convert the objects.
    #[serde(rename = "desiredAPIVersion")]
    pub desired_api_version: String,
    /// The objects to convert, which can have different versions.
    #[serde(default, deserialize_with = "or_empty")]
    pub objects: Vec<Box<RawValue>>,
}

// `Debug` shows only the number of objects, because they may be Secrets.
pintle_meta::debug_struct!(ConversionRequest |self| { uid, desired_api_version, objects = self.objects.len() });

/// The response in a [`ConversionReview`].
#[derive(Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversionResponse {
    /// The uid of the request that this response answers.
    pub uid: String,
    /// The result of the whole conversion. A failure applies to all objects in the request.
    pub result: Status,
    /// The converted objects in the order of the request, or an empty list after a failure.
    #[serde(default, deserialize_with = "or_empty")]
    pub converted_objects: Vec<Box<RawValue>>,
}

// `Debug` shows only the number of objects, because they may be Secrets.
pintle_meta::debug_struct!(ConversionResponse |self| {
    uid, result, converted_objects = self.converted_objects.len(),
});

/// A review from the API server, which contains a request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SentReview<R> {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) request: Option<R>,
}

/// A [`ConversionRequest`] that borrows its objects from the body.
#[derive(Deserialize)]
pub(crate) struct SentConversion<'a> {
    pub(crate) uid: String,
    #[serde(rename = "desiredAPIVersion")]
    pub(crate) desired_api_version: String,
    #[serde(borrow)]
    pub(crate) objects: Option<&'a RawValue>,
}

#[derive(Deserialize, Serialize)]
#[serde(remote = "GroupVersionKind")]
struct ReviewKind {
    #[serde(default)]
    group: String,
    version: String,
    kind: String,
}

#[derive(Deserialize, Serialize)]
#[serde(remote = "GroupVersionResource")]
struct ReviewResource {
    #[serde(default)]
    group: String,
    version: String,
    resource: String,
}
