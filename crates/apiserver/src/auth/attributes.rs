//! What a request does, as authorisation sees it.

use crate::request::path::ResourcePath;

/// What a request does, as rules see it.
#[derive(Clone, Debug)]
pub(crate) enum Attributes<'a> {
    /// Something to a resource.
    Resource {
        verb: &'a str,
        path: &'a ResourcePath,
        /// The object; empty for collections. A list that selects one name is about that object.
        name: &'a str,
    },
    /// Something else, such as health or discovery.
    Path { verb: &'a str, path: &'a str },
}
