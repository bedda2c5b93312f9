//! Tests operators: injected faults, a crash at every request, stale views, chaos by seed, generated resources, and the least RBAC role.
//!
//! ```rust
//! use pintle_testkit::{Kit, Violation};
//! # use std::sync::Arc;
//! # use pintle_cluster::Cluster;
//! # use pintle_crd::Resource;
//! # use pintle_meta::{Conditions, ObjectMeta};
//! # use pintle_operator::{Action, Context, Controller, Manager};
//! # use schemars::JsonSchema;
//! # use serde::{Deserialize, Serialize};
//! #
//! # #[derive(Resource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
//! # #[resource(crate = pintle_crd, group = "example.com", version = "v1")]
//! # struct Website { metadata: ObjectMeta, status: Option<Status> }
//! # #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
//! # struct Status { conditions: Conditions }
//! # #[derive(Clone, Debug, Deserialize, Serialize)]
//! # struct ConfigMap { metadata: ObjectMeta }
//! # pintle_meta::resource!(ConfigMap, "v1", "ConfigMap", "configmaps", Namespaced);
//! # async fn publish(site: Arc<Website>, cx: Context<Website>) -> pintle_operator::Result<Action> {
//! #     cx.apply(ConfigMap { metadata: ObjectMeta::new("", &site.metadata.name) }).await?;
//! #     cx.apply_status(Status { conditions: cx.ready("Published") }).await?;
//! #     Ok(Action::await_change())
//! # }
//! # fn operator(cluster: Cluster) -> Manager {
//! #     let controller = Controller::<Website>::new().owns::<ConfigMap>().reconcile(publish);
//! #     Manager::new("website-controller", cluster).leader_election().install::<Website>().controller(controller)
//! # }
//! # fn site(name: &str) -> Website { Website { metadata: ObjectMeta::new("default", name), status: None } }
//! # impl Website {
//! #     fn is_ready(&self) -> bool { self.status.as_ref().is_some_and(|status| status.conditions.is_true("Ready")) }
//! # }
//!
//! // `operator` is `fn(Cluster) -> Manager`, and `main` calls it, too. In a test file, each function has the attribute `#[test]`.
//! fn site_is_published_although_writes_fail() -> Result<(), Violation> {
//!     Kit::new(operator).run(async |lab| {
//!         lab.fail("patch configmaps", 503, 3);
//!         lab.create(&site("blog")).await?;
//!         lab.until("blog", "is ready", |site: Option<&Website>| site.is_some_and(Website::is_ready)).await?;
//!         Ok(())
//!     })
//! }
//!
//! fn site_survives_a_crash_at_every_request() -> Result<(), Violation> {
//!     let kit = Kit::new(operator).create(site("blog")).delete::<Website>("blog");
//!     println!("{}", kit.survives_crashes()?);
//!     Ok(())
//! }
//! # site_is_published_although_writes_fail()?;
//! # site_survives_a_crash_at_every_request()?;
//! # Ok::<(), Violation>(())
//! ```
//!
//! # Main types
//!
//! - A [`Kit`] contains the operator, the steps of its user, and the checks.
//! - A [`Lab`] is a single run for manual tests: the server, the processes of the operator, and the user.
//! - A [`Violation`] is the result of a failed check. The `Display` output of a violation is a report.
//! - A [`CrdChecker`] checks which objects a CustomResourceDefinition accepts. For example, `CrdChecker::new(Website::crd())` creates one.
//! - [`generate`] creates custom resources from seeds. A [`LeastRole`] contains only the permissions that an operator has used.
//!
//! # How a run works
//!
//! A check starts one thread for each processor. Each run has a runtime with one thread and tokio's clock paused, and
//! an embedded server without a socket. All requests of a process pass through the test kit. The test kit records the requests, can delay
//! them, and can cut the connections on which they are sent. Each process is a task. Killing a process stops its requests immediately and
//! drops the task, without releasing the Lease.
//!
//! The operator's code is real, with its client, informers, queues and election. The server's storage, admission, watches and garbage
//! collection are real, too. The time, the network and the killing of processes are simulated. A killed process sends no further requests,
//! but threads that the process has started continue.
//!
//! # Guarantees
//!
//! - Runs with the same seed have the same faults at the same times. If the operator is deterministic, these runs send
//!   the same requests. Each run seeds the generator of the crate `fastrand`. An operator that iterates over a
//!   `HashMap`, or that works on several threads, is not deterministic.
//! - `survives_crashes` fails if a crash does not happen. It never counts a run in which the crash did not happen as a success.
//! - Each check ends, because the [limit](Kit::limit) on the paused clock and a maximum number of requests stop it. If the
//!   paused clock does not advance, the [limit on real time](Kit::stall_limit) ends the check. But an operator that
//!   blocks its thread blocks the test.
//! - A run serves no probes, no metrics and no debug page, because parallel runs would use the same port. A run serves webhooks on a free
//!   port.
//! - A check fails if calls of the operator fail in a run without a disturbance, unless [`Kit::may_fail`] accepts the
//!   failures. A violation shows the errors that the operator reported.
//! - If the operator ends with an error and no process is left, a waiting test fails immediately with this error.
//! - No report shows the values of a Secret.

#![allow(clippy::test_attr_in_doctest, reason = "the page shows the tests of a user, and calls them")]

mod fields;
mod generate;
mod journal;
mod kit;
mod lab;
mod reporter;
mod request;
mod role;
mod state;
mod violation;
mod wait;
mod wire;
mod world;

pub use generate::generate;
pub use kit::{CrashReport, Kit, SeedReport, seeds};
pub use lab::Lab;
pub use pintle_apiserver::{CheckedObject, CrdChecker, Rejection, RuleCost};
pub use request::SentRequest;
pub use role::LeastRole;
pub use violation::Violation;
pub use wait::{consistently, eventually, eventually_within};
pub use world::World;

/// The user agent of the requests that the test kit itself sends.
const OWN_AGENT: &str = "pintle-testkit";
