//! What a request asks for, read before anything is done about it.

pub(crate) mod accept;
pub(crate) mod duration;
pub(crate) mod options;
pub(crate) mod path;
pub(crate) mod query;
pub(crate) mod user;
