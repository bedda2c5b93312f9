//! The connections that a group of requests shares. All short requests form one group, and all watches and streams form
//! another group. This module executes the actions that the [`Pool`] returns.

mod http2;

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use self::http2::{Http2, KeepAlive};
use crate::connect::{Conn, Connector};
use crate::error::BoxError;
use crate::exchange::SendError;
use crate::failure::Failure;
use crate::http1::{self, Http1, IdleSignal};
use crate::http2_config::Http2Config;
use crate::pool::{Acquired, Actions, ConnId, IDLE_TIMEOUT, Pool, Protocol, Ticket};
use crate::reads::Reads;
use crate::request_body::RequestBody;

/// The connections for one group of requests. A connection closes after the group and the connection's last response
/// are dropped.
pub(super) struct ConnectionGroup {
    connector: Connector,
    /// Whether cancelling a request also drops its connection.
    drop_connection_on_cancel: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pool: Pool,
    /// The open connections that the [`Pool`] manages.
    links: HashMap<ConnId, Link>,
    waiting: HashMap<Ticket, oneshot::Sender<Result<PooledConnection, Failure>>>,
    dials: HashMap<u64, Dial>,
    last_dial: u64,
    /// The tokio runtime of the last request that had to wait for a connection. New connections use this runtime.
    runtime: Option<Handle>,
}

/// A dial in flight.
struct Dial {
    since: Instant,
    /// The task that runs the dial. The value is `None` until the task is spawned.
    task: Option<AbortHandle>,
}

/// An open connection and its sender.
struct Link {
    sender: Sender,
    /// Whether the connection has already served a request. A reused connection may have died while it was idle.
    has_served: bool,
}

enum Sender {
    Http1(Box<Http1>),
    Http2(Http2),
}

/// The maximum time that a request waits for a new connection, in addition to the connect timeout. The request needs
/// its own limit because the timer of the dial stops if its runtime is blocked.
const GRACE: Duration = Duration::from_secs(1);

impl ConnectionGroup {
    pub(super) fn new(connector: Connector, drop_connection_on_cancel: bool) -> Arc<Self> {
        Arc::new(Self { connector, drop_connection_on_cancel, state: Mutex::default() })
    }

    /// Returns a connection on which the caller can send one request.
    pub(super) async fn acquire(self: &Arc<Self>) -> Result<PooledConnection, Failure> {
        loop {
            let mut connection = match self.ask() {
                Ok(connection) => connection,
                Err(waiting) => Box::pin(self.wait(waiting)).await?,
            };
            if connection.is_ready().await {
                return Ok(connection);
            }
            let has_served = connection.has_served();
            connection.discard();
            // If a new connection ends immediately, return the error, because another connection would most likely end
            // in the same way.
            if !has_served {
                let ended = "the peer ended the connection before it could be used";
                let source = io::Error::new(io::ErrorKind::ConnectionAborted, ended);
                return Err(Failure::Unprocessed(Arc::new(source)));
            }
        }
    }

