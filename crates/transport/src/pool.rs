//! The connection pool. The pool assigns connections to requests, and decides when to dial and which connections to
//! close. The pool does not do I/O, read a clock or take locks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

/// The ID of a connection. Older connections have lower IDs.
pub(super) type ConnId = u64;
/// The ID of a request that is waiting for a connection. Older requests have lower IDs.
pub(super) type Ticket = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// The connection can serve only one request at any time.
    Http1,
    /// The connection can serve as many concurrent requests as the server allows.
    Http2,
}

/// The pool of connections that all requests of one group share.
///
/// - A request gets the idle HTTP/1 connection that was used most recently. If there is no idle HTTP/1 connection, the
///   request gets a stream of the oldest HTTP/2 connection that has free streams. If there is no free stream, the
///   request waits in FIFO order until a connection is returned or a new connection is established.
/// - Until the first dial shows which protocol the server supports, all requests share one dial. After that, the pool
///   starts as many concurrent dials as the waiting requests need.
/// - An HTTP/2 connection has only one stream until the server's settings arrive.
/// - If a dial fails, there may be more waiting requests than the remaining dials can serve. Then the requests that have waited longest
///   fail. If a dial does not finish and a request has waited too long, the pool abandons the dial. The pool then starts new dials for the
///   other waiting requests.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// The protocol that was negotiated in the last successful dial.
    protocol: Option<Protocol>,
    /// The idle HTTP/1 connections, and the time when each became idle. HTTP/1 connections with a request in progress
    /// are not in the pool.
    idle: Vec<(ConnId, Instant)>,
    streams: BTreeMap<ConnId, Streams>,
    /// The requests that wait for a connection, in FIFO order.
    waiting: BTreeSet<Ticket>,
    dials: usize,
    /// The most recent stream limit that any connection has received from the server.
    last_limit: Option<usize>,
    last_id: u64,
}

/// An HTTP/2 connection.
#[derive(Debug)]
struct Streams {
    used: usize,
    /// The server's stream limit. The value is `None` until the server's settings arrive.
    limit: Option<usize>,
    since: Instant,
    idle_since: Instant,
}

/// The actions that the caller must execute immediately, in the order in which the fields are declared.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use]
pub(super) struct Actions {
    /// The connections that the caller assigns to waiting requests.
    pub(super) assign: Vec<(Ticket, ConnId)>,
    /// The waiting requests that fail because a dial failed.
    pub(super) fail: Vec<Ticket>,
    /// The connections to close.
    pub(super) close: Vec<ConnId>,
    /// The number of new connections that the caller dials.
    pub(super) dial: usize,
}

/// The result of requesting a connection from the pool.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Acquired {
    Use(ConnId),
    Wait(Ticket, Actions),
}

/// The time after which the pool closes an idle connection, as in Go.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// The maximum number of idle HTTP/1 connections. With Go's limit of 25, the client would have to dial again for each
/// burst of more than 25 requests. The pool reuses the most recently used connection first. So if a later burst is smaller, the connections
/// that it does not need become idle and are closed after [`IDLE_TIMEOUT`].
const MAX_IDLE: usize = 256;
/// The maximum number of streams on one connection, even if the server allows more streams. The flow-control windows of
/// all these streams fit into the largest window of a connection (`CONNECTION_WINDOW` in connection_group.rs).
pub(super) const MAX_STREAMS: usize = 511;

impl Pool {
    /// Requests a connection.
    pub(super) fn acquire(&mut self) -> Acquired {
        // Requests that are already waiting have priority over new requests.
        if self.waiting.is_empty()
            && let Some(conn) = self.take()
        {
            return Acquired::Use(conn);
        }
        let ticket = self.next_id();
        self.waiting.insert(ticket);
        Acquired::Wait(ticket, self.next_actions())
    }

    /// Removes a waiting request. If a connection was dialled for this request, other requests can use the connection.
    pub(super) fn cancel(&mut self, ticket: Ticket) {
        self.waiting.remove(&ticket);
    }

    /// Records a successful dial.
    pub(super) fn dialled(&mut self, protocol: Protocol, now: Instant) -> (ConnId, Actions) {
        self.dials -= 1;
        self.protocol = Some(protocol);
        let conn = self.next_id();
        match protocol {
            Protocol::Http1 => self.idle.push((conn, now)),
            Protocol::Http2 => {
                self.streams.insert(conn, Streams { used: 0, limit: None, since: now, idle_since: now });
            }
        }
        (conn, self.next_actions())
    }

    /// Records a failed dial.
    pub(super) fn dial_failed(&mut self) -> Actions {
        self.dials -= 1;
        let able = match self.protocol {
            None if self.dials > 0 => usize::MAX,
            None => 0,
            Some(Protocol::Http1) => self.dials,
            Some(Protocol::Http2) => self.dials.saturating_mul(self.expected_limit()) + self.expected_streams(),
        };
        let failed = self.waiting.len().saturating_sub(able);
        let fail = std::iter::from_fn(|| self.waiting.pop_first()).take(failed).collect();
        Actions { fail, ..self.next_actions() }
    }

