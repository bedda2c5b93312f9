use std::future::Future;

use futures_core::Stream;

use crate::{ApiError, DeleteOptions, List, ListOptions, ObjectKey, Patch, PostOptions, WatchEvent, WatchOptions};

/// The reading side of one resource, as a reflector needs it: client-go's `ListerWatcher`.
///
/// Which resource and which namespace are settled when the value is made; selectors come with the options.
///
/// # Cancel safety
///
/// Dropping a future or a stream gives the request up; nothing is left running.
pub trait ListWatch<T>: Send + Sync + 'static {
    /// The stream of a watch. It ends without an item when the server closes it cleanly.
    type Events: Stream<Item = Result<WatchEvent<T>, ApiError>> + Send + Unpin + 'static;

    /// One page of objects. Following `continue` tokens is the caller's part.
    fn list(&self, options: &ListOptions) -> impl Future<Output = Result<List<T>, ApiError>> + Send;

    /// Opens a watch. The future ends when the server has accepted or refused it.
    fn watch(&self, options: &WatchOptions) -> impl Future<Output = Result<Self::Events, ApiError>> + Send;
}

/// The objects of one resource, one at a time.
///
/// `namespace` parts of keys must be absent for a cluster-scoped resource and present for a namespaced one.
///
/// # Cancel safety
///
/// Dropping a future gives the request up; whether the server acted on a write is then unknown.
pub trait ObjectApi<T>: Send + Sync + 'static {
    /// Reads an object.
    fn get(&self, key: &ObjectKey) -> impl Future<Output = Result<T, ApiError>> + Send;

    /// Creates an object where its metadata says, and returns it as stored.
    fn create(&self, object: &T, options: &PostOptions) -> impl Future<Output = Result<T, ApiError>> + Send;

    /// Replaces an object. With a resourceVersion in its metadata, only if it has not changed since.
    fn update(&self, object: &T, options: &PostOptions) -> impl Future<Output = Result<T, ApiError>> + Send;

    /// Replaces the status of an object, and nothing else of it.
    fn update_status(&self, object: &T, options: &PostOptions) -> impl Future<Output = Result<T, ApiError>> + Send;

    /// Changes an object in part.
    fn patch(
        &self,
        key: &ObjectKey,
        patch: &Patch,
        options: &PostOptions,
    ) -> impl Future<Output = Result<T, ApiError>> + Send;

    /// Deletes an object, or asks for it where finalizers or a grace period hold it.
    fn delete(&self, key: &ObjectKey, options: &DeleteOptions) -> impl Future<Output = Result<(), ApiError>> + Send;
}
