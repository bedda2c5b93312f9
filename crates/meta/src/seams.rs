//! The client traits that informers, electors and recorders use.

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

/// Lists and watches the objects of one resource for a reflector, like client-go's `ListerWatcher`.
///
/// Each `ListWatch` is fixed to one resource, and to one namespace or all namespaces. Selectors are part of the request
/// options. Objects are delivered as JSON bytes, and the caller decodes them, so that an object that is oversized or
/// cannot be decoded does not affect other objects. If a source provides decoded objects instead of JSON bytes,
/// implement [`ObjectSource`](crate::ObjectSource).
///
/// # Cancel safety
///
/// Dropping a future or a stream cancels its request, and no background task keeps running.
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
    /// The Rust type into which callers decode the objects.
    type Object: 'static;

    /// The stream of the items and the metadata of one list page. The stream ends after the last item and the metadata.
    type Page: Stream<Item = Result<ListPart, ApiError>> + Send + Unpin + 'static;

    /// The stream of watch events, which ends when the server closes the watch without an error.
    type Events: Stream<Item = Result<WatchEvent<RawObject>, ApiError>> + Send + Unpin + 'static;

    /// Returns the resource of the objects.
    fn api_resource(&self) -> ApiResource;

    /// Returns the watched namespace. `None` means that all namespaces are watched, or that the resource is
    /// cluster-scoped.
    fn namespace(&self) -> Option<&str>;

    /// Requests one page of objects. The future completes once the server has accepted or rejected the request. To
    /// request the next page, call `list` again with the `continue` token of this page.
    fn list(&self, options: &ListOptions) -> impl Future<Output = Result<Self::Page, ApiError>> + Send;

    /// Opens a watch. The future completes once the server has accepted or rejected the request.
    fn watch(&self, options: &WatchOptions) -> impl Future<Output = Result<Self::Events, ApiError>> + Send;
}

/// A part of a list page. A page consists of its items in list order, with the list metadata once, before or after the
/// items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListPart {
    /// An item of the list.
    Item(RawObject),
    /// The list metadata, with the resourceVersion and the `continue` token.
    Metadata(ListMeta),
}

/// Reads and writes individual objects of one resource.
///
/// If the resource is namespaced, each key must contain a namespace. If the resource is cluster-scoped, keys must not
/// contain a namespace.
///
/// # Cancel safety
///
/// Dropping a future cancels its request. A cancelled write may still take effect on the server.
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

    /// Reads an object. Returns `None` if the object does not exist. A 404 response without a `Status` object is an error.
    fn get_opt(&self, key: &ObjectKey) -> impl Future<Output = Result<Option<T>, ApiError>> + Send
    where
        T: Send,
    {
        async move {
            match self.get(key).await {
                Err(error) if error.is_object_not_found() => Ok(None),
                found => found.map(Some),
            }
        }
    }

    /// Creates an object in the namespace of its metadata, and returns the stored object.
    fn create(&self, object: &T, options: &WriteOptions) -> impl Future<Output = Result<T, ApiError>> + Send;

    /// Replaces an object. If `object` has a `resourceVersion` that differs from the stored one, the update fails with
    /// a conflict.
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

    /// Deletes an object. The method returns without waiting for finalizers or for the end of the grace period.
    fn delete(&self, key: &ObjectKey, options: &DeleteOptions) -> impl Future<Output = Result<(), ApiError>> + Send;

    /// Creates or updates an object with server-side apply. The field manager in `options` becomes the owner of all
    /// fields in `object`. [`WriteOptions::apply`] returns options for this method.
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
