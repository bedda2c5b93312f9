//! The simulated connection between a process of the operator and the server.

mod frames;

use std::future::pending;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use http::header::USER_AGENT;
use http::request::Parts;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use pintle_apiserver::{ApiServer, RequestVerb};
use pintle_meta::__private::Mutex;
use pintle_restreq::TransportBody;
use serde_json::Value;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tower_service::Service;

use crate::fields;
use crate::journal::{Effect, Journal};
use crate::request::{BlockedOwner, SentRequest};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The connection is cut before the request takes effect, so the server does not receive the request.
    Before,
    /// The connection is cut after the request has taken effect, so the client does not receive the response.
    After,
}

/// The request at which the process is killed. A sequence number alone cannot identify the request, because the order
/// of concurrent requests differs in each run.
#[derive(Clone, Debug)]
pub(crate) struct CrashPoint {
    pub(crate) request: SentRequest,
    pub(crate) with_name: bool,
    /// The position of the request among the matching requests of the process, starting with 1.
    pub(crate) occurrence: usize,
    pub(crate) cut: Cut,
}

impl CrashPoint {
    pub(crate) fn matches(&self, request: &SentRequest) -> bool {
        self.request.is_same(request, self.with_name)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Disturbances {
    /// The fraction of requests whose connection is cut, between 0 and 1.
    pub(crate) cuts: f64,
    /// The maximum delay of a request and of its response.
    pub(crate) delay: Duration,
    /// The maximum delay of a watch event.
    pub(crate) lag: Duration,
    pub(crate) until: Instant,
}

/// The state that a process and its connection share.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) process: String,
    server: Arc<ApiServer>,
    journal: Arc<Journal>,
    /// A token that is cancelled when the process is killed, to stop all its requests.
    pub(crate) dead: CancellationToken,
    state: Mutex<LinkState>,
}

#[derive(Debug)]
struct LinkState {
    sent: usize,
    crash: Option<CrashPoint>,
    matched: usize,
    disturbances: Option<Disturbances>,
    random: Rng,
    /// A token that is cancelled to break all open watches. The cancellation wakes the watches in the order in which
    /// they were opened.
    broken: CancellationToken,
}

#[derive(Clone, Debug, Default)]
struct RequestDisturbance {
    before: Duration,
    after: Duration,
    cut: Option<Cut>,
    kills: bool,
}

impl Link {
    pub(crate) fn new(process: String, server: Arc<ApiServer>, journal: Arc<Journal>, seed: u64) -> Arc<Self> {
        let state = LinkState {
            sent: 0,
            crash: None,
            matched: 0,
            disturbances: None,
            random: Rng::with_seed(seed),
            broken: CancellationToken::new(),
        };
        Arc::new(Self { process, server, journal, dead: CancellationToken::new(), state: Mutex::new(state) })
    }

    pub(crate) fn crash_at(&self, crash: Option<CrashPoint>) {
        self.with(|state| state.crash = crash);
    }

    pub(crate) fn set_disturbances(&self, disturbances: Option<Disturbances>) {
        self.with(|state| state.disturbances = disturbances);
    }

    pub(crate) fn kill(&self) {
        self.dead.cancel();
    }

    pub(crate) fn break_watches(&self) {
        self.with(|state| std::mem::take(&mut state.broken)).cancel();
    }

    fn with<R>(&self, with: impl FnOnce(&mut LinkState) -> R) -> R {
        with(&mut self.state.lock())
    }

    fn next(&self, head: &Parts) -> (SentRequest, RequestDisturbance) {
        self.with(|state| {
            state.sent += 1;
            let sent = SentRequest::parse(&self.process, state.sent, &head.method, &head.uri);
            let mut disturbance = RequestDisturbance::default();
            if let Some(disturbances) = state.disturbances.filter(|disturbances| Instant::now() < disturbances.until) {
                disturbance.before = share(disturbances.delay, state.random.f64());
                disturbance.after = share(disturbances.delay, state.random.f64());
                if state.random.f64() < disturbances.cuts {
                    disturbance.cut = Some(if state.random.bool() { Cut::Before } else { Cut::After });
                }
            }
            if let Some(crash) = state.crash.as_ref().filter(|crash| crash.matches(&sent)) {
                state.matched += 1;
                if state.matched == crash.occurrence {
                    disturbance = RequestDisturbance { cut: Some(crash.cut), kills: true, ..disturbance };
                }
            }
            (sent, disturbance)
        })
    }

