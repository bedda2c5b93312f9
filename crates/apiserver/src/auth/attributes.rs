//! The attributes of a request that are needed to authorize it.

use crate::request::path::ResourcePath;

/// The attributes of a request that the authorizer uses.
#[derive(Clone, Debug)]
pub(crate) enum Attributes<'a> {
    /// A request for a resource.
    Resource {
        verb: &'a str,
        path: &'a ResourcePath,
        /// The name of the object. The name is empty for a collection, unless the field selector selects a single name.
        name: &'a str,
    },
    /// A request for a path that does not name a resource, such as health or discovery.
    Path { verb: &'a str, path: &'a str },
}
