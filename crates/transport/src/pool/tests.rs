//! Tests of the pool against a model of the server, the connections and the requests.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

struct World {
    pool: Pool,
    http2: bool,
    limit: usize,
    now: Instant,
    waiting: BTreeSet<Ticket>,
    dials_in_flight: usize,
    has_dialled: bool,
    /// The connections that requests can use, with the number of requests on each connection. The flag is
    /// `true` if the server's settings have arrived.
    open: BTreeMap<ConnId, (usize, bool)>,
    used: Vec<ConnId>,
}

impl World {
    fn new(http2: bool, limit: usize) -> Self {
        let now = Instant::now();
        let (waiting, open, used) = Default::default();
        Self { pool: Pool::default(), http2, limit, now, waiting, dials_in_flight: 0, has_dialled: false, open, used }
    }

    fn most(&self, settled: bool) -> usize {
        if !self.http2 || !settled { 1 } else { self.limit.min(MAX_STREAMS) }
    }

    fn is_used(&mut self, conn: ConnId) {
        let (users, settled) = self.open[&conn];
        assert!(users < self.most(settled), "{conn} already has {users} users");
        self.open.insert(conn, (users + 1, settled));
        self.used.push(conn);
    }

    fn obey(&mut self, actions: Actions) {
        for (ticket, conn) in actions.assign {
            assert_eq!(self.waiting.pop_first(), Some(ticket), "the oldest request comes first");
            self.is_used(conn);
        }
        for ticket in actions.fail {
            assert_eq!(self.waiting.pop_first(), Some(ticket));
        }
        for conn in actions.close {
            self.open.remove(&conn);
        }
        self.dials_in_flight += actions.dial;
        if actions.dial > 0 {
            let share = if self.http2 { self.limit.min(MAX_STREAMS) } else { 1 };
            let needed = if self.has_dialled { self.waiting.len().div_ceil(share) } else { 1 };
            assert!(
                self.dials_in_flight <= needed,
                "{} dials for {} waiting requests",
                self.dials_in_flight,
                self.waiting.len()
            );
        }
        self.check();
    }

    fn check(&self) {
        let room = self.open.values().any(|(users, settled)| *users < self.most(*settled));
        assert!(self.waiting.is_empty() || !room, "no request waits while a connection is free");
        let unsettled = self.open.values().any(|(_, settled)| self.http2 && !settled);
        assert!(
            self.waiting.is_empty() || self.dials_in_flight > 0 || unsettled,
            "every waiting request has a dial or pending settings"
        );
        assert!(self.http2 || self.open.values().filter(|(users, _)| *users == 0).count() <= MAX_IDLE);
    }

