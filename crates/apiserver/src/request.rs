//! Parses requests: paths, queries, options, headers and users.

pub(crate) mod accept;
pub(crate) mod duration;
pub(crate) mod options;
pub(crate) mod path;
pub(crate) mod query;
mod requester;
mod subresource;
mod upgrade;
pub(crate) mod user;

pub(crate) use requester::Requester;
pub(crate) use subresource::Subresource;
pub(crate) use upgrade::is_websocket;

pub(crate) use crate::verb::RequestVerb as Verb;
