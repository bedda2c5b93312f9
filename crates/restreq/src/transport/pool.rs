//! Which request gets which connection, when to dial, and what to let go. Decides only: no I/O, no clock, no lock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

/// A connection, numbered by age.
pub(super) type ConnId = u64;
/// A request that waits for a connection, numbered by age.
pub(super) type Ticket = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// One exchange at a time.
    Http1,
    /// As many streams as the server takes.
    Http2,
}

/// The connections to one server that one kind of request shares, as far as deciding goes.
///
/// - A request takes the HTTP/1 connection that rested last, or else a stream of the oldest HTTP/2 connection with room; else it waits,
///   first come, first served, for whatever comes first: one that is given back, or one that is dialled for it.
/// - Until a first dial has told which protocol the server speaks, there is one dial for all. After that there are as many as those
///   who wait need, and no more.
/// - An HTTP/2 connection has room for one stream until the server's settings are known.
/// - A dial that fails fails those whom the dials that are left cannot serve, the oldest first. One that comes to no end is given up by
///   whoever has waited for too long, and dialled anew for those who wait still.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// What the last dial came to.
    protocol: Option<Protocol>,
    /// HTTP/1 connections that rest, and since when. Those in use are with who uses them.
    resting: Vec<(ConnId, Instant)>,
    streams: BTreeMap<ConnId, Streams>,
    /// In the order in which they came.
    waiting: BTreeSet<Ticket>,
    dials: usize,
    /// How many streams the last settings allowed.
    usual: Option<usize>,
    last_id: u64,
}

/// An HTTP/2 connection.
#[derive(Debug)]
struct Streams {
    used: usize,
    /// `None` until the server's settings are known.
    limit: Option<usize>,
    since: Instant,
    resting_since: Instant,
}

/// What is to be done now, in this order.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use]
pub(super) struct Todo {
    /// Who gets which connection.
    pub(super) give: Vec<(Ticket, ConnId)>,
    /// Who gets none, since the dial failed.
    pub(super) fail: Vec<Ticket>,
    /// What to close.
    pub(super) close: Vec<ConnId>,
    /// How many connections to dial.
    pub(super) dial: usize,
}

/// What a request is told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Use(ConnId),
    Wait(Ticket, Todo),
}

/// So long does a connection rest before it is closed: Go's figure.
pub(super) const LONGEST_REST: Duration = Duration::from_secs(90);
/// So many HTTP/1 connections rest at most. With Go's 25, each burst of more requests would dial anew. What a burst has dialled and the next
/// one does not need is closed after [`LONGEST_REST`], since the connection that rested last is used first.
const MOST_RESTING: usize = 256;
/// The most streams of a connection, however many the server takes: as many as fit side by side into the largest window that a
/// connection can have (`CONNECTION_WINDOW` in lane.rs).
pub(super) const MOST_STREAMS: usize = 511;

impl Pool {
    /// A request wants a connection.
    pub(super) fn ask(&mut self) -> Asked {
        // Who waits longer comes first.
        if self.waiting.is_empty()
            && let Some(conn) = self.take()
        {
            return Asked::Use(conn);
        }
        let ticket = self.number();
        self.waiting.insert(ticket);
        Asked::Wait(ticket, self.go_on())
    }

    /// A request does not wait any more. What is dialled for it, others can use.
    pub(super) fn cancel(&mut self, ticket: Ticket) {
        self.waiting.remove(&ticket);
    }

    /// A dial has come to a connection.
    pub(super) fn dialled(&mut self, protocol: Protocol, now: Instant) -> (ConnId, Todo) {
        self.dials -= 1;
        self.protocol = Some(protocol);
        let conn = self.number();
        match protocol {
            Protocol::Http1 => self.resting.push((conn, now)),
            Protocol::Http2 => {
                self.streams.insert(conn, Streams { used: 0, limit: None, since: now, resting_since: now });
            }
        }
        (conn, self.go_on())
    }

    /// A dial has come to nothing.
    pub(super) fn dial_failed(&mut self) -> Todo {
        self.dials -= 1;
        let able = match self.protocol {
            None if self.dials > 0 => usize::MAX,
            None => 0,
            Some(Protocol::Http1) => self.dials,
            Some(Protocol::Http2) => self.dials.saturating_mul(self.usual()) + self.promised(),
        };
        let failed = self.waiting.len().saturating_sub(able);
        let fail = std::iter::from_fn(|| self.waiting.pop_first()).take(failed).collect();
        Todo { fail, ..self.go_on() }
    }

