//! Tests CustomResourceDefinitions.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod attributes;
mod derived;
mod panics;
mod quantities;
mod recorded;
mod schemas;
mod shapes;
mod structure;
mod variants;
