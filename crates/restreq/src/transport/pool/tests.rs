//! The pool against a model of servers, requests and accidents.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// Who uses what, and what there is, as the world outside sees it.
struct World {
    pool: Pool,
    http2: bool,
    /// How many streams the server takes.
    limit: usize,
    now: Instant,
    waiting: BTreeSet<Ticket>,
    dialling: usize,
    has_dialled: bool,
    /// Connections that can be used, with the number of their users, and whether the settings of the server are known.
    open: BTreeMap<ConnId, (usize, bool)>,
    /// One entry a request that is under way.
    used: Vec<ConnId>,
}

impl World {
    fn new(http2: bool, limit: usize) -> Self {
        let now = Instant::now();
        let (waiting, open, used) = Default::default();
        Self { pool: Pool::default(), http2, limit, now, waiting, dialling: 0, has_dialled: false, open, used }
    }

    fn most(&self, settled: bool) -> usize {
        if !self.http2 || !settled { 1 } else { self.limit.min(MOST_STREAMS) }
    }

    fn is_used(&mut self, conn: ConnId) {
        let (users, settled) = self.open[&conn];
        assert!(users < self.most(settled), "{conn} has {users} already");
        self.open.insert(conn, (users + 1, settled));
        self.used.push(conn);
    }

    fn obey(&mut self, todo: Todo) {
        for (ticket, conn) in todo.give {
            assert_eq!(self.waiting.pop_first(), Some(ticket), "who waits longest comes first");
            self.is_used(conn);
        }
        for ticket in todo.fail {
            assert_eq!(self.waiting.pop_first(), Some(ticket));
        }
        for conn in todo.close {
            self.open.remove(&conn);
        }
        self.dialling += todo.dial;
        if todo.dial > 0 {
            let share = if self.http2 { self.limit.min(MOST_STREAMS) } else { 1 };
            let needed = if self.has_dialled { self.waiting.len().div_ceil(share) } else { 1 };
            assert!(self.dialling <= needed, "{} dials for {} who wait", self.dialling, self.waiting.len());
        }
        self.check();
    }

    fn check(&self) {
        let room = self.open.values().any(|(users, settled)| *users < self.most(*settled));
        assert!(self.waiting.is_empty() || !room, "nobody waits beside room");
        let unsettled = self.open.values().any(|(_, settled)| self.http2 && !settled);
        assert!(self.waiting.is_empty() || self.dialling > 0 || unsettled, "nobody waits for nothing");
        assert!(self.http2 || self.open.values().filter(|(users, _)| *users == 0).count() <= MOST_RESTING);
    }

    fn step(&mut self, random: &mut fastrand::Rng) {
        match random.u8(0..100) {
            0..40 => match self.pool.ask() {
                Asked::Use(conn) => {
                    assert!(self.waiting.is_empty());
                    self.is_used(conn);
                }
                Asked::Wait(ticket, todo) => {
                    self.waiting.insert(ticket);
                    self.obey(todo);
                }
            },
            40..45 => {
                if let Some(ticket) = random.choice(self.waiting.iter().copied().collect::<Vec<_>>()) {
                    self.waiting.remove(&ticket);
                    self.pool.cancel(ticket);
                }
            }
            45..60 if self.dialling > 0 => {
                self.dialling -= 1;
                let todo = match random.u8(0..4) {
                    0 => self.pool.dial_failed(),
                    _ => {
                        self.has_dialled = true;
                        let protocol = if self.http2 { Protocol::Http2 } else { Protocol::Http1 };
                        let (conn, todo) = self.pool.dialled(protocol, self.now);
                        self.open.insert(conn, (0, false));
                        todo
                    }
                };
                self.obey(todo);
            }
            60..65 if self.http2 => {
                let unsettled = self.open.iter().find(|(_, (_, settled))| !settled).map(|(conn, _)| *conn);
                if let Some(conn) = unsettled {
                    self.open.get_mut(&conn).unwrap().1 = true;
                    let todo = self.pool.settled(conn, self.limit);
                    self.obey(todo);
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
                    let todo = self.pool.stream_ended(conn, self.now);
                    self.obey(todo);
                } else if self.open.contains_key(&conn) {
                    let todo = self.pool.give_back(conn, self.now);
                    self.obey(todo);
                }
            }
            88..90 if self.dialling > 0 => {
                self.dialling -= 1;
                let todo = self.pool.give_up(1, self.now, Duration::MAX);
                self.obey(todo);
            }
            90..95 => {
                if let Some(conn) = random.choice(self.open.keys().copied().collect::<Vec<_>>()) {
                    self.open.remove(&conn);
                    let todo = self.pool.lost(conn);
                    assert_eq!(todo.close, [conn]);
                    self.obey(todo);
                }
            }
            _ => {
                self.now += Duration::from_secs(random.u64(0..100));
                for conn in self.open.keys().copied().collect::<Vec<_>>() {
                    let until = self.pool.rest(conn, self.now);
                    assert!(until.is_none_or(|until| until > self.now && until <= self.now + LONGEST_REST));
                    if until.is_none() {
                        assert_eq!(self.open.remove(&conn).map(|(users, _)| users), Some(0), "it is in use");
                    }
                }
            }
        }
    }
}

