//! Runs a server on a separate thread with its own runtime.

use std::io;
use std::time::Duration;

use futures_util::stream;
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use pintle_serving::body::ResponseBody;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::front::Front;
use super::{ApiServer, StartError};
use crate::config::ApiServerConfig;
use crate::http::{Deadline, Incoming};
use crate::live::Upstream;

/// Starts a server on a new thread. The new thread ends after the server has stopped.
pub(super) async fn start(config: ApiServerConfig, upstream: Option<Upstream>) -> Result<ApiServer, StartError> {
    let (sender, started) = oneshot::channel();
    let run = move || {
        // If the caller no longer waits for the server, `send` drops the server, and the server stops.
        let runtime = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return drop(sender.send(Err(StartError::Thread(error)))),
        };
        runtime.block_on(async {
            let mut started = ApiServer::launch(config, upstream).await;
            let running = started.as_mut().ok().map(|server| {
                server.own_runtime = Some(Handle::current());
                server.registry.faults.use_clock_of(Handle::current());
                (server.stop.clone(), server.tasks.clone())
            });
            drop(sender.send(started));
            if let Some((stop, tasks)) = running {
                stop.cancelled().await;
                tasks.close();
                tasks.wait().await;
            }
        });
    };
    std::thread::Builder::new().name("pintle-apiserver".into()).spawn(run).map_err(StartError::Thread)?;
    let lost = || StartError::Thread(io::Error::other("the server's thread ended before the server started"));
    started.await.map_err(|_| lost())?
}

#[derive(Clone, Debug)]
pub(super) struct OwnRuntime {
    pub(super) runtime: Handle,
    pub(super) tasks: TaskTracker,
    pub(super) stop: CancellationToken,
}

/// The capacity of the channel that passes body frames from the server's thread to the caller's thread.
const READY: usize = 16;

impl OwnRuntime {
    /// Serves a request on this runtime and passes the frames of the response body to the caller's runtime. Returns
    /// `None` if the server stops. If the future or the returned body is dropped, the server stops processing the
    /// request.
    pub(super) async fn respond(self, front: Front, request: Request<Incoming>) -> Option<Response<ResponseBody>> {
        let (mut sender, answered) = oneshot::channel();
        let work = async move {
            let mut bounded = false;
            let (head, mut body) = tokio::select! {
                answer = front.respond(request, |deadline| bounded = matches!(deadline, Deadline::Request(_))) => answer.0.into_parts(),
                () = sender.closed() => return,
            };
            let (parts, receiver) = mpsc::channel(READY);
            if sender.send((head, receiver, bounded)).is_err() {
                return;
            }
            loop {
                let part = tokio::select! {
                    part = body.frame() => part,
                    () = parts.closed() => return,
                };
                let is_last = part.is_none();
                if parts.send(part).await.is_err() || is_last {
                    return;
                }
            }
        };
        let stop = self.stop;
        self.tasks.spawn_on(async move { stop.run_until_cancelled(work).await }, &self.runtime);
        let clock_guard = inhibit_auto_advance();
        let (head, receiver, bounded) = answered.await.ok()?;
        // Let a paused clock advance during a watch, because a watch can last forever.
        let clock_guard = clock_guard.filter(|_| bounded);
        let parts = stream::unfold(Some((receiver, clock_guard)), |state| async {
            let (mut receiver, clock_guard) = state?;
            match receiver.recv().await {
                Some(Some(part)) => Some((part, Some((receiver, clock_guard)))),
                Some(None) => None,
                // The sender was dropped before the body was complete.
                None => Some((Err(server_ended()), None)),
            }
        });
        Some(Response::from_parts(head, StreamBody::new(parts).boxed_unsync()))
    }
}

/// Prevents a paused tokio clock from advancing automatically until the returned sender is dropped. Use this function
/// while the current thread waits for another thread. The clock stays paused because of a blocking task that this
/// function starts. Returns `None` if the clock is not paused.
fn inhibit_auto_advance() -> Option<std::sync::mpsc::Sender<()>> {
    let (tokio_now, real) = (tokio::time::Instant::now().into_std(), std::time::Instant::now());
    let is_paused = tokio_now > real || real.duration_since(tokio_now) > Duration::from_millis(1);
    let runtime = Handle::try_current().ok().filter(|_| is_paused)?;
    let (sender, receiver) = std::sync::mpsc::channel();
    // The blocking task ends when the sender is dropped.
    runtime.spawn_blocking(move || receiver.recv());
    Some(sender)
}

pub(super) fn server_ended() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the API server has ended")
}
