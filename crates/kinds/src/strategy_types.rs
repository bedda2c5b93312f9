//! The types that [`Strategy`](super::Strategy) returns.

use pintle_apimachinery::cluster::Cluster;
use pintle_apimachinery::failure::Outcome;
use pintle_apimachinery::request::query::Query;
use pintle_json::Json;

use crate::request_target::RequestTarget;

/// Whether the server must convert stored objects to a version of the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Objects are stored in the form of the requested version and need no conversion.
    Stored,
    /// Every object needs a conversion.
    Converted,
    /// Some objects need a conversion. The number identifies the form of the requested version, and the store saves it
    /// with each object that needs no conversion.
    Checked(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The kind is built into the server.
    BuiltIn,
    /// The kind comes from a custom resource definition.
    Custom,
}

/// The routing of a group's requests in kube-apiserver. The routing determines the responses to unknown paths and
/// methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// Each URL path has a separate route for each method.
    PerMethod,
    /// One handler receives all requests for the group and looks up the custom resource definition.
    CatchAll,
}

/// Whether clients may use a finalizer that has no domain and is not a standard finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainFinalizers {
    Rejected,
    Warned,
    Accepted,
}

/// How the objects of a kind relate to pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodRelation {
    #[default]
    Unrelated,
    /// The objects of the kind are pods.
    Pod,
    /// The objects are workloads, and this JSON pointer addresses the template of their pods.
    Template(&'static str),
    /// The objects are namespaces, whose labels select the Pod Security Standards for pods.
    Namespace,
}

/// A subresource that streams data or connects to the object, such as `exec` or `log`.
#[derive(Clone, Copy)]
pub struct Stream {
    /// The allowed HTTP methods.
    pub methods: &'static [&'static str],
    /// Parses the stream options from the query and from the path after the subresource.
    pub options: fn(&Query, &[String]) -> Outcome<Json>,
    /// Whether the requests are connect requests, which admission checks before the server connects.
    pub connects: bool,
    /// Whether the request path can continue after the subresource.
    pub has_subpaths: bool,
    /// Computes the response from the request target and the options.
    pub answer: fn(&dyn Cluster, &RequestTarget, &Json) -> Outcome<StreamAnswer>,
}

/// A stream's response.
pub enum StreamAnswer {
    /// The response to the stream request has no content.
    Empty,
    /// The server cannot connect to the pod, service or node. The string is the error message.
    Unreachable(String),
}

/// A permission that a write needs in addition to the permission for the verb of the request. The user must be allowed
/// to perform `verb` on at least one of the named objects.
#[derive(Debug)]
pub struct ExtraPermission {
    pub verb: &'static str,
    /// The resource of the named objects, in the group of the written object.
    pub resource: &'static str,
    pub names: Vec<String>,
    /// The message of the 403 response if the user does not have the permission.
    pub refusal: String,
}

/// The Go representation of a kind's objects in kube-apiserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Go structs with declared fields, which represent all built-in kinds.
    Declared,
    /// Unstructured maps, which represent custom resources.
    Free,
}
