//! Tests of the replayer.

#![allow(clippy::unwrap_used)]

mod replay;
