//! The tests of leader election: machines in simulated worlds, and electors on tokio's paused clock.

mod simulation;
mod world;
