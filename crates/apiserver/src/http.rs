//! The HTTP layer, which turns requests into responses.
//!
//! [`respond`] checks a request in kube-apiserver's order, because the response reports only the first failure. The
//! order is: path, `timeout=`, authentication, impersonation, authorization, route and verb, `Accept`, media type and
//! body size, options, decoding. After these checks, the [`registry`](crate::registry) executes the request.

mod api_groups;
mod body;
mod call;
mod encode;
mod healthz;
mod list_body;
mod negotiate;
mod openapi_spec;
mod openid;
mod resource;
mod retrieve;
mod sent;
mod socket;
mod subresource;
mod websocket;
mod write;

use std::collections::HashSet;
use std::sync::Arc;

use body::RequestBody;
pub(crate) use call::Incoming;
use call::{Call, RequestHead};
pub(crate) use encode::Reply;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, DATE};
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::request::path::{ResourcePath, Target, decoded};
use pintle_apimachinery::request::{RequestInfo, Subresource, Verb};
use pintle_authz::Attributes;
use pintle_kinds::decode;
use pintle_serving::body::ResponseBody;
use pintle_serving::offload::Offload;
use pintle_storage::committed::Committed;
pub(crate) use socket::Socket;
use tokio::time::Instant;

use crate::audit::AuditRecord;
use crate::faults::{self, Answer};
use crate::registry::Registry;

/// The deadline for sending the whole response, even if the client does not read it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deadline {
    /// The deadline of an ordinary request, unlike a watch or another stream.
    Request(Instant),
    Watch(Instant),
}

impl Deadline {
    pub(crate) fn at(self) -> Instant {
        match self {
            Self::Request(at) | Self::Watch(at) => at,
        }
    }
}

/// Serves one request and returns the response. Errors are also returned as responses. If the request upgrades the
/// connection to a WebSocket, the result also contains a [`Socket`]. The caller must run the `Socket` on the
/// connection.
///
/// The response is ready no later than the deadline. After the deadline, offloaded code can continue to run, but it no
/// longer writes to the store.
///
/// The function calls `deadline` with the response's deadline if the response has a deadline.
///
/// # Cancel safety
///
/// If the future is dropped, each write of the request is either complete or has no effect.
pub(crate) async fn respond(
    registry: Arc<Registry>,
    request: Request<Incoming>,
    deadline: impl FnOnce(Deadline),
) -> (Response<ResponseBody>, Option<Socket>) {
    let (mut call, incoming) = Call::new(&registry, request);
    let audit_id = call.head.headers.get(AUDIT_ID).cloned();
    let url = call.head.uri.path_and_query().map_or("", PathAndQuery::as_str);
    let limit = call.info.time_limit(&call.head.query, url);
    let end = limit.as_ref().ok().copied().flatten().map(|limit| Instant::now() + limit);
    call.requester.deadline = end;
    let audited = AuditGuard::new(registry.clone(), call);
    let work = Offload::new(&registry.offload_permits, answer(audited, limit.map(drop), incoming));
    let Some(end) = end else {
        let (response, mut ongoing) = work.await;
        ongoing.audited.in_time = true;
        ongoing.ends.map(Deadline::Watch).map(deadline);
        return (response, ongoing.socket);
    };
    deadline(Deadline::Request(end));
    match tokio::time::timeout_at(end, work).await {
        Ok((response, mut ongoing)) => {
            ongoing.audited.in_time = true;
            (response, ongoing.socket)
        }
        Err(_) => {
            let mut response = encode::timed_out();
            add_common_headers(&registry, audit_id, &mut response);
            (response, None)
        }
    }
}

/// The part of a request's data that the server needs until the response is completely sent.
struct Ongoing {
    /// A guard that writes the audit record on drop. The caller first sets `in_time` if the response was complete
    /// before the deadline.
    audited: AuditGuard,
    socket: Option<Socket>,
    /// The time at which a watch ends, or `None` for all other responses.
    ends: Option<Instant>,
}

async fn answer(mut audited: AuditGuard, valid: Outcome<()>, incoming: Incoming) -> (Response<ResponseBody>, Ongoing) {
    let (registry, committed) = (audited.registry.clone(), audited.committed.clone());
    let call = &mut audited.call;
    let outcome = match valid {
        Ok(()) => committed.during(serve(&registry, call, incoming)).await,
        Err(failure) => Err(failure),
    };
    call.requester.release_permit();
    let outcome = match outcome {
        Ok(reply) => convert_reply(&registry, call, reply).await,
        Err(failure) => Err(failure),
    };
    call.warnings.extend(call.requester.take_warnings());
    let scheduled = !matches!(&outcome, Err(failure) if failure.code() == 401 || failure.early);
    let ends = match &outcome {
        Ok(Reply::Watch { watcher }) => watcher.ends(),
        _ => None,
    };
    let mut response = match outcome {
        Ok(reply) => encode::reply(&registry, &call.head, reply).await,
        Err(failure) => encode::failure(&call.head, &failure).await,
    };
    let socket = call.connection.take_socket();
    audited.code = response.status().as_u16();
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return (response, Ongoing { audited, socket, ends });
    }
    add_headers(&audited.registry, &audited.call, scheduled, &mut response);
    (response, Ongoing { audited, socket: None, ends })
}

