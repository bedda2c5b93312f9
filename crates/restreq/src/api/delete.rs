//! Deleting, and what becomes of it.

use http::Method;
use pintle_meta::{ApiError, DeleteOptions, InvalidKey, ListOptions, ObjectKey, Status, TypeMeta};
use serde::de::DeserializeOwned;

use super::Api;
use super::options::with_list_options;

/// What a server answers to a DELETE that it accepts.
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
    /// The object. As a rule it is still there, and goes when its last finalizer or its grace period ends; of some kinds, such as
    /// pods, this is the last state of one that is gone. [`Api::wait_for_deletion`] waits for the end.
    Object(Box<T>),
    /// The object is gone, or, in a dry run, would be. The details have its uid.
    Status(Box<Status>),
}

impl<T: DeserializeOwned> Api<T> {
    /// Deletes an object, or asks for it where finalizers or a grace period hold it: the answer says which.
    ///
    /// # Errors
    ///
    /// Not found, `Conflict` if a precondition does not hold, or however else a request fails.
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
    /// Deletes all objects that match.
    ///
    /// # Errors
    ///
    /// However a request fails. Some objects may be gone then.
    pub async fn delete_collection(&self, which: &ListOptions, options: &DeleteOptions) -> Result<(), ApiError> {
        with_list_options(self.on_collection(self.client.delete()), which).json(options).send().await?;
        Ok(())
    }
}