#[test]
fn whatever_happens_each_request_gets_one_connection_and_none_is_shared_beyond_its_room() {
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

fn waits(asked: Asked) -> (Ticket, Todo) {
    match asked {
        Asked::Wait(ticket, todo) => (ticket, todo),
        Asked::Use(conn) => panic!("got {conn}"),
    }
}

#[test]
fn forty_cold_requests_dial_once_until_the_protocol_is_known() {
    for (protocol, dials) in [(Protocol::Http1, 39), (Protocol::Http2, 0)] {
        let mut pool = Pool::default();
        let started: usize = (0..40).map(|_| waits(pool.ask()).1.dial).sum();
        assert_eq!(started, 1);
        let (conn, todo) = pool.dialled(protocol, Instant::now());
        assert_eq!((todo.give.len(), todo.dial), (1, dials), "{protocol:?}");
        if protocol == Protocol::Http2 {
            assert_eq!(pool.settled(conn, 1000).give.len(), 39);
        }
    }
}

#[test]
fn streams_beyond_the_servers_limit_go_over_another_connection() {
    let mut pool = Pool::default();
    let todo = waits(pool.ask()).1;
    assert_eq!(todo.dial, 1);
    let (first, todo) = pool.dialled(Protocol::Http2, Instant::now());
    assert_eq!(todo.give.len(), 1);
    assert_eq!(pool.settled(first, 200), Todo::default());
    assert!((1..200).all(|_| pool.ask() == Asked::Use(first)));
    assert_eq!(waits(pool.ask()).1.dial, 1, "the 201st");
    let (second, todo) = pool.dialled(Protocol::Http2, Instant::now());
    assert_eq!(todo.give.iter().map(|(_, conn)| *conn).collect::<Vec<_>>(), [second]);
}

#[test]
fn the_connection_that_rested_last_is_used_first() {
    let mut pool = Pool::default();
    let now = Instant::now();
    let conns: Vec<ConnId> = (0..3)
        .map(|_| {
            let _waiting = waits(pool.ask());
            pool.dialled(Protocol::Http1, now).0
        })
        .collect();
    for conn in [conns[1], conns[2], conns[0]] {
        assert_eq!(pool.give_back(conn, now), Todo::default());
    }
    assert_eq!([(); 3].map(|()| pool.ask()), [conns[0], conns[2], conns[1]].map(Asked::Use));
}

#[test]
fn all_who_waited_for_the_only_dial_fail_with_it() {
    let mut pool = Pool::default();
    let tickets: Vec<Ticket> = (0..5).map(|_| waits(pool.ask()).0).collect();
    assert_eq!(pool.dial_failed(), Todo { fail: tickets, ..Todo::default() });
    assert_eq!(waits(pool.ask()).1.dial, 1, "who comes later dials anew");
}

#[test]
fn what_comes_to_no_end_is_dialled_anew_for_those_who_wait() {
    const PATIENCE: Duration = Duration::from_secs(31);
    let (mut pool, start) = (Pool::default(), Instant::now());
    let tickets: Vec<Ticket> = (0..3).map(|_| waits(pool.ask()).0).collect();
    pool.cancel(tickets[0]);
    assert_eq!(pool.give_up(1, start + PATIENCE, PATIENCE), Todo { dial: 1, ..Todo::default() });
    // It connects, but the settings never come.
    let (conn, todo) = pool.dialled(Protocol::Http2, start + PATIENCE);
    assert_eq!(todo.give, [(tickets[1], conn)]);
    assert_eq!(pool.give_up(0, start + PATIENCE * 3 / 2, PATIENCE), Todo::default(), "they may come yet");
    let todo = pool.give_up(0, start + PATIENCE * 2, PATIENCE);
    assert_eq!((todo.close, todo.dial), (vec![conn], 1), "for the third");
}

#[test]
fn a_thousand_watches_need_two_connections_where_the_server_takes_as_many() {
    for (limit, connections) in [(100, 10), (250, 4), (1000, 2)] {
        let (mut pool, now) = (Pool::default(), Instant::now());
        let (mut open, mut dialled) = (0, 0);
        for _ in 0..1000 {
            let Asked::Wait(_, mut todo) = pool.ask() else {
                open += 1;
                continue;
            };
            while todo.dial > 0 {
                dialled += 1;
                let (conn, given) = pool.dialled(Protocol::Http2, now);
                open += given.give.len();
                todo = pool.settled(conn, limit);
                open += todo.give.len();
            }
        }
        assert_eq!((open, dialled), (1000, connections), "{limit} at once");
    }
}

#[test]
fn connections_that_nobody_waits_for_any_more_do_not_rest_in_crowds() {
    let mut pool = Pool::default();
    let now = Instant::now();
    let first = waits(pool.ask());
    let (conn, _given) = pool.dialled(Protocol::Http1, now);
    let tickets: Vec<Ticket> = (0..300).map(|_| waits(pool.ask()).0).collect();
    for ticket in tickets {
        pool.cancel(ticket);
    }
    let closed: Vec<ConnId> = (0..300).flat_map(|_| pool.dialled(Protocol::Http1, now).1.close).collect();
    assert_eq!(closed.len(), 300 - MOST_RESTING, "{first:?}");
    let closed = pool.give_back(conn, now).close;
    assert!(closed.len() == 1 && closed != [conn], "the oldest go first");
}
