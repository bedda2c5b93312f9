//! A write of one object.

use pintle_apimachinery::request::options::How;
use pintle_json::Json;
use pintle_kinds::RequestTarget;
use pintle_kinds::writer::Writer;

/// The state of one write request. All phases of the write pipeline share this state.
pub(super) struct Write<'a> {
    pub(super) target: &'a RequestTarget,
    /// The stored object. `None` for a create.
    pub(super) old: Option<&'a Json>,
    /// The new object. Each phase can change the state.
    pub(super) new: Json,
    /// The field manager, the requester and the options of the write.
    pub(super) by: &'a Writer<'a>,
    pub(super) how: How,
    /// Whether the object in the request had labels.
    pub(super) labelled: bool,
}
