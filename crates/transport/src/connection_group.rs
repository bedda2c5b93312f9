//! The connections shared by a group of requests. A client has one group for short requests, and another group for
//! watches and streams. This module executes the actions that the [`Pool`] returns.

mod http2;

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, MutexGuard, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use pintle_meta::__private::Mutex;
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

/// The connections of one group of requests. After the group is dropped, each connection closes when its last response
/// is dropped.
pub(super) struct ConnectionGroup {
    connector: Connector,
    drop_connection_on_cancel: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pool: Pool,
    links: HashMap<ConnId, Link>,
    waiting: HashMap<Ticket, oneshot::Sender<Result<PooledConnection, Failure>>>,
    dials: HashMap<u64, Dial>,
    last_dial: u64,
    /// The runtime for new connections, which is the runtime of the last request that waited for a connection.
    runtime: Option<Handle>,
}

struct Dial {
    since: Instant,
    /// The task of the dial, or `None` if the task has not been spawned yet.
    task: Option<AbortHandle>,
}

struct Link {
    sender: Sender,
    /// Whether a request has already used the connection. A used connection may have been closed by the server while it
    /// was idle.
    has_served: bool,
}

enum Sender {
    Http1(Box<Http1>),
    Http2(Http2),
}

/// The additional time after the connect timeout for which a request waits for a new connection. A request needs a
/// separate timeout, because a dial's timer does not fire if the dial's runtime is blocked.
const GRACE: Duration = Duration::from_secs(1);

impl ConnectionGroup {
    pub(super) fn new(connector: Connector, drop_connection_on_cancel: bool) -> Arc<Self> {
        Arc::new(Self { connector, drop_connection_on_cancel, state: Mutex::default() })
    }

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
            // Do not retry if a new connection ends immediately, because another connection would most likely end as
            // well.
            if !has_served {
                let ended = "the peer ended the connection before it could be used";
                let source = io::Error::new(io::ErrorKind::ConnectionAborted, ended);
                return Err(Failure::Unprocessed(Arc::new(source)));
            }
        }
    }

    fn ask(self: &Arc<Self>) -> Result<PooledConnection, Waiting<'_>> {
        let mut state = self.state.lock();
        match state.pool.acquire() {
            Acquired::Use(conn) => {
                let link = state.link(conn);
                Ok(self.check_out(conn, link))
            }
            Acquired::Wait(ticket, actions) => {
                let (result_tx, result_rx) = oneshot::channel();
                state.waiting.insert(ticket, result_tx);
                // Outside of a tokio runtime, use an earlier request's runtime. If there was no earlier request, the
                // request fails.
                state.runtime = Handle::try_current().ok().or(state.runtime.take());
                self.apply(state, actions, None);
                Err(Waiting { group: self, ticket, result_rx })
            }
        }
    }

    async fn wait(self: &Arc<Self>, mut waiting: Waiting<'_>) -> Result<PooledConnection, Failure> {
        // Outside of a tokio runtime there are no timers, so wait without a timeout.
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

    /// Abandons dials that have exceeded their timeout because their runtime is blocked. Starts new dials on `runtime`
    /// for the waiting requests.
    fn replace_stuck_dials(self: &Arc<Self>, runtime: Handle, max_wait: Duration) {
        let now = Instant::now();
        let mut state = self.state.lock();
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

    fn update_pool(self: &Arc<Self>, decide: impl FnOnce(&mut Pool) -> Actions) {
        let mut state = self.state.lock();
        let actions = decide(&mut state.pool);
        self.apply(state, actions, None);
    }

    /// Executes the actions of the pool. Releases the lock before it sends results, drops values and spawns tasks.
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
            // If the request was cancelled, `send` fails and drops the [`PooledConnection`], which returns the
            // connection to the pool.
            drop(result_tx.send(result));
        }
        for dial in dials {
            let dial_guard = DialGuard { group: Arc::downgrade(self), dial };
            let connector = self.connector.clone();
            let task = async move {
                // Box the future, so that its memory is freed before the connection's driver starts.
                let opened = Box::pin(open(connector)).await;
                if let Some(driver) = dial_guard.end(opened) {
                    driver.await;
                }
            };
            // Without a runtime, the task is dropped and the waiting requests fail.
            let Some(runtime) = &runtime else { continue };
            let task = runtime.spawn(task).abort_handle();
            if let Some(dial) = self.state.lock().dials.get_mut(&dial) {
                dial.task = Some(task);
            }
        }
    }

    /// Returns `true` if an idle HTTP/1 connection has ended. While the connection is open, the socket wakes the
    /// watcher task when data arrives or the connection ends. The check runs no user code under the lock, because an
    /// idle connection has no request body.
    fn has_ended(&self, conn: ConnId) -> bool {
        match self.state.lock().links.get_mut(&conn) {
            Some(Link { sender: Sender::Http1(http1), .. }) => !http1.hand_to_watcher(),
            _ => false,
        }
    }

    /// Returns the time at which an idle connection must be closed, or closes it and returns `None` if this time has
    /// passed.
    fn idle_deadline(&self, conn: ConnId) -> Option<Instant> {
        let mut state = self.state.lock();
        let until = state.pool.idle_deadline(conn, Instant::now());
        let closed = if until.is_none() { state.links.remove(&conn) } else { None };
        drop(state);
        drop(closed);
        until
    }
}

