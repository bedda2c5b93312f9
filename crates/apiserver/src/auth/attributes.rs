//! The attributes of a request for authorization.

use crate::request::path::ResourcePath;

/// The attributes of a request that the authorizer needs.
#[derive(Clone, Debug)]
pub(crate) enum Attributes<'a> {
    /// A request for a resource.
    Resource {
        verb: &'a str,
        path: &'a ResourcePath,
        /// The name of the object. Empty for collections, unless the field selector selects one name.
        name: &'a str,
    },
    /// A request for a path that does not name a resource, such as health or discovery.
    Path { verb: &'a str, path: &'a str },
}