async fn convert_reply(registry: &Registry, call: &Call, reply: Reply) -> Outcome<Reply> {
    Ok(match reply {
        Reply::Object { code, kind, object, format } => {
            let object = registry.settled(&kind, object, &call.requester).await?;
            Reply::Object { code, kind, object, format }
        }
        Reply::List { kind, list, format } => {
            registry.settle_list(&kind, &list, &call.requester).await?;
            Reply::List { kind, list, format }
        }
        reply => reply,
    })
}

/// Writes the request's metrics and audit record when dropped, even if the request's future is dropped before the
/// response.
struct AuditGuard {
    registry: Arc<Registry>,
    call: Call,
    received: Instant,
    committed: Committed,
    code: u16,
    in_time: bool,
}

impl AuditGuard {
    fn new(registry: Arc<Registry>, call: Call) -> Self {
        Self { registry, call, received: Instant::now(), committed: Committed::default(), code: 0, in_time: false }
    }
}

impl Drop for AuditGuard {
    fn drop(&mut self) {
        let is_late = !self.in_time && self.call.requester.is_timed_out();
        let code = if is_late { encode::TIMED_OUT } else { self.code };
        if let Some(labels) = self.call.labels().filter(|_| self.call.is_counted && code != 0) {
            self.registry.metrics.count(labels, code, self.received.elapsed());
        }
        let user_agent = self.call.head.user_agent().to_owned();
        let RequestInfo { verb, target } = Arc::unwrap_or_clone(std::mem::take(&mut self.call.info));
        let ResourcePath { group, resource, subresource, namespace, name, .. } = target.into_resource();
        self.registry.audit.record(AuditRecord {
            received: self.received,
            user: std::mem::take(&mut self.call.requester.user.name),
            user_agent,
            verb,
            group,
            resource,
            subresource,
            namespace,
            name,
            code,
            committed: self.committed.last(),
            annotations: self.call.requester.take_annotations(),
        });
    }
}

async fn serve(registry: &Arc<Registry>, call: &mut Call, incoming: Incoming) -> Outcome<Reply> {
    let info = call.info.clone();
    let RequestInfo { target, verb } = &*info;
    let verb = *verb;
    let headers = &mut call.head.headers;
    call.warnings.extend(pintle_authz::warning(headers).map(Into::into));
    call.requester.user =
        registry.authenticator.authenticate(&*registry.db, headers, registry.clock.now().as_second())?;
    authorize(registry, call)?;
    call.is_counted = !matches!(target, Target::Resource(path) if !is_served(registry, path));
    let request_body = match verb {
        Some(Verb::Create) if call.object.is_empty() && registry.faults.needs_create_names() => {
            let body = body::receive(call, incoming).await?;
            let bytes = body::read(registry, call, RequestBody::Received(body.clone())).await?;
            call.object = decode::name(bytes, call.head.header(CONTENT_TYPE));
            // Release the permit, because a fault can delay the request.
            call.requester.release_permit();
            RequestBody::Received(body)
        }
        _ => RequestBody::Incoming(incoming),
    };
    let before = registry.faults.before(&fault_request(call));
    if !before.delay.is_zero() {
        tokio::time::sleep(before.delay).await;
    }
    call.view = before.view;
    if let Some(answer) = before.answer {
        return Ok(Reply::Fault(answer));
    }
    let reply = match target {
        Target::Resource(path) => resource::serve(registry, call, path, verb, request_body).await,
        Target::Other(parts) => serve_non_resource(registry, &call.head, parts).await,
        Target::Undeterminable => Err(Failure::page_not_found()),
    };
    match before.lose_answer {
        Some(answer) => Ok(Reply::Fault(answer)),
        None => reply,
    }
}

fn is_served(registry: &Registry, path: &ResourcePath) -> bool {
    let Some(subresource) = Subresource::parse(&path.subresource) else { return false };
    let kinds = registry.kinds();
    let kind = kinds.resource(&path.group, &path.version, &path.resource);
    kind.is_some_and(|kind| subresource == Subresource::None || kind.subresource(subresource).is_some())
}

fn metrics_text(registry: &Registry) -> Reply {
    let mut headers = http::HeaderMap::new();
    let media = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    let version = healthz::version();
    Reply::Raw { code: 200, headers, body: registry.metrics.text(version.text("/gitVersion")).into() }
}

async fn serve_non_resource(registry: &Arc<Registry>, head: &RequestHead, parts: &[String]) -> Outcome<Reply> {
    if let Some(reply) = healthz::serve(registry, head, parts) {
        return Ok(reply);
    }
    match parts {
        [first, rest @ ..] if first == "openapi" => openapi_spec::serve(registry, head, rest).await,
        [first] if first == "metrics" && !head.path.ends_with('/') => Ok(metrics_text(registry)),
        [first, second] if first == ".well-known" && second == "openid-configuration" => {
            api_groups::only_get(head)?;
            Ok(openid::configuration(registry, head))
        }
        [first, second, third] if first == "openid" && second == "v1" && third == "jwks" => {
            api_groups::only_get(head)?;
            Ok(openid::keys(registry))
        }
        _ => api_groups::serve(registry, head, parts).await,
    }
}

