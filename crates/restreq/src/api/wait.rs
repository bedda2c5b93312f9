//! Waits for an object's state.

use pintle_meta::{
    ApiError, FieldSelector, InvalidKey, List, ListOptions, Metadata, Object, ObjectKey, WatchEvent, WatchOptions,
};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{Api, retry_watch};
use crate::error::InvalidRequest;

impl<T: Object + DeserializeOwned> Api<T> {
    /// Waits until `is_met` returns `true` for a state of the object, and then returns this state. `is_met` is called
    /// with the current state and with each later state that the server reports. The state is `None` while the object
    /// does not exist.
    ///
    /// The method lists and watches only the object with this name. If the connection is lost or the revision expires,
    /// the method keeps waiting. If the revision has expired, the method pauses like a
    /// [`RetryWatch`](crate::RetryWatch) after a failed request, and then lists again. The method has no deadline, so
    /// use `tokio::time::timeout` to limit the time.
    ///
    /// # Errors
    ///
    /// Returns an error if listing fails, or if an error occurs that a [`RetryWatch`](crate::RetryWatch) does not
    /// retry.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the current request is cancelled and no task keeps running.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use pintle_meta::{DynamicObject, Object};
    /// use pintle_restreq::Api;
    ///
    /// async fn runs(pods: &Api<DynamicObject>) -> Result<bool, Box<dyn std::error::Error>> {
    ///     let is_running = |pod: Option<&DynamicObject>| pod.is_some_and(|pod| pod.data["status"]["phase"] == "Running");
    ///     let pod = tokio::time::timeout(Duration::from_secs(60), pods.wait_for("web", is_running)).await??;
    ///     Ok(pod.is_some())
    /// }
    /// ```
    pub async fn wait_for(
        &self,
        key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>,
        mut is_met: impl FnMut(Option<&T>) -> bool,
    ) -> Result<Option<T>, ApiError> {
        let key = key.try_into().map_err(|error| InvalidRequest::Key(error.into()))?;
        let namespace = self.namespace_of(key.namespace())?.map(Into::into);
        let api = Self { namespace, ..self.clone() };
        let field_selector = FieldSelector::everything().equals("metadata.name", key.name());
        let listed = ListOptions { field_selector: field_selector.clone(), ..ListOptions::default() };
        // Compare the names, because a server without support for field selectors returns all objects.
        let is_named = |object: &T| object.name() == key.name();
        let mut pauses = retry_watch::pauses();
        loop {
            let List { items, metadata, .. } = api.list(&listed).await?;
            let found = items.into_iter().find(is_named);
            if is_met(found.as_ref()) {
                return Ok(found);
            }
            let mut watch = api.retry_watch(&WatchOptions {
                field_selector: field_selector.clone(),
                resource_version: metadata.resource_version,
                ..WatchOptions::default()
            })?;
            loop {
                match watch.next().await {
                    Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)))
                        if is_named(&object) && is_met(Some(&object)) =>
                    {
                        return Ok(Some(object));
                    }
                    Some(Ok(WatchEvent::Deleted(object))) if is_named(&object) && is_met(None) => return Ok(None),
                    Some(Ok(_)) => {}
                    // The next list includes the changes that the watch missed.
                    Some(Err(error)) if error.is_expired() => {
                        if watch.was_successful() {
                            pauses.reset();
                        }
                        break tokio::time::sleep(pauses.next(error.retry_after)).await;
                    }
                    Some(Err(error)) => return Err(error),
                    None => break,
                }
            }
        }
    }

    /// Waits until the status of one of the conditions in `one_of` is `True`. Returns the condition and the object. For
    /// example, wait for `Established` of a CustomResourceDefinition, `Available` of a Deployment, `Ready` of a Pod, or
    /// `Complete` or `Failed` of a Job.
    ///
    /// `T` does not have to declare `status.conditions`. A condition is ignored if its `observedGeneration` is older
    /// than the generation of the object. If the object does not exist, the method also waits for its creation.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`wait_for`](Self::wait_for).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the current request is cancelled and no task keeps running.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_meta::{ApiError, DynamicObject};
    /// use pintle_restreq::Api;
    ///
    /// async fn succeeds(jobs: &Api<DynamicObject>, name: &str) -> Result<bool, ApiError> {
    ///     let (condition, _job) = jobs.wait_for_condition(name, &["Complete", "Failed"]).await?;
    ///     Ok(condition == "Complete")
    /// }
    /// ```
    pub async fn wait_for_condition<'a>(
        &self,
        key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>,
        one_of: &[&'a str],
    ) -> Result<(&'a str, T), ApiError> {
        let mut met = None;
        let is_met = |object: Option<&WithConditions<T>>| {
            met = object.and_then(|object| one_of.iter().find(|condition| object.is_true(condition)));
            met.is_some()
        };
        let object = self.cast::<WithConditions<T>>().wait_for(key, is_met).await?;
        match (met, object) {
            (Some(met), Some(object)) => Ok((met, object.object)),
            // Unreachable, because `is_met` only returns `true` if the object exists and has a condition.
            _ => Err(ApiError::decode("an object with a condition no longer exists")),
        }
    }

    /// Waits until an object has been deleted.
    ///
    /// If `uid` is `None` or empty, the method returns when no object with this key exists. If another program deletes and
    /// re-creates the object in the meantime, the method may wait for the deletion of the new object. Pass the UID of
    /// the object to also return when an object with a different UID exists, because the original object was then
    /// deleted.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`wait_for`](Self::wait_for).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the current request is cancelled and no task keeps running.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_meta::{ApiError, DeleteOptions, DynamicObject, Object};
    /// use pintle_restreq::Api;
    ///
    /// async fn delete(jobs: &Api<DynamicObject>, name: &str) -> Result<(), ApiError> {
    ///     let job = jobs.get(name).await?;
    ///     jobs.delete(name, &DeleteOptions::default()).await?;
    ///     jobs.wait_for_deletion(name, Some(job.uid())).await
    /// }
    /// ```
    pub async fn wait_for_deletion(
        &self,
        key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>,
        uid: Option<&str>,
    ) -> Result<(), ApiError> {
        let uid = uid.filter(|uid| !uid.is_empty());
        let is_met = |object: Option<&T>| object.is_none_or(|object| uid.is_some_and(|uid| object.uid() != uid));
        self.wait_for(key, is_met).await.map(drop)
    }
}

