//! Replays test cases recorded on a real kube-apiserver against any API server, and compares the responses.
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
//! * A [`Case`] is a list of [`Step`]s with recorded responses. Placeholders such as `<uid:1>`, `<rv:2>` and `<time>`
//!   replace values that differ between runs.
//! * [`replay`] runs many cases concurrently, each in its own namespace, and returns a [`Verdict`] for each case.
//! * A [`Difference`] is a value that differs from the recorded response. A case passes if only the *wording* of a
//!   message differs, but the difference is reported.
//! * [`side_by_side`] sends your own manifests to a real server and to the embedded server, and compares the responses.
//! * [`failing`] manages the list of cases that the embedded server does not pass yet.
//!
//! Run the cases with `cargo xtask conformance --server`. README.md describes the options. The crate is not published.

mod case;
mod client;
mod compare;
pub mod embedded;
pub mod failing;
mod json;
pub mod page;
mod placeholders;
mod ready;
mod responder;
mod session;
mod shape;
pub mod side_by_side;
mod stream;
mod token;
mod verdict;

pub use case::{Case, Fill, Step, StepHeaders, load, pack, packed_folder};
pub use client::Trust;
pub use compare::{Difference, compare};
pub use json::Json;
pub use verdict::{Target, Verdict, replay};
