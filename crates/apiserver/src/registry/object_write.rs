//! A write of one object.

use pintle_apimachinery::request::options::How;
use pintle_json::Json;
use pintle_kinds::RequestTarget;
use pintle_kinds::writer::Writer;

pub(super) struct Write<'a> {
    pub(super) target: &'a RequestTarget,
    pub(super) old: Option<&'a Json>,
    pub(super) new: Json,
    pub(super) by: &'a Writer<'a>,
    pub(super) how: How,
    pub(super) has_labels: bool,
}