/// An object and its conditions, which are decoded separately because `T` may not declare them.
struct WithConditions<T> {
    object: T,
    conditions: Vec<LenientCondition>,
}

/// Like [`pintle_meta::Condition`], but with fewer required fields.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LenientCondition {
    #[serde(default, rename = "type")]
    condition_type: String,
    #[serde(default)]
    status: String,
    observed_generation: Option<i64>,
}

impl<T: Object> WithConditions<T> {
    fn is_true(&self, condition_type: &str) -> bool {
        let generation = self.object.metadata().generation();
        self.conditions.iter().any(|condition| {
            condition.condition_type == condition_type
                && condition.status == "True"
                && condition.observed_generation.is_none_or(|observed| observed >= generation)
        })
    }
}

impl<T: Object> Object for WithConditions<T> {
    fn metadata(&self) -> &dyn Metadata {
        self.object.metadata()
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for WithConditions<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        struct Status {
            conditions: Option<Vec<LenientCondition>>,
        }
        #[derive(Deserialize)]
        struct Conditioned {
            status: Option<Status>,
        }
        let json: &RawValue = Deserialize::deserialize(deserializer)?;
        let object = serde_json::from_str(json.get()).map_err(D::Error::custom)?;
        let conditioned: Conditioned = serde_json::from_str(json.get()).map_err(D::Error::custom)?;
        let conditions = conditioned.status.unwrap_or_default().conditions.unwrap_or_default();
        Ok(Self { object, conditions })
    }
}