    fn step(&mut self, random: &mut fastrand::Rng) {
        match random.u8(0..100) {
            0..40 => match self.pool.acquire() {
                Acquired::Use(conn) => {
                    assert!(self.waiting.is_empty());
                    self.is_used(conn);
                }
                Acquired::Wait(ticket, actions) => {
                    self.waiting.insert(ticket);
                    self.obey(actions);
                }
            },
            40..45 => {
                if let Some(ticket) = random.choice(self.waiting.iter().copied().collect::<Vec<_>>()) {
                    self.waiting.remove(&ticket);
                    self.pool.cancel(ticket);
                }
            }
            45..60 if self.dials_in_flight > 0 => {
                self.dials_in_flight -= 1;
                let actions = match random.u8(0..4) {
                    0 => self.pool.dial_failed(),
                    _ => {
                        self.has_dialled = true;
                        let protocol = if self.http2 { Protocol::Http2 } else { Protocol::Http1 };
                        let (conn, actions) = self.pool.dialled(protocol, self.now);
                        self.open.insert(conn, (0, false));
                        actions
                    }
                };
                self.obey(actions);
            }
            60..65 if self.http2 => {
                let unsettled = self.open.iter().find(|(_, (_, settled))| !settled).map(|(conn, _)| *conn);
                if let Some(conn) = unsettled {
                    self.open.get_mut(&conn).unwrap().1 = true;
                    let actions = self.pool.settled(conn, self.limit);
                    self.obey(actions);
                }
            }
            65..88 if !self.used.is_empty() => {
                let conn = self.used.swap_remove(random.usize(..self.used.len()));
                let reusable = self.http2 || random.u8(0..4) > 0;
                match self.open.get_mut(&conn) {
                    Some((users, _)) if reusable => *users -= 1,
                    _ => drop(self.open.remove(&conn)),
                }
                if self.http2 {
                    let actions = self.pool.stream_ended(conn, self.now);
                    self.obey(actions);
                } else if self.open.contains_key(&conn) {
                    let actions = self.pool.give_back(conn, self.now);
                    self.obey(actions);
                }
            }
            88..90 if self.dials_in_flight > 0 => {
                self.dials_in_flight -= 1;
                let actions = self.pool.give_up(1, self.now, Duration::MAX);
                self.obey(actions);
            }
            90..95 => {
                if let Some(conn) = random.choice(self.open.keys().copied().collect::<Vec<_>>()) {
                    self.open.remove(&conn);
                    let actions = self.pool.lost(conn);
                    assert_eq!(actions.close, [conn]);
                    self.obey(actions);
                }
            }
            _ => {
                self.now += Duration::from_secs(random.u64(0..100));
                for conn in self.open.keys().copied().collect::<Vec<_>>() {
                    let until = self.pool.idle_deadline(conn, self.now);
                    assert!(until.is_none_or(|until| until > self.now && until <= self.now + IDLE_TIMEOUT));
                    if until.is_none() {
                        assert_eq!(self.open.remove(&conn).map(|(users, _)| users), Some(0), "it is in use");
                    }
                }
            }
        }
    }
}

#[test]
fn pool_assigns_connections_within_limits_in_any_sequence() {
    for seed in 0..150 {
        let run = || {
            let mut random = fastrand::Rng::with_seed(seed);
            let limit = random.choice([1, 2, 7, 1000]).unwrap();
            let mut world = World::new(random.bool(), limit);
            for _ in 0..1000 {
                world.step(&mut random);
            }
        };
        assert!(std::panic::catch_unwind(run).is_ok(), "with seed {seed}");
    }
}

fn waits(asked: Acquired) -> (Ticket, Actions) {
    match asked {
        Acquired::Wait(ticket, actions) => (ticket, actions),
        Acquired::Use(conn) => panic!("got {conn}"),
    }
}

#[test]
fn forty_cold_requests_dial_once_until_protocol_is_known() {
    for (protocol, dials) in [(Protocol::Http1, 39), (Protocol::Http2, 0)] {
        let mut pool = Pool::default();
        let started: usize = (0..40).map(|_| waits(pool.acquire()).1.dial).sum();
        assert_eq!(started, 1);
        let (conn, actions) = pool.dialled(protocol, Instant::now());
        assert_eq!((actions.assign.len(), actions.dial), (1, dials), "{protocol:?}");
        if protocol == Protocol::Http2 {
            assert_eq!(pool.settled(conn, 1000).assign.len(), 39);
        }
    }
}

#[test]
fn streams_above_the_server_limit_use_another_connection() {
    let mut pool = Pool::default();
    let actions = waits(pool.acquire()).1;
    assert_eq!(actions.dial, 1);
    let (first, actions) = pool.dialled(Protocol::Http2, Instant::now());
    assert_eq!(actions.assign.len(), 1);
    assert_eq!(pool.settled(first, 200), Actions::default());
    assert!((1..200).all(|_| pool.acquire() == Acquired::Use(first)));
    assert_eq!(waits(pool.acquire()).1.dial, 1, "the 201st");
    let (second, actions) = pool.dialled(Protocol::Http2, Instant::now());
    assert_eq!(actions.assign.iter().map(|(_, conn)| *conn).collect::<Vec<_>>(), [second]);
}

#[test]
fn most_recently_idle_connection_is_used_first() {
    let mut pool = Pool::default();
    let now = Instant::now();
    let conns: Vec<ConnId> = (0..3)
        .map(|_| {
            let _waiting = waits(pool.acquire());
            pool.dialled(Protocol::Http1, now).0
        })
        .collect();
    for conn in [conns[1], conns[2], conns[0]] {
        assert_eq!(pool.give_back(conn, now), Actions::default());
    }
    assert_eq!([(); 3].map(|()| pool.acquire()), [conns[0], conns[2], conns[1]].map(Acquired::Use));
}

