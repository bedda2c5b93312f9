//! What a request asks for, read before anything is done about it.

pub(crate) mod accept;
mod asker;
pub(crate) mod duration;
pub(crate) mod options;
mod part;
pub(crate) mod path;
pub(crate) mod query;
mod upgrade;
pub(crate) mod user;

pub(crate) use asker::Asker;
pub(crate) use part::Part;
pub(crate) use upgrade::is_websocket;

pub(crate) use crate::verb::RequestVerb as Verb;
