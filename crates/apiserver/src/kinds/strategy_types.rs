//! The types that strategies return.

use pintle_json::Json;

use super::{Cluster, RequestTarget};
use crate::failure::Outcome;
use crate::request::query::Query;

/// How stored objects are converted to a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The stored form is the form of this version.
    Stored,
    /// Every object is converted.
    Converted,
    /// Some objects need no conversion. The stored object remembers under this number that it needs none.
    Checked(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// It is part of the server.
    BuiltIn,
    /// It comes from a custom resource definition.
    Custom,
}

/// How kube-apiserver dispatches requests to a group. This determines its responses to unknown paths and methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Routing {
    /// Each path has a route for each method.
    PerMethod,
    /// One handler receives all other requests and looks up the definition.
    CatchAll,
}

/// How the server treats a finalizer without a domain that is not a standard one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlainFinalizers {
    Rejected,
    Warned,
    Accepted,
}

/// How the objects of a kind relate to pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pods {
    Unrelated,
    /// They are pods.
    Themselves,
    /// They create pods from the template at this JSON pointer.
    MadeFrom(&'static str),
    /// They contain pods, and their labels set the pod security standards. These are namespaces.
    Inside,
}

/// A subresource that connects to the object or streams from it, such as `exec` or `log`.
#[derive(Clone, Copy)]
pub(crate) struct Stream {
    /// The allowed HTTP methods.
    pub(crate) methods: &'static [&'static str],
    /// Reads the options from the query and the rest of the path.
    pub(crate) options: fn(&Query, &[String]) -> Outcome<Json>,
    /// Whether it is a connect request, which passes admission.
    pub(crate) connects: bool,
    /// Whether it has paths below it.
    pub(crate) has_subpaths: bool,
    /// Computes the response from the target and the options.
    pub(crate) answer: fn(&dyn Cluster, &RequestTarget, &Json) -> Outcome<StreamAnswer>,
}

/// The response of a stream.
pub(crate) enum StreamAnswer {
    Text(&'static str),
    /// The connection to the backend failed with this error.
    Unreachable(String),
}

/// A permission that a write needs in addition to its own verb: a verb on one of the named objects.
#[derive(Debug)]
pub(crate) struct ExtraPermission {
    pub(crate) verb: &'static str,
    /// A resource in the group of the kind.
    pub(crate) resource: &'static str,
    pub(crate) names: Vec<String>,
    /// The message of the 403 response if the user lacks the permission.
    pub(crate) refusal: String,
}
