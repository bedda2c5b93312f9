//! The seams: all that informers, electors and recorders know of the network.

use std::future::Future;

use futures_core::Stream;
use serde::Serialize;

use crate::{
    ApiError, ApiResource, DeleteOptions, ListMeta, ListOptions, ObjectKey, Patch, RawObject, Resource, WatchEvent,
    WatchOptions, WriteOptions,
};

/// The reading side of one resource, as a reflector needs it: client-go's `ListerWatcher`.
///
/// Which resource and which namespace are settled when the value is made; selectors come with the options. Objects cross as
/// the bytes of their JSON: whoever wants them decodes them, where and as far as it likes, and one that cannot be decoded, or is
/// too large to be held, is one object and not a failed list. A source that has objects and no bytes is an
/// [`ObjectSource`](crate::ObjectSource).
///
/// # Cancel safety
///
/// Dropping a future or a stream gives the request up; nothing is left running.
///
/// # Examples
///
/// ```
/// use std::{future::poll_fn, pin::Pin};
/// use futures_core::Stream;
/// use pintle_meta::{ApiError, ListOptions, ListPart, ListWatch};
///
/// /// How many objects there are, and at which revision.
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
    /// What the objects are meant to be decoded as.
    type Object: 'static;

    /// A page of a list, part by part. It ends without an item when the page is whole: its metadata has come by then.
    type Page: Stream<Item = Result<ListPart, ApiError>> + Send + Unpin + 'static;

    /// The events of a watch. It ends without an item when the server closes it cleanly.
    type Events: Stream<Item = Result<WatchEvent<RawObject>, ApiError>> + Send + Unpin + 'static;

    /// Which resource it is.
    fn api_resource(&self) -> ApiResource;

    /// The namespace that the objects are in. None: they are of all namespaces, or the resource is cluster-scoped.
    fn namespace(&self) -> Option<&str>;

    /// Asks for one page of objects. The future ends when the server has taken up the request or refused it. Following
    /// `continue` tokens is the caller's part.
    fn list(&self, options: &ListOptions) -> impl Future<Output = Result<Self::Page, ApiError>> + Send;

    /// Opens a watch. The future ends when the server has accepted or refused it.
    fn watch(&self, options: &WatchOptions) -> impl Future<Output = Result<Self::Events, ApiError>> + Send;
}

/// A part of a page. The items come in the order of the list; the metadata comes once, before them or after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListPart {
    /// An object.
    Item(RawObject),
    /// What the list says of itself.
    Metadata(ListMeta),
}

/// The objects of one resource, one at a time.
///
/// `namespace` parts of keys must be absent for a cluster-scoped resource and present for a namespaced one.
///
/// # Cancel safety
///
/// Dropping a future gives the request up; whether the server acted on a write is then unknown.
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

    /// Creates an object where its metadata says, and returns it as stored.
    fn create(&self, object: &T, options: &WriteOptions) -> impl Future<Output = Result<T, ApiError>> + Send;

    /// Replaces an object. With a resourceVersion in its metadata, only if it has not changed since.
    fn update(&self, object: &T, options: &WriteOptions) -> impl Future<Output = Result<T, ApiError>> + Send;

    /// Replaces the status of an object, and nothing else of it.
    fn update_status(&self, object: &T, options: &WriteOptions) -> impl Future<Output = Result<T, ApiError>> + Send;

    /// Changes an object in part.
    fn patch(
        &self,
        key: &ObjectKey,
        patch: &Patch,
        options: &WriteOptions,
    ) -> impl Future<Output = Result<T, ApiError>> + Send;

    /// Deletes an object, or asks for it where finalizers or a grace period hold it.
    fn delete(&self, key: &ObjectKey, options: &DeleteOptions) -> impl Future<Output = Result<(), ApiError>> + Send;

    /// Server-side apply: all that the object holds is to be so, and belongs to the options' field manager from now on. Creates the
    /// object if it is not there. [`WriteOptions::apply`] makes the options.
    fn apply(&self, object: &T, options: &WriteOptions) -> impl Future<Output = Result<T, ApiError>> + Send
    where
        T: Resource + Serialize,
    {
        async move {
            let mut body = serde_json::to_value(object).map_err(ApiError::invalid_request)?;
            let Some(members) = body.as_object_mut() else {
                return Err(ApiError::invalid_request("the object is not written as a JSON object"));
            };
            members.insert("apiVersion".into(), T::API_VERSION.into());
            members.insert("kind".into(), T::KIND.into());
            self.patch(&object.key(), &Patch::Apply(body), options).await
        }
    }
}
