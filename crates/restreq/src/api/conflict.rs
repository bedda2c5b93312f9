//! Writes that read again and repeat when another was quicker.

use std::time::Duration;

use pintle_meta::{ApiError, Object, PostOptions};
use pintle_ratelimit::{Backoff, BackoffConfig};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Api;
use crate::error::InvalidRequest;

/// How often [`Api::create_or_update`] tries: client-go's default.
const ATTEMPTS: u32 = 5;

/// Calls `attempt` until it ends in something other than a conflict, `attempts` times at most: client-go's `RetryOnConflict`. It is to
/// read the object anew each time. Between two attempts are 10 ms, and up to a tenth of that by chance.
///
/// What it conflicts with may be its own write, of which no answer came ([`ApiError::earlier_may_have_acted`]): `attempt` is to say what
/// is to be so, as a label is, and not what is to be more, as a count.
///
/// # Errors
///
/// What `attempt` ended with; after the last one that may be the conflict.
///
/// # Cancel safety
///
/// Dropping the future drops the attempt that is under way.
///
/// # Examples
///
/// ```
/// use pintle_meta::{ApiError, DynamicObject, PostOptions};
/// use pintle_restreq::{Api, retry_on_conflict};
///
/// async fn label(api: &Api<DynamicObject>) -> Result<DynamicObject, ApiError> {
///     retry_on_conflict(5, || async {
///         let mut object = api.get("web").await?;
///         object.metadata.labels.insert("tier".into(), "front".into());
///         api.update(&object, &PostOptions::default()).await
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

/// What [`Api::create_or_update`] has done: controller-runtime's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationResult {
    /// The object was not there.
    Created,
    /// It was there, and was to be otherwise.
    Updated,
    /// It was there as it is to be. Nothing was written.
    Unchanged,
}

impl<T: Object + Clone + Serialize + DeserializeOwned> Api<T> {
    /// Makes an object as `change` wants it: the one that is there or, if there is none, `object`, which has its name. Of an object
    /// that is as wanted already nothing is written. If another writer is quicker, the object is read anew and `change` called again,
    /// five times in all.
    ///
    /// The type has to hold all of the object: what it does not read, the update drops. Where it does not, use
    /// [`apply`](Self::apply).
    ///
    /// # Errors
    ///
    /// The last conflict, or however else a request fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_meta::{ApiError, DynamicObject, ObjectMeta, PostOptions};
    /// use pintle_restreq::{Api, OperationResult};
    ///
    /// async fn settle(maps: &Api<DynamicObject>) -> Result<bool, ApiError> {
    ///     let settings = DynamicObject { metadata: ObjectMeta::new("team-a", "settings"), ..DynamicObject::default() };
    ///     let want = |map: &mut DynamicObject| map.data["data"] = serde_json::json!({"colour": "blue"});
    ///     let (result, _map) = maps.create_or_update(&settings, &PostOptions::default(), want).await?;
    ///     Ok(result != OperationResult::Unchanged)
    /// }
    /// ```
    pub async fn create_or_update(
        &self,
        object: &T,
        options: &PostOptions,
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

/// As client-go's `DefaultRetry`.
fn pauses() -> Backoff {
    let base = Duration::from_millis(10);
    let config = BackoffConfig { base, factor: 1.0, jitter: 0.1, ..BackoffConfig::default() };
    Backoff::new(config, fastrand::u64(..))
}