    fn frame_delay(&self) -> Duration {
        self.with(|state| match state.disturbances.filter(|disturbances| Instant::now() < disturbances.until) {
            // Delay only half of the events, because in a real cluster, a delayed event often arrives together with the
            // events after it.
            Some(disturbances) if state.random.bool() => share(disturbances.lag, state.random.f64()),
            _ => Duration::ZERO,
        })
    }

    async fn exchange(self: Arc<Self>, request: Request<TransportBody>) -> Result<Response<TransportBody>, BoxError> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let (sent, disturbance) = self.next(&head);
        let Some(index) = self.journal.begin(sent.clone()) else { return pending().await };
        tokio::select! {
            biased;
            () = self.dead.cancelled() => pending().await,
            answer = self.serve(&sent, index, &disturbance, head, body) => answer,
        }
    }

    async fn serve(
        self: &Arc<Self>,
        sent: &SentRequest,
        index: usize,
        disturbance: &RequestDisturbance,
        head: Parts,
        body: Bytes,
    ) -> Result<Response<TransportBody>, BoxError> {
        sleep(disturbance.before).await;
        if disturbance.cut == Some(Cut::Before) {
            return self.cut(index, disturbance, "cut before it took effect").await;
        }
        // Do not compute the changes of Leases and Events, because they are frequent and are not part of reports.
        let is_watched = sent.is_write() && !sent.is_housekeeping();
        let before = if is_watched && !sent.name.is_empty() {
            self.read(&object_path(&head.uri, sent, None)).await
        } else {
            None
        };
        let uri = head.uri.clone();
        let revision = self.server.resource_version();
        let request_body = body.clone();
        let answer = self.server.in_process().call(Request::from_parts(head, Full::new(body))).await?;
        let code = answer.status().as_u16();
        if sent.verb == Some(RequestVerb::Watch) && answer.status().is_success() {
            self.journal.complete(index, Some(code), "", Effect::default());
            if disturbance.cut == Some(Cut::After) {
                return self.cut(index, disturbance, "cut after it began").await;
            }
            sleep(disturbance.after).await;
            return Ok(
                answer.map(|body| frames::watch_body(body, self.clone(), self.with(|state| state.broken.clone())))
            );
        }
        let (head, body) = answer.into_parts();
        let body = body.collect().await?.to_bytes();
        if code == StatusCode::FORBIDDEN.as_u16() {
            let status: Value = serde_json::from_slice(&body).unwrap_or_default();
            self.journal.forbidden(index, status["message"].as_str().unwrap_or_default().into());
        }
        let has_written = self.server.resource_version() != revision;
        if sent.is_write() && sent.is_lease() && has_written {
            self.record_lease(sent, &uri, &request_body, &body).await;
        }
        let effect =
            if is_watched && has_written { self.effect(sent, &uri, before, &body).await } else { Effect::default() };
        self.journal.complete(index, Some(code), "", effect);
        if disturbance.cut == Some(Cut::After) {
            return self.cut(index, disturbance, "cut after it took effect").await;
        }
        sleep(disturbance.after).await;
        Ok(Response::from_parts(head, TransportBody::new(Full::new(body))))
    }

    /// Records a Lease write. Reads the stored Lease from the server if a fault has replaced the response.
    async fn record_lease(&self, sent: &SentRequest, uri: &Uri, request: &[u8], answer: &[u8]) {
        let parse = |json: &[u8]| serde_json::from_slice::<Value>(json).ok();
        let is_stored = |lease: &Value| lease.pointer("/metadata/resourceVersion").is_some();
        let lease = match parse(answer).filter(is_stored) {
            Some(lease) => lease,
            None => {
                let Some(wanted) = parse(request) else { return };
                let name = wanted.pointer("/metadata/name").and_then(Value::as_str);
                match self.read(&object_path(uri, sent, name)).await {
                    // The write has succeeded only if the stored Lease has the written spec.
                    Some(stored) if stored["spec"] == wanted["spec"] => stored,
                    _ => return,
                }
            }
        };
        self.journal.lease_written(&self.process, &lease);
    }

