//! Internal items for the tests of this crate, and for crates of this workspace that use electors. These items, and all
//! `#[doc(hidden)]` methods, can change in any version.

pub use crate::lock::state_of;
pub use crate::status::ListOutage;
pub use crate::watching::{Events, WatchMessage, follow};

/// The state machine that makes all of an elector's decisions.
pub mod machine {
    pub use crate::machine::{Effect, Failure, Hint, Instruction, LockRequest, Machine, Preference, Signal};
}
