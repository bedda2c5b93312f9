//! The connections that one kind of request shares: what [`Pool`] decides, done.

mod gate;
mod http1;

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body as _, Frame};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use self::http1::{Bell, Http1};
use super::Failure;
use super::connect::{Conn, Connector};
use super::pool::{Asked, ConnId, LONGEST_REST, MOST_STREAMS, Pool, Protocol, Ticket, Todo};
use crate::Http2Config;
use crate::request::HttpBody;

/// The connections of one kind of request. They end when it is dropped and the last answer over them is.
pub(super) struct Lane {
    connector: Connector,
    /// Whether a request that is given up takes its connection along.
    is_wary: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pool: Pool,
    /// What the pool has to give.
    links: HashMap<ConnId, Link>,
    waiting: HashMap<Ticket, oneshot::Sender<Result<Lease, Failure>>>,
    dials: HashMap<u64, Dial>,
    last_dial: u64,
    /// Of the last request that had to wait: what a connection is dialled and driven by.
    runtime: Option<Handle>,
}

/// A dial under way.
struct Dial {
    since: Instant,
    /// None before its task is begun.
    task: Option<AbortHandle>,
}

/// The near end of a connection.
struct Link {
    sender: Sender,
    /// Whether it has served before: it may be dead without anyone's fault.
    has_served: bool,
}

enum Sender {
    Http1(Box<Http1>),
    Http2(http2::SendRequest<HttpBody>),
}

/// Go's figure. So much of an answer is held that nobody reads, whatever the server sends.
const STREAM_WINDOW: u32 = 4 << 20;
/// The largest that there is (RFC 9113, section 6.9.1).
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;
/// All streams that a connection may have can be full, and it still is not: an answer that nobody reads stops no other.
const _: () = assert!(MOST_STREAMS as u64 * STREAM_WINDOW as u64 <= CONNECTION_WINDOW as u64);

/// So long a connection may take to finish what went before.
const READY_WITHIN: Duration = Duration::from_secs(1);
/// So much longer than a dial may take does a request wait for one: with its runtime, a dial's own deadline may stand still.
const GRACE: Duration = Duration::from_secs(1);

impl Lane {
    pub(super) fn new(connector: Connector, is_wary: bool) -> Arc<Self> {
        Arc::new(Self { connector, is_wary, state: Mutex::default() })
    }

    /// A connection for one request.
    pub(super) async fn lease(self: &Arc<Self>) -> Result<Lease, Failure> {
        loop {
            let mut lease = match self.ask() {
                Ok(lease) => lease,
                Err(waiting) => self.wait(waiting).await?,
            };
            if lease.is_ready().await {
                return Ok(lease);
            }
            let has_served = lease.has_served();
            lease.give_up();
            // Another one would most likely fare no better, and so on for ever.
            if !has_served {
                let ended = "the peer ended the connection before it could be used";
                let source = io::Error::new(io::ErrorKind::ConnectionAborted, ended);
                return Err(Failure::Unprocessed(Arc::new(source)));
            }
        }
    }

