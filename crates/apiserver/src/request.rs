//! What a request asks for, read before anything is done about it.

pub(crate) mod accept;
pub(crate) mod duration;
pub(crate) mod options;
mod part;
pub(crate) mod path;
pub(crate) mod query;
pub(crate) mod user;
mod verb;

pub(crate) use part::Part;
pub(crate) use verb::Verb;
