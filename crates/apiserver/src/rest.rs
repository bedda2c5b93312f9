//! The verbs, for every kind alike: what a request does once it is known what it asks for.
//!
//! No function here awaits: each reads the store, works the new object out, and commits it only if the store still holds what
//! it read. The HTTP shell and the background tasks call the same functions.

mod admission;
mod binding;
mod collection;
mod components;
mod create;
mod delete;
mod eviction;
mod json;
mod list;
mod meta;
mod namespace;
mod nesting;
mod object;
mod review;
mod rewrite;
mod scale;
mod signing;
mod size;
mod token;
mod token_request;
mod update;
mod without_effect;

pub(crate) use delete::{CLEANUP, Deleted};
pub(crate) use json::Ordered;
pub(crate) use list::{ListReply, Selection, compacted, is_uncached, parse_number, present};
pub(crate) use meta::metadata_mut;
pub(crate) use object::{Place, Served, Written};
pub(crate) use update::Change;
pub(crate) use without_effect::{RULES, WITHOUT_EFFECT};
