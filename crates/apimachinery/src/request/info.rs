//! What a request asks for: its verb, its target and its time limit.

use std::time::Duration;

use http::Method;
use pintle_meta::FieldSelector;

use super::duration::go_duration;
use super::path::{ResourcePath, Target};
use super::query::Query;
use super::{Subresource, Verb};
use crate::failure::{Failure, Outcome, quoted};

/// The default timeout and the maximum timeout of a request.
const MAX_REQUEST_TIME: Duration = Duration::from_secs(60);

/// The verb and the target of a request, which follow from its method, its path and its query.
#[derive(Clone, Default)]
pub struct RequestInfo {
    /// The verb of a request for a resource. `None` if the method is unknown, and for other requests.
    pub verb: Option<Verb>,
    pub target: Target,
}

impl RequestInfo {
    pub fn new(method: &Method, path: &str, query: &Query) -> Self {
        let target = Target::parse(path);
        let verb = match &target {
            Target::Resource(path) => verb(method, path, query),
            Target::Other(_) | Target::Undeterminable => None,
        };
        Self { verb, target }
    }

    /// Returns the verb in RBAC rules.
    pub fn rbac_verb(&self, method: &Method) -> String {
        match &self.target {
            Target::Resource(path) if path.old_proxy => "proxy".into(),
            Target::Resource(_) => self.verb.map_or("", Verb::name).to_owned(),
            _ => method.as_str().to_lowercase(),
        }
    }

    /// Returns the object name in the path. For a list or watch, returns the object name in the field selector.
    pub fn object_name(&self, query: &Query) -> String {
        let name = &self.target.resource().name;
        if !name.is_empty() || !matches!(self.verb, Some(Verb::List | Verb::Watch)) {
            return name.clone();
        }
        let fields: FieldSelector = query.text("fieldSelector").parse().unwrap_or_default();
        fields.exact("metadata.name").unwrap_or_default().to_owned()
    }

    /// Returns the maximum duration of the response, or `None` for watches and other streams. `url` is the path and the
    /// query as the client sent them.
    ///
    /// # Errors
    ///
    /// Fails if the parameter `timeout` is not a duration in Go's syntax, and for a path that ends with `/watch`.
    pub fn time_limit(&self, query: &Query, url: &str) -> Outcome<Option<Duration>> {
        if self.target == Target::Undeterminable {
            return Err(undeterminable(url));
        }
        let subresource = Subresource::parse(&self.target.resource().subresource);
        if self.verb == Some(Verb::Watch) || subresource.is_some_and(Subresource::is_stream) {
            return Ok(None);
        }
        let text = query.text("timeout");
        if text.is_empty() {
            return Ok(Some(MAX_REQUEST_TIME));
        }
        let timeout = go_duration(text).map_err(|why| {
            let text = quoted(text);
            Failure::bad_request(format!("invalid timeout specified in the request URL - time: {why} {text}"))
        })?;
        Ok(Some(if timeout.is_zero() { MAX_REQUEST_TIME } else { timeout.min(MAX_REQUEST_TIME) }))
    }
}

fn verb(method: &Method, path: &ResourcePath, query: &Query) -> Option<Verb> {
    let collection = path.name.is_empty();
    match method.as_str() {
        _ if path.old_watch => Some(Verb::Watch),
        _ if path.old_proxy => None,
        "GET" | "HEAD" if collection && query.flag("watch") == Some(true) => Some(Verb::Watch),
        "GET" | "HEAD" if collection => Some(Verb::List),
        "GET" | "HEAD" => Some(Verb::Get),
        "POST" => Some(Verb::Create),
        "PUT" => Some(Verb::Update),
        "PATCH" => Some(Verb::Patch),
        "DELETE" if collection => Some(Verb::DeleteCollection),
        "DELETE" => Some(Verb::Delete),
        _ => None,
    }
}

/// Returns kube-apiserver's error for a request path that ends with `/watch`.
fn undeterminable(url: &str) -> Failure {
    let why = format!("failed to create RequestInfo: unable to determine kind and namespace from url, {url}");
    let text = format!("Internal Server Error: {}: {why}\n", quoted(url));
    Failure { text: Some(text.into()), ..Failure::plain(500, "") }
}
