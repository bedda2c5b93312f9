//! The connection pool, which assigns connections to requests and decides when to open and close connections. The pool
//! does no I/O, reads no clock and uses no locks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

/// The ID of a connection. Older connections have lower IDs.
pub(super) type ConnId = u64;
/// The ID of a request that waits for a connection. Older requests have lower IDs.
pub(super) type Ticket = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// Serves one request at a time.
    Http1,
    /// Serves as many concurrent requests as the server allows.
    Http2,
}

/// A connection pool for one group of requests.
///
/// - A request uses the idle HTTP/1 connection that was used most recently. If no connection is idle, the request uses
///   a stream of the oldest HTTP/2 connection that has a free stream. If no connection is available, the request waits
///   until a connection is returned or established. Requests are served in FIFO order.
/// - Until the first dial reveals the server's protocol, all requests share this dial. After the first dial, the pool
///   dials as many connections concurrently as the waiting requests need.
/// - A new HTTP/2 connection has only one stream until the settings of the server arrive.
/// - If a dial fails and too few dials remain for all waiting requests, the requests that have waited longest fail.
/// - If a request has waited too long for a dial, the pool abandons this dial, and starts new dials for the other
///   waiting requests.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// The protocol of the last successful dial.
    protocol: Option<Protocol>,
    /// The idle HTTP/1 connections, and the time since which each connection is idle. The list does not contain busy
    /// connections.
    idle: Vec<(ConnId, Instant)>,
    streams: BTreeMap<ConnId, Streams>,
    waiting: BTreeSet<Ticket>,
    dials: usize,
    /// The last stream limit that the server has sent on any connection.
    last_limit: Option<usize>,
    last_id: u64,
}

#[derive(Debug)]
struct Streams {
    used: usize,
    /// The server's stream limit, or `None` until the server's settings arrive.
    limit: Option<usize>,
    since: Instant,
    idle_since: Instant,
}

/// Actions that the caller must execute immediately, in the order of the fields.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use]
pub(super) struct Actions {
    pub(super) assign: Vec<(Ticket, ConnId)>,
    pub(super) fail: Vec<Ticket>,
    pub(super) close: Vec<ConnId>,
    pub(super) dial: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Acquired {
    Use(ConnId),
    Wait(Ticket, Actions),
}

/// The idle time after which a connection is closed, as in Go.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// The maximum number of idle HTTP/1 connections. Go's limit is 25. With Go's limit, each burst of more than 25
/// requests would have to dial again. The higher limit keeps no unused connections open: requests prefer the most
/// recently used connection, so the others close after [`IDLE_TIMEOUT`].
const MAX_IDLE: usize = 256;
/// The maximum number of streams per connection, even if the server allows more. With this limit, the flow-control
/// windows of all streams fit into the connection's window (`CONNECTION_WINDOW` in http2.rs).
pub(super) const MAX_STREAMS: usize = 511;

impl Pool {
    pub(super) fn acquire(&mut self) -> Acquired {
        // Requests that are already waiting come first.
        if self.waiting.is_empty()
            && let Some(conn) = self.take()
        {
            return Acquired::Use(conn);
        }
        let ticket = self.next_id();
        self.waiting.insert(ticket);
        Acquired::Wait(ticket, self.next_actions())
    }

    /// Removes a waiting request. The request's dial continues, because another request can use the connection.
    pub(super) fn cancel(&mut self, ticket: Ticket) {
        self.waiting.remove(&ticket);
    }

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

    /// Abandons the given number of dials, which are overdue. Also abandons connections that are at least `max_wait`
    /// old and have not received the server's settings. Starts new dials for the waiting requests.
    pub(super) fn give_up(&mut self, dials: usize, now: Instant, max_wait: Duration) -> Actions {
        self.dials -= dials;
        let is_stuck = |streams: &Streams| now.saturating_duration_since(streams.since) >= max_wait;
        let stuck = self.streams.extract_if(.., |_, streams| streams.limit.is_none() && is_stuck(streams));
        let stuck: Vec<ConnId> = stuck.map(|(conn, _)| conn).collect();
        let mut actions = self.next_actions();
        actions.close.extend(stuck);
        actions
    }

    /// Records the server's stream limit, which can change. A lower limit does not affect open streams. If the server
    /// allows no more streams, the pool gives the connection to no more requests.
    pub(super) fn settled(&mut self, conn: ConnId, limit: usize) -> Actions {
        if limit == 0 {
            return self.lost(conn);
        }
        let limit = limit.min(MAX_STREAMS);
        if let Some(streams) = self.streams.get_mut(&conn) {
            streams.limit = Some(limit);
            self.last_limit = Some(limit);
        }
        self.next_actions()
    }

    pub(super) fn give_back(&mut self, conn: ConnId, now: Instant) -> Actions {
        self.idle.push((conn, now));
        self.next_actions()
    }

    pub(super) fn stream_ended(&mut self, conn: ConnId, now: Instant) -> Actions {
        if let Some(streams) = self.streams.get_mut(&conn) {
            streams.used -= 1;
            streams.idle_since = now;
        }
        self.next_actions()
    }

    /// Removes a connection that is lost or that the server is closing. Requests on the connection continue if
    /// possible.
    pub(super) fn lost(&mut self, conn: ConnId) -> Actions {
        self.streams.remove(&conn);
        self.idle.retain(|(other, _)| *other != conn);
        let mut actions = self.next_actions();
        actions.close.push(conn);
        actions
    }

    /// Returns the time at which an idle connection must be closed, or removes it and returns `None` if this time has
    /// passed.
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

    fn take(&mut self) -> Option<ConnId> {
        if let Some((conn, _)) = self.idle.pop() {
            return Some(conn);
        }
        let (conn, streams) = self.streams.iter_mut().find(|(_, streams)| streams.room() > 0)?;
        streams.used += 1;
        Some(*conn)
    }

    /// Assigns connections to waiting requests, closes unneeded connections, and starts dials for the remaining
    /// requests.
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

    /// Returns the expected number of free streams on connections that have not received the server's settings.
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