    /// Abandons `dials` dials, because they have not finished in time. The method also abandons connections that are at least `max_wait`
    /// old and have not received the server's settings. The pool then starts new dials for the requests that are still waiting.
    pub(super) fn give_up(&mut self, dials: usize, now: Instant, max_wait: Duration) -> Actions {
        self.dials -= dials;
        let is_stuck = |streams: &Streams| now.saturating_duration_since(streams.since) >= max_wait;
        let stuck = self.streams.extract_if(.., |_, streams| streams.limit.is_none() && is_stuck(streams));
        let stuck: Vec<ConnId> = stuck.map(|(conn, _)| conn).collect();
        let mut actions = self.next_actions();
        actions.close.extend(stuck);
        actions
    }

    /// Records the server's stream limit. The limit may change later. If the new limit is lower than the number of open streams, all these
    /// streams continue until they end.
    pub(super) fn settled(&mut self, conn: ConnId, limit: usize) -> Actions {
        let limit = limit.clamp(1, MAX_STREAMS);
        if let Some(streams) = self.streams.get_mut(&conn) {
            streams.limit = Some(limit);
            self.last_limit = Some(limit);
        }
        self.next_actions()
    }

    /// Returns an HTTP/1 connection to the pool after a request.
    pub(super) fn give_back(&mut self, conn: ConnId, now: Instant) -> Actions {
        self.idle.push((conn, now));
        self.next_actions()
    }

    /// Records that a stream of an HTTP/2 connection has ended.
    pub(super) fn stream_ended(&mut self, conn: ConnId, now: Instant) -> Actions {
        if let Some(streams) = self.streams.get_mut(&conn) {
            streams.used -= 1;
            streams.idle_since = now;
        }
        self.next_actions()
    }

    /// Removes a connection that was lost or that the server is closing. Requests that use the removed connection continue if possible.
    pub(super) fn lost(&mut self, conn: ConnId) -> Actions {
        self.streams.remove(&conn);
        self.idle.retain(|(other, _)| *other != conn);
        let mut actions = self.next_actions();
        actions.close.push(conn);
        actions
    }

    /// Returns the time when an idle connection must close. If that time has passed, the method removes the connection
    /// and returns `None`.
    pub(super) fn idle_deadline(&mut self, conn: ConnId, now: Instant) -> Option<Instant> {
        let is_conn = |(other, _): &(ConnId, Instant)| *other == conn;
        let since = match (self.streams.get(&conn), self.idle.iter().find(|entry| is_conn(entry))) {
            (Some(streams), _) if streams.used == 0 => streams.idle_since,
            (None, Some((_, since))) => *since,
            _ => now,
        };
        let until = since + IDLE_TIMEOUT;
        if until > now {
            return Some(until);
        }
        self.streams.remove(&conn);
        self.idle.retain(|entry| !is_conn(entry));
        None
    }

    /// Takes an idle connection or a free stream from the pool.
    fn take(&mut self) -> Option<ConnId> {
        if let Some((conn, _)) = self.idle.pop() {
            return Some(conn);
        }
        let (conn, streams) = self.streams.iter_mut().find(|(_, streams)| streams.room() > 0)?;
        streams.used += 1;
        Some(*conn)
    }

    /// Assigns connections to waiting requests, closes unneeded connections, and dials for the requests that are still
    /// waiting.
    fn next_actions(&mut self) -> Actions {
        let mut actions = Actions::default();
        while !self.waiting.is_empty()
            && let Some(conn) = self.take()
            && let Some(ticket) = self.waiting.pop_first()
        {
            actions.assign.push((ticket, conn));
        }
        let surplus = self.idle.len().saturating_sub(MAX_IDLE);
        actions.close.extend(self.idle.drain(..surplus).map(|(conn, _)| conn));
        let wanted = match self.protocol {
            None => self.waiting.len().min(1),
            Some(Protocol::Http1) => self.waiting.len(),
            Some(Protocol::Http2) => {
                self.waiting.len().saturating_sub(self.expected_streams()).div_ceil(self.expected_limit())
            }
        };
        actions.dial = wanted.saturating_sub(self.dials);
        self.dials += actions.dial;
        actions
    }

    /// Returns the expected total number of streams of the connections whose settings have not arrived.
    fn expected_streams(&self) -> usize {
        let unsettled = self.streams.values().filter(|streams| streams.limit.is_none());
        unsettled.map(|streams| self.expected_limit().saturating_sub(streams.used)).sum()
    }

    fn expected_limit(&self) -> usize {
        self.last_limit.unwrap_or(MAX_STREAMS)
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }
}

impl Streams {
    fn room(&self) -> usize {
        self.limit.unwrap_or(1).saturating_sub(self.used)
    }
}

#[cfg(test)]
mod tests;
