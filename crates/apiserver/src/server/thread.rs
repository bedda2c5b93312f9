//! A server on a thread of its own, with a runtime of its own.

use std::io;
use std::time::Duration;

use futures_util::stream;
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::front::Front;
use super::{ApiServer, StartError};
use crate::config::ApiServerConfig;
use crate::http::{Deadline, Incoming, ResponseBody};
use crate::live::Upstream;

/// Starts a server on a thread, which ends when the server has.
pub(super) async fn start(config: ApiServerConfig, upstream: Option<Upstream>) -> Result<ApiServer, StartError> {
    let (told, started) = oneshot::channel();
    let run = move || {
        // One that cannot be told is dropped, and ends.
        let runtime = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return drop(told.send(Err(StartError::Thread(error)))),
        };
        runtime.block_on(async {
            let mut started = ApiServer::launch(config, upstream).await;
            let running = started.as_mut().ok().map(|server| {
                server.home = Some(Handle::current());
                server.registry.faults.go_by_clock_of(Handle::current());
                (server.stop.clone(), server.tasks.clone())
            });
            drop(told.send(started));
            if let Some((stop, tasks)) = running {
                stop.cancelled().await;
                tasks.close();
                tasks.wait().await;
            }
        });
    };
    std::thread::Builder::new().name("pintle-apiserver".into()).spawn(run).map_err(StartError::Thread)?;
    let lost = || StartError::Thread(io::Error::other("the server's thread ended before the server began"));
    started.await.map_err(|_| lost())?
}

/// Where the requests of other threads are answered.
#[derive(Clone, Debug)]
pub(super) struct Home {
    pub(super) runtime: Handle,
    pub(super) tasks: TaskTracker,
    pub(super) stop: CancellationToken,
}

/// How many parts of a body wait to be taken.
const READY: usize = 16;

impl Home {
    /// Has a request answered there, and the parts of the answer made. None comes of it if the server ends. Dropping the future, or the
    /// body later, ends the work.
    pub(super) async fn answer(self, front: Front, request: Request<Incoming>) -> Option<Response<ResponseBody>> {
        let (mut told, answered) = oneshot::channel();
        let work = async move {
            let mut ends = false;
            let (head, mut body) = tokio::select! {
                answer = front.respond(request, |deadline| ends = matches!(deadline, Deadline::Request(_))) => answer.0.into_parts(),
                () = told.closed() => return,
            };
            let (parts, taken) = mpsc::channel(READY);
            if told.send((head, taken, ends)).is_err() {
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
        let still = held_still();
        let (head, taken, ends) = answered.await.ok()?;
        // What goes on for as long as somebody listens holds no clock.
        let still = still.filter(|_| ends);
        let parts = stream::unfold(Some((taken, still)), |waiting| async {
            let (mut taken, still) = waiting?;
            match taken.recv().await {
                Some(Some(part)) => Some((part, Some((taken, still)))),
                Some(None) => None,
                // The work ended before the answer did, which is then not whole.
                None => Some((Err(cut()), None)),
            }
        });
        Some(Response::from_parts(head, StreamBody::new(parts).boxed_unsync()))
    }
}

/// Keeps a clock that is paused from jumping ahead while another thread works for this one, for as long as what it returns lives: tokio
/// does not let it while a blocking task runs. A clock that goes is left alone.
fn held_still() -> Option<std::sync::mpsc::Sender<()>> {
    let (shown, real) = (tokio::time::Instant::now().into_std(), std::time::Instant::now());
    let is_paused = shown > real || real.duration_since(shown) > Duration::from_millis(1);
    let runtime = Handle::try_current().ok().filter(|_| is_paused)?;
    let (held, released) = std::sync::mpsc::channel();
    // It ends when the other end is dropped.
    runtime.spawn_blocking(move || released.recv());
    Some(held)
}

/// How a request fails whose server ends.
pub(super) fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the API server has ended")
}
