//! Tests operators: crashes at every request, stale views, seeded faults, generated resources and the least RBAC role.
//!
//! ```
//! todo
//! ```
//!
//! # Main types
//!
//! - [`Kit`]

mod fields;
mod generate;
mod journal;
mod kit;
mod lab;
mod request;
mod role;
mod state;
mod violation;
mod wait;
mod wire;

pub use generate::generate;
pub use kit::{CrashReport, Kit, SeedReport, World, seeds};
pub use lab::Lab;
pub use request::SentRequest;
pub use role::LeastRole;
pub use violation::Violation;
pub use wait::{consistently, eventually, eventually_within};

/// The user agent of the kit's own requests.
const OWN_AGENT: &str = "pintle-testkit";
