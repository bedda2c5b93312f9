//! A write of one object.

use pintle_apimachinery::request::options::How;
use pintle_json::Json;
use pintle_kinds::RequestTarget;
use pintle_kinds::writer::Writer;

/// The state of one write request, which all phases of the write pipeline share.
pub(super) struct Write<'a> {
    pub(super) target: &'a RequestTarget,
    /// The stored object. `None` for a create.
    pub(super) old: Option<&'a Json>,
    /// The new object, which each phase can change.
    pub(super) new: Json,
    /// The write's field manager, requester and options.
    pub(super) by: &'a Writer<'a>,
    pub(super) how: How,
    /// Whether the object in the request had labels.
    pub(super) labelled: bool,
}
