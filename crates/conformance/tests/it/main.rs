//! Tests that replay recorded cases.

#![allow(clippy::unwrap_used)]

mod replay;