    async fn cut(
        &self,
        index: usize,
        disturbance: &RequestDisturbance,
        fault: &str,
    ) -> Result<Response<TransportBody>, BoxError> {
        self.journal.complete(index, None, fault, Effect::default());
        if disturbance.kills {
            self.kill();
            return pending().await;
        }
        Err(io::Error::new(io::ErrorKind::ConnectionReset, "the test kit cut the connection").into())
    }

    async fn effect(&self, sent: &SentRequest, uri: &Uri, before: Option<Value>, answer: &Bytes) -> Effect {
        if sent.verb == Some(RequestVerb::DeleteCollection) {
            return Effect { changes: vec!["deleted a collection".into()], ..Effect::default() };
        }
        let answer: Option<Value> = serde_json::from_slice(answer).ok();
        let created = answer.as_ref().and_then(|object| object.pointer("/metadata/name")?.as_str());
        let after = self.read(&object_path(uri, sent, created)).await;
        let blocked_owners =
            self.resources(fields::blocked_owners(before.as_ref(), after.as_ref()), &sent.namespace).await;
        Effect { changes: fields::changes(&sent.resource, before, after), blocked_owners }
    }

    /// Returns the resources for the API versions and kinds of owners. `namespace` is the namespace of the owners that
    /// are namespaced. Omits kinds that the server does not serve.
    async fn resources(&self, owners: Vec<(String, String)>, namespace: &str) -> Vec<BlockedOwner> {
        let mut found = Vec::new();
        for (api_version, kind) in owners {
            let (root, group) = api_version.split_once('/').map_or(("api", ""), |(group, _)| ("apis", group));
            let served = self.read(&format!("/{root}/{api_version}")).await.unwrap_or_default();
            for resource in served["resources"].as_array().into_iter().flatten().filter(|one| one["kind"] == *kind) {
                let Some(name) = resource["name"].as_str().filter(|name| !name.contains('/')) else { continue };
                let namespace = if resource["namespaced"] == true { namespace } else { "" };
                found.push(BlockedOwner { group: group.into(), resource: name.into(), namespace: namespace.into() });
            }
        }
        found
    }

    /// Reads an object from the server, bypassing all disturbances. Returns `None` if the object does not exist.
    async fn read(&self, path: &str) -> Option<Value> {
        let request = Request::get(path).header(USER_AGENT, crate::OWN_AGENT).body(Full::<Bytes>::default()).ok()?;
        let answer = self.server.in_process().call(request).await.ok()?;
        if !answer.status().is_success() {
            return None;
        }
        serde_json::from_slice(&answer.into_body().collect().await.ok()?.to_bytes()).ok()
    }
}

fn share(most: Duration, part: f64) -> Duration {
    most.mul_f64(part)
}

/// Returns the path of the written object, without the subresource. For a create request, the returned path contains
/// the name of the new object.
fn object_path(uri: &Uri, sent: &SentRequest, created: Option<&str>) -> String {
    let path = uri.path();
    if sent.name.is_empty() {
        return format!("{path}/{}", created.unwrap_or_default());
    }
    if sent.subresource.is_empty() {
        path.to_owned()
    } else {
        path.strip_suffix(&format!("/{}", sent.subresource)).unwrap_or(path).to_owned()
    }
}

/// A process's transport, for [`TransportLayer::in_place`](pintle_restreq::TransportLayer::in_place).
#[derive(Clone, Debug)]
pub(crate) struct Wire(pub(crate) Arc<Link>);

impl Service<Request<TransportBody>> for Wire {
    type Response = Response<TransportBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<TransportBody>) -> Self::Future {
        Box::pin(self.0.clone().exchange(request))
    }
}
