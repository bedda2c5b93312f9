//! Who owns which field: `metadata.managedFields`, and server-side apply.
//!
//! - [`apply()`] lays what a manager applies over an object; what it leaves out and owned before is taken away, and what others own is a
//!   conflict ([`Conflicts`]).
//! - [`track_update`] records a write that is no apply.
//! - [`scale_entries`] and [`keep_scale_entries`] do the same for writes of `/scale`.
//! - [`WriteContext`] says who writes, when, and what is known of the kind: all is pure.
//!
//! What they do, and in which words they refuse, is kube-apiserver's.
//!
//! # Examples
//!
//! Two managers want one field:
//!
//! ```
//! use pintle_fieldmanager::{ApplyError, WriteContext, apply};
//! use pintle_schema::Schema;
//! use pintle_json::json;
//!
//! let schema = Schema::builtin("v1", "ConfigMap").unwrap();
//! let applied = |data| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
//! let alice = WriteContext::new("alice", "v1", "2026-01-01T00:00:00Z", &schema);
//! let bob = WriteContext { manager: "bob", ..alice };
//!
//! let live = apply(None, &applied(json!({"x": "1"})), false, &alice)?.object;
//! let refused = apply(Some(&live), &applied(json!({"x": "2"})), false, &bob).unwrap_err();
//! assert_eq!(refused.to_string(), "Apply failed with 1 conflict: conflict with \"alice\": .data.x");
//!
//! // Bob insists.
//! let live = apply(Some(&live), &applied(json!({"x": "2"})), true, &bob)?.object;
//! assert_eq!(live["data"], json!({"x": "2"}));
//! # Ok::<(), ApplyError>(())
//! ```

use pintle_json::Json;
use pintle_schema::Schema;

mod apply;
mod compare;
mod field_set;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod key_defaults;
mod managers;
mod merge;
mod path_element;
mod scale_handler;
mod set;
mod tracking;
mod versions;

pub use apply::{Applied, ApplyError, Conflicts, apply};
pub use path_element::{Indistinct, PathElement};
pub use scale_handler::{keep_scale_entries, scale_entries};
pub use set::Set;
pub use tracking::track_update;

/// Makes of an object of one version, named as in `apiVersion`, that of another; none if either is unknown.
pub type Convert = fn(object: &Json, from: &str, to: &str) -> Option<Json>;

/// Who writes, when, and what is written.
#[derive(Clone, Copy, Debug)]
pub struct WriteContext<'a> {
    /// The name of the acting manager.
    pub manager: &'a str,
    /// The version of the request: `version` or `group/version`.
    pub api_version: &'a str,
    /// The subresource that is written through; empty for the object itself. Entries of `scale` bear no time.
    pub subresource: &'a str,
    /// The time, in RFC 3339 and whole seconds of UTC.
    pub now: &'a str,
    /// The schema of the kind.
    pub schema: &'a Schema,
    /// The paths that this kind of write cannot change, such as `status` for a write of the object itself.
    pub reset: &'a [&'a [&'a str]],
    /// The versions in which a custom resource is served, as `group/version`: entries of others are dropped. Empty: all are kept.
    pub served: &'a [String],
    /// How objects become those of another version, where versions call their fields otherwise.
    pub convert: Option<Convert>,
}

impl<'a> WriteContext<'a> {
    /// A write of the object itself, of a kind that has one version and no field that it may not change.
    pub fn new(manager: &'a str, api_version: &'a str, now: &'a str, schema: &'a Schema) -> Self {
        Self { manager, api_version, subresource: "", now, schema, reset: &[], served: &[], convert: None }
    }

    /// Whether the object can be had in that version. What is owned in another group's view of it cannot be known.
    fn serves(&self, api_version: &str) -> bool {
        api_version == self.api_version
            || match self.schema.is_custom() {
                true => self.served.is_empty() || self.served.iter().any(|known| known == api_version),
                false => {
                    group_of(api_version) == group_of(self.api_version)
                        && Schema::knows(api_version, self.schema.kind())
                }
            }
    }

    fn ignored(&self) -> Set {
        let mut set = Set::default();
        for path in self.reset {
            let path: Vec<_> = path.iter().map(|name| PathElement::Field((*name).into())).collect();
            set.insert(&path);
        }
        set
    }
}

/// Nothing where there is none.
fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}
