//! Replays what a real kube-apiserver answered against any API server, case by case.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> anyhow::Result<()> {
//! use std::time::Duration;
//!
//! use pintle_conformance::{Target, Trust, load, packed_folder, replay};
//!
//! let target = Target {
//!     url: "http://127.0.0.1:8080".to_owned(),
//!     token: "admin-token".to_owned(),
//!     trust: Trust::Anyone,
//!     at_once: 16,
//!     limit: Duration::from_secs(60),
//!     patience: Duration::MAX,
//! };
//! let verdicts = replay(&target, load(&packed_folder())?, |_| {}).await?;
//! let passed = verdicts.iter().filter(|verdict| verdict.passes()).count();
//! assert_eq!(passed, verdicts.len());
//! # Ok(())
//! # }
//! ```
//!
//! * A [`Case`] is a list of [`Step`]s, each with the answer that was recorded, in which placeholders stand for what differs
//!   from run to run (`<uid:1>`, `<rv:2>`, `<time>`).
//! * [`replay`] runs cases at once, each in a namespace of its own, and gives a [`Verdict`] for each.
//! * A [`Difference`] says where an answer departs. Different *words* in a message are told, but do not fail a case.
//! * [`side_by_side`] compares a real server with the embedded one on manifests of your own.
//! * [`failing`] is the list of the cases that our own server does not pass yet.
//!
//! `cargo xtask conformance --server` is the command; README.md has its options. Never published.

mod case;
mod client;
mod compare;
pub mod embedded;
pub mod failing;
mod json;
pub mod page;
mod placeholders;
mod session;
mod shape;
pub mod side_by_side;
mod stream;
mod token;
mod verdict;

pub use case::{Case, Fill, Step, load, pack, packed_folder};
pub use client::Trust;
pub use compare::{Difference, compare};
pub use json::Json;
pub use verdict::{Target, Verdict, replay};
