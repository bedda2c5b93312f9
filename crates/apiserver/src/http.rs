//! The HTTP shell: from a request's head and body to an answer's.
//!
//! [`respond`] walks a request through the checks in the order in which a real server makes them, so that the first thing wrong
//! is what the client is told: path, `timeout=`, authentication, impersonation, authorisation, route and verb, `Accept`, media
//! type and size of the body, options, decoding. What remains is for [`registry`](crate::registry).

mod api_groups;
mod body;
pub(crate) mod decode;
mod encode;
mod gzip;
mod healthz;
mod indent;
mod list_body;
mod negotiate;
mod openapi_spec;
mod openid;
mod resource;
mod retrieve;
mod sent;
mod subresource;
mod websocket;
mod write;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use body::Delivery;
pub(crate) use body::{Incoming, ResponseBody, full};
pub(crate) use encode::Reply;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, DATE, USER_AGENT};
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use hyper::upgrade::OnUpgrade;
use pintle_meta::FieldSelector;
use tokio::time::Instant;
pub(crate) use websocket::Socket;

use crate::audit::{AuditRecord, Committed};
use crate::auth::{self, Attributes};
use crate::failure::{Failure, Outcome};
use crate::faults::{self, Answer, View};
use crate::metrics::{self, RequestLabels};
use crate::offload::Offload;
use crate::registry::{BodyBudget, Registry};
use crate::request::duration::go_duration;
use crate::request::path::{ResourcePath, Target};
use crate::request::query::Query;
use crate::request::{Requester, Subresource, Verb};

/// A request on its way through the checks.
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Query,
    /// Both as they came.
    uri: Uri,
    pub(crate) headers: http::HeaderMap,
    pub(crate) requester: Requester,
    /// What it falls under, once it is known who asks.
    flow: Option<auth::Flow>,
    /// What it does, and to what.
    verb: Option<Verb>,
    target: ResourcePath,
    /// The name of what it is about, for rules.
    object: String,
    /// It reads what this view shows, for a fault that a test asked for.
    view: Option<View>,
    /// What to warn the client of, whatever the outcome.
    pub(crate) warnings: Vec<String>,
    /// How many bytes the object takes that it is to write, if it is there.
    weight: usize,
    /// What its schema takes, as bytes of a body.
    schema_weight: usize,
    /// The room for the bodies of all requests.
    bodies: Arc<BodyBudget>,
    /// The connection, where the client would have another protocol on it.
    upgrade: Option<OnUpgrade>,
    /// What the connection carries after the answer, if that is 101.
    socket: Option<Socket>,
}

impl Call {
    fn new(registry: &Registry, request: Request<Incoming>) -> (Self, Incoming) {
        let (mut head, incoming) = request.into_parts();
        let call = Self {
            weight: 0,
            schema_weight: 0,
            bodies: registry.bodies.clone(),
            upgrade: head.extensions.remove(),
            socket: None,
            method: head.method,
            path: head.uri.path().to_owned(),
            query: Query::parse(head.uri.query().unwrap_or_default()),
            uri: head.uri,
            headers: head.headers,
            requester: Requester::default(),
            flow: None,
            verb: None,
            target: ResourcePath::default(),
            object: String::new(),
            view: None,
            warnings: Vec::new(),
        };
        (call, incoming)
    }

    /// A header as text; empty where it is absent.
    pub(crate) fn header(&self, name: impl http::header::AsHeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub(crate) fn user_agent(&self) -> &str {
        self.header(USER_AGENT)
    }

    /// The labels by which the request is counted. None for paths that lead nowhere.
    fn labels(&self) -> Option<RequestLabels> {
        let ResourcePath { group, version, resource, subresource, namespace, name, .. } = &self.target;
        let Some(verb) = self.verb else {
            return RequestLabels::of_path(&self.path, self.method.as_str());
        };
        let scope = match () {
            () if !name.is_empty() || verb == Verb::Create => "resource",
            () if !namespace.is_empty() => "namespace",
            () => "cluster",
        };
        let is_apply = self.header(CONTENT_TYPE).starts_with("application/apply-patch");
        Some(RequestLabels {
            group: group.clone(),
            version: version.clone(),
            resource: resource.clone(),
            subresource: subresource.clone(),
            scope,
            verb: metrics::verb_label(verb, is_apply),
            dry_run: !self.query.text("dryRun").is_empty(),
            component: "apiserver",
        })
    }
}

/// By when an answer has to be out, whether its client reads it or not.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deadline {
    /// It is made as fast as it can be.
    Request(Instant),
    /// It goes on until then.
    Watch(Instant),
}

impl Deadline {
    pub(crate) fn at(self) -> Instant {
        match self {
            Self::Request(at) | Self::Watch(at) => at,
        }
    }
}

