//! The server as its clients meet it: who they are.

#[path = "../support/mod.rs"]
mod support;

mod identity;