    fn ask(self: &Arc<Self>) -> Result<Lease, Waiting<'_>> {
        let mut state = self.lock();
        match state.pool.ask() {
            Asked::Use(conn) => {
                let link = state.link(conn);
                Ok(self.lend(conn, link))
            }
            Asked::Wait(ticket, todo) => {
                let (giver, taker) = oneshot::channel();
                state.waiting.insert(ticket, giver);
                // Whoever asks outside of one gets the last one's, or an error.
                state.runtime = Handle::try_current().ok().or(state.runtime.take());
                self.carry_out(state, todo, None);
                Err(Waiting { lane: self, ticket, taker })
            }
        }
    }

    async fn wait(self: &Arc<Self>, mut waiting: Waiting<'_>) -> Result<Lease, Failure> {
        // Outside of a runtime there are no timers.
        let Ok(runtime) = Handle::try_current() else { return waiting.await };
        let patience = self.connector.timeout.saturating_add(GRACE);
        match tokio::time::timeout(patience, &mut waiting).await {
            Ok(given) => given,
            Err(_) => {
                drop(waiting);
                self.give_up(runtime, patience);
                Err(Failure::ConnectTimeout)
            }
        }
    }

    /// Gives up what should have come to an end so long ago: whatever runs it stands still. Who still waits has this runtime dial anew.
    fn give_up(self: &Arc<Self>, runtime: Handle, patience: Duration) {
        let now = Instant::now();
        let mut state = self.lock();
        state.runtime = Some(runtime);
        let is_stuck = |dial: &Dial| now.saturating_duration_since(dial.since) >= patience;
        let stuck: Vec<Dial> = state.dials.extract_if(|_, dial| is_stuck(dial)).map(|(_, dial)| dial).collect();
        let todo = state.pool.give_up(stuck.len(), now, patience);
        self.carry_out(state, todo, None);
        stuck.iter().filter_map(|dial| dial.task.as_ref()).for_each(AbortHandle::abort);
    }

    fn lend(self: &Arc<Self>, conn: ConnId, link: Option<Link>) -> Lease {
        Lease { lane: Arc::downgrade(self), conn, link, is_used: false, upload: None }
    }

    /// Has the pool decide, and does what it says.
    fn on(self: &Arc<Self>, decide: impl FnOnce(&mut Pool) -> Todo) {
        let mut state = self.lock();
        let todo = decide(&mut state.pool);
        self.carry_out(state, todo, None);
    }

    /// Does what the pool says. Nobody is told, nothing dropped and no task begun under the lock.
    fn carry_out(self: &Arc<Self>, mut state: MutexGuard<'_, State>, todo: Todo, failure: Option<&Failure>) {
        let closed: Vec<_> = todo.close.iter().filter_map(|conn| state.links.remove(conn)).collect();
        let mut told = Vec::new();
        for (ticket, conn) in todo.give {
            let link = state.link(conn);
            if let Some(giver) = state.waiting.remove(&ticket) {
                told.push((giver, Ok(self.lend(conn, link))));
            }
        }
        for ticket in todo.fail {
            if let (Some(giver), Some(failure)) = (state.waiting.remove(&ticket), failure) {
                told.push((giver, Err(failure.clone())));
            }
        }
        let runtime = state.runtime.clone();
        let dials = state.last_dial..state.last_dial + todo.dial as u64;
        state.last_dial = dials.end;
        let since = Instant::now();
        state.dials.extend(dials.clone().map(|dial| (dial, Dial { since, task: None })));
        drop(state);
        drop(closed);
        for (giver, given) in told {
            // Who does not wait any more drops it, and so gives it back.
            drop(giver.send(given));
        }
        for dial in dials {
            let dialling = Dialling { lane: Arc::downgrade(self), dial };
            let connector = self.connector.clone();
            let task = async move {
                // Once it is over, its room is given back: the task stays as long as the connection.
                let opened = Box::pin(open(connector)).await;
                if let Some(driver) = dialling.end(opened) {
                    driver.await;
                }
            };
            // Whoever waits has left a runtime. Without one the task is dropped, and fails those who wait.
            let Some(runtime) = &runtime else { continue };
            let task = runtime.spawn(task).abort_handle();
            if let Some(dial) = self.lock().dials.get_mut(&dial) {
                dial.task = Some(task);
            }
        }
    }

    /// Whether a connection of HTTP/1 that rests has come to its end. Else its keeper hears of what comes. What rests has no body left to
    /// send, so this runs no code but ours and hyper's.
    fn has_ended(&self, conn: ConnId) -> bool {
        match self.lock().links.get_mut(&conn) {
            Some(Link { sender: Sender::Http1(http1), .. }) => !http1.rest(),
            _ => false,
        }
    }

    /// Until when the connection may rest; `None` if that is over.
    fn rest(&self, conn: ConnId) -> Option<Instant> {
        let mut state = self.lock();
        let until = state.pool.rest(conn, Instant::now());
        let closed = if until.is_none() { state.links.remove(&conn) } else { None };
        drop(state);
        drop(closed);
        until
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing here panics half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// What a connection is used by: of HTTP/1 the only one.
    fn link(&mut self, conn: ConnId) -> Option<Link> {
        if let Some(Link { sender: Sender::Http2(sender), has_served }) = self.links.get_mut(&conn) {
            let has_served = std::mem::replace(has_served, true);
            return Some(Link { sender: Sender::Http2(sender.clone()), has_served });
        }
        self.links.remove(&conn)
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.lock().dials.values().filter_map(|dial| dial.task.as_ref()).for_each(AbortHandle::abort);
    }
}

/// A request's place in the queue.
struct Waiting<'a> {
    lane: &'a Arc<Lane>,
    ticket: Ticket,
    taker: oneshot::Receiver<Result<Lease, Failure>>,
}

impl Future for Waiting<'_> {
    type Output = Result<Lease, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let given = ready!(Pin::new(&mut self.taker).poll(cx));
        Poll::Ready(given.unwrap_or_else(|_| Err(Failure::interrupted())))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.lane.lock();
        let giver = state.waiting.remove(&self.ticket);
        if giver.is_some() {
            state.pool.cancel(self.ticket);
        }
        drop(state);
    }
}

