//! The request attributes for authorization decisions.

use pintle_apimachinery::request::path::ResourcePath;

/// The request attributes that the authorizer uses.
#[derive(Clone, Debug)]
pub enum Attributes<'a> {
    /// A request for a resource.
    Resource {
        verb: &'a str,
        path: &'a ResourcePath,
        /// The object's name. Empty for a collection, unless the field selector selects a single object name.
        name: &'a str,
    },
    /// A request for a non-resource path, such as a health check or a discovery request.
    Path { verb: &'a str, path: &'a str },
}