fn authorize(registry: &Registry, call: &mut Call) -> Outcome<()> {
    let (verb, url) = (call.info.rbac_verb(&call.head.method), decoded(&call.head.path));
    let attributes = match &call.info.target {
        Target::Resource(path) => Attributes::Resource { verb: &verb, path, name: &call.object },
        _ => Attributes::Path { verb: &verb, path: &url },
    };
    if let Some(wanted) = pintle_authz::impersonated(&call.head.headers)? {
        call.requester.user = pintle_authz::impersonate(registry.rbac(), &call.requester.user, wanted, &attributes)?;
    }
    call.flow = registry.flow(&call.requester.user, &attributes);
    pintle_authz::authorize(registry.rbac(), &call.requester.user, &attributes)
}

fn fault_request(call: &Call) -> faults::Request<'_> {
    let ResourcePath { group, resource, subresource, namespace, .. } = call.info.target.resource();
    faults::Request {
        verb: call.info.verb,
        group,
        resource,
        subresource,
        namespace,
        name: &call.object,
        user: &call.requester.user.name,
        user_agent: call.head.user_agent(),
        version: call.head.query.text("resourceVersion"),
    }
}

const AUDIT_ID: &str = "audit-id";

fn add_headers(registry: &Registry, call: &Call, scheduled: bool, response: &mut Response<ResponseBody>) {
    add_common_headers(registry, call.head.headers.get(AUDIT_ID).cloned(), response);
    let headers = response.headers_mut();
    if let Some(pintle_authz::Flow { schema, level }) = call.flow.as_ref().filter(|_| scheduled) {
        for (name, uid) in [("x-kubernetes-pf-flowschema-uid", schema), ("x-kubernetes-pf-prioritylevel-uid", level)] {
            headers.extend(HeaderValue::from_str(uid).ok().map(|uid| (HeaderName::from_static(name), uid)));
        }
    }
    for value in warning_headers(&call.warnings) {
        headers.append("warning", value);
    }
}

fn add_common_headers(registry: &Registry, audit_id: Option<HeaderValue>, response: &mut Response<ResponseBody>) {
    let audit_id = audit_id.filter(|id| id.to_str().is_ok_and(|id| !id.is_empty()));
    let audit_id = audit_id.or_else(|| HeaderValue::from_str(&registry.uuid()).ok());
    let headers = response.headers_mut();
    headers.extend(audit_id.map(|id| (HeaderName::from_static(AUDIT_ID), id)));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
    headers.remove(DATE);
}

/// The maximum total length of all warnings, in characters. If all warnings together exceed this limit, each warning is
/// truncated.
const MAX_WARNINGS: usize = 4 * 1024;
const MAX_TRUNCATED_WARNING: usize = 256;

/// Returns a header for each distinct warning, in order. The total length of these headers stays within kube-apiserver's limit.
fn warning_headers(warnings: &[String]) -> Vec<HeaderValue> {
    let mut seen = HashSet::new();
    let once: Vec<_> = warnings.iter().filter(|text| !text.is_empty() && seen.insert(*text)).collect();
    let length = once.iter().map(|text| text.chars().count()).sum::<usize>();
    let limit = if length > MAX_WARNINGS { MAX_TRUNCATED_WARNING } else { MAX_WARNINGS };
    let mut sent = 0;
    let mut headers = Vec::new();
    for text in once {
        if sent >= MAX_WARNINGS {
            break;
        }
        let cut: String = text.chars().take(limit).collect();
        sent += cut.chars().count();
        headers.extend(warning_header(&cut));
    }
    headers
}

fn warning_header(text: &str) -> Option<HeaderValue> {
    let quoted = text.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ");
    HeaderValue::from_str(&format!("299 - \"{quoted}\"")).ok()
}

impl Reply {
    pub(super) fn of_fault(answer: &Answer) -> Failure {
        let message = format!("a scripted fault answered {}", answer.code);
        let reason = match answer.code {
            401 => pintle_meta::Reason::Unauthorized,
            403 => pintle_meta::Reason::Forbidden,
            409 => pintle_meta::Reason::Conflict,
            410 => pintle_meta::Reason::Expired,
            429 => pintle_meta::Reason::TooManyRequests,
            500 => pintle_meta::Reason::InternalError,
            503 => pintle_meta::Reason::ServiceUnavailable,
            504 => pintle_meta::Reason::Timeout,
            _ => return Failure::plain(answer.code, message),
        };
        let mut failure = Failure::new(answer.code, reason, message);
        if let Some(seconds) = answer.retry_after {
            let details = pintle_meta::StatusDetails { retry_after_seconds: seconds, ..Default::default() };
            failure = failure.with(details);
        }
        failure
    }
}

#[cfg(test)]
assert_no_debug!(Call, Reply, decode::RawBody, decode::BodyObject, decode::Patcher<'static>);
