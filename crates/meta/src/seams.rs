//! The interfaces through which informers, electors and recorders use a client.

use std::future::Future;

use futures_core::Stream;
use serde::Serialize;

use crate::error::ApiError;
use crate::key::ObjectKey;
use crate::list::ListMeta;
use crate::object::Resource;
use crate::options::{DeleteOptions, ListOptions, Patch, WatchOptions, WriteOptions};
use crate::raw_object::RawObject;
use crate::resource::ApiResource;
use crate::watch::WatchEvent;

/// The list and watch requests of a reflector for one resource, like client-go's `ListerWatcher`.
///
/// Each `ListWatch` has a fixed resource and a fixed namespace. The options of each request contain the selectors.
/// Objects are delivered as JSON bytes, and the caller decodes them. Therefore, an object that cannot be decoded or
/// exceeds the size limit does not affect the other objects of the list. For a source that has objects instead of JSON
/// bytes, implement [`ObjectSource`](crate::ObjectSource).
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
    /// The type to which the caller decodes the objects.
    type Object: 'static;

    /// The stream that delivers the parts of a page. The stream ends after it has delivered the metadata and all items
    /// of the page.
    type Page: Stream<Item = Result<ListPart, ApiError>> + Send + Unpin + 'static;

    /// The stream that delivers the events of a watch. The stream ends when the server closes the watch without an
    /// error.
    type Events: Stream<Item = Result<WatchEvent<RawObject>, ApiError>> + Send + Unpin + 'static;

    /// Returns the resource.
    fn api_resource(&self) -> ApiResource;

    /// Returns the namespace of the objects. `None` means all namespaces or a cluster-scoped resource.
    fn namespace(&self) -> Option<&str>;

    /// Requests one page of objects. The future completes when the server has accepted or rejected the list request.
    /// To get further pages, the caller must send requests with the `continue` token.
    fn list(&self, options: &ListOptions) -> impl Future<Output = Result<Self::Page, ApiError>> + Send;

    /// Opens a watch. The future completes when the server has accepted or rejected the watch request.
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

/// Requests for single objects of one resource.
///
/// If the resource is namespaced, each key must contain a namespace. Otherwise, no key may contain a namespace.
///
/// # Cancel safety
///
/// Dropping a future cancels its request. If the cancelled request is a write, the caller cannot know whether the
/// server executed the write.
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

    /// Creates an object in the namespace in its metadata, and returns the stored object.
    fn create(&self, object: &T, options: &WriteOptions) -> impl Future<Output = Result<T, ApiError>> + Send;

    /// Replaces an object. If the metadata of `object` has a resourceVersion, the update fails unless the stored object
    /// has the same resourceVersion.
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

    /// Creates or changes an object with server-side apply. The field manager in the options becomes the owner of all
    /// fields in `object`. The object is created if it does not exist. [`WriteOptions::apply`] returns suitable
    /// options.
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
