//! The server as its clients meet it: who they are, and what they may send.

#[path = "../support/mod.rs"]
mod support;

mod identity;
mod nesting;