    fn ask(self: &Arc<Self>) -> Result<PooledConnection, Waiting<'_>> {
        let mut state = self.lock();
        match state.pool.acquire() {
            Acquired::Use(conn) => {
                let link = state.link(conn);
                Ok(self.check_out(conn, link))
            }
            Acquired::Wait(ticket, actions) => {
                let (result_tx, result_rx) = oneshot::channel();
                state.waiting.insert(ticket, result_tx);
                // Outside of a tokio runtime, a request uses the runtime of an earlier request. If there is no earlier
                // runtime, the request fails.
                state.runtime = Handle::try_current().ok().or(state.runtime.take());
                self.apply(state, actions, None);
                Err(Waiting { group: self, ticket, result_rx })
            }
        }
    }

    async fn wait(self: &Arc<Self>, mut waiting: Waiting<'_>) -> Result<PooledConnection, Failure> {
        // Timers do not work outside of a tokio runtime, so the code then waits without a timeout.
        let Ok(runtime) = Handle::try_current() else { return waiting.await };
        let max_wait = self.connector.timeout.saturating_add(GRACE);
        match tokio::time::timeout(max_wait, &mut waiting).await {
            Ok(result) => result,
            Err(_) => {
                drop(waiting);
                self.replace_stuck_dials(runtime, max_wait);
                Err(Failure::ConnectTimeout)
            }
        }
    }

    /// Abandons dials that take too long because their runtime is blocked. The method then starts new dials on the given runtime for the
    /// requests that are still waiting.
    fn replace_stuck_dials(self: &Arc<Self>, runtime: Handle, max_wait: Duration) {
        let now = Instant::now();
        let mut state = self.lock();
        state.runtime = Some(runtime);
        let is_stuck = |dial: &Dial| now.saturating_duration_since(dial.since) >= max_wait;
        let stuck: Vec<Dial> = state.dials.extract_if(|_, dial| is_stuck(dial)).map(|(_, dial)| dial).collect();
        let actions = state.pool.give_up(stuck.len(), now, max_wait);
        self.apply(state, actions, None);
        stuck.iter().filter_map(|dial| dial.task.as_ref()).for_each(AbortHandle::abort);
    }

    fn check_out(self: &Arc<Self>, conn: ConnId, link: Option<Link>) -> PooledConnection {
        PooledConnection { group: Arc::downgrade(self), conn, link, is_used: false, upload: None }
    }

    /// Calls the closure `decide` with the pool, and then executes the actions that the closure returns.
    fn update_pool(self: &Arc<Self>, decide: impl FnOnce(&mut Pool) -> Actions) {
        let mut state = self.lock();
        let actions = decide(&mut state.pool);
        self.apply(state, actions, None);
    }

    /// Executes the actions that the pool returned. The method first releases the lock, because it sends results, drops
    /// values and spawns tasks.
    fn apply(self: &Arc<Self>, mut state: MutexGuard<'_, State>, actions: Actions, failure: Option<&Failure>) {
        let closed: Vec<_> = actions.close.iter().filter_map(|conn| state.links.remove(conn)).collect();
        let mut results = Vec::new();
        for (ticket, conn) in actions.assign {
            let link = state.link(conn);
            if let Some(result_tx) = state.waiting.remove(&ticket) {
                results.push((result_tx, Ok(self.check_out(conn, link))));
            }
        }
        for ticket in actions.fail {
            if let (Some(result_tx), Some(failure)) = (state.waiting.remove(&ticket), failure) {
                results.push((result_tx, Err(failure.clone())));
            }
        }
        let runtime = state.runtime.clone();
        let dials = state.last_dial..state.last_dial + actions.dial as u64;
        state.last_dial = dials.end;
        let since = Instant::now();
        state.dials.extend(dials.clone().map(|dial| (dial, Dial { since, task: None })));
        drop(state);
        drop(closed);
        for (result_tx, result) in results {
            // If the request was cancelled, `send` fails, and the [`PooledConnection`] is dropped. This drop returns the connection to the
            // pool.
            drop(result_tx.send(result));
        }
        for dial in dials {
            let dial_guard = DialGuard { group: Arc::downgrade(self), dial };
            let connector = self.connector.clone();
            let task = async move {
                // Free the memory of the dial before the driver starts. Otherwise, this memory would stay allocated until the connection
                // ends.
                let opened = Box::pin(open(connector)).await;
                if let Some(driver) = dial_guard.end(opened) {
                    driver.await;
                }
            };
            // The task runs on the runtime of the last request that had to wait. If there is no runtime, the task is dropped, and the
            // waiting requests fail.
            let Some(runtime) = &runtime else { continue };
            let task = runtime.spawn(task).abort_handle();
            if let Some(dial) = self.lock().dials.get_mut(&dial) {
                dial.task = Some(task);
            }
        }
    }

    /// Returns whether an idle HTTP/1 connection has already ended. If the connection is still open, a watcher task is notified when the
    /// peer sends data or closes the connection. An idle connection has no request body to send, so no user code runs while the lock is
    /// held.
    fn has_ended(&self, conn: ConnId) -> bool {
        match self.lock().links.get_mut(&conn) {
            Some(Link { sender: Sender::Http1(http1), .. }) => !http1.hand_to_watcher(),
            _ => false,
        }
    }

    /// Returns the time when an idle connection must close, or `None` if that time has passed.
    fn idle_deadline(&self, conn: ConnId) -> Option<Instant> {
        let mut state = self.lock();
        let until = state.pool.idle_deadline(conn, Instant::now());
        let closed = if until.is_none() { state.links.remove(&conn) } else { None };
        drop(state);
        drop(closed);
        until
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // If a panic has poisoned this lock, its data is still consistent and can be used.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the sender for a connection. With HTTP/1, the method returns the connection's only sender. With HTTP/2,
    /// the method returns a clone of the sender.
    fn link(&mut self, conn: ConnId) -> Option<Link> {
        if let Some(Link { sender: Sender::Http2(sender), has_served }) = self.links.get_mut(&conn) {
            let has_served = std::mem::replace(has_served, true);
            return Some(Link { sender: Sender::Http2(sender.clone()), has_served });
        }
        self.links.remove(&conn)
    }
}

