//! The request attributes for authorization decisions.

use pintle_apimachinery::request::path::ResourcePath;

/// The request attributes that the authorizer uses.
#[derive(Clone, Debug)]
pub enum Attributes<'a> {
    /// A request for a resource.
    Resource {
        verb: &'a str,
        path: &'a ResourcePath,
        /// The object's name, or an empty string for a collection. For a collection whose field selector selects a
        /// single object name, this is the selected name.
        name: &'a str,
    },
    /// A request for a non-resource path, such as a health check or a discovery request.
    Path { verb: &'a str, path: &'a str },
}
