//! Subresources.

use std::fmt;
use std::marker::PhantomData;

use http::Method;
use http::header::CONTENT_TYPE;
use pintle_meta::{ApiError, InvalidKey, ObjectKey, Patch, PostOptions};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Api;
use super::options::with_post_options;
use crate::Request;
use crate::error::InvalidRequest;

/// One subresource of one object, such as the `scale` of a deployment: what [`Api::subresource`] gives.
///
/// `S` is what it is read as, and need not be of the object's kind: an eviction is answered by a
/// [`Status`](pintle_meta::Status). Bodies are sent as they are.
///
/// # Cancel safety
///
/// As for [`Api`].
///
/// # Examples
///
/// ```
/// use pintle_meta::{ApiError, DynamicObject, Patch, PostOptions, Status};
/// use pintle_restreq::Api;
/// use serde_json::{Value, json};
///
/// async fn scale(deployments: &Api<DynamicObject>, replicas: u32) -> Result<Value, ApiError> {
///     let to = Patch::Merge(json!({"spec": {"replicas": replicas}}));
///     deployments.subresource("web", "scale").patch(&to, &PostOptions::default()).await
/// }
///
/// async fn evict(pods: &Api<DynamicObject>, name: &str) -> Result<Status, ApiError> {
///     let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
///     pods.subresource(name, "eviction").create(&eviction, &PostOptions::default()).await
/// }
/// ```
#[must_use = "a subresource does nothing by itself"]
pub struct Subresource<S> {
    /// All but its method and body.
    request: Request,
    object: PhantomData<fn() -> S>,
}

impl<T> Api<T> {
    /// A subresource of an object. Nothing is sent yet; a key or a name that cannot be is told by the request.
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
    /// A request for it, to be completed and sent by hand: for a log that is followed, say.
    pub fn request(&self, method: Method) -> Request {
        self.request.clone().verb(method)
    }
}

impl<S: DeserializeOwned> Subresource<S> {
    /// Reads it.
    ///
    /// # Errors
    ///
    /// Not found, or however else a request fails.
    pub async fn get(&self) -> Result<S, ApiError> {
        Ok(self.request(Method::GET).object().await?)
    }

    /// Creates what it is for: an eviction, a binding, a token.
    ///
    /// # Errors
    ///
    /// However a request fails. Too many requests, of an eviction: it would leave too few pods.
    pub async fn create(&self, body: &impl Serialize, options: &PostOptions) -> Result<S, ApiError> {
        Ok(with_post_options(self.request(Method::POST), options).json(body).object().await?)
    }

    /// Replaces it. With a resourceVersion in its metadata, only if the object has not changed since.
    ///
    /// # Errors
    ///
    /// `Conflict`, not found, or however else a request fails.
    pub async fn update(&self, body: &impl Serialize, options: &PostOptions) -> Result<S, ApiError> {
        Ok(with_post_options(self.request(Method::PUT), options).json(body).object().await?)
    }

    /// Changes it in part. An apply has to name its apiVersion and kind.
    ///
    /// # Errors
    ///
    /// However a request fails.
    pub async fn patch(&self, patch: &Patch, options: &PostOptions) -> Result<S, ApiError> {
        let request = self.request(Method::PATCH).header(CONTENT_TYPE.as_str(), patch.content_type());
        Ok(with_post_options(request, options).json(patch.body()).object().await?)
    }
}

impl<S> fmt::Debug for Subresource<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Subresource").field(&self.request).finish()
    }
}
