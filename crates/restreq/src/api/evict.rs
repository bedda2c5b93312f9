//! Evicts pods.

use std::time::Duration;

use http::{Method, StatusCode};
use pintle_meta::{ApiError, DeleteOptions, ErrorKind, InvalidKey, ObjectKey, Status};
use serde_json::json;

use super::Api;
use crate::error::InvalidRequest;

/// The outcome of [`Api::evict`].
#[derive(Clone, Debug, PartialEq)]
#[must_use = "the server may have blocked the eviction, for example because of a PodDisruptionBudget"]
pub enum EvictionOutcome {
    /// The server has accepted the eviction and deletes the pod. In a dry run, the server only checks whether the
    /// eviction is allowed.
    Evicted,
    /// The server rejected the eviction with status 429, usually because of a PodDisruptionBudget. The pod is
    /// unchanged.
    Blocked {
        /// The delay before a retry, if the server requested one. kubectl retries every 5 s.
        retry_after: Option<Duration>,
        /// The status that the server sent, whose causes name the PodDisruptionBudget.
        status: Box<Status>,
    },
}

impl<T> Api<T> {
    /// Evicts a pod. The server deletes the pod if all of its PodDisruptionBudgets allow this.
    ///
    /// A blocked eviction is not an error: if the server asks the client to retry later, for example because of a
    /// PodDisruptionBudget, this method immediately returns `Ok` with [`EvictionOutcome::Blocked`]. Always check the
    /// outcome.
    ///
    /// # Errors
    ///
    /// Returns one of these errors:
    ///
    /// - `NotFound` if the pod does not exist.
    /// - `InternalError` if the pod matches several PodDisruptionBudgets.
    /// - An error if this `Api` is not for pods.
    /// - Another error if the request fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use pintle_meta::{ApiError, DeleteOptions, DynamicObject};
    /// use pintle_restreq::{Api, EvictionOutcome};
    ///
    /// async fn evict(pods: &Api<DynamicObject>, name: &str) -> Result<(), ApiError> {
    ///     while let EvictionOutcome::Blocked { retry_after, status } =
    ///         pods.evict(name, &DeleteOptions::default()).await?
    ///     {
    ///         println!("{name}: {status}");
    ///         tokio::time::sleep(retry_after.unwrap_or(Duration::from_secs(5))).await;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub async fn evict(
        &self,
        key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>,
        options: &DeleteOptions,
    ) -> Result<EvictionOutcome, ApiError> {
        let key = key.try_into().map_err(|error| InvalidRequest::Key(error.into()))?;
        let eviction = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": key.name()},
            "deleteOptions": options,
        });
        let request = self.on_object_of("", &["pods"], self.client.verb(Method::POST), key).subresource(["eviction"]);
        match request.returning_429().json(&eviction).send().await {
            Ok(_) => Ok(EvictionOutcome::Evicted),
            Err(ApiError { kind: ErrorKind::Status(status), retry_after, .. })
                if status.code == StatusCode::TOO_MANY_REQUESTS.as_u16() =>
            {
                Ok(EvictionOutcome::Blocked { retry_after, status })
            }
            Err(error) => Err(error),
        }
    }
}
