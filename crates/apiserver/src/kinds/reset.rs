//! The fields that a write cannot change, so that no manager comes to own them through it.

use crate::request::Subresource;

/// Paths of members.
pub(crate) type Reset = &'static [&'static [&'static str]];

pub(crate) const ALL_BUT_STATUS: Reset = &[&["metadata"], &["spec"]];
const STATUS: Reset = &[&["status"]];

/// What a write of that part of most kinds cannot change.
pub(super) fn usual(subresource: Subresource, splits_status: bool) -> Reset {
    match subresource {
        Subresource::None if splits_status => STATUS,
        Subresource::Status => &[&["spec"]],
        Subresource::Finalize | Subresource::EphemeralContainers | Subresource::Resize => STATUS,
        _ => &[],
    }
}
