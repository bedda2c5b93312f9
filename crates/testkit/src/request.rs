//! An operator's recorded requests.

use std::fmt;

use http::{Method, Uri};
use pintle_apimachinery::request::path::{ResourcePath, Target};
use pintle_apimachinery::request::query::Query;
use pintle_apiserver::RequestVerb;

/// A request that a process of the operator has sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SentRequest {
    /// The name of the process, such as `operator-1`. After a restart, the process has a new name.
    pub process: String,
    /// The number of the request, where the first request of each process has the number 1.
    pub number: usize,
    /// The verb of the request. The verb is `None` if the request has no resource, such as `/version`.
    pub verb: Option<RequestVerb>,
    /// The API group of the resource, or an empty string for the core group.
    pub group: String,
    /// The plural name of the resource, or an empty string if the request has no resource.
    pub resource: String,
    /// The subresource, such as `status`.
    pub subresource: String,
    /// The requested namespace, which is empty for cluster-scoped resources and for requests in all namespaces.
    pub namespace: String,
    /// The object's name, which is empty if the request is for a collection, or if the server generates the name.
    pub name: String,
    /// The URL path without the query.
    pub path: String,
    /// The response's HTTP status, or `None` if the connection was cut before the response, or if the process dropped
    /// the request.
    pub code: Option<u16>,
    /// The fault that was injected into the request, or an empty string.
    pub fault: String,
    /// The fields that the request has changed, such as `.data.url: "a" -> "b"`. The list is empty if the request has
    /// not changed any field.
    pub changes: Vec<String>,
    /// The owners to which the request has added a reference with `blockOwnerDeletion`.
    pub(crate) blocked_owners: Vec<BlockedOwner>,
}

/// An owner whose foreground deletion waits for its dependents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockedOwner {
    pub(crate) group: String,
    pub(crate) resource: String,
    /// The namespace of the owner, or an empty string if the owner is cluster-scoped.
    pub(crate) namespace: String,
}

impl SentRequest {
    pub(crate) fn parse(process: &str, number: usize, method: &Method, uri: &Uri) -> Self {
        let request = Self { process: process.into(), number, path: uri.path().into(), ..Self::default() };
        let Target::Resource(target) = Target::parse(uri.path()) else { return request };
        let ResourcePath { group, namespace, resource, name, subresource, in_namespace, .. } = target;
        let namespace = Some(namespace).filter(|_| in_namespace).unwrap_or_default();
        let is_watch = Query::parse(uri.query().unwrap_or_default()).flag("watch") == Some(true);
        let verb = match (method, name.is_empty()) {
            (&Method::GET | &Method::HEAD, true) if is_watch => RequestVerb::Watch,
            (&Method::GET | &Method::HEAD, true) => RequestVerb::List,
            (&Method::GET | &Method::HEAD, false) => RequestVerb::Get,
            (&Method::POST, _) => RequestVerb::Create,
            (&Method::PUT, _) => RequestVerb::Update,
            (&Method::PATCH, _) => RequestVerb::Patch,
            (&Method::DELETE, true) => RequestVerb::DeleteCollection,
            (&Method::DELETE, false) => RequestVerb::Delete,
            _ => return request,
        };
        Self { verb: Some(verb), group, resource, subresource, namespace, name, ..request }
    }

    /// Returns `true` if both requests have the same verb, resource, subresource, namespace and name. If `with_name` is
    /// `false`, the names may be different. The names of Events are never compared, because they depend on the time.
    pub(crate) fn is_same(&self, other: &Self, with_name: bool) -> bool {
        let target = |request: &Self| {
            let Self { verb, group, resource, subresource, namespace, .. } = request.clone();
            (verb, group, resource, subresource, namespace)
        };
        if self.verb.is_none() || other.verb.is_none() {
            return self.verb == other.verb && self.path == other.path;
        }
        target(self) == target(other) && (!with_name || self.is_event() || self.name == other.name)
    }

    /// Returns the verb and the resource that a role must contain, such as `patch` and `websites/status`.
    pub(crate) fn permission(&self) -> (String, String) {
        let verb = self.verb.map(|verb| verb.to_string()).unwrap_or_default();
        let slash = if self.subresource.is_empty() { "" } else { "/" };
        (verb, format!("{}{slash}{}", self.resource, self.subresource))
    }

    /// Returns `true` if the request is a create, an update, a patch or a deletion.
    pub fn is_write(&self) -> bool {
        use RequestVerb::{Get, List, Watch};
        self.verb.is_some_and(|verb| !matches!(verb, Get | List | Watch))
    }

    /// Returns `true` if the request is for Leases, Events or access reviews, which every operator sends.
    pub fn is_housekeeping(&self) -> bool {
        is_housekeeping(&self.group, &self.resource)
    }

