//! The server as its clients meet it: who they are, what they may send, and the program around it.

#[path = "../support/mod.rs"]
mod support;

mod identity;
mod nesting;
mod program;
