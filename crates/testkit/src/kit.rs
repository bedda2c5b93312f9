//! The test kit for operators.

mod chaos;
mod crashes;
mod failures;
mod idle;
mod permissions;
mod quiet;
mod runs;
mod steps;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pintle_cluster::Cluster;
use pintle_meta::Resource;
use pintle_operator::Manager;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::chaos::{SeedReport, seeds};
pub use self::crashes::CrashReport;
use self::steps::{Act, Step};
use crate::journal::Journal;
use crate::lab::{Lab, create, delete};
use crate::state::IgnoredField;
use crate::violation::Violation;
use crate::world::{Operator, Settings, World};

/// Tests an operator with faults and crashes. A kit contains a function that creates the operator's manager, and the
/// steps of a user. The methods of a kit are checks.
///
/// A check runs the operator many times and uses all processors. Each run has a new embedded server, a new runtime with
/// a paused clock, and a new [`World`]. Call checks from a plain `#[test]` function, because they block the calling
/// thread.
///
/// If no [step](Self::step) is added, the checks only test the startup of the operator.
///
/// # Examples
///
/// See the [crate documentation](crate).
#[must_use = "a kit does nothing until a check runs"]
pub struct Kit<W = ()> {
    operator: Operator<W>,
    settings: Settings,
    steps: Vec<Step>,
}

impl Kit {
    /// Creates a kit for an operator. The kit calls `operator` for each process of the operator, and each call must
    /// create a new manager.
    pub fn new(operator: impl Fn(Cluster) -> Manager + Send + Sync + 'static) -> Self {
        Self::with_world(move |cluster, ()| operator(cluster))
    }
}

impl<W: World> Kit<W> {
    /// Creates a kit for an operator that also changes a [`World`], which represents state outside of the cluster.
    pub fn with_world(operator: impl Fn(Cluster, W) -> Manager + Send + Sync + 'static) -> Self {
        let settings = Settings {
            quiet: Duration::from_secs(30),
            limit: Duration::from_secs(1_800),
            stall_limit: Duration::from_secs(60),
            ignored: Vec::new(),
            role: None,
            may_lack: BTreeSet::new(),
            may_fail: BTreeSet::new(),
        };
        Self { operator: Arc::new(operator), settings, steps: Vec::new() }
    }

    /// Sets the quiet time, which is the time without changes after which the operator counts as idle. The default is
    /// 30 s on the paused clock, which is longer than the takeover of a Lease. Use a longer quiet time if the operator
    /// waits longer between two writes.
    pub fn quiet(mut self, quiet: Duration) -> Self {
        self.settings.quiet = quiet;
        self
    }