    pub(crate) fn is_lease(&self) -> bool {
        is_lease(&self.group, &self.resource)
    }

    /// Returns `true` if the request asks which resources the server serves. The number of these requests depends on
    /// how quickly the server serves a new resource.
    pub(crate) fn is_discovery(&self) -> bool {
        self.verb.is_none() || self.resource == "customresourcedefinitions" && !self.is_write()
    }

    pub(crate) fn is_event(&self) -> bool {
        is_event(&self.group, &self.resource)
    }

    /// Returns `true` if the request changed an object or wrote an Event. Ignores the registration of definitions and
    /// webhooks. Also ignores changes of finalizers, because an operator adds its finalizer before it starts its work.
    pub(crate) fn is_effect(&self) -> bool {
        if self.is_event() {
            return self.is_write() && self.code.is_some_and(|code| code < 300);
        }
        let is_work = |change: &String| {
            !change.starts_with(".metadata.finalizers") && !change.starts_with(".metadata.managedFields")
        };
        !self.is_housekeeping() && !self.is_registration() && self.changes.iter().any(is_work)
    }

    fn is_registration(&self) -> bool {
        is_registration(&self.group, &self.resource)
    }

    /// Returns `true` if the request shows that the operator is not idle: it changed an object or was a failed write.
    pub(crate) fn is_activity(&self) -> bool {
        let has_failed = self.is_write() && self.code.is_none_or(|code| code >= 400);
        !self.is_housekeeping() && (has_failed || !self.changes.is_empty())
    }
}

/// Formats the request on one line. Each changed field is on a separate line.
impl fmt::Display for SentRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} request {}: ", self.process, self.number)?;
        match self.verb {
            None => f.write_str(&self.path)?,
            Some(verb) => {
                let (slash, subresource) = (if self.subresource.is_empty() { "" } else { "/" }, &self.subresource);
                write!(f, "{verb} {}{slash}{subresource}", self.resource)?;
            }
        }
        match (self.namespace.as_str(), self.name.as_str()) {
            ("", "") => {}
            ("", name) => write!(f, " {name}")?,
            (namespace, "") => write!(f, " in {namespace}")?,
            (namespace, name) => write!(f, " {namespace}/{name}")?,
        }
        match self.code {
            Some(code) => write!(f, " -> {code}")?,
            None => f.write_str(" -> no answer")?,
        }
        if !self.fault.is_empty() {
            write!(f, " ({})", self.fault)?;
        }
        self.changes.iter().try_for_each(|change| write!(f, "\n    {change}"))
    }
}

/// Returns `true` for Leases, Events and access reviews. See [`SentRequest::is_housekeeping`].
pub(crate) fn is_housekeeping(group: &str, resource: &str) -> bool {
    is_lease(group, resource) || is_event(group, resource) || resource.ends_with("reviews")
}

fn is_lease(group: &str, resource: &str) -> bool {
    group == "coordination.k8s.io" && resource == "leases"
}

fn is_event(group: &str, resource: &str) -> bool {
    ["", "events.k8s.io"].contains(&group) && resource == "events"
}

/// Returns `true` if managers write this resource at startup, before they become the leader.
pub(crate) fn is_registration(group: &str, resource: &str) -> bool {
    matches!(
        (group, resource),
        ("apiextensions.k8s.io", "customresourcedefinitions")
            | ("admissionregistration.k8s.io", "validatingwebhookconfigurations" | "mutatingwebhookconfigurations")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_parsed_as_kubernetes_does() {
        for (method, uri, expected) in [
            (Method::GET, "/api/v1/namespaces/a/pods/b/log", "p request 1: get pods/log a/b"),
            (Method::GET, "/api/v1/namespaces", "p request 1: list namespaces"),
            (Method::PUT, "/api/v1/namespaces/a/status", "p request 1: update namespaces/status a"),
            (Method::GET, "/api/v1/pods?watch=true", "p request 1: watch pods"),
            (Method::GET, "/apis/apps/v1/namespaces/a/deployments?watch=1&x", "p request 1: watch deployments in a"),
            (Method::DELETE, "/apis/example.com/v1/namespaces/a/sites/b%3Ac", "p request 1: delete sites a/b:c"),
            (Method::DELETE, "/apis/example.com/v1/namespaces/a/sites", "p request 1: deletecollection sites in a"),
            (Method::POST, "/apis/example.com/v1/things", "p request 1: create things"),
            (Method::GET, "/apis/example.com/v1", "p request 1: /apis/example.com/v1"),
            (Method::GET, "/version", "p request 1: /version"),
        ] {
            let request = SentRequest::parse("p", 1, &method, &uri.parse().unwrap());
            assert_eq!(request.to_string(), format!("{expected} -> no answer"));
        }
    }
}