impl Drop for ConnectionGroup {
    fn drop(&mut self) {
        self.lock().dials.values().filter_map(|dial| dial.task.as_ref()).for_each(AbortHandle::abort);
    }
}

/// A waiting request.
struct Waiting<'a> {
    group: &'a Arc<ConnectionGroup>,
    ticket: Ticket,
    result_rx: oneshot::Receiver<Result<PooledConnection, Failure>>,
}

impl Future for Waiting<'_> {
    type Output = Result<PooledConnection, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = ready!(Pin::new(&mut self.result_rx).poll(cx));
        Poll::Ready(result.unwrap_or_else(|_| Err(Failure::interrupted())))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.group.lock();
        let result_tx = state.waiting.remove(&self.ticket);
        if result_tx.is_some() {
            state.pool.cancel(self.ticket);
        }
        drop(state);
    }
}

/// A dial in flight. If this guard is dropped early, for example because its runtime shuts down, the dial counts as
/// failed.
struct DialGuard {
    group: Weak<ConnectionGroup>,
    dial: u64,
}

impl DialGuard {
    /// Finishes the dial. Returns the future that drives the new connection, if the dial has succeeded.
    fn end(self, opened: Result<Opened, Failure>) -> Option<Driver> {
        let group = self.group.upgrade()?;
        let mut state = group.lock();
        // `None` means that the pool has abandoned this dial.
        state.dials.remove(&self.dial)?;
        match opened {
            Ok(Opened { protocol, sender, drive }) => {
                let (conn, actions) = state.pool.dialled(protocol, Instant::now());
                state.links.insert(conn, Link { sender, has_served: false });
                group.apply(state, actions, None);
                Some(drive(self.group.clone(), conn))
            }
            Err(failure) => {
                let actions = state.pool.dial_failed();
                group.apply(state, actions, Some(&failure));
                None
            }
        }
    }
}

impl Drop for DialGuard {
    fn drop(&mut self) {
        let Some(group) = self.group.upgrade() else { return };
        let mut state = group.lock();
        if state.dials.remove(&self.dial).is_some() {
            let actions = state.pool.dial_failed();
            group.apply(state, actions, Some(&Failure::interrupted()));
        }
    }
}

/// The body of a response, without the connection that receives it.
pub(super) enum Incoming {
    Http1(http1::ResponseBody),
    Http2(http2::ResponseBody),
}

impl Incoming {
    pub(super) fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1(incoming) => incoming.is_over(),
            Self::Http2(incoming) => incoming.is_end_stream(),
        }
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        match self {
            Self::Http1(incoming) => incoming.size_hint(),
            Self::Http2(incoming) => incoming.size_hint(),
        }
    }
}

/// A new connection.
struct Opened {
    protocol: Protocol,
    sender: Sender,
    drive: Box<dyn FnOnce(Weak<ConnectionGroup>, ConnId) -> Driver + Send>,
}

