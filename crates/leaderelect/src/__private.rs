//! Items for the crates of this workspace that build on electors, and for the tests of this crate. These items, and all
//! methods that are hidden in the documentation, can change in any version.

pub use crate::lock::state_of;
pub use crate::status::ListOutage;
pub use crate::watching::{Events, WatchMessage, follow};

/// The state machine that makes all decisions of an elector.
pub mod machine {
    pub use crate::machine::{Effect, Failure, Hint, Instruction, LockRequest, Machine, Preference, Signal};
}
