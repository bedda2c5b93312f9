//! Reads and writes subresources.

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

/// A handle to a subresource of an object, such as the `scale` of a Deployment. [`Api::subresource`] creates a handle.
///
/// Responses are decoded as `S`, which may be a different type than the object. For example, an eviction request
/// returns a [`Status`](pintle_meta::Status). Request bodies are sent unchanged.
///
/// # Cancel safety
///
/// Dropping a future cancels the request, as with [`Api`].
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
    /// A request with the path of the subresource. Each method sets the verb and the body.
    request: Request,
    object: PhantomData<fn() -> S>,
}

impl<T> Api<T> {
    /// Returns a handle to a subresource of an object. This method sends no request. If the key or the name of the
    /// subresource is invalid, the methods of the handle return an error.
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
    /// Returns a request with the path of the subresource. Use the request for operations that this type does not
    /// provide, such as following a log.
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
        self.request(Method::GET).object().await
    }

    /// Sends a create request for the subresource, such as an eviction, a binding or a token.
    ///
    /// # Errors
    ///
    /// Returns an error if the request fails. For an eviction, `TooManyRequests` means that deleting the pod would
    /// violate a PodDisruptionBudget.
    pub async fn create(&self, body: &impl Serialize, options: &WriteOptions) -> Result<S, ApiError> {
        with_write_options(self.request(Method::POST), options).json(body).object().await
    }

    /// Replaces the subresource. If `body` has a `resourceVersion` that differs from the stored one, the update fails
    /// with a conflict.
    ///
    /// # Errors
    ///
    /// Returns `Conflict` if the stored object has changed, `NotFound` if the object does not exist, or another error
    /// if the request fails.
    pub async fn update(&self, body: &impl Serialize, options: &WriteOptions) -> Result<S, ApiError> {
        with_write_options(self.request(Method::PUT), options).json(body).object().await
    }

    /// Patches the subresource. An apply patch must contain `apiVersion` and `kind`.
    ///
    /// # Errors
    ///
    /// Returns an error if the request fails.
    pub async fn patch(&self, patch: &Patch, options: &WriteOptions) -> Result<S, ApiError> {
        let request = self.request(Method::PATCH).header(CONTENT_TYPE.as_str(), patch.content_type());
        with_write_options(request, options).json(patch.body()).object().await
    }
}

impl<S> fmt::Debug for Subresource<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Subresource").field(&self.request).finish()
    }
}
