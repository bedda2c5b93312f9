//! Tests of decoding and of patches.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod codec;
mod patch;
