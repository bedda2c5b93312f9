//! Parses requests: paths, queries, options, headers and users.

pub mod accept;
pub mod duration;
mod info;
pub mod options;
pub mod path;
pub mod query;
mod requester;
mod subresource;
mod upgrade;
pub mod user;
pub mod webhook_calls;

pub use info::RequestInfo;
pub use requester::Requester;
pub use subresource::Subresource;
pub use upgrade::is_websocket;

pub use crate::verb::RequestVerb as Verb;
