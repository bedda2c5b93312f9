//! The verbs of resource requests, which are also used in RBAC rules and discovery documents.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// The verb of a resource request. The string form of a verb is the Kubernetes name, such as `deletecollection`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestVerb {
    /// A POST to a collection or to a subresource.
    Create,
    /// DELETE of one object.
    Delete,
    /// DELETE of a collection.
    DeleteCollection,
    /// A GET of one object or of a subresource.
    Get,
    /// GET of a collection.
    List,
    /// A PATCH of one object or of a subresource. Server-side apply also uses this verb.
    Patch,
    /// A PUT of one object or of a subresource.
    Update,
    /// A GET of a collection with the parameter `watch=true`.
    Watch,
}

/// The error when a verb is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownVerb(String);

impl fmt::Display for UnknownVerb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = RequestVerb::ALL.map(RequestVerb::name).join(", ");
        write!(f, "unknown verb {:?}: use one of {known}", self.0)
    }
}

impl std::error::Error for UnknownVerb {}

impl FromStr for RequestVerb {
    type Err = UnknownVerb;

    fn from_str(name: &str) -> Result<Self, UnknownVerb> {
        Self::ALL.into_iter().find(|verb| verb.name() == name).ok_or_else(|| UnknownVerb(name.into()))
    }
}

impl fmt::Display for RequestVerb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl RequestVerb {
    pub const ALL: [Self; 8] = [
        Self::Create,
        Self::Delete,
        Self::DeleteCollection,
        Self::Get,
        Self::List,
        Self::Patch,
        Self::Update,
        Self::Watch,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Get => "get",
            Self::List => "list",
            Self::Patch => "patch",
            Self::Update => "update",
            Self::Watch => "watch",
        }
    }
}

impl Serialize for RequestVerb {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
