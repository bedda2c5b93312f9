//! Fields that a write through a subresource cannot change. If a field manager writes through the subresource, it cannot own these fields.

use crate::request::Subresource;

/// The paths of fields. Each path is a list of member names.
pub(crate) type Reset = &'static [&'static [&'static str]];

pub(crate) const ALL_BUT_STATUS: Reset = &[&["metadata"], &["spec"]];
const STATUS: Reset = &[&["status"]];

/// The fields that a write to the subresource cannot change, for most kinds.
pub(super) fn usual(subresource: Subresource, splits_status: bool) -> Reset {
    match subresource {
        Subresource::None if splits_status => STATUS,
        Subresource::Status => &[&["spec"]],
        Subresource::Finalize | Subresource::EphemeralContainers | Subresource::Resize => STATUS,
        _ => &[],
    }
}
