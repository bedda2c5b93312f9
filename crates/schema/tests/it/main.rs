//! Tests of decoding objects and applying patches.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod decode;
mod patch;
