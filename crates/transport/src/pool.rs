//! The connection pool. The pool assigns connections to requests, and decides when to dial and which connections to close. The pool does no
//! I/O, reads no clock and takes no locks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

/// A connection's ID. Older connections have lower IDs.
pub(super) type ConnId = u64;
/// The ID of a request that waits for a connection. Older requests have lower IDs.
pub(super) type Ticket = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// The connection serves one request at a time.
    Http1,
    /// The connection serves as many concurrent requests as the server allows.
    Http2,
}

/// A connection pool for one group of requests.
///
/// - A request gets the most recently used idle HTTP/1 connection. If none is idle, the request gets a stream on the oldest HTTP/2
///   connection with free streams. Otherwise, the request waits in FIFO order until a connection is returned or established.
/// - Until the first dial reveals the server's protocol, all requests share one dial. After the first dial, the pool starts as many
///   concurrent dials as the waiting requests need.
/// - Until the server's settings arrive, a new HTTP/2 connection has only one stream.
/// - If a dial fails, the remaining dials may be too few for all waiting requests. The requests that have waited longest then fail.
/// - If a request has waited too long for an unfinished dial, the pool abandons the dial. The pool then starts new dials for the other
///   waiting requests.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// The protocol of the last successful dial.
    protocol: Option<Protocol>,
    /// The idle HTTP/1 connections, each with the time at which it became idle. Busy HTTP/1 connections are not in the pool.
    idle: Vec<(ConnId, Instant)>,
    streams: BTreeMap<ConnId, Streams>,
    waiting: BTreeSet<Ticket>,
    dials: usize,
    /// The last stream limit that the server sent on any connection.
    last_limit: Option<usize>,
    last_id: u64,
}

#[derive(Debug)]
struct Streams {
    used: usize,
    /// `None` until the server's settings arrive.
    limit: Option<usize>,
    since: Instant,
    idle_since: Instant,
}

/// The actions that the caller must execute, immediately and in the order of the fields.
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

/// The maximum time that a connection may be idle. Go has the same limit.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// The maximum number of idle HTTP/1 connections. Go's limit is 25, but then each burst of more than 25 requests would dial again. The most
/// recently used connection is reused first, so connections that smaller bursts do not need are closed after [`IDLE_TIMEOUT`].
const MAX_IDLE: usize = 256;
/// The maximum number of streams on one connection, even if the server allows more. The flow-control windows of all streams fit into the
/// connection's window (`CONNECTION_WINDOW` in http2.rs).
pub(super) const MAX_STREAMS: usize = 511;

impl Pool {
    pub(super) fn acquire(&mut self) -> Acquired {
        // Requests that are already waiting take precedence.
        if self.waiting.is_empty()
            && let Some(conn) = self.take()
        {
            return Acquired::Use(conn);
        }
        let ticket = self.next_id();
        self.waiting.insert(ticket);
        Acquired::Wait(ticket, self.next_actions())
    }

    /// Removes a waiting request. Another request can use the connection that is being dialled.
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

    /// Abandons `dials` overdue dials. Also abandons connections that are at least `max_wait` old and have received no settings from the
    /// server. Starts new dials for the waiting requests.
    pub(super) fn give_up(&mut self, dials: usize, now: Instant, max_wait: Duration) -> Actions {
        self.dials -= dials;
        let is_stuck = |streams: &Streams| now.saturating_duration_since(streams.since) >= max_wait;
        let stuck = self.streams.extract_if(.., |_, streams| streams.limit.is_none() && is_stuck(streams));
        let stuck: Vec<ConnId> = stuck.map(|(conn, _)| conn).collect();
        let mut actions = self.next_actions();
        actions.close.extend(stuck);
        actions
    }

    /// Records the server's stream limit, which the server may change. If the limit decreases, open streams above the limit continue until
    /// they end.
    pub(super) fn settled(&mut self, conn: ConnId, limit: usize) -> Actions {
        let limit = limit.clamp(1, MAX_STREAMS);
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

    /// Removes a connection that was lost or that the server is closing. Requests on the connection continue if possible.
    pub(super) fn lost(&mut self, conn: ConnId) -> Actions {
        self.streams.remove(&conn);
        self.idle.retain(|(other, _)| *other != conn);
        let mut actions = self.next_actions();
        actions.close.push(conn);
        actions
    }

    /// Returns the time at which an idle connection must close. If that time has passed, removes the connection and returns `None`.
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

    /// Assigns connections to waiting requests, closes connections that are no longer needed, and dials for the requests that still wait.
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

    /// Counts only the connections that have not received the server's settings.
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
