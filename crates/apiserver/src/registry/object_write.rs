//! A write of one object.

use pintle_json::Json;

use super::Writer;
use crate::kinds::RequestTarget;
use crate::request::options::How;

/// A write of one object, on its way.
pub(super) struct Write<'a> {
    pub(super) target: &'a RequestTarget,
    /// The object as it was; none of one that is new.
    pub(super) old: Option<&'a Json>,
    /// The object as it is to be, so far.
    pub(super) new: Json,
    /// Who writes, with which options.
    pub(super) by: &'a Writer<'a>,
    pub(super) how: How,
    /// Whether the object came with labels of its own.
    pub(super) labelled: bool,
}
