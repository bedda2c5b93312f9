//! The state of one request, from its head to its response.

use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{AsHeaderName, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, Method, Request, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::upgrade::OnUpgrade;
use pintle_apimachinery::metrics::{self, RequestLabels};
use pintle_apimachinery::request::path::ResourcePath;
use pintle_apimachinery::request::query::Query;
use pintle_apimachinery::request::{RequestInfo, Requester, Verb};
use pintle_serving::body_budget::BodyBudget;
use pintle_serving::offload;

use super::socket::Socket;
use crate::faults::View;
use crate::registry::Registry;

pub(crate) type Incoming = UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>;

/// A request without its body, as the client sent it.
pub(crate) struct RequestHead {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Query,
    /// The path and query of the request, exactly as the client sent them.
    pub(super) uri: Uri,
    pub(crate) headers: HeaderMap,
}

impl RequestHead {
    pub(crate) fn header(&self, name: impl AsHeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub(crate) fn user_agent(&self) -> &str {
        self.header(USER_AGENT)
    }
}

/// The costs that decide whether a request is offloaded to another thread. A cost of 1 corresponds to the time to
/// process one byte of a request body.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Costs {
    /// The size in bytes of the stored object that the request changes, or zero.
    pub(super) stored: usize,
    /// The cost of validating an object against the schema of its kind, and of the expressions of admission.
    pub(super) validation: usize,
}

/// Whether the connection of a request can become a WebSocket.
pub(super) enum Connection {
    Http,
    Upgradable(OnUpgrade),
    WebSocket(Socket),
}

impl Connection {
    pub(super) fn take_socket(&mut self) -> Option<Socket> {
        match std::mem::replace(self, Self::Http) {
            Self::WebSocket(socket) => Some(socket),
            Self::Http | Self::Upgradable(_) => None,
        }
    }
}

pub(crate) struct Call {
    pub(super) head: RequestHead,
    pub(super) info: Arc<RequestInfo>,
    /// The object name that RBAC and fault rules use. For a list or watch, this name comes from the field selector.
    pub(super) object: String,
    pub(super) requester: Requester,
    /// The request's flow schema and priority level, or `None` until the user is authenticated.
    pub(super) flow: Option<pintle_authz::Flow>,
    /// `true` if the request counts in the metrics, which only include authorized requests with a served target.
    pub(super) is_counted: bool,
    /// The view of the store that the request reads from, or `None` if no fault rule selects a view.
    pub(super) view: Option<View>,
    /// Warnings for the client. Every response contains these warnings, including error responses.
    pub(super) warnings: Vec<String>,
    pub(super) costs: Costs,
    pub(super) bodies: Arc<BodyBudget>,
    /// The request body, which counts towards the body budget until the request ends.
    pub(super) body: Bytes,
    pub(super) connection: Connection,
}

impl Call {
    pub(super) fn new(registry: &Registry, request: Request<Incoming>) -> (Self, Incoming) {
        let (mut parts, incoming) = request.into_parts();
        let connection = parts.extensions.remove().map_or(Connection::Http, Connection::Upgradable);
        let head = RequestHead {
            method: parts.method,
            path: parts.uri.path().to_owned(),
            query: Query::parse(parts.uri.query().unwrap_or_default()),
            uri: parts.uri,
            headers: parts.headers,
        };
        let info = RequestInfo::new(&head.method, &head.path, &head.query);
        let call = Self {
            object: info.object_name(&head.query),
            head,
            info: Arc::new(info),
            requester: Requester::default(),
            flow: None,
            is_counted: false,
            view: None,
            warnings: Vec::new(),
            costs: Costs::default(),
            bodies: registry.body_budget.clone(),
            body: Bytes::new(),
            connection,
        };
        (call, incoming)
    }

    /// If admission webhooks or admission policies exist, prepares the calls of the webhooks and the evaluation of the
    /// policies.
    pub(super) fn prepare_admission(&mut self, registry: &Registry) {
        if registry.prepare_webhooks(&self.requester) || registry.has_policies() {
            // The expressions of webhooks and admission policies can be expensive, even for a small object.
            self.costs.validation = offload::ALWAYS;
        }
    }

    pub(super) fn labels(&self) -> Option<RequestLabels> {
        let Self { head, info, .. } = self;
        let ResourcePath { group, version, resource, subresource, namespace, name, .. } = info.target.resource();
        let Some(verb) = info.verb else {
            return RequestLabels::of_path(&head.path, head.method.as_str());
        };
        let scope = match () {
            () if !name.is_empty() || verb == Verb::Create => "resource",
            () if !namespace.is_empty() => "namespace",
            () => "cluster",
        };
        let is_apply = head.header(CONTENT_TYPE).starts_with("application/apply-patch");
        Some(RequestLabels {
            group: group.clone(),
            version: version.clone(),
            resource: resource.clone(),
            subresource: subresource.clone(),
            scope,
            verb: metrics::verb_label(verb, is_apply),
            dry_run: !head.query.text("dryRun").is_empty(),
            component: "apiserver",
        })
    }
}
