//! Subresources.

use std::fmt;
use std::marker::PhantomData;

use http::Method;
use http::header::CONTENT_TYPE;
use pintle_meta::{ApiError, InvalidKey, ObjectKey, Patch, WriteOptions};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Api;
use super::options::with_write_options;
use crate::error::InvalidRequest;
use crate::request::Request;

/// A subresource of an object, such as the `scale` of a deployment. [`Api::subresource`] creates it.
///
/// The client decodes responses as the type `S`. `S` can differ from the object's type. For example, the response to an
/// eviction is a [`Status`](pintle_meta::Status). The client does not add or change fields in request bodies.
///
/// # Cancel safety
///
/// Dropping a future has the same effect as with [`Api`].
///
/// # Examples
///
/// ```
/// use pintle_meta::{ApiError, DynamicObject, Patch, WriteOptions, Status};
/// use pintle_restreq::Api;
/// use serde_json::{Value, json};
///
/// async fn scale(deployments: &Api<DynamicObject>, replicas: u32) -> Result<Value, ApiError> {
///     let to = Patch::Merge(json!({"spec": {"replicas": replicas}}));
///     deployments.subresource("web", "scale").patch(&to, &WriteOptions::default()).await
/// }
///
/// async fn evict(pods: &Api<DynamicObject>, name: &str) -> Result<Status, ApiError> {
///     let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
///     pods.subresource(name, "eviction").create(&eviction, &WriteOptions::default()).await
/// }
/// ```
#[must_use = "a subresource does nothing by itself"]
pub struct Subresource<S> {
    /// The request for the subresource. The caller must still set the method and the body of the request.
    request: Request,
    object: PhantomData<fn() -> S>,
}

impl<T> Api<T> {
    /// Returns a handle for a subresource of an object. This method sends nothing. If the key or the subresource name
    /// is invalid, the handle's methods return an error when they send a request.
    pub fn subresource<S>(
        &self,
        key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>,
        subresource: &str,
    ) -> Subresource<S> {
        let request = self.on_object(self.client.get(), key);
        let request = match subresource {
            "" => request.keep(InvalidRequest::Segment {
                part: "subresource",
                value: String::new(),
                why: "it may not be empty",
            }),
            named => request.subresource(named.split('/')),
        };
        Subresource { request, object: PhantomData }
    }
}

impl<S> Subresource<S> {
    /// Returns a request that has the given method and the path of the subresource. Use this request for operations
    /// that have no method in this type, such as following a log.
    pub fn request(&self, method: Method) -> Request {
        self.request.clone().verb(method)
    }
}

impl<S: DeserializeOwned> Subresource<S> {
    /// Gets the subresource.
    ///
    /// # Errors
    ///
    /// Returns `NotFound` if the object does not exist, or another error if the request fails.
    pub async fn get(&self) -> Result<S, ApiError> {
        Ok(self.request(Method::GET).object().await?)
    }

    /// Sends a create request for the subresource, such as an eviction, a binding or a token.
    ///
    /// # Errors
    ///
    /// Returns an error if the request fails. For an eviction, the error `TooManyRequests` means that the eviction
    /// would violate a PodDisruptionBudget.
    pub async fn create(&self, body: &impl Serialize, options: &WriteOptions) -> Result<S, ApiError> {
        Ok(with_write_options(self.request(Method::POST), options).json(body).object().await?)
    }

    /// Replaces the subresource. If the metadata of `value` has a resourceVersion, the update succeeds only if the
    /// stored object still has that version.
    ///
    /// # Errors
    ///
    /// Returns `Conflict`, `NotFound`, or another error if the update fails.
    pub async fn update(&self, body: &impl Serialize, options: &WriteOptions) -> Result<S, ApiError> {
        Ok(with_write_options(self.request(Method::PUT), options).json(body).object().await?)
    }

    /// Patches the subresource. The body of an apply patch must have apiVersion and kind.
    ///
    /// # Errors
    ///
    /// Returns an error if the request fails.
    pub async fn patch(&self, patch: &Patch, options: &WriteOptions) -> Result<S, ApiError> {
        let request = self.request(Method::PATCH).header(CONTENT_TYPE.as_str(), patch.content_type());
        Ok(with_write_options(request, options).json(patch.body()).object().await?)
    }
}

impl<S> fmt::Debug for Subresource<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Subresource").field(&self.request).finish()
    }
}
