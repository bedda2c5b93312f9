//! What bodies and patches become, and what the errors say.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod codec;
mod patch;
