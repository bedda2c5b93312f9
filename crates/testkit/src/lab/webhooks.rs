//! Delivers the server's webhook calls to the processes of the operator, without sockets and certificates.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::Full;
use pintle_meta::__private::Mutex;
use pintle_operator::Manager;
use pintle_serving::webhook_client::{LocalAnswer, LocalHandler};
use pintle_webhook::Webhooks;
use tokio_util::sync::CancellationToken;
use tower_service::Service;

/// The webhooks of all processes of a run.
#[derive(Default)]
pub(super) struct Replicas(Mutex<State>);

#[derive(Default)]
struct State {
    /// The paths of all webhooks, including the webhooks of processes that have ended.
    paths: BTreeSet<String>,
    /// Whether a process that has ended had registered its webhooks.
    was_registered: bool,
    serving: Vec<Replica>,
    started: usize,
    calls: usize,
}

struct Replica {
    number: usize,
    webhooks: Webhooks,
    is_registered: Box<dyn Fn() -> bool + Send + Sync>,
    dead: CancellationToken,
}

/// A process whose webhooks the server can call. Dropping the guard removes the process.
pub(super) struct Serving {
    replicas: Arc<Replicas>,
    number: usize,
}

impl Replicas {
    /// Makes the server call the webhooks of a process until the returned guard is dropped or `dead` is cancelled.
    pub(super) fn serve(self: &Arc<Self>, manager: &mut Manager, dead: &CancellationToken) -> Option<Serving> {
        let (webhooks, is_registered) = manager.unserved_webhooks()?;
        let mut state = self.0.lock();
        state.paths.extend(webhooks.paths().map(str::to_owned));
        state.started += 1;
        let number = state.started;
        let is_registered = Box::new(is_registered);
        state.serving.push(Replica { number, webhooks, is_registered, dead: dead.clone() });
        Some(Serving { replicas: self.clone(), number })
    }

    /// Returns `true` if the operator has webhooks and has not registered them yet. The server would process a request
    /// without calling them.
    pub(super) fn are_unregistered(&self) -> bool {
        let state = self.0.lock();
        let is_registered = || state.was_registered || state.serving.iter().any(|replica| (replica.is_registered)());
        !state.paths.is_empty() && !is_registered()
    }

    /// Returns a handler that calls a running process, if the path of `url` ends with the path of one of the operator's
    /// webhooks. The URL of an endpoint can have a prefix before this path.
    pub(super) fn handler(self: &Arc<Self>, url: &Uri) -> Option<LocalHandler> {
        let replicas = self.clone();
        let path = self.0.lock().paths.iter().find(|path| url.path().ends_with(path.as_str()))?.clone();
        let handler = move |mut request: Request<Full<Bytes>>| -> LocalAnswer {
            let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
            if let Ok(own) = format!("{path}{query}").parse() {
                *request.uri_mut() = own;
            }
            Box::pin(async move { replicas.call(request).await })
        };
        Some(Box::new(handler))
    }

    async fn call(&self, request: Request<Full<Bytes>>) -> io::Result<Response<Full<Bytes>>> {
        let (mut webhooks, dead) = self.next().ok_or(io::ErrorKind::ConnectionRefused)?;
        tokio::select! {
            biased;
            () = dead.cancelled() => Err(io::ErrorKind::UnexpectedEof.into()),
            answer = webhooks.call(request) => answer.map_err(|never| match never {}),
        }
    }

    /// Returns the webhooks of a running process. Successive calls use different processes, like calls to a Service.
    fn next(&self) -> Option<(Webhooks, CancellationToken)> {
        let mut state = self.0.lock();
        state.calls += 1;
        let alive: Vec<_> = state.serving.iter().filter(|replica| !replica.dead.is_cancelled()).collect();
        let replica = alive.get(state.calls % alive.len().max(1))?;
        Some((replica.webhooks.clone(), replica.dead.clone()))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let mut state = self.replicas.0.lock();
        let index = state.serving.iter().position(|replica| replica.number == self.number);
        let removed = index.map(|index| state.serving.remove(index));
        state.was_registered |= removed.as_ref().is_some_and(|replica| (replica.is_registered)());
        // Unlock the state first, because dropping the webhooks runs code of the operator.
        drop(state);
        drop(removed);
    }
}
