//! Server-side apply, and the tracking of field owners in `metadata.managedFields`.
//!
//! - [`apply()`] merges the configuration of a manager into an object. `apply` also removes fields that the manager
//!   applied earlier and now omits, except fields that another manager owns. An apply that changes a field of another
//!   manager is a conflict ([`Conflicts`]).
//! - [`track_update`] records the owners of fields after a write other than an apply.
//! - [`scale_entries`] and [`keep_scale_entries`] update the entries in `managedFields` for writes of `/scale`.
//! - [`WriteContext`] contains the manager, the time and the schema of a write. The functions have no side effects.
//!
//! The results and error messages match kube-apiserver.
//!
//! # Examples
//!
//! In the following example, two managers apply the same field:
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
//! // Bob forces the change.
//! let live = apply(Some(&live), &applied(json!({"x": "2"})), true, &bob)?.object;
//! assert_eq!(live["data"], json!({"x": "2"}));
//! # Ok::<(), ApplyError>(())
//! ```

use std::fmt;
use std::sync::Arc;

use pintle_json::Json;
use pintle_schema::Schema;

mod admitted;
mod apply;
mod compare;
mod field_set;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod key_defaults;
mod managers;
mod merge;
mod mutation;
mod path_element;
mod scale_handler;
mod set;
mod tracking;
mod versions;

pub use admitted::restore_malformed;
pub use apply::{Applied, ApplyError, Conflicts, apply};
pub use mutation::merge_configuration;
pub use path_element::{Indistinct, PathElement};
pub use scale_handler::{keep_scale_entries, scale_entries};
pub use set::Set;
pub use tracking::track_update;

/// Converts objects between the API versions of a kind, such as `apps/v1`.
pub trait Conversion: fmt::Debug {
    /// Converts an object from one version to another. Returns `None` if a version is not supported, or if the
    /// converted object is not available yet and the caller repeats the write.
    ///
    /// # Errors
    ///
    /// Returns the reason if the conversion failed.
    fn convert(&self, object: &Json, from: &str, to: &str) -> Result<Option<Json>, String>;

    /// Returns the schema of `kind` in another version. The default implementation supports only built-in kinds.
    fn schema(&self, api_version: &str, kind: &str) -> Option<Schema> {
        Schema::builtin(api_version, kind)
    }
}

/// The schemas of a kind in all of its versions.
pub trait VersionSchemas: fmt::Debug {
    /// Returns the schema in a version, or `None` if the version is not served.
    fn schema(&self, api_version: &str) -> Option<Arc<Schema>>;
}

/// The manager, the time and the kind of a write.
#[derive(Clone, Copy, Debug)]
pub struct WriteContext<'a> {
    /// The name of the manager that writes the object.
    pub manager: &'a str,
    /// The API version of the request, in the form `version` or `group/version`.
    pub api_version: &'a str,
    /// The subresource of the write, or an empty string for a write of the object itself. Entries for the subresource
    /// `scale` have no time.
    pub subresource: &'a str,
    /// The time of the write as an RFC 3339 timestamp in UTC, in whole seconds.
    pub now: &'a str,
    /// The schema of the written kind.
    pub schema: &'a Schema,
    /// The paths of fields that this write cannot change. For example, a write of the whole object cannot change
    /// `status`.
    pub reset: &'a [&'a [&'a str]],
    /// The served versions of a custom resource, in the form `group/version`. Entries in `managedFields` with other
    /// versions are dropped, unless this list is empty.
    pub served: &'a [String],
    /// The schemas of a custom resource in all served versions, or `None` if there is only one version.
    pub schemas: Option<&'a dyn VersionSchemas>,
    /// Converts objects between versions with different field names.
    pub conversion: Option<&'a dyn Conversion>,
}

impl<'a> WriteContext<'a> {
    /// Creates a context for a write of the whole object, which can change all fields, of a kind with a single version.
    pub fn new(manager: &'a str, api_version: &'a str, now: &'a str, schema: &'a Schema) -> Self {
        Self {
            manager,
            api_version,
            subresource: "",
            now,
            schema,
            reset: &[],
            served: &[],
            schemas: None,
            conversion: None,
        }
    }

    /// Returns `true` if `managedFields` keeps entries of this version. Entries of other API groups are dropped,
    /// because their fields are unknown.
    fn serves(&self, api_version: &str) -> bool {
        api_version == self.api_version
            || if self.schema.is_custom() {
                self.served.is_empty() || self.served.iter().any(|known| known == api_version)
            } else {
                group_of(api_version) == group_of(self.api_version) && Schema::knows(api_version, self.schema.kind())
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

fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}