/// A dial under way. Dropped before its end, with its runtime say, it has failed.
struct Dialling {
    lane: Weak<Lane>,
    dial: u64,
}

impl Dialling {
    /// What has to be run from now on, if there is a connection.
    fn end(self, opened: Result<Opened, Failure>) -> Option<Driver> {
        let lane = self.lane.upgrade()?;
        let mut state = lane.lock();
        // None if it has been given up.
        state.dials.remove(&self.dial)?;
        match opened {
            Ok(Opened { protocol, sender, drive }) => {
                let (conn, todo) = state.pool.dialled(protocol, Instant::now());
                state.links.insert(conn, Link { sender, has_served: false });
                lane.carry_out(state, todo, None);
                Some(drive(self.lane.clone(), conn))
            }
            Err(failure) => {
                let todo = state.pool.dial_failed();
                lane.carry_out(state, todo, Some(&failure));
                None
            }
        }
    }
}

impl Drop for Dialling {
    fn drop(&mut self) {
        let Some(lane) = self.lane.upgrade() else { return };
        let mut state = lane.lock();
        if state.dials.remove(&self.dial).is_some() {
            let todo = state.pool.dial_failed();
            lane.carry_out(state, todo, Some(&Failure::interrupted()));
        }
    }
}

/// A connection that has just come about.
struct Opened {
    protocol: Protocol,
    sender: Sender,
    drive: Box<dyn FnOnce(Weak<Lane>, ConnId) -> Driver + Send>,
}

/// What sees to a connection. It ends with the last sender and the last answer.
type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;
type Http2 = http2::Connection<TokioIo<Conn>, HttpBody, TokioExecutor>;

async fn open(connector: Connector) -> Result<Opened, Failure> {
    let conn = connector.connect().await?;
    let shaken = if conn.is_http2 { http2(conn, connector.http2).await } else { http1(conn).await };
    shaken.map_err(|error| Failure::connecting(error.into()))
}

async fn http1(conn: Conn) -> hyper::Result<Opened> {
    let http1 = Http1::over(conn).await?;
    let bell = http1.bell();
    let keep = |lane, conn| -> Driver { Box::pin(keep(lane, conn, bell)) };
    Ok(Opened { protocol: Protocol::Http1, sender: Sender::Http1(Box::new(http1)), drive: Box::new(keep) })
}

async fn http2(conn: Conn, config: Http2Config) -> hyper::Result<Opened> {
    let (settled, config) = (Arc::new(Notify::new()), config.countable());
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        // What comes late for streams that were given up is no fault of the server's, and costs the others nothing.
        .max_concurrent_reset_streams(MOST_STREAMS)
        .max_local_error_reset_streams(None)
        .keep_alive_interval(config.ping_after)
        .keep_alive_timeout(config.ping_timeout)
        .keep_alive_while_idle(true)
        .handshake(TokioIo::new(conn.tell(settled.clone())))
        .await?;
    let drive = |lane, conn| -> Driver { Box::pin(drive(lane, conn, connection, settled)) };
    Ok(Opened { protocol: Protocol::Http2, sender: Sender::Http2(sender), drive: Box::new(drive) })
}

/// Looks after a connection of HTTP/1 while it rests: lets it go when the server does, or when it has rested for too long.
async fn keep(lane: Weak<Lane>, conn: ConnId, bell: Arc<Bell>) {
    let mut rest = pin!(tokio::time::sleep(LONGEST_REST));
    loop {
        match lane.upgrade() {
            None => return,
            Some(lane) if lane.has_ended(conn) => return lane.on(|pool| pool.lost(conn)),
            Some(_) => {}
        }
        tokio::select! {
            is_there = bell.rung() => {
                if !is_there {
                    return;
                }
            }
            () = rest.as_mut() => match lane.upgrade().and_then(|lane| lane.rest(conn)) {
                Some(until) => rest.as_mut().reset(until),
                None => return,
            },
        }
    }
}

