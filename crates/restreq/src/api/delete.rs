//! Deletes objects.

use http::Method;
use pintle_meta::{ApiError, DeleteOptions, InvalidKey, ListOptions, ObjectKey, Status, TypeMeta};
use serde::de::DeserializeOwned;

use super::Api;
use super::options::with_list_options;

/// The server's response to a delete request.
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
    /// The object in the response, which usually still exists. The server deletes the object once its last finalizer is
    /// removed and its grace period has ended. For some kinds, such as pods, the server may also return the last state
    /// of an object that is already deleted. Use [`Api::wait_for_deletion`] to wait for the deletion.
    Object(Box<T>),
    /// The object has been deleted. In a dry run, `Status` means that the object would have been deleted. The details
    /// of the status contain the UID of the object.
    Status(Box<Status>),
}

impl<T: DeserializeOwned> Api<T> {
    /// Requests the deletion of an object. The method returns without waiting for finalizers or for the end of the
    /// grace period. The result indicates whether the object still exists.
    ///
    /// # Errors
    ///
    /// Returns `NotFound` if the object does not exist, `Conflict` if a precondition is not met, or another error if
    /// the request fails.
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
    /// Returns an error if the request fails. Some of the objects may have been deleted before the error.
    pub async fn delete_collection(&self, which: &ListOptions, options: &DeleteOptions) -> Result<(), ApiError> {
        with_list_options(self.on_collection(self.client.delete()), which).json(options).send().await?;
        Ok(())
    }
}