    /// Sets how long the operator may take to become idle and to reach the expected state. The default is 30 minutes on
    /// the paused clock.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.settings.limit = limit;
        self
    }

    /// Sets the maximum real time for which the paused clock may not advance. The default is one minute. The paused
    /// clock does not advance while one of the operator's tasks is busy. A run that exceeds the limit fails
    /// with [`Violation::NotSteady`], which names the running processes.
    ///
    /// The limit has no effect while the thread of the run is blocked.
    pub fn stall_limit(mut self, limit: Duration) -> Self {
        self.settings.stall_limit = limit;
        self
    }

    /// Allows the reconciliations of a key to fail, for example because the user creates an invalid object. The key has
    /// the form `namespace/name`, or `name` for a cluster-scoped object. The last reconciliation of all other keys must
    /// have succeeded when the operator is idle: see [`Violation::FailedCalls`].
    pub fn may_fail(mut self, key: impl Into<String>) -> Self {
        self.settings.may_fail.insert(key.into());
        self
    }

    /// Ignores a field of all objects of type `T` when a check compares the states of different runs. Use this method if
    /// the operator generates the value of the field, such as a password. `pointer` is the JSON pointer to the field,
    /// such as `/data/password`. Runs must still agree on whether the field exists, and
    /// [`second_run_writes_nothing`](Self::second_run_writes_nothing) still fails if the second process changes the
    /// field.
    ///
    /// # Panics
    ///
    /// Panics if `pointer` does not begin with a slash.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_meta::ObjectMeta;
    /// use pintle_testkit::Kit;
    ///
    /// struct Secret {
    ///     metadata: ObjectMeta,
    /// }
    /// pintle_meta::resource!(Secret, "v1", "Secret", "secrets", Namespaced);
    ///
    /// fn with_random_password(kit: Kit) -> Kit {
    ///     kit.ignore::<Secret>("/data/password")
    /// }
    /// ```
    #[track_caller]
    pub fn ignore<T: Resource>(mut self, pointer: &str) -> Self {
        assert!(pointer.starts_with('/'), "{pointer:?} is no JSON pointer to a field, such as \"/data/password\"");
        let resource = T::api_resource().group_resource();
        self.settings.ignored.push(IgnoredField { resource, pointer: pointer.into() });
        self
    }

    /// Adds a step in which the user creates `object`. The kit retries the request until the server accepts it. The
    /// server may reject the request at first, for example because the operator has not installed the
    /// CustomResourceDefinition yet, or because an object with the same name is still being deleted.
    pub fn create<T>(self, object: T) -> Self
    where
        T: Resource + Serialize + DeserializeOwned,
    {
        let (name, object) = (format!("create {} {:?}", T::KIND, object.name()), Arc::new(object));
        self.add(name, move |user| {
            let object = object.clone();
            Box::pin(async move { create(&user, &*object).await.map(drop).map_err(Into::into) })
        })
    }

    /// Adds a step in which the user deletes the object with the key `key`. The key has the form `namespace/name`, with
    /// `default` as the default namespace.
    pub fn delete<T: Resource + DeserializeOwned>(self, key: &str) -> Self {
        let (name, key) = (format!("delete {} {key}", T::KIND), key.to_owned());
        self.add(name, move |user| {
            let key = key.clone();
            Box::pin(async move { delete::<T>(&user, &key).await.map_err(Into::into) })
        })
    }

    /// Adds a step in which the user calls a function. The step starts when the operator is idle. If the function
    /// fails, the kit retries it for at most two minutes.
    ///
    /// # Examples
    ///
    /// If the function uses `?`, the compiler cannot infer its error type from `Ok(())`. Write the type in the last
    /// line:
    ///
    /// ```
    /// use pintle_cluster::Cluster;
    /// use pintle_meta::{ApiError, ObjectMeta, Patch, WriteOptions};
    /// use pintle_testkit::Kit;
    /// use serde::Deserialize;
    /// use serde_json::json;
    ///
    /// #[derive(Deserialize)]
    /// struct Website {
    ///     metadata: ObjectMeta,
    /// }
    /// pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
    ///
    /// fn with_pause(kit: Kit) -> Kit {
    ///     kit.step("pause all sites", async |user: Cluster| {
    ///         let sites = user.namespaced::<Website>("default");
    ///         for name in ["blog", "shop"] {
    ///             let pause = Patch::Merge(json!({"spec": {"paused": true}}));
    ///             sites.patch(name, &pause, &WriteOptions::default()).await?;
    ///         }
    ///         Ok::<_, ApiError>(())
    ///     })
    /// }
    /// ```
    pub fn step<E>(
        self,
        name: impl Into<String>,
        act: impl AsyncFn(Cluster) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let act = Arc::new(act);
        self.add(name.into(), move |user| {
            let act = act.clone();
            Box::pin(async move { act(user).await.map_err(Into::into) })
        })
    }

    fn add(mut self, name: String, act: impl Fn(Cluster) -> Act + Send + Sync + 'static) -> Self {
        self.steps.push(Step { name, act: Box::new(act) });
        self
    }

    /// Runs a custom test against one process of the operator. The process does not run before the test first waits, so
    /// inject faults at the start of the test.
    ///
    /// # Errors
    ///
    /// Returns the error of the test. Returns [`Violation::UnusedRule`] if a rule of [`Lab::fail`](crate::Lab::fail)
    /// did not affect any request. Returns [`Violation::Forbidden`] if the operator is [restricted](Self::restricted) to a
    /// role that does not allow one of its requests.
    ///
    /// # Panics
    ///
    /// Panics if the test panics.
    pub fn run<R: Send>(&self, test: impl AsyncFnOnce(&Lab<W>) -> Result<R, Violation> + Send) -> Result<R, Violation> {
        runs::one(&self.settings, async |journal| {
            let lab = self.lab(0, journal).await?;
            lab.start()?;
            let result = test(&lab).await?;
            lab.check_rules()?;
            Ok(result)
        })
    }

    async fn lab(&self, seed: u64, journal: Arc<Journal>) -> Result<Lab<W>, Violation> {
        Lab::new(self.operator.clone(), self.settings.clone(), seed, journal).await
    }
}

pintle_meta::debug_struct!(Kit<W> |self| {
    settings,
    steps = self.steps.iter().map(|step| &step.name).collect::<Vec<_>>(),
    ..
});
