//! Types that the methods of [`Strategy`](super::Strategy) return.

use pintle_apimachinery::cluster::Cluster;
use pintle_apimachinery::failure::Outcome;
use pintle_apimachinery::request::query::Query;
use pintle_json::Json;

use crate::request_target::RequestTarget;

/// Describes how stored objects are converted to a version of the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The objects are stored in the form of this version, so they need no conversion.
    Stored,
    /// Every object needs a conversion.
    Converted,
    /// Some objects need a conversion. The number identifies the form of this version. If a check finds that an object needs no conversion,
    /// the store caches the number together with the object.
    Checked(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The kind is built into the server.
    BuiltIn,
    /// The kind comes from a custom resource definition.
    Custom,
}

/// Describes how kube-apiserver routes the requests for a group. The routing determines the responses for unknown paths
/// and methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// Each path has a separate route for each method.
    PerMethod,
    /// A single handler receives all requests for the group. The handler looks up the custom resource definition.
    CatchAll,
}

/// Determines how a finalizer is treated if it has no domain and is not a standard finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainFinalizers {
    Rejected,
    Warned,
    Accepted,
}

/// Describes how the objects of a kind are related to pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pods {
    #[default]
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
pub struct Stream {
    /// The HTTP methods that clients can use for this subresource.
    pub methods: &'static [&'static str],
    /// Parses the options from two parts of the URL. These parts are the query, and the path after the subresource.
    pub options: fn(&Query, &[String]) -> Outcome<Json>,
    /// Whether the request is a connect request. Admission checks connect requests.
    pub connects: bool,
    /// Whether the path of a request can continue after the subresource.
    pub has_subpaths: bool,
    /// Computes the response from the request target and the options.
    pub answer: fn(&dyn Cluster, &RequestTarget, &Json) -> Outcome<StreamAnswer>,
}

/// The response of a stream.
pub enum StreamAnswer {
    Text(&'static str),
    /// The server cannot connect to the pod, service or node that would provide the stream. The variant contains the error.
    Unreachable(String),
}

/// A permission that a write needs in addition to the permission for the request's verb. The user must be allowed to perform this verb on
/// at least one of the named objects.
#[derive(Debug)]
pub struct ExtraPermission {
    pub verb: &'static str,
    /// The resource to which the named objects belong. This resource belongs to the group of the written kind.
    pub resource: &'static str,
    pub names: Vec<String>,
    /// The message of the 403 response if the user lacks the permission.
    pub refusal: String,
}