    /// So many dials have come to no end, nor the settings of connections that are as old. What they were to serve is dialled for anew.
    pub(super) fn give_up(&mut self, dials: usize, now: Instant, patience: Duration) -> Todo {
        self.dials -= dials;
        let is_stuck = |streams: &Streams| now.saturating_duration_since(streams.since) >= patience;
        let stuck = self.streams.extract_if(.., |_, streams| streams.limit.is_none() && is_stuck(streams));
        let stuck: Vec<ConnId> = stuck.map(|(conn, _)| conn).collect();
        let mut todo = self.go_on();
        todo.close.extend(stuck);
        todo
    }

    /// The server has told how many streams it takes; it may do so again. Those beyond a lower number go on.
    pub(super) fn settled(&mut self, conn: ConnId, limit: usize) -> Todo {
        let limit = limit.clamp(1, MOST_STREAMS);
        if let Some(streams) = self.streams.get_mut(&conn) {
            streams.limit = Some(limit);
            self.usual = Some(limit);
        }
        self.go_on()
    }

    /// An exchange over HTTP/1 is over, and its connection can have another.
    pub(super) fn give_back(&mut self, conn: ConnId, now: Instant) -> Todo {
        self.resting.push((conn, now));
        self.go_on()
    }

    /// A stream of HTTP/2 is over.
    pub(super) fn stream_ended(&mut self, conn: ConnId, now: Instant) -> Todo {
        if let Some(streams) = self.streams.get_mut(&conn) {
            streams.used -= 1;
            streams.resting_since = now;
        }
        self.go_on()
    }

    /// A connection takes no more requests: it broke, or the server said so. What goes over it goes on as far as it can.
    pub(super) fn lost(&mut self, conn: ConnId) -> Todo {
        self.streams.remove(&conn);
        self.resting.retain(|(other, _)| *other != conn);
        let mut todo = self.go_on();
        todo.close.push(conn);
        todo
    }

    /// Until when a connection may rest; `None`, and forgotten, if that is over.
    pub(super) fn rest(&mut self, conn: ConnId, now: Instant) -> Option<Instant> {
        let rests = |(other, _): &(ConnId, Instant)| *other == conn;
        let since = match (self.streams.get(&conn), self.resting.iter().find(|entry| rests(entry))) {
            (Some(streams), _) if streams.used == 0 => streams.resting_since,
            (None, Some((_, since))) => *since,
            _ => now,
        };
        let until = since + LONGEST_REST;
        if until > now {
            return Some(until);
        }
        self.streams.remove(&conn);
        self.resting.retain(|entry| !rests(entry));
        None
    }

    /// A connection with room, which is taken.
    fn take(&mut self) -> Option<ConnId> {
        if let Some((conn, _)) = self.resting.pop() {
            return Some(conn);
        }
        let (conn, streams) = self.streams.iter_mut().find(|(_, streams)| streams.room() > 0)?;
        streams.used += 1;
        Some(*conn)
    }

    /// Gives what there is to those who wait, closes what is too much, and sees what to dial for those who go on waiting.
    fn go_on(&mut self) -> Todo {
        let mut todo = Todo::default();
        while !self.waiting.is_empty()
            && let Some(conn) = self.take()
            && let Some(ticket) = self.waiting.pop_first()
        {
            todo.give.push((ticket, conn));
        }
        let crowd = self.resting.len().saturating_sub(MOST_RESTING);
        todo.close.extend(self.resting.drain(..crowd).map(|(conn, _)| conn));
        let wanted = match self.protocol {
            None => self.waiting.len().min(1),
            Some(Protocol::Http1) => self.waiting.len(),
            Some(Protocol::Http2) => self.waiting.len().saturating_sub(self.promised()).div_ceil(self.usual()),
        };
        todo.dial = wanted.saturating_sub(self.dials);
        self.dials += todo.dial;
        todo
    }

    /// How many streams the connections are expected to take, once their settings are known.
    fn promised(&self) -> usize {
        let unsettled = self.streams.values().filter(|streams| streams.limit.is_none());
        unsettled.map(|streams| self.usual().saturating_sub(streams.used)).sum()
    }

    fn usual(&self) -> usize {
        self.usual.unwrap_or(MOST_STREAMS)
    }

    fn number(&mut self) -> u64 {
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