impl State {
    /// Returns the sender of a connection. This method removes the only sender of an HTTP/1 connection. For an HTTP/2
    /// connection, it returns a clone of the sender.
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
        self.state.lock().dials.values().filter_map(|dial| dial.task.as_ref()).for_each(AbortHandle::abort);
    }
}

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
        let mut state = self.group.state.lock();
        let result_tx = state.waiting.remove(&self.ticket);
        if result_tx.is_some() {
            state.pool.cancel(self.ticket);
        }
        drop(state);
    }
}

/// A dial in progress. If the `DialGuard` is dropped without a call of [`end`](Self::end), the dial has failed. A
/// `DialGuard` is dropped in this way, for example, when the dial's runtime shuts down.
struct DialGuard {
    group: Weak<ConnectionGroup>,
    dial: u64,
}

impl DialGuard {
    /// Ends the dial. Returns the future that drives the new connection, or `None` if there is no connection.
    fn end(self, opened: Result<Opened, Failure>) -> Option<Driver> {
        let group = self.group.upgrade()?;
        let mut state = group.state.lock();
        // If the dial was abandoned, `dials` no longer contains its ID.
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
        let mut state = group.state.lock();
        if state.dials.remove(&self.dial).is_some() {
            let actions = state.pool.dial_failed();
            group.apply(state, actions, Some(&Failure::interrupted()));
        }
    }
}

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

struct Opened {
    protocol: Protocol,
    sender: Sender,
    drive: Box<dyn FnOnce(Weak<ConnectionGroup>, ConnId) -> Driver + Send>,
}

/// A future that drives a connection until its last sender and its last response are dropped.
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
    let reads = http2.reads.clone();
    let drive = |group, conn| -> Driver { Box::pin(drive(group, conn, connection, keep_alive, reads)) };
    Ok(Opened { protocol: Protocol::Http2, sender: Sender::Http2(http2), drive: Box::new(drive) })
}

/// Watches an idle HTTP/1 connection. Removes the connection from the pool when the server closes it or the idle
/// timeout expires.
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

/// Drives an HTTP/2 connection, and reports the server's stream limit to the pool. The connection is closed after the
/// idle timeout, or if the server does not respond to a ping.
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
        // The server may change its stream limit at any time. This task reads the limit whenever it is woken. At the
        // latest, the next request wakes it.
        let changed = poll_fn(|cx| {
            // Ignore this error, which each request on this connection returns.
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

/// A pooled connection that is in use by a request. Dropping a `PooledConnection` while the request is in flight closes
/// an HTTP/1 connection. An HTTP/2 connection stays open and only the stream is reset, unless
/// `drop_connection_on_cancel` is set.
pub(super) struct PooledConnection {
    group: Weak<ConnectionGroup>,
    conn: ConnId,
    link: Option<Link>,
    is_used: bool,
    /// Dropping this sender aborts the upload of the request body.
    upload: Option<oneshot::Sender<()>>,
}

impl PooledConnection {
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

    /// Sends a request. If the returned error has `is_unsent` set, the method has not changed the request.
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
            // The connection no longer exists, so the response has ended.
            (_, Incoming::Http1(_)) => Poll::Ready(None),
        }
    }

    pub(super) fn discard(&mut self) {
        let link = self.link.take();
        if let Some(group) = self.group.upgrade() {
            group.update_pool(|pool| pool.lost(self.conn));
        }
        drop(link);
    }

    pub(super) fn release(&mut self) {
        let (Some(mut link), Some(group)) = (self.link.take(), self.group.upgrade()) else { return };
        let idle_signal = match &mut link.sender {
            // Do not reuse a connection whose request body is still being uploaded. The upload may never end if the
            // server has responded early. The upload may also run user code, which must not run under the lock.
            Sender::Http1(http1) => {
                if !(http1.hand_to_watcher() && http1.is_ready()) {
                    return group.update_pool(|pool| pool.lost(self.conn));
                }
                Some(http1.idle_signal())
            }
            Sender::Http2(_) => None,
        };
        let mut state = group.state.lock();
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
