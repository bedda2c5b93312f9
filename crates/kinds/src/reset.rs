//! The fields that a write to a subresource must not change. The field manager of the write cannot own any of these
//! fields.

use pintle_apimachinery::request::Subresource;

/// Field paths, each as a list of member names.
pub type Reset = &'static [&'static [&'static str]];

pub const ALL_BUT_STATUS: Reset = &[&["metadata"], &["spec"]];
const STATUS: Reset = &[&["status"]];

/// Returns the fields that a write to `subresource` must not change by default.
pub fn usual(subresource: Subresource, splits_status: bool) -> Reset {
    match subresource {
        Subresource::None if splits_status => STATUS,
        Subresource::Status => &[&["spec"]],
        Subresource::Finalize | Subresource::EphemeralContainers | Subresource::Resize => STATUS,
        _ => &[],
    }
}
