//! Defines the fields that a write to a subresource cannot change. A field manager that writes to the subresource cannot own such fields.

use pintle_apimachinery::request::Subresource;

/// The paths of fields. Each path is a list of member names.
pub type Reset = &'static [&'static [&'static str]];

pub const ALL_BUT_STATUS: Reset = &[&["metadata"], &["spec"]];
const STATUS: Reset = &[&["status"]];

/// A write to this subresource cannot change these fields, unless the kind defines other fields.
pub fn usual(subresource: Subresource, splits_status: bool) -> Reset {
    match subresource {
        Subresource::None if splits_status => STATUS,
        Subresource::Status => &[&["spec"]],
        Subresource::Finalize | Subresource::EphemeralContainers | Subresource::Resize => STATUS,
        _ => &[],
    }
}
