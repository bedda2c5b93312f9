//! Loops that read, modify and write an object, and retry after a conflict.

use std::time::Duration;

use pintle_meta::{ApiError, Object, WriteOptions};
use pintle_ratelimit::{Backoff, BackoffConfig};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Api;
use crate::error::InvalidRequest;

/// The maximum number of attempts of [`Api::create_or_update`], as in client-go.
const ATTEMPTS: u32 = 5;

/// Calls `attempt` again as long as it returns a conflict, like client-go's `RetryOnConflict`. Calls `attempt` at most
/// `attempts` times, but at least once. `attempt` must read the object from the server each time it is called.
///
/// The pause between attempts is 10 ms plus up to 10 % jitter. If the error contains a longer
/// [`retry_after`](ApiError::retry_after), the pause is `retry_after`.
///
/// `attempt` must be idempotent. For example, `attempt` may set a label, but must not increment a counter. If the
/// response to a write is lost, the client may send the write again. A repeated write can conflict with the first write
/// ([`ApiError::earlier`]).
///
/// # Errors
///
/// Returns the error of the last attempt, which may be a conflict.
///
/// # Cancel safety
///
/// Dropping the future cancels the current attempt.
///
/// # Examples
///
/// ```
/// use pintle_meta::{ApiError, DynamicObject, WriteOptions};
/// use pintle_restreq::{Api, retry_on_conflict};
///
/// async fn label(api: &Api<DynamicObject>) -> Result<DynamicObject, ApiError> {
///     retry_on_conflict(5, || async {
///         let mut object = api.get("web").await?;
///         object.metadata.labels.insert("tier".into(), "front".into());
///         api.update(&object, &WriteOptions::default()).await
///     })
///     .await
/// }
/// ```
pub async fn retry_on_conflict<T, F>(attempts: u32, mut attempt: impl FnMut() -> F) -> Result<T, ApiError>
where
    F: Future<Output = Result<T, ApiError>>,
{
    let mut pauses = pauses();
    for _ in 1..attempts {
        match attempt().await {
            Err(error) if error.is_conflict() => tokio::time::sleep(pauses.next(error.retry_after)).await,
            done => return done,
        }
    }
    attempt().await
}

/// The outcome of [`Api::create_or_update`]. The variants have the same names as in controller-runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationResult {
    /// The object did not exist and was created.
    Created,
    /// The object existed and was changed.
    Updated,
    /// `change` did not modify the object, so no request was sent.
    Unchanged,
}

impl<T: Object + Clone + Serialize + DeserializeOwned> Api<T> {
    /// Reads the object with the same key as `object`, applies `change`, and updates the object if it has changed. If
    /// the object does not exist, applies `change` to a copy of `object` and creates this copy.
    ///
    /// After a conflict, or if another client creates the object first, this method reads the object again and retries.
    /// The method makes at most five attempts in total.
    ///
    /// `T` must declare all fields of the object, because the update removes all fields that `T` does not declare. For
    /// a type with only some of the fields, use [`apply`](Self::apply) instead.
    ///
    /// # Errors
    ///
    /// Returns the error of the last attempt. Only `Conflict` and `AlreadyExists` errors are retried.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_meta::{ApiError, DynamicObject, ObjectMeta, WriteOptions};
    /// use pintle_restreq::{Api, OperationResult};
    ///
    /// async fn settle(maps: &Api<DynamicObject>) -> Result<bool, ApiError> {
    ///     let settings = DynamicObject { metadata: ObjectMeta::new("team-a", "settings"), ..DynamicObject::default() };
    ///     let want = |map: &mut DynamicObject| map.data["data"] = serde_json::json!({"colour": "blue"});
    ///     let (result, _map) = maps.create_or_update(&settings, &WriteOptions::default(), want).await?;
    ///     Ok(result != OperationResult::Unchanged)
    /// }
    /// ```
    pub async fn create_or_update(
        &self,
        object: &T,
        options: &WriteOptions,
        mut change: impl FnMut(&mut T),
    ) -> Result<(OperationResult, T), ApiError> {
        let as_json = |object: &T| {
            let encoded = serde_json::to_value(object);
            encoded.map_err(|error| InvalidRequest::Encode { what: "the object", message: error.to_string() })
        };
        let mut pauses = pauses();
        let mut left = ATTEMPTS;
        loop {
            let written = match self.get(object.key()).await {
                Err(error) if error.is_not_found() => {
                    let mut new = object.clone();
                    change(&mut new);
                    self.create(&new, options).await.map(|created| (OperationResult::Created, created))
                }
                Err(error) => return Err(error),
                Ok(found) => {
                    let mut wanted = found.clone();
                    change(&mut wanted);
                    if as_json(&found)? == as_json(&wanted)? {
                        return Ok((OperationResult::Unchanged, found));
                    }
                    self.update(&wanted, options).await.map(|updated| (OperationResult::Updated, updated))
                }
            };
            left -= 1;
            match written {
                Err(error) if left > 0 && (error.is_conflict() || error.is_already_exists()) => {
                    tokio::time::sleep(pauses.next(error.retry_after)).await;
                }
                done => return done,
            }
        }
    }
}

/// The pauses between attempts, as in client-go's `DefaultRetry`.
fn pauses() -> Backoff {
    let base = Duration::from_millis(10);
    let config = BackoffConfig { base, factor: 1.0, jitter: 0.1, ..BackoffConfig::default() };
    Backoff::new(config, fastrand::u64(..))
}
