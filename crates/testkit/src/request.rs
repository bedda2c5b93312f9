//! The requests of an operator, as the test kit has recorded them.

use std::collections::BTreeMap;
use std::fmt;

use http::{Method, Uri};
use percent_encoding::percent_decode_str;
use pintle_apiserver::RequestVerb;

/// One request that a process of the operator sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SentRequest {
    /// The name of the process, such as `operator-1`. A restarted process has a new name.
    pub process: String,
    /// The number of the request. Each process numbers its requests from 1.
    pub number: usize,
    /// The verb of the request. `None` for a request without a resource, such as `/version`.
    pub verb: Option<RequestVerb>,
    /// The API group of the resource. The string is empty for the core group.
    pub group: String,
    /// The plural name of the resource. The string is empty for a request without a resource.
    pub resource: String,
    /// The subresource, such as `status`.
    pub subresource: String,
    /// The namespace of the request. The string is empty for cluster-scoped resources and for requests across all namespaces.
    pub namespace: String,
    /// The name of the object. The string is empty if the request is for a collection, or if the server generates the name.
    pub name: String,
    /// The path of the URL without the query.
    pub path: String,
    /// The HTTP status of the response. `None` if the test kit cut the connection before the server answered, or if the
    /// process dropped the request.
    pub code: Option<u16>,
    /// The fault that the test kit injected into the request. The string is empty if there was no fault.
    pub fault: String,
    /// The fields that the request changed, such as `.data.url: "a" -> "b"`. The list is empty if the request changed
    /// nothing.
    pub changes: Vec<String>,
}

impl SentRequest {
    pub(crate) fn parse(process: &str, number: usize, method: &Method, uri: &Uri) -> Self {
        let request = Self { process: process.into(), number, path: uri.path().into(), ..Self::default() };
        let query = query(uri);
        let parts: Vec<String> = uri
            .path()
            .split('/')
            .skip(1)
            .map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned())
            .collect();
        let mut parts = parts.into_iter();
        let group = match parts.next().as_deref() {
            Some("api") => String::new(),
            Some("apis") => parts.next().unwrap_or_default(),
            _ => return request,
        };
        let (Some(_version), Some(first)) = (parts.next(), parts.next()) else { return request };
        let rest: Vec<String> = parts.collect();
        let is_scoped = first == "namespaces" && rest.len() >= 2 && !["status", "finalize"].contains(&rest[1].as_str());
        let (namespace, resource, rest) = match is_scoped {
            true => (rest[0].clone(), rest[1].clone(), &rest[2..]),
            false => (String::new(), first, &rest[..]),
        };
        let name = rest.first().cloned().unwrap_or_default();
        let subresource = rest.get(1..).map(|rest| rest.join("/")).unwrap_or_default();
        let is_watch = query.get("watch").is_some_and(|value| *value != "false" && *value != "0");
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

    /// Returns whether the request is a write: a create, an update, a patch or a deletion.
    pub fn is_write(&self) -> bool {
        use RequestVerb::{Get, List, Watch};
        self.verb.is_some_and(|verb| !matches!(verb, Get | List | Watch))
    }

    /// Returns whether the request is housekeeping, which does not depend on the purpose of the operator. Requests for Leases, Events and
    /// access reviews are housekeeping.
    pub fn is_housekeeping(&self) -> bool {
        matches!(
            (self.group.as_str(), self.resource.as_str()),
            ("coordination.k8s.io", "leases") | ("" | "events.k8s.io", "events")
        ) || self.resource.ends_with("reviews")
    }

    /// Returns whether the request changed an object. Housekeeping does not count, and neither does the installation of a
    /// CustomResourceDefinition.
    pub(crate) fn is_effect(&self) -> bool {
        !self.is_housekeeping() && self.resource != "customresourcedefinitions" && !self.changes.is_empty()
    }

    /// Returns whether the request shows that the operator is not idle, because it changed an object or is a failed write.
    pub(crate) fn is_activity(&self) -> bool {
        let has_failed = self.is_write() && self.code.is_none_or(|code| code >= 400);
        !self.is_housekeeping() && (has_failed || !self.changes.is_empty())
    }
}

/// Formats the request on one line, and each changed field on a separate line.
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

fn query(uri: &Uri) -> BTreeMap<&str, &str> {
    let pairs = uri.query().unwrap_or_default().split('&');
    pairs.filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect()
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