/// Answers one request; and says what is to run on its connection then, where that becomes a WebSocket. Never fails: what goes
/// wrong is an answer too. Dropping it before it is done leaves each write either whole or undone.
///
/// The answer is there in time, whatever is worked on: a step that is taken on another thread when the time is up goes on there to its
/// end, and writes nothing any more.
///
/// `deadline` is told by when the answer has to be out, if it has to.
pub(crate) async fn respond(
    registry: Arc<Registry>,
    request: Request<Incoming>,
    deadline: impl FnOnce(Deadline),
) -> (Response<ResponseBody>, Option<Socket>) {
    let (mut call, incoming) = Call::new(&registry, request);
    let audit_id = call.headers.get(AUDIT_ID).cloned();
    let info = RequestInfo::of(&mut call);
    let end = info.as_ref().ok().and_then(|info| info.limit).map(|limit| Instant::now() + limit);
    call.requester.until = end;
    let asked = AuditGuard::new(registry.clone(), call);
    let work = Offload::new(&registry.turns, answer(asked, info, incoming));
    let Some(end) = end else {
        let (response, mut goes_on) = work.await;
        goes_on.asked.is_told = true;
        goes_on.ends.map(Deadline::Watch).map(deadline);
        return (response, goes_on.socket);
    };
    deadline(Deadline::Request(end));
    match tokio::time::timeout_at(end, work).await {
        Ok((response, mut goes_on)) => {
            goes_on.asked.is_told = true;
            (response, goes_on.socket)
        }
        Err(_) => {
            let mut response = encode::timed_out();
            add_common_headers(&registry, audit_id, &mut response);
            (response, None)
        }
    }
}

/// What goes on once an answer has begun.
struct GoesOn {
    /// What was asked, for the audit log, which learns whether the answer was there in time.
    asked: AuditGuard,
    /// On the connection.
    socket: Option<Socket>,
    /// Until then, in the body.
    ends: Option<Instant>,
}

/// The answer to a request, as soon as it is worked out.
async fn answer(
    mut asked: AuditGuard,
    info: Outcome<RequestInfo>,
    incoming: Incoming,
) -> (Response<ResponseBody>, GoesOn) {
    let (registry, committed) = (asked.registry.clone(), asked.committed.clone());
    let call = &mut asked.call;
    let outcome = match info {
        Ok(info) => committed.during(serve(&registry, call, &info, incoming)).await,
        Err(failure) => Err(failure),
    };
    call.warnings.extend(call.requester.take_warnings());
    let scheduled = !matches!(&outcome, Err(failure) if failure.code() == 401 || failure.early);
    let ends = match &outcome {
        Ok(Reply::Watch { watcher }) => watcher.ends(),
        _ => None,
    };
    let mut response = match outcome {
        Ok(reply) => encode::reply(&registry, call, reply).await,
        Err(failure) => encode::failure(call, &failure).await,
    };
    let socket = call.socket.take();
    asked.code = response.status().as_u16();
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return (response, GoesOn { asked, socket, ends });
    }
    add_headers(&asked.registry, &asked.call, scheduled, &mut response);
    (response, GoesOn { asked, socket: None, ends })
}

/// A request, which the audit log gets to know in the end, even if nobody waits for its answer by then.
struct AuditGuard {
    registry: Arc<Registry>,
    call: Call,
    received: Instant,
    committed: Committed,
    code: u16,
    /// Whether the answer was there in time.
    is_told: bool,
}

impl AuditGuard {
    fn new(registry: Arc<Registry>, call: Call) -> Self {
        Self { registry, call, received: Instant::now(), committed: Committed::default(), code: 0, is_told: false }
    }
}

impl Drop for AuditGuard {
    fn drop(&mut self) {
        if let Some(labels) = self.call.labels()
            && self.code != 0
        {
            self.registry.metrics.count(labels, self.code, self.received.elapsed());
        }
        let user_agent = self.call.user_agent().to_owned();
        let ResourcePath { group, resource, subresource, namespace, name, .. } = std::mem::take(&mut self.call.target);
        let is_late = !self.is_told && self.call.requester.is_late();
        self.registry.audit.record(AuditRecord {
            received: self.received,
            user: std::mem::take(&mut self.call.requester.user.name),
            user_agent,
            verb: self.call.verb,
            group,
            resource,
            subresource,
            namespace,
            name,
            code: if is_late { encode::TIMED_OUT } else { self.code },
            committed: self.committed.last(),
            annotations: self.call.requester.take_annotations(),
        });
    }
}

/// What a request is for.
struct RequestInfo {
    target: Target,
    verb: Option<Verb>,
    /// How long it may take, if there is an end to that.
    limit: Option<Duration>,
}