/// Drives a connection. The future ends after the last sender and the last response are dropped.
type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

async fn open(connector: Connector) -> Result<Opened, Failure> {
    let conn = connector.connect().await?;
    if conn.is_http2 {
        http2(conn, connector.http2).await.map_err(|error| Failure::connecting(error.into()))
    } else {
        Ok(http1(conn))
    }
}

fn http1(conn: Conn) -> Opened {
    let http1 = Http1::new(conn);
    let idle_signal = http1.idle_signal();
    let watch = |group, conn| -> Driver { Box::pin(watch_idle(group, conn, idle_signal)) };
    Opened { protocol: Protocol::Http1, sender: Sender::Http1(Box::new(http1)), drive: Box::new(watch) }
}

async fn http2(conn: Conn, config: Http2Config) -> Result<Opened, h2::Error> {
    let (http2, connection, keep_alive) = http2::handshake(conn, config).await?;
    let reads = http2.reads().clone();
    let drive = |group, conn| -> Driver { Box::pin(drive(group, conn, connection, keep_alive, reads)) };
    Ok(Opened { protocol: Protocol::Http2, sender: Sender::Http2(http2), drive: Box::new(drive) })
}

/// Watches an idle HTTP/1 connection. Closes the connection and removes it from the pool when the server has closed it, or after the idle
/// timeout.
async fn watch_idle(group: Weak<ConnectionGroup>, conn: ConnId, idle_signal: Arc<IdleSignal>) {
    let mut idle_timer = pin!(tokio::time::sleep(IDLE_TIMEOUT));
    loop {
        match group.upgrade() {
            None => return,
            Some(group) if group.has_ended(conn) => return group.update_pool(|pool| pool.lost(conn)),
            Some(_) => {}
        }
        tokio::select! {
            exists = idle_signal.notified() => {
                if !exists {
                    return;
                }
            }
            () = idle_timer.as_mut() => match group.upgrade().and_then(|group| group.idle_deadline(conn)) {
                Some(until) => idle_timer.as_mut().reset(until),
                None => return,
            },
        }
    }
}

/// Drives an HTTP/2 connection, and reports the server's stream limit to the pool. Closes the connection after the idle
/// timeout, or if the peer does not answer a ping.
async fn drive(
    group: Weak<ConnectionGroup>,
    conn: ConnId,
    connection: http2::Connection,
    mut keep_alive: Option<KeepAlive>,
    reads: Arc<Reads>,
) {
    let mut connection = pin!(connection);
    let mut idle_timer = pin!(tokio::time::sleep(IDLE_TIMEOUT));
    let mut is_wanted = true;
    let (mut is_settled, mut reported) = (false, None);
    loop {
        // The server can change its stream limit at any time. The next request makes this task poll the connection, so the task then sees
        // the new limit at the latest.
        let changed = poll_fn(|cx| {
            // The requests on this connection return the error, so the error is ignored here.
            if keep_alive.as_mut().is_some_and(|keep_alive| keep_alive.poll(cx).is_ready())
                || connection.as_mut().poll(cx).is_ready()
            {
                return Poll::Ready(None);
            }
            match connection.max_concurrent_send_streams() {
                limit if is_settled && reported != Some(limit) => Poll::Ready(Some(limit)),
                _ => Poll::Pending,
            }
        });
        tokio::select! {
            changed = changed => {
                if changed.is_none() {
                    break;
                }
                reported = changed;
                if let (Some(group), Some(limit)) = (group.upgrade(), reported) {
                    group.update_pool(|pool| pool.settled(conn, limit));
                }
            }
            () = reads.settled.notified() => is_settled = true,
            () = idle_timer.as_mut(), if is_wanted => match group.upgrade().and_then(|group| group.idle_deadline(conn)) {
                Some(until) => idle_timer.as_mut().reset(until),
                None => is_wanted = false,
            },
        }
    }
    if let Some(group) = group.upgrade() {
        group.update_pool(|pool| pool.lost(conn));
    }
}

