//! The fields that a write cannot change, so that no manager comes to own them through it.

use crate::request::Part;

/// Paths of members.
pub(crate) type Reset = &'static [&'static [&'static str]];

pub(crate) const ALL_BUT_STATUS: Reset = &[&["metadata"], &["spec"]];
const STATUS: Reset = &[&["status"]];

/// What a write of that part of most kinds cannot change.
pub(super) fn usual(part: Part, splits_status: bool) -> Reset {
    match part {
        Part::Object if splits_status => STATUS,
        Part::Status => &[&["spec"]],
        Part::Finalize | Part::EphemeralContainers | Part::Resize => STATUS,
        _ => &[],
    }
}
