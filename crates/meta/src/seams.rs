//! The client interfaces that informers, electors and recorders use.

use std::future::Future;

use futures_core::Stream;
use serde::Serialize;

use crate::{
    ApiError, ApiResource, DeleteOptions, ListMeta, ListOptions, ObjectKey, Patch, RawObject, Resource, WatchEvent,
    WatchOptions, WriteOptions,
};

/// Read access to one resource, as a reflector needs it: client-go's `ListerWatcher`.
///
/// A value of this type has a fixed resource and namespace. Selectors are part of the options of each request. Objects
/// are delivered as JSON bytes, and the consumer decodes them. Therefore, if one object cannot be decoded or exceeds
/// the size limit, the other objects of the list are still delivered. If a source has objects instead of bytes,
/// implement [`ObjectSource`](crate::ObjectSource) for it.
///
/// # Cancel safety
///
/// Dropping a future or a stream cancels the request. No task keeps running.
///
/// # Examples
///
/// ```
/// use std::{future::poll_fn, pin::Pin};
/// use futures_core::Stream;
/// use pintle_meta::{ApiError, ListOptions, ListPart, ListWatch};
///
/// /// Returns the number of objects and the revision.
/// async fn count(source: &impl ListWatch) -> Result<(usize, String), ApiError> {
///     let mut page = source.list(&ListOptions::default()).await?;
///     let (mut items, mut revision) = (0, String::new());
///     while let Some(part) = poll_fn(|cx| Pin::new(&mut page).poll_next(cx)).await {
///         match part? {
///             ListPart::Item(_object) => items += 1,
///             ListPart::Metadata(list) => revision = list.resource_version,
///         }
///     }
///     Ok((items, revision))
/// }
/// ```
pub trait ListWatch: Send + Sync + 'static {
    /// The type that the objects should be decoded as.
    type Object: 'static;

    /// The stream of the parts of a page. The stream ends when the page is complete, after its metadata was delivered.
    type Page: Stream<Item = Result<ListPart, ApiError>> + Send + Unpin + 'static;

    /// The stream of the events of a watch. The stream ends when the server closes the watch without an error.
    type Events: Stream<Item = Result<WatchEvent<RawObject>, ApiError>> + Send + Unpin + 'static;

    /// Returns the resource.
    fn api_resource(&self) -> ApiResource;

    /// Returns the namespace of the objects. `None` means all namespaces, or that the resource is cluster-scoped.
    fn namespace(&self) -> Option<&str>;

    /// Requests one page of objects. The future completes when the server has accepted or rejected the request. The
    /// caller must request further pages with the `continue` token.
    fn list(&self, options: &ListOptions) -> impl Future<Output = Result<Self::Page, ApiError>> + Send;

    /// Opens a watch. The future completes when the server has accepted or rejected the request.
    fn watch(&self, options: &WatchOptions) -> impl Future<Output = Result<Self::Events, ApiError>> + Send;
}

/// A part of a page. Items arrive in list order. The metadata arrives once, either before or after the items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListPart {
    /// An object.
    Item(RawObject),
    /// The metadata of the list.
    Metadata(ListMeta),
}

/// Access to single objects of one resource.
///
/// A key must have a namespace if and only if the resource is namespaced.
///
/// # Cancel safety
///
/// Dropping a future cancels the request. If the request is a write, it is unknown whether the server executed it.
///
/// # Examples
///
/// ```
/// use pintle_meta::{ApiError, DynamicObject, ObjectApi, ObjectKey, WriteOptions};
///
/// async fn label(api: &impl ObjectApi<DynamicObject>, key: &ObjectKey) -> Result<DynamicObject, ApiError> {
///     loop {
///         let mut object = api.get(key).await?;
///         object.metadata.labels.insert("tier".into(), "front".into());
///         match api.update(&object, &WriteOptions::default()).await {
///             Err(error) if error.is_conflict() => {}
///             done => return done,
///         }
///     }
/// }
/// ```
pub trait ObjectApi<T>: Send + Sync + 'static {
    /// Reads an object.
    fn get(&self, key: &ObjectKey) -> impl Future<Output = Result<T, ApiError>> + Send;

    /// Creates an object in the namespace that its metadata contains, and returns the stored object.
    fn create(&self, object: &T, options: &WriteOptions) -> impl Future<Output = Result<T, ApiError>> + Send;

    /// Replaces an object. If the metadata of `object` has a resourceVersion, the update fails if the stored object has
    /// another resourceVersion.
    fn update(&self, object: &T, options: &WriteOptions) -> impl Future<Output = Result<T, ApiError>> + Send;

    /// Replaces only the status of an object.
    fn update_status(&self, object: &T, options: &WriteOptions) -> impl Future<Output = Result<T, ApiError>> + Send;

    /// Patches an object.
    fn patch(
        &self,
        key: &ObjectKey,
        patch: &Patch,
        options: &WriteOptions,
    ) -> impl Future<Output = Result<T, ApiError>> + Send;

    /// Deletes an object. If finalizers or a grace period delay the deletion, the method returns before the object is
    /// removed.
    fn delete(&self, key: &ObjectKey, options: &DeleteOptions) -> impl Future<Output = Result<(), ApiError>> + Send;

    /// Applies an object with server-side apply. The field manager in the options becomes the owner of all fields in
    /// `object`. The object is created if it does not exist. [`WriteOptions::apply`] returns suitable options.
    fn apply(&self, object: &T, options: &WriteOptions) -> impl Future<Output = Result<T, ApiError>> + Send
    where
        T: Resource + Serialize,
    {
        async move {
            let mut body = serde_json::to_value(object).map_err(ApiError::invalid_request)?;
            let Some(members) = body.as_object_mut() else {
                return Err(ApiError::invalid_request("the object does not serialize to a JSON object"));
            };
            members.insert("apiVersion".into(), T::API_VERSION.into());
            members.insert("kind".into(), T::KIND.into());
            self.patch(&object.key(), &Patch::Apply(body), options).await
        }
    }
}