/// A permit to send one request on a pooled connection. If the permit is dropped while the request is in flight, a connection with HTTP/1
/// is closed. With HTTP/2, only the stream of the request is reset, unless `drop_connection_on_cancel` is set.
pub(super) struct PooledConnection {
    group: Weak<ConnectionGroup>,
    conn: ConnId,
    link: Option<Link>,
    /// Whether a request was sent.
    is_used: bool,
    /// A guard for the upload of the request body. Dropping the guard stops the upload.
    upload: Option<oneshot::Sender<()>>,
}

impl PooledConnection {
    /// Returns whether the connection can send a request now.
    async fn is_ready(&mut self) -> bool {
        match self.link.as_mut().map(|link| &mut link.sender) {
            None => false,
            Some(Sender::Http2(http2)) => http2.is_ready().await,
            Some(Sender::Http1(http1)) => http1.is_ready(),
        }
    }

    pub(super) fn has_served(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.has_served)
    }

    pub(super) fn is_http1(&self) -> bool {
        matches!(&self.link, Some(Link { sender: Sender::Http1(_), .. }))
    }

    /// Sends a request. If the error says that no byte was sent, the request is unchanged.
    pub(super) async fn send(
        &mut self,
        request: &mut Request<RequestBody>,
    ) -> Option<Result<Response<Incoming>, SendError>> {
        self.is_used = true;
        self.upload = request.body_mut().cancel_guard();
        Some(match &mut self.link.as_mut()?.sender {
            Sender::Http1(http1) => http1.send(request).await.map(|response| response.map(Incoming::Http1)),
            Sender::Http2(http2) => http2.send(request).await.map(|response| response.map(Incoming::Http2)),
        })
    }

    /// Polls the next frame of the response body.
    pub(super) fn poll_frame(
        &mut self,
        incoming: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match (self.link.as_mut().map(|link| &mut link.sender), incoming) {
            (Some(Sender::Http1(http1)), Incoming::Http1(incoming)) => {
                http1.poll_frame(incoming, cx).map_ok(Frame::data)
            }
            (_, Incoming::Http2(incoming)) => incoming.poll_frame(cx),
            // The response is over if the connection is gone or uses another protocol.
            (_, Incoming::Http1(_)) => Poll::Ready(None),
        }
    }

    /// Removes the connection from the pool.
    pub(super) fn discard(&mut self) {
        let link = self.link.take();
        if let Some(group) = self.group.upgrade() {
            group.update_pool(|pool| pool.lost(self.conn));
        }
        drop(link);
    }

    /// Returns the connection to the pool, even if no request was sent on it.
    pub(super) fn release(&mut self) {
        let (Some(mut link), Some(group)) = (self.link.take(), self.group.upgrade()) else { return };
        let idle_signal = match &mut link.sender {
            // Do not reuse the connection if the request body is still being sent. If the server responded before it
            // read the whole request, this upload might never end. The upload may also run user code, and user code
            // must not run while the lock is held.
            Sender::Http1(http1) => {
                if !(http1.hand_to_watcher() && http1.is_ready()) {
                    return group.update_pool(|pool| pool.lost(self.conn));
                }
                Some(http1.idle_signal())
            }
            Sender::Http2(_) => None,
        };
        let mut state = group.lock();
        let actions = match &idle_signal {
            Some(_) => {
                link.has_served |= self.is_used;
                state.links.insert(self.conn, link);
                state.pool.give_back(self.conn, Instant::now())
            }
            None => state.pool.stream_ended(self.conn, Instant::now()),
        };
        group.apply(state, actions, None);
        idle_signal.inspect(|idle_signal| idle_signal.repeat());
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        let drop_connection_on_cancel = || self.group.upgrade().is_some_and(|group| group.drop_connection_on_cancel);
        if self.link.is_some() && self.is_used && (self.is_http1() || drop_connection_on_cancel()) {
            self.discard();
        } else {
            self.release();
        }
    }
}
