//! An in-process Kubernetes API server: real HTTP on loopback, no cluster, no binaries, scripted faults.

mod api;
mod auth;
mod background;
mod clock;
pub mod crd;
mod db;
mod decode;
pub mod discovery;
mod failure;
pub mod faults;
pub mod kinds;
pub mod managed;
mod manager;
pub mod patch;
mod protobuf;
mod request;
mod rest;
pub mod schema;
pub mod selector;
mod serve;
mod server;
mod store;
pub mod table;
pub mod validate;
mod watch;

pub use server::{ApiServer, Builder, StartError};
