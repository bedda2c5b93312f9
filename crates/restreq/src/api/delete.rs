//! Deletion and its result.

use http::Method;
use pintle_meta::{ApiError, DeleteOptions, InvalidKey, ListOptions, ObjectKey, Status, TypeMeta};
use serde::de::DeserializeOwned;

use super::Api;
use super::options::with_list_options;

/// The server's response to a DELETE request.
///
/// # Examples
///
/// ```
/// use pintle_meta::{ApiError, DeleteOptions, Metadata, Object, PartialObject};
/// use pintle_restreq::{Api, Deletion};
///
/// async fn delete(api: &Api<PartialObject>, name: &str) -> Result<(), ApiError> {
///     match api.delete(name, &DeleteOptions::default()).await? {
///         Deletion::Object(object) => println!("waits for {:?}", object.metadata.finalizers),
///         Deletion::Status(_) => println!("gone"),
///     }
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Deletion<T> {
    /// The server responded with the object. Usually the object still exists. The server deletes the object when its
    /// last finalizer is removed or its grace period ends. For some kinds, such as pods, the response can also be the
    /// last state of an object that is already deleted. [`Api::wait_for_deletion`] waits until the object is deleted.
    Object(Box<T>),
    /// The object is deleted. In a dry run, this response means that the server would have deleted the object. The
    /// details of the status contain the object's UID.
    Status(Box<Status>),
}

impl<T: DeserializeOwned> Api<T> {
    /// Deletes an object. If the object has finalizers or a grace period, this method only requests the deletion and
    /// returns before the object is deleted. The variant of the result shows whether the object still exists.
    ///
    /// # Errors
    ///
    /// Returns `NotFound` if the object does not exist, and `Conflict` if a precondition fails. Returns another error
    /// if the request fails in another way.
    pub async fn delete(
        &self,
        key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>,
        options: &DeleteOptions,
    ) -> Result<Deletion<T>, ApiError> {
        let response = self.on_object(self.request(Method::DELETE), key).json(options).send().await?;
        if response.body().is_empty() {
            let status = Status { status: "Success".into(), code: response.status().as_u16(), ..Status::default() };
            return Ok(Deletion::Status(Box::new(status)));
        }
        let types: TypeMeta = response.clone().into()?;
        Ok(match types.kind.as_str() {
            "Status" => Deletion::Status(response.into()?),
            _ => Deletion::Object(response.into()?),
        })
    }
}

impl<T> Api<T> {
    /// Deletes all objects that match the selectors in `which`.
    ///
    /// # Errors
    ///
    /// Returns an error if the request fails. Even if this method returns an error, the server may have deleted some of
    /// the objects.
    pub async fn delete_collection(&self, which: &ListOptions, options: &DeleteOptions) -> Result<(), ApiError> {
        with_list_options(self.on_collection(self.client.delete()), which).json(options).send().await?;
        Ok(())
    }
}
