//! Scaling and restarting workloads, and cordoning nodes.

use pintle_meta::{ApiError, InvalidKey, ObjectKey, ObjectMeta, Patch, Time, TypeMeta, WriteOptions};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Api;
use super::subresource::Subresource;

/// The `scale` subresource of a workload: a `Scale` of the group version `autoscaling/v1`. See [`Api::scale`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct WorkloadScale {
    /// The API version and the kind: `autoscaling/v1` and `Scale`.
    #[serde(flatten)]
    pub types: TypeMeta,
    /// The workload's metadata: the name, the namespace and the `resourceVersion`.
    pub metadata: ObjectMeta,
    /// The desired scale.
    #[serde(default)]
    pub spec: ScaleSpec,
    /// The current scale.
    #[serde(default)]
    pub status: ScaleStatus,
}

/// A workload's desired scale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ScaleSpec {
    /// The desired number of replicas.
    #[serde(default)]
    pub replicas: i32,
}

/// A workload's current scale.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct ScaleStatus {
    /// The current number of replicas.
    pub replicas: i32,
    /// The label selector of the workload's pods as a string, which can be empty.
    pub selector: String,
}

/// The annotation that `kubectl rollout restart` sets.
const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";

impl<T> Api<T> {
    /// Returns a handle to the `scale` subresource of a workload or a custom resource. This method sends no request.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_meta::{ApiError, DynamicObject, Patch, WriteOptions};
    /// use pintle_restreq::Api;
    /// use serde_json::json;
    ///
    /// async fn double(deployments: &Api<DynamicObject>) -> Result<i32, ApiError> {
    ///     let scale = deployments.scale("web");
    ///     let mut wanted = scale.get().await?;
    ///     wanted.spec.replicas *= 2;
    ///     // Returns a conflict if the Deployment has changed meanwhile.
    ///     Ok(scale.update(&wanted, &WriteOptions::default()).await?.spec.replicas)
    /// }
    ///
    /// async fn stop(deployments: &Api<DynamicObject>) -> Result<(), ApiError> {
    ///     let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
    ///     deployments.scale("web").patch(&none, &WriteOptions::default()).await?;
    ///     Ok(())
    /// }
    /// ```
    pub fn scale(&self, key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>) -> Subresource<WorkloadScale> {
        self.subresource(key, "scale")
    }
}

impl<T: DeserializeOwned> Api<T> {
    /// Restarts the pods of a Deployment, DaemonSet or StatefulSet with a rolling update. Like `kubectl rollout
    /// restart`, this method sets an annotation in the pod template to the current time.
    ///
    /// If a Deployment is paused, its pods are restarted when it is resumed. Two calls within the same second cause
    /// only one restart.
    ///
    /// # Errors
    ///
    /// Returns `NotFound` if the workload does not exist, or another error if this `Api` is for another resource or the
    /// request fails.
    pub async fn restart(
        &self,
        key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>,
        options: &WriteOptions,
    ) -> Result<T, ApiError> {
        self.expect_resource("apps", &["deployments", "daemonsets", "statefulsets"])?;
        let template = json!({"metadata": {"annotations": {RESTARTED_AT: Time::now()}}});
        self.patch(key, &Patch::Merge(json!({"spec": {"template": template}})), options).await
    }

    /// Marks a node as unschedulable. Pods that run on the node are not affected.
    ///
    /// # Errors
    ///
    /// Returns `NotFound` if the node does not exist, or another error if this `Api` is not for nodes or the request
    /// fails.
    pub async fn cordon(
        &self,
        key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>,
        options: &WriteOptions,
    ) -> Result<T, ApiError> {
        self.set_unschedulable(key, json!(true), options).await
    }

    /// Marks a node as schedulable again.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`cordon`](Self::cordon).
    pub async fn uncordon(
        &self,
        key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>,
        options: &WriteOptions,
    ) -> Result<T, ApiError> {
        self.set_unschedulable(key, Value::Null, options).await
    }

    async fn set_unschedulable(
        &self,
        key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>,
        value: Value,
        options: &WriteOptions,
    ) -> Result<T, ApiError> {
        self.expect_resource("", &["nodes"])?;
        self.patch(key, &Patch::Merge(json!({"spec": {"unschedulable": value}})), options).await
    }
}
