//! Types that the methods of [`Strategy`](super::Strategy) return.

use pintle_json::Json;

use super::{Cluster, RequestTarget};
use crate::failure::Outcome;
use crate::request::query::Query;

/// Describes how stored objects are converted to a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The objects are stored in the form of this version, so they need no conversion.
    Stored,
    /// Every object needs a conversion.
    Converted,
    /// Some objects need a conversion. If an object needs no conversion, the store caches the contained number for the
    /// object.
    Checked(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// The kind is built into the server.
    BuiltIn,
    /// The kind comes from a custom resource definition.
    Custom,
}

/// Describes how kube-apiserver routes the requests for a group. The routing determines the responses for unknown paths
/// and methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Routing {
    /// Each path has separate routes for its methods.
    PerMethod,
    /// A single handler receives all requests and looks up the custom resource definition.
    CatchAll,
}

/// The rule for a finalizer that has no domain and is not a standard finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlainFinalizers {
    Rejected,
    Warned,
    Accepted,
}

/// Describes how the objects of a kind are related to pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pods {
    Unrelated,
    /// The objects are pods.
    Themselves,
    /// The objects are workloads. The pods of a workload are created from the template at this JSON pointer.
    MadeFrom(&'static str),
    /// The objects are namespaces. The labels of a namespace select the Pod Security Standards for the pods in the
    /// namespace.
    Inside,
}

/// A subresource that streams data or connects to the object. Examples are `exec` and `log`.
#[derive(Clone, Copy)]
pub(crate) struct Stream {
    /// The HTTP methods that clients can use for the stream.
    pub(crate) methods: &'static [&'static str],
    /// Parses the options from two parts of the URL: the query, and the path after the subresource.
    pub(crate) options: fn(&Query, &[String]) -> Outcome<Json>,
    /// Whether the request is a connect request. Admission checks connect requests.
    pub(crate) connects: bool,
    /// Whether the path of a request can continue after the subresource.
    pub(crate) has_subpaths: bool,
    /// Computes the response from the request target and the parsed options.
    pub(crate) answer: fn(&dyn Cluster, &RequestTarget, &Json) -> Outcome<StreamAnswer>,
}

/// The response of a stream.
pub(crate) enum StreamAnswer {
    Text(&'static str),
    /// The server cannot connect to the backend of the stream. The variant contains the error.
    Unreachable(String),
}

/// A permission that a write needs in addition to the permission for the request's verb. The user must have the
/// permission for this verb on at least one of the named objects.
#[derive(Debug)]
pub(crate) struct ExtraPermission {
    pub(crate) verb: &'static str,
    /// The resource to which the named objects belong. The group of this resource is the group of the written kind.
    pub(crate) resource: &'static str,
    pub(crate) names: Vec<String>,
    /// The message of the 403 response if the user lacks the permission.
    pub(crate) refusal: String,
}