impl RequestInfo {
    /// Reads it from the path, the method and the query; the call is told of it.
    fn of(call: &mut Call) -> Outcome<Self> {
        let target = match Target::parse(&call.path) {
            Target::Undeterminable => return Err(undeterminable(&call.uri)),
            target => target,
        };
        let verb = verb(call, &target);
        call.verb = verb;
        if let Target::Resource(path) = &target {
            call.target.clone_from(path);
            call.object = named(call, path, verb);
        }
        let limit = time_limit(call, &target, verb)?;
        Ok(Self { target, verb, limit })
    }
}

async fn serve(registry: &Arc<Registry>, call: &mut Call, info: &RequestInfo, incoming: Incoming) -> Outcome<Reply> {
    let RequestInfo { target, verb, .. } = info;
    let verb = *verb;
    call.warnings.extend(auth::warning(&call.headers).map(Into::into));
    call.requester.user =
        registry.authenticator.authenticate(&registry.db, &mut call.headers, registry.clock.now().as_second())?;
    authorize(registry, call, target, verb)?;
    let delivery = match verb {
        Some(Verb::Create) if call.object.is_empty() && registry.faults.needs_create_names() => {
            let body = body::take(call, incoming).await?;
            // The turn that it has for its name ends before what a fault may have it wait for.
            let turn = body::read(call, Delivery::Come(body.clone())).await?;
            call.object = decode::name(turn, call.header(CONTENT_TYPE));
            Delivery::Come(body)
        }
        _ => Delivery::Coming(incoming),
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
        Target::Resource(path) => resource::serve(registry, call, path, verb, delivery).await,
        Target::Other(parts) => other(registry, call, parts).await,
        Target::Undeterminable => Err(Failure::page_not_found()),
    };
    match before.lose_answer {
        Some(answer) => Ok(Reply::Fault(answer)),
        None => reply,
    }
}

/// What is told of a path that begins as that of a watch, and ends there.
fn undeterminable(uri: &Uri) -> Failure {
    let url = uri.path_and_query().map_or("", PathAndQuery::as_str);
    let why = format!("failed to create RequestInfo: unable to determine kind and namespace from url, {url}");
    let text = format!("Internal Server Error: {}: {why}\n", crate::failure::quoted(url));
    Failure { text: Some(text.into()), ..Failure::plain(500, "") }
}

fn counts(registry: &Registry) -> Reply {
    let mut headers = http::HeaderMap::new();
    let media = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    let version = healthz::version();
    Reply::Raw { code: 200, headers, body: registry.metrics.text(version.text("/gitVersion")).into() }
}

/// Health, discovery and the like.
async fn other(registry: &Arc<Registry>, call: &Call, parts: &[String]) -> Outcome<Reply> {
    if let Some(reply) = healthz::serve(registry, call, parts) {
        return Ok(reply);
    }
    match parts {
        [first, rest @ ..] if first == "openapi" => openapi_spec::serve(registry, call, rest).await,
        [first] if first == "metrics" && !call.path.ends_with('/') => Ok(counts(registry)),
        [first, second] if first == ".well-known" && second == "openid-configuration" => {
            api_groups::only_get(call)?;
            Ok(openid::configuration(registry, call))
        }
        [first, second, third] if first == "openid" && second == "v1" && third == "jwks" => {
            api_groups::only_get(call)?;
            Ok(openid::keys(registry))
        }
        _ => api_groups::serve(registry, call, parts).await,
    }
}

