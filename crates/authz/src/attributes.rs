//! The attributes that are needed to decide whether a request is allowed.

use pintle_apimachinery::request::path::ResourcePath;

/// The attributes of a request that the authorizer uses.
#[derive(Clone, Debug)]
pub enum Attributes<'a> {
    /// A request for a resource.
    Resource {
        verb: &'a str,
        path: &'a ResourcePath,
        /// The name of the object. The name is empty for a collection, unless the field selector selects a single name.
        name: &'a str,
    },
    /// A request for a path that names no resource, such as a health check or a discovery request.
    Path { verb: &'a str, path: &'a str },
}
