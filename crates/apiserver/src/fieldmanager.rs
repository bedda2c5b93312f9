//! Who owns which field: `metadata.managedFields`, and server-side apply.
//!
//! [`track_update`] records every write that is no apply, [`apply`] does one that is. Both are pure: the time and all that is known
//! of the kind come in a [`Context`].

use crate::kinds::Convert;
use crate::schema::Schema;

mod writer;

mod apply;
mod compare;
mod field_set;
mod managers;
mod merge;
mod path_element;
mod scale_handler;
mod set;
mod tracking;
mod versions;

pub(crate) use apply::{ApplyError, apply};
pub(crate) use path_element::PathElement;
pub(crate) use scale_handler::{keep_scale_entries, scale_entries};
pub(crate) use set::Set;
pub(crate) use tracking::track_update;
pub(crate) use writer::Writer;

/// Who writes, when, and what is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    /// The name of the acting manager.
    pub(crate) manager: &'a str,
    /// The version of the request: `version` or `group/version`.
    pub(crate) api_version: &'a str,
    /// The subresource that is written through; empty for the object itself. Entries of `scale` bear no time.
    pub(crate) subresource: &'a str,
    /// The time, in RFC 3339 and whole seconds of UTC.
    pub(crate) now: &'a str,
    /// The schema of the kind.
    pub(crate) schema: &'a Schema,
    /// The paths that this kind of write cannot change, see [`Kind::reset_fields`](crate::kinds::Kind::reset_fields).
    pub(crate) reset: &'a [&'a [&'a str]],
    /// The versions in which a custom resource is served, as `group/version`: entries of others are dropped. Empty: all are kept.
    pub(crate) served: &'a [String],
    /// How objects become those of another version, where versions call their fields otherwise.
    pub(crate) convert: Option<Convert>,
}

impl Context<'_> {
    /// Whether the object can be had in that version. What is owned in another group's view of it cannot be known.
    fn serves(&self, api_version: &str) -> bool {
        let group = |version: &str| version.split_once('/').map_or(String::new(), |(group, _)| group.to_owned());
        api_version == self.api_version
            || match self.schema.is_custom() {
                true => self.served.is_empty() || self.served.iter().any(|known| known == api_version),
                false => {
                    group(api_version) == group(self.api_version) && Schema::knows(api_version, self.schema.kind())
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

#[cfg(test)]
mod tests;
