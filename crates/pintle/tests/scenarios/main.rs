//! All crates together, against the embedded API server: what no crate's own tests can show.
//!
//! Each scenario has a server of its own, so they run side by side. Time is real here, since sockets are; whoever waits, waits
//! for a condition, with a limit that only a failure reaches.

mod client;
mod controller;
mod election;
mod informer;
mod support;
