//! The request that an admission handler receives.

use pintle_meta::{GroupVersionKind, GroupVersionResource, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::answer::Denial;
use crate::decode::decode;
use crate::review::{AdmissionRequest, Operation, UserInfo};

/// A request to create, update, delete or connect to an object of type `T`, which a handler allows or rejects. Handlers
/// receive these requests from the API server, and tests can create them directly.
///
/// The `Debug` output omits the objects, because they may be Secrets.
///
/// # Examples
///
/// ```
/// use pintle_meta::ObjectMeta;
/// use pintle_webhook::{Admission, Denial, Operation};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Clone, Deserialize, Serialize)]
/// struct Website {
///     metadata: ObjectMeta,
///     domain: String,
/// }
/// pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
///
/// async fn keep_domain(request: Admission<Website>) -> Result<(), Denial> {
///     match request.old {
///         Some(Ok(old)) if old.domain != request.object.domain => Err(Denial::invalid("domain", "cannot change")),
///         _ => Ok(()),
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let old = Website { metadata: ObjectMeta::new("team-a", "blog"), domain: "a.example".into() };
/// let new = Website { domain: "b.example".into(), ..old.clone() };
/// assert!(keep_domain(Admission::create(new.clone())).await.is_ok());
/// let denial = keep_domain(Admission::update(old, new)).await.unwrap_err();
/// assert_eq!(denial.to_string(), "domain: cannot change");
/// # }
/// ```
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Admission<T> {
    /// The requested operation.
    pub operation: Operation,
    /// The object that the API server would store if it allowed the request. For a deletion, this is the currently
    /// stored object.
    pub object: T,
    /// The stored object before an update, or `None` for other operations.
    ///
    /// Contains an error if the stored object cannot be decoded as `T`, for example because `T` has become stricter. A
    /// handler with `request.old.transpose()?` denies updates of such an object. A handler with `if let Some(Ok(old)) =
    /// request.old` allows an update, which may repair the object.
    pub old: Option<Result<T, Denial>>,
    /// The requested resource, with the version of `T`, even if the client used another version.
    pub resource: GroupVersionResource,
    /// The kind of the object.
    pub kind: GroupVersionKind,
    /// The subresource, such as `status`, or an empty string if the request is for the object itself.
    pub subresource: String,
    /// The object's name, or an empty string if the server will generate the name.
    pub name: String,
    /// The object's namespace, or an empty string for a cluster-scoped object.
    pub namespace: String,
    /// The user that sent the request.
    pub user: UserInfo,
    /// Whether the request is a dry run. In a dry run, the API server does not store anything, and the handler must not
    /// have side effects.
    pub is_dry_run: bool,
    /// The `CreateOptions`, `UpdateOptions`, `PatchOptions` or `DeleteOptions` of the request as JSON, or `null` if the
    /// request has no options.
    pub options: Value,
    /// The uid of the webhook call, which differs from the uid of the object.
    pub uid: String,
}

impl<T> Admission<T> {
    pub(crate) fn decode<'r>(request: &'r AdmissionRequest) -> Result<Self, Denial>
    where
        T: DeserializeOwned,
    {
        let json = |name: &'static str, json: &'r Option<Box<RawValue>>| {
            json.as_deref().ok_or_else(|| {
                let operation = request.operation.as_str();
                Denial::bad_request(format!("the review has no {name}, which a request of the type {operation} needs"))
            })
        };
        let object = || json("object", &request.object);
        let old = || json("oldObject", &request.old_object);
        let (subject, old) = match request.operation {
            Operation::Create | Operation::Connect => (decode("object", object()?)?, None),
            Operation::Update => (decode("object", object()?)?, Some(decode("oldObject", old()?))),
            Operation::Delete => (decode("oldObject", old()?)?, None),
        };
        let options = request.options.as_ref().map(|options| decode("options", options)).transpose()?;
        Ok(Self {
            operation: request.operation,
            object: subject,
            old,
            resource: request.resource.clone(),
            kind: request.kind.clone(),
            subresource: request.sub_resource.clone(),
            name: request.name.clone(),
            namespace: request.namespace.clone(),
            user: request.user_info.clone(),
            is_dry_run: request.dry_run,
            options: options.unwrap_or_default(),
            uid: request.uid.clone(),
        })
    }
}

/// Creates requests for tests, with an empty user name. Tests can change all fields of the request.
impl<T: Resource> Admission<T> {
    /// Returns a request to create `object`.
    pub fn create(object: T) -> Self {
        Self::new(Operation::Create, object, None)
    }

    /// Returns a request to change `old` to `new`.
    pub fn update(old: T, new: T) -> Self {
        Self::new(Operation::Update, new, Some(old))
    }

    /// Returns a request to delete `object`.
    pub fn delete(object: T) -> Self {
        Self::new(Operation::Delete, object, None)
    }

    fn new(operation: Operation, object: T, old: Option<T>) -> Self {
        let resource = T::api_resource();
        Self {
            operation,
            resource: resource.gvr(),
            kind: resource.gvk(),
            subresource: String::new(),
            name: object.metadata().name().into(),
            namespace: object.metadata().namespace().into(),
            user: UserInfo::default(),
            is_dry_run: false,
            options: Value::Null,
            uid: String::new(),
            object,
            old: old.map(Ok),
        }
    }
}

pintle_meta::debug_struct!(Admission<T> {
    operation, resource, subresource, namespace, name, user, is_dry_run, uid, ..
});
