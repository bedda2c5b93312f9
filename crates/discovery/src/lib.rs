//! Discovery documents and OpenAPI documents of an API server.
//!
//! This crate is part of `pintle-apiserver` and has **no stability guarantee**. Use `pintle-apiserver` instead.
//!
//! - [`Documents`] encodes and caches discovery documents and OpenAPI documents. A [`DocumentScope`] selects a
//!   document, and a [`DocumentForm`] its encoding.
//! - [`api_versions`], [`group`] and [`resource_list`] describe groups, versions and resources in the legacy form.
//! - [`MatchedKinds`] finds the kinds to which the resource rules of an admission policy refer.
//! - [`inlined`] returns the schema of a kind without references.
//!
//! The crate reads only the registry of kinds ([`Kinds`](pintle_kinds::Kinds)), and does not serve HTTP. To read the
//! code, start with `documents.rs`.
//!
//! ```
//! use pintle_kinds::Kinds;
//!
//! assert!(pintle_discovery::resource_list(&Kinds::default(), "apps", "v1").is_none());
//! ```

mod aggregated;
mod documents;
mod legacy;
mod matched_kinds;
mod openapi;
mod openapi_proto;
mod openapi_v2;
mod operations;
mod schema_names;
#[cfg(test)]
mod tests;

use sha2::{Digest, Sha256, Sha512};

use aggregated::aggregated;
pub use documents::{Document, DocumentForm, DocumentScope, Documents, Listing};
pub use legacy::{api_versions, group, resource_list};
pub use matched_kinds::{MatchedKinds, names_group};
pub use openapi::inlined;
use pintle_kinds::{Kind, ServedSubresource};

/// Returns the ETag of a document, without quotes: 128 upper-case hexadecimal digits.
fn etag(document: &[u8]) -> String {
    Sha512::digest(document).iter().map(|byte| format!("{byte:02X}")).collect()
}

/// Returns a kind's `storageVersionHash`, or `None` if objects of the kind are not stored.
fn storage_version_hash(kind: &Kind) -> Option<String> {
    use base64::Engine as _;
    let stored = kind.stored_version.as_ref()?;
    let digest = Sha256::digest(format!("{}/{}/{}", stored.group, stored.version, kind.kind));
    Some(base64::engine::general_purpose::STANDARD.encode(&digest[..8]))
}

/// Returns the group, version and kind of a subresource, or `None` if it has the same group and version as its
/// resource.
fn foreign_gvk<'a>(kind: &Kind, subresource: &'a ServedSubresource) -> Option<&'a pintle_meta::GroupVersionKind> {
    subresource.kind.as_ref().filter(|gvk| gvk.group != kind.group || gvk.version != kind.version)
}
