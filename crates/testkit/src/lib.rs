//! Tests operators with injected faults, crashes, stale reads, seeded chaos and generated resources, and finds their
//! minimal RBAC role.
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
//! - A [`Kit`] contains the operator, the steps of the user, and the checks.
//! - A [`Lab`] is a single run for custom tests, with the server, the operator's processes and the user.
//! - A [`Violation`] describes why a check has failed. The `Display` output of a `Violation` is a report.
//! - A [`CrdChecker`], such as `CrdChecker::new(Website::crd())`, checks which objects are valid for a
//!   CustomResourceDefinition.
//! - [`generate`] generates custom resources from seeds. A [`LeastRole`] contains only the permissions that an operator
//!   needs.
//!
//! # How a run works
//!
//! A check starts one thread for each processor. Each run has a single-threaded runtime with a paused tokio clock, and
//! an embedded server without a socket. The test kit records all requests of the operator's processes, and can delay
//! them or cut their connections. Each process is a task. Killing a process immediately stops its requests and drops
//! its task, without releasing its Lease.
//!
//! The client, informers, queues, leader election and reconcilers of the operator are real. The storage, admission,
//! watches and garbage collection of the server are also real. Time, the network and the killing of processes are
//! simulated. [`Time::now`](pintle_meta::Time::now) returns the simulated time, which is also the time of the server. A
//! killed process sends no further requests, but threads that it has started keep running.
//!
//! The server calls the [webhooks](pintle_operator::Manager::webhooks) of the operator without a socket, so no port and
//! no certificate are necessary. A registered webhook belongs to the operator if the path of its URL ends with the
//! path of one of the operator's webhooks. The Service or the host of the URL can have any name. The running processes, including
//! standbys, answer the calls in turn. While no process runs, the calls fail with `connection refused`, so the failure
//! policy of the webhook applies. If a process is killed during a call, the call fails, too. Faults and disturbances do
//! not affect the calls. The steps of the user, and [`Lab::create`], wait until the webhooks are registered. To test
//! the certificate and the server of the webhooks, run the manager in a `Cluster::embedded()` with an
//! `Endpoint::url`.
//!
//! # Guarantees
//!
//! - Runs with the same seed have the same faults at the same times. If the operator is deterministic, runs with the
//!   same seed also send the same requests. Each run seeds the random number generator of the crate `fastrand`. An
//!   operator that iterates over a `HashMap` or uses several threads is not deterministic.
//! - The check `survives_crashes` fails if one of its planned crashes does not happen.
//! - The duration of a check is bounded, because each run has a [limit](Kit::limit) on the paused clock and a maximum
//!   number of requests. If the paused clock does not advance, the [limit on real time](Kit::stall_limit) ends the
//!   check. A check hangs only if the operator blocks its thread.
//! - Operators in a run do not serve probes, metrics or a debug page, because parallel runs would use the same port.
//! - The states of two runs are compared without the fields that the server sets differently in each run, such as uids and
//!   times. If an operator generates a value itself, such as a password, exclude its field with [`Kit::ignore`].
//! - If the operator is [restricted](Kit::restricted) to a role, a check fails for each request that the role does not
//!   allow, even if the operator only logs the error.
//! - A check fails if reconciliations fail in a run without disturbances, unless [`Kit::may_fail`] allows the failures.
//!   Violations include the errors that the operator has reported.
//! - If all processes have ended and one of them failed, a test that is waiting fails immediately with the operator's
//!   error.
//! - Reports contain digests instead of the values of a Secret.

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

const OWN_AGENT: &str = "pintle-testkit";
