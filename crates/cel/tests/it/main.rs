//! Tests of expressions.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod answers;
mod hostile;
mod libraries;
mod re2;
mod rules;
mod spec;
mod work;