/// What the request does to a resource, if that is what it is for; nothing that is known, by some methods.
fn verb(call: &Call, target: &Target) -> Option<Verb> {
    let Target::Resource(path) = target else { return None };
    let collection = path.name.is_empty();
    match call.method.as_str() {
        _ if path.old_watch => Some(Verb::Watch),
        _ if path.old_proxy => None,
        "GET" | "HEAD" if collection && call.query.flag("watch") == Some(true) => Some(Verb::Watch),
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

/// The same in the words of rules; where the request is for no resource, the method.
fn word(call: &Call, target: &Target, verb: Option<Verb>) -> String {
    match target {
        Target::Resource(path) if path.old_proxy => "proxy".into(),
        Target::Resource(_) => verb.map_or("", Verb::name).to_owned(),
        _ => call.method.as_str().to_lowercase(),
    }
}

/// Where a list or watch asks for one name, it is about that object.
fn named(call: &Call, path: &ResourcePath, verb: Option<Verb>) -> String {
    if !path.name.is_empty() || !matches!(verb, Some(Verb::List | Verb::Watch)) {
        return path.name.clone();
    }
    let fields: FieldSelector = call.query.text("fieldSelector").parse().unwrap_or_default();
    fields.exact("metadata.name").unwrap_or_default().to_owned()
}

/// Holds the request against the rules; one that acts as somebody else first against those for that.
fn authorize(registry: &Registry, call: &mut Call, target: &Target, verb: Option<Verb>) -> Outcome<()> {
    let word = word(call, target, verb);
    let (name, url) = (call.object.clone(), call.path.clone());
    let attributes = match target {
        Target::Resource(path) => Attributes::Resource { verb: &word, path, name: &name },
        _ => Attributes::Path { verb: &word, path: &url },
    };
    if let Some(wanted) = auth::impersonated(&call.headers)? {
        call.requester.user = auth::impersonate(registry.rbac(), &call.requester.user, wanted, &attributes)?;
    }
    call.flow = registry.flow(&call.requester.user, &attributes);
    auth::authorize(registry.rbac(), &call.requester.user, &attributes)
}

/// The request as the rules of scripted faults see it.
fn fault_request(call: &Call) -> faults::Request<'_> {
    let ResourcePath { group, resource, subresource, namespace, .. } = &call.target;
    faults::Request {
        verb: call.verb,
        group,
        resource,
        subresource,
        namespace,
        name: &call.object,
        user: &call.requester.user.name,
        user_agent: call.user_agent(),
        version: call.query.text("resourceVersion"),
    }
}

/// How long a request may take at most; one that asks for less gets less.
const LONGEST_REQUEST: Duration = Duration::from_secs(60);

/// How long the request may take: until its end, if what it asks for goes on for as long as somebody listens. `timeout=` has to be
/// a duration in Go's spelling, on every other path.
fn time_limit(call: &Call, target: &Target, verb: Option<Verb>) -> Outcome<Option<Duration>> {
    let streams = |path: &ResourcePath| Subresource::parse(&path.subresource).is_some_and(Subresource::is_stream);
    if verb == Some(Verb::Watch) || matches!(target, Target::Resource(path) if streams(path)) {
        return Ok(None);
    }
    let text = call.query.text("timeout");
    if text.is_empty() {
        return Ok(Some(LONGEST_REQUEST));
    }
    let asked = go_duration(text).map_err(|why| {
        let text = crate::failure::quoted(text);
        Failure::bad_request(format!("invalid timeout specified in the request URL - time: {why} {text}"))
    })?;
    Ok(Some(if asked.is_zero() { LONGEST_REQUEST } else { asked.min(LONGEST_REQUEST) }))
}

const AUDIT_ID: &str = "audit-id";

fn add_headers(registry: &Registry, call: &Call, scheduled: bool, response: &mut Response<ResponseBody>) {
    add_common_headers(registry, call.headers.get(AUDIT_ID).cloned(), response);
    let headers = response.headers_mut();
    if let Some(auth::Flow { schema, level }) = call.flow.as_ref().filter(|_| scheduled) {
        for (name, uid) in [("x-kubernetes-pf-flowschema-uid", schema), ("x-kubernetes-pf-prioritylevel-uid", level)] {
            headers.extend(HeaderValue::from_str(uid).ok().map(|uid| (HeaderName::from_static(name), uid)));
        }
    }
    for value in warning_headers(&call.warnings) {
        headers.append("warning", value);
    }
}

/// What every answer has. `audit_id` is what its client calls the request, if it does.
fn add_common_headers(registry: &Registry, audit_id: Option<HeaderValue>, response: &mut Response<ResponseBody>) {
    let audit_id = audit_id.filter(|id| id.to_str().is_ok_and(|id| !id.is_empty()));
    let audit_id = audit_id.or_else(|| HeaderValue::from_str(&registry.uuid()).ok());
    let headers = response.headers_mut();
    headers.extend(audit_id.map(|id| (HeaderName::from_static(AUDIT_ID), id)));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
    headers.remove(DATE);
}

/// So many characters of warnings are sent; where there are more, each is cut to its own share first.
const LONGEST_WARNINGS: usize = 4 * 1024;
const LONGEST_CUT_WARNING: usize = 256;

/// Each warning once, in order, as far as a real server sends them.
fn warning_headers(warnings: &[String]) -> Vec<HeaderValue> {
    let mut seen = HashSet::new();
    let once: Vec<_> = warnings.iter().filter(|text| !text.is_empty() && seen.insert(*text)).collect();
    let length = once.iter().map(|text| text.chars().count()).sum::<usize>();
    let most = if length > LONGEST_WARNINGS { LONGEST_CUT_WARNING } else { LONGEST_WARNINGS };
    let mut sent = 0;
    let mut headers = Vec::new();
    for text in once {
        if sent >= LONGEST_WARNINGS {
            break;
        }
        let cut: String = text.chars().take(most).collect();
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
    /// What a scripted fault answers.
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
