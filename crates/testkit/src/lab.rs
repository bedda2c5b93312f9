//! A single run of an operator, with a server, the operator's processes and a user.

mod process;
mod steady;
mod webhooks;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use pintle_apiserver::faults::{Answer, Fault, Faults, Rule, RuleId};
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_cluster::{Cluster, ClusterConfig};
use pintle_meta::__private::Mutex;
use pintle_meta::{ApiError, DeleteOptions, ObjectKey, Resource, ResourceScope, Scope, WriteOptions};
use pintle_restreq::{Api, TransportLayer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

use self::process::Process;
use self::webhooks::Replicas;
use crate::journal::Journal;
use crate::request::SentRequest;
use crate::state::{Baseline, State};
use crate::violation::Violation;
use crate::wait::{LIMIT, eventually, interval};
use crate::world::{Operator, Settings, World};

/// The namespace of objects that do not specify a namespace, as in kubectl.
const NAMESPACE: &str = "default";
/// The server's time at the start of a run, as a duration since the Unix epoch.
pub(crate) const START: Duration = Duration::from_secs(1_800_000_000);

/// A running test cluster with an embedded server without a socket, the processes of an operator, and a user.
/// [`Kit::run`](crate::Kit::run) creates a `Lab`.
///
/// A lab uses tokio's paused clock, so waiting takes no real time. [Faults](Self::faults) also apply to the test's own
/// requests, unless they specify the user agent of a process.
pub struct Lab<W = ()> {
    server: Arc<ApiServer>,
    pub(crate) journal: Arc<Journal>,
    user: Cluster,
    world: W,
    first_world: Value,
    has_changed_world: AtomicBool,
    operator: Operator<W>,
    settings: Settings,
    seed: u64,
    baseline: Baseline,
    processes: Mutex<BTreeMap<String, Process>>,
    replicas: Arc<Replicas>,
    /// The rules that were added with [`fail`](Self::fail), and their descriptions for reports.
    rules: Mutex<Vec<(RuleId, String)>>,
}

impl<W: World> Lab<W> {
    pub(crate) async fn new(
        operator: Operator<W>,
        settings: Settings,
        seed: u64,
        journal: Arc<Journal>,
    ) -> Result<Self, Violation> {
        // Seed the random number generator that the operator's components use for jitter and generated names.
        fastrand::seed(seed);
        let config = ApiServerConfig {
            seed: Some(seed),
            start_time: Some(SystemTime::UNIX_EPOCH + START),
            audit: 200_000,
            offload: false,
            ..ApiServerConfig::default()
        };
        let server = Arc::new(ApiServer::start(config).await?);
        let transport = Some(TransportLayer::in_place(server.in_process()));
        let mut client = server.client_config();
        client.user_agent = Some(crate::OWN_AGENT.into());
        let user = Cluster::connect(ClusterConfig { client: Some(client), transport, ..ClusterConfig::default() })
            .map_err(|error| Violation::Start(Box::new(error)))?;
        if let Some(role) = &settings.role {
            server.load(&role.to_string()).map_err(|error| Violation::Start(Box::new(error)))?;
        }
        server.settle().await;
        let replicas = Arc::new(Replicas::default());
        let found = replicas.clone();
        server.local_webhooks().set(move |url| found.handler(url));
        let world = W::default();
        Ok(Self {
            baseline: Baseline::of(&server),
            server,
            journal,
            user,
            first_world: world.state(),
            has_changed_world: AtomicBool::new(false),
            world,
            operator,
            settings,
            seed,
            processes: Mutex::default(),
            replicas,
            rules: Mutex::default(),
        })
    }

    /// Returns the embedded server.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// Returns the server's fault script. The user agent of a process is its name.
    pub fn faults(&self) -> &Faults {
        self.server.faults()
    }

    /// Makes the next `times` matching requests of any process fail with the HTTP status `status`. `request` consists
    /// of a verb and a resource, as in reports, such as `patch configmaps`, `patch websites/status` or `list websites`.
    /// To inject other faults, use [`faults`](Self::faults).
    ///
    /// If the rule has not affected any request at the end of the test, [`Kit::run`](crate::Kit::run) returns
    /// [`Violation::UnusedRule`].
    ///
    /// # Panics
    ///
    /// Panics if `request` is not a verb and a resource, or if `status` is not between 400 and 599.
    #[track_caller]
    pub fn fail(&self, request: &str, status: u16, times: u32) {
        assert!((400..=599).contains(&status), "the status {status} is no failure; use a status from 400 to 599");
        let parsed = request.split_once(' ').and_then(|(verb, resource)| Some((verb.parse().ok()?, resource)));
        let (verb, resource) =
            parsed.unwrap_or_else(|| panic!("{request:?} is no verb and resource, such as \"patch configmaps\""));
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let rule = self.faults().add(Rule {
            verb: Some(verb),
            resource: Some(resource.into()),
            subresource: Some(subresource.into()),
            user_agent: Some("operator-".into()),
            times: Some(times),
            ..Rule::new(Fault::Answer(Answer::new(status)))
        });
        self.rules.lock().push((rule, format!("{request}: {status}")));
    }

    pub(crate) fn check_rules(&self) -> Result<(), Violation> {
        let rules = self.rules.lock();
        match rules.iter().find(|(rule, _)| self.faults().hits_of(*rule) == 0) {
            Some((_, rule)) => {
                let (requests, errors) = (self.journal.tail(steady::SHOWN), self.journal.errors());
                Err(Violation::UnusedRule { rule: rule.clone(), requests, errors })
            }
            None => Ok(()),
        }
    }

    /// Returns the [`Cluster`] that the test uses to send requests as the user.
    pub fn user(&self) -> &Cluster {
        &self.user
    }

    /// Returns the [`World`], which represents state outside of the cluster.
    pub fn world(&self) -> &W {
        &self.world
    }

    /// Returns all requests of all processes, oldest first.
    pub fn requests(&self) -> Vec<SentRequest> {
        self.journal.requests()
    }

    /// Creates an object as the user. The lab retries the request until the server accepts it. A retry can be necessary
    /// because the operator must first install the CustomResourceDefinition. If the operator has webhooks, the lab sends
    /// the first request after their registration. An object without a namespace is created in `default`.
    ///
    /// # Errors
    ///
    /// After two minutes on tokio's clock, this method returns the last error. If all processes have ended and one of
    /// them failed, this method immediately returns the error of the operator.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the object may or may not have been created.
    pub async fn create<T: Resource + Serialize + DeserializeOwned>(&self, object: &T) -> Result<T, Violation> {
        let what = format!("the user creates {} {:?}", T::KIND, object.name());
        let created = self.attempt(&what, async || create(&self.user, object).await).await?;
        self.journal.touch();
        Ok(created)
    }

    /// Returns the object with the key `key`, or `None` if the object does not exist. The key has the form
    /// `namespace/name`, with `default` as the default namespace.
    ///
    /// # Errors
    ///
    /// Returns an error if the request fails.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the read and changes nothing on the server.
    pub async fn get<T: Resource + DeserializeOwned>(&self, key: &str) -> Result<Option<T>, Violation> {
        match self.user.api::<T>().get(key_of::<T>(key)).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(Violation::Step { what: format!("get {} {key}", T::KIND), cause: error.to_string() }),
        }
    }

    /// Deletes the object with the key `key` as the user. Returns `Ok` if the object does not exist.
    ///
    /// # Errors
    ///
    /// Returns an error if the request fails.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the object may or may not have been deleted.
    pub async fn delete<T: Resource + DeserializeOwned>(&self, key: &str) -> Result<(), Violation> {
        let what = format!("the user deletes {} {key}", T::KIND);
        delete::<T>(&self.user, key).await.map_err(|error| Violation::Step { what, cause: error.to_string() })?;
        self.journal.touch();
        Ok(())
    }

    /// Waits until the object with the key `key` meets a condition, and returns the object. While the object does not
    /// exist, the condition is called with `None`.
    ///
    /// # Errors
    ///
    /// Returns an error if the condition is not met within two minutes on tokio's clock. The error contains the last
    /// state of the object. If all processes have ended and one of them failed, this method immediately returns the
    /// error of the operator.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect on the cluster.
    pub async fn until<T>(
        &self,
        key: &str,
        what: &str,
        mut is_met: impl FnMut(Option<&T>) -> bool,
    ) -> Result<Option<T>, Violation>
    where
        T: Resource + DeserializeOwned + Debug,
    {
        let what = format!("{} {key}: {what}", T::KIND);
        // Retry failed requests, because faults also affect the user's requests.
        let observe = async || self.get::<T>(key).await;
        let is_met = |found: &Result<Option<T>, Violation>| {
            self.has_failed() || found.as_ref().is_ok_and(|found| is_met(found.as_ref()))
        };
        let found = eventually(&what, observe, is_met).await.map_err(|violation| self.with_errors(violation))?;
        self.check_running()?;
        found
    }

    fn with_errors(&self, mut violation: Violation) -> Violation {
        if let Violation::NotInTime { errors, .. } = &mut violation {
            *errors = self.journal.errors();
        }
        violation
    }

    fn has_failed(&self) -> bool {
        self.running().is_empty() && self.check_ended().is_err()
    }

    fn check_running(&self) -> Result<(), Violation> {
        if self.has_failed() { self.check_ended() } else { Ok(()) }
    }

    /// Retries a request of the user until it succeeds, for at most [`LIMIT`] in total. Waits until the webhooks of the
    /// operator are registered, as a user waits until an operator is ready. Immediately returns the operator's error if
    /// all processes have ended and one of them failed.
    pub(crate) async fn attempt<T, E: std::fmt::Display>(
        &self,
        what: &str,
        mut request: impl AsyncFnMut() -> Result<T, E>,
    ) -> Result<T, Violation> {
        let start = Instant::now();
        let mut observed = "it has not ended yet".to_owned();
        let repeated = async {
            // Let a process that has just been started create its manager, which contains the webhooks.
            yield_now().await;
            loop {
                if self.replicas.are_unregistered() {
                    observed = "the operator has not registered its webhooks".into();
                } else {
                    match request().await {
                        Ok(done) => return Ok(done),
                        Err(error) => observed = error.to_string(),
                    }
                }
                self.check_running()?;
                sleep(interval(start.elapsed())).await;
            }
        };
        let ended = timeout(LIMIT, repeated).await;
        let late = |_| {
            let errors = self.journal.errors();
            Err(Violation::NotInTime { what: what.into(), within: LIMIT, observed, errors })
        };
        ended.unwrap_or_else(late)
    }

    pub(crate) fn state(&self) -> State {
        State::of(&self.server, &self.baseline, self.world.state(), &self.settings.ignored)
    }

    pub(crate) fn observe_world(&self) {
        if self.world.state() != self.first_world {
            self.has_changed_world.store(true, Ordering::Relaxed);
        }
    }

    /// Returns `true` if any call of [`observe_world`](Self::observe_world) found a difference from the initial world.
    pub(crate) fn has_changed_world(&self) -> bool {
        self.has_changed_world.load(Ordering::Relaxed)
    }
}

pub(crate) async fn create<T>(user: &Cluster, object: &T) -> Result<T, ApiError>
where
    T: Resource + Serialize + DeserializeOwned,
{
    let namespace = (T::Scope::SCOPE == Scope::Namespaced).then(|| object.namespace().unwrap_or(NAMESPACE));
    let api = Api::dynamic(user.client().clone(), T::api_resource(), namespace);
    // For a cluster-scoped resource, `namespace` is `None`.
    api.map_err(ApiError::invalid_request)?.create(object, &WriteOptions::default()).await
}

pub(crate) async fn delete<T: Resource + DeserializeOwned>(user: &Cluster, key: &str) -> Result<(), ApiError> {
    match user.api::<T>().delete(key_of::<T>(key), &DeleteOptions::default()).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Parses a key of the form `namespace/name`. For namespaced resources, the default namespace is `default`.
pub(crate) fn key_of<T: Resource>(text: &str) -> ObjectKey {
    match text.split_once('/') {
        Some((namespace, name)) => ObjectKey::new(namespace, name),
        None if T::Scope::SCOPE == Scope::Namespaced => ObjectKey::new(NAMESPACE, text),
        None => ObjectKey::cluster(text),
    }
}