/// Keeps a connection of HTTP/2 going, tells the pool of it, and lets it go when it has rested for too long.
async fn drive(lane: Weak<Lane>, conn: ConnId, connection: Http2, settled: Arc<Notify>) {
    let mut connection = pin!(connection);
    let mut rest = pin!(tokio::time::sleep(LONGEST_REST));
    let mut is_wanted = true;
    let (mut is_settled, mut told) = (false, None);
    loop {
        // A server may change its mind; that is seen with the next request, which this sends.
        let changed = poll_fn(|cx| match connection.as_mut().poll(cx) {
            // How it ended, those who used it have been told.
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending => match connection.current_max_send_streams() {
                limit if is_settled && told != Some(limit) => Poll::Ready(Some(limit)),
                _ => Poll::Pending,
            },
        });
        tokio::select! {
            changed = changed => {
                if changed.is_none() {
                    break;
                }
                told = changed;
                if let (Some(lane), Some(limit)) = (lane.upgrade(), told) {
                    lane.on(|pool| pool.settled(conn, limit));
                }
            }
            () = settled.notified() => is_settled = true,
            () = rest.as_mut(), if is_wanted => match lane.upgrade().and_then(|lane| lane.rest(conn)) {
                Some(until) => rest.as_mut().reset(until),
                None => is_wanted = false,
            },
        }
    }
    if let Some(lane) = lane.upgrade() {
        lane.on(|pool| pool.lost(conn));
    }
}

/// The right to one exchange over a connection. Dropped amid it, it takes an HTTP/1 connection along; over HTTP/2 only its stream,
/// unless the lane is wary.
pub(super) struct Lease {
    lane: Weak<Lane>,
    conn: ConnId,
    link: Option<Link>,
    /// Whether a request has gone to the connection.
    is_used: bool,
    /// Ends the sending of the request when it is dropped.
    upload: Option<oneshot::Sender<()>>,
}

impl Lease {
    /// Whether the connection takes a request now.
    async fn is_ready(&mut self) -> bool {
        match self.link.as_mut().map(|link| &mut link.sender) {
            None => false,
            Some(Sender::Http2(sender)) => !sender.is_closed(),
            Some(Sender::Http1(http1)) => {
                http1.is_ready() || tokio::time::timeout(READY_WITHIN, http1.ready()).await.unwrap_or(false)
            }
        }
    }

    pub(super) fn has_served(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.has_served)
    }

    pub(super) fn is_http1(&self) -> bool {
        matches!(&self.link, Some(Link { sender: Sender::Http1(_), .. }))
    }

    /// Sends a request. If the error still has it, nothing of it has left.
    pub(super) async fn send(
        &mut self,
        mut request: Request<HttpBody>,
    ) -> Option<Result<Response<Incoming>, TrySendError<Request<HttpBody>>>> {
        self.is_used = true;
        self.upload = request.body_mut().lease();
        let link = self.link.as_mut()?;
        Some(match &mut link.sender {
            Sender::Http1(http1) => http1.send(request).await,
            Sender::Http2(sender) => sender.try_send_request(request).await,
        })
    }

    /// Reads on in the body of the answer.
    pub(super) fn poll_frame(
        &mut self,
        incoming: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        match self.link.as_mut().map(|link| &mut link.sender) {
            Some(Sender::Http1(http1)) => http1.poll_frame(incoming, cx),
            Some(Sender::Http2(_)) | None => Pin::new(incoming).poll_frame(cx),
        }
    }

    /// The connection takes no more requests.
    pub(super) fn give_up(&mut self) {
        let link = self.link.take();
        if let Some(lane) = self.lane.upgrade() {
            lane.on(|pool| pool.lost(self.conn));
        }
        drop(link);
    }

    /// The exchange is over, or none began.
    pub(super) fn end(&mut self) {
        let (Some(mut link), Some(lane)) = (self.link.take(), self.lane.upgrade()) else { return };
        let bell = match &mut link.sender {
            // Where the server has answered before it had read all, the rest of the request may never come to an end, and is somebody
            // else's code besides, which nobody may run under the lock.
            Sender::Http1(http1) => match http1.rest() && http1.is_ready() {
                true => Some(http1.bell()),
                false => return lane.on(|pool| pool.lost(self.conn)),
            },
            Sender::Http2(_) => None,
        };
        let mut state = lane.lock();
        let todo = match &bell {
            Some(_) => {
                link.has_served |= self.is_used;
                state.links.insert(self.conn, link);
                state.pool.give_back(self.conn, Instant::now())
            }
            None => state.pool.stream_ended(self.conn, Instant::now()),
        };
        lane.carry_out(state, todo, None);
        bell.inspect(|bell| bell.repeat());
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let is_wary = || self.lane.upgrade().is_some_and(|lane| lane.is_wary);
        match self.link.is_some() && self.is_used && (self.is_http1() || is_wary()) {
            true => self.give_up(),
            false => self.end(),
        }
    }
}