#[test]
fn failure_of_only_dial_fails_all_waiting_requests() {
    let mut pool = Pool::default();
    let tickets: Vec<Ticket> = (0..5).map(|_| waits(pool.acquire()).0).collect();
    assert_eq!(pool.dial_failed(), Actions { fail: tickets, ..Actions::default() });
    assert_eq!(waits(pool.acquire()).1.dial, 1, "a later request dials again");
}

#[test]
fn stuck_dial_is_replaced_for_waiting_requests() {
    const TIMEOUT: Duration = Duration::from_secs(31);
    let (mut pool, start) = (Pool::default(), Instant::now());
    let tickets: Vec<Ticket> = (0..3).map(|_| waits(pool.acquire()).0).collect();
    pool.cancel(tickets[0]);
    assert_eq!(pool.give_up(1, start + TIMEOUT, TIMEOUT), Actions { dial: 1, ..Actions::default() });
    // The server never sends its settings on this connection.
    let (conn, actions) = pool.dialled(Protocol::Http2, start + TIMEOUT);
    assert_eq!(actions.assign, [(tickets[1], conn)]);
    assert_eq!(pool.give_up(0, start + TIMEOUT * 3 / 2, TIMEOUT), Actions::default(), "the settings may still arrive");
    let actions = pool.give_up(0, start + TIMEOUT * 2, TIMEOUT);
    assert_eq!((actions.close, actions.dial), (vec![conn], 1), "a dial for the third request");
}

#[test]
fn thousand_watches_need_two_connections() {
    for (limit, connections) in [(100, 10), (250, 4), (1000, 2)] {
        let (mut pool, now) = (Pool::default(), Instant::now());
        let (mut open, mut dialled) = (0, 0);
        for _ in 0..1000 {
            let Acquired::Wait(_, mut actions) = pool.acquire() else {
                open += 1;
                continue;
            };
            while actions.dial > 0 {
                dialled += 1;
                let (conn, assigned) = pool.dialled(Protocol::Http2, now);
                open += assigned.assign.len();
                actions = pool.settled(conn, limit);
                open += actions.assign.len();
            }
        }
        assert_eq!((open, dialled), (1000, connections), "{limit} at once");
    }
}

#[test]
fn surplus_idle_connections_are_closed() {
    let mut pool = Pool::default();
    let now = Instant::now();
    let first = waits(pool.acquire());
    let (conn, _given) = pool.dialled(Protocol::Http1, now);
    let tickets: Vec<Ticket> = (0..300).map(|_| waits(pool.acquire()).0).collect();
    for ticket in tickets {
        pool.cancel(ticket);
    }
    let closed: Vec<ConnId> = (0..300).flat_map(|_| pool.dialled(Protocol::Http1, now).1.close).collect();
    assert_eq!(closed.len(), 300 - MAX_IDLE, "{first:?}");
    let closed = pool.give_back(conn, now).close;
    assert!(closed.len() == 1 && closed != [conn], "the oldest are closed first");
}

#[test]
fn connection_that_allows_no_streams_is_not_used_again() {
    let (mut pool, now) = (Pool::default(), Instant::now());
    let Acquired::Wait(first, actions) = pool.acquire() else { panic!("there is no connection yet") };
    assert_eq!(actions.dial, 1);
    let (conn, actions) = pool.dialled(Protocol::Http2, now);
    assert_eq!(actions.assign, [(first, conn)]);
    let Acquired::Wait(second, actions) = pool.acquire() else { panic!("the only stream is in use") };
    assert_eq!(actions, Actions::default());
    let actions = pool.settled(conn, 0);
    assert_eq!((actions.close, actions.dial), (vec![conn], 1));
    let (other, actions) = pool.dialled(Protocol::Http2, now);
    assert_eq!(actions.assign, [(second, other)]);
    assert_eq!(pool.stream_ended(conn, now), Actions::default());
}
