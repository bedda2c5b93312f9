//! Explores all sequences of events, up to a given length, that two electors can encounter. Each event is called a
//! move. A move is, for example, a late timer, a late or lost request or response, a write that the server executes
//! long after its timeout, a watch event, or a stop.

use std::collections::HashSet;
use std::env;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use jiff::Timestamp;
use pintle_leaderelect::__private::machine::{Effect, Failure, Hint, Instruction, LockRequest, Machine, Signal};
use pintle_leaderelect::{Deadline, LeaderElectionConfig, LockState, Now, TimePrecision, Version};

const SECOND: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
struct Peer {
    machine: Machine,
    rate: f64,
    /// The request in flight, and the time of its timeout.
    request: Option<(LockRequest, Duration)>,
    answer: Option<Signal>,
    /// A write that has timed out, but that the server may still execute.
    stray: Option<LockRequest>,
    deadline: Option<Deadline>,
    drains: bool,
    lost: bool,
    stopped: bool,
    /// The latest version that the watch of this elector has reported.
    reported: u64,
}

#[derive(Clone, Debug)]
struct World {
    now: Duration,
    peers: [Peer; 2],
    stored: Option<LockState>,
    version: u64,
    broken: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Move {
    /// The timer of this elector fires, on time or late.
    Timer(usize),
    Serve(usize),
    Hear(usize),
    GiveUp(usize),
    /// The server executes a write of this elector that has timed out.
    ServeStray(usize),
    /// The watch of this elector reports the current state of the lock.
    Watch(usize),
    Stop(usize),
    Rest(usize),
}

impl Peer {
    fn new(name: &str, rate: f64) -> Self {
        let config = LeaderElectionConfig {
            identity: name.into(),
            lease_duration: 3 * SECOND,
            renew_deadline: 2 * SECOND,
            retry_period: SECOND,
            seed: Some(7),
            ..LeaderElectionConfig::default()
        };
        let machine = Machine::new(config, TimePrecision::Micros, on_clock(Duration::ZERO, rate));
        let (request, answer, stray, deadline) = (None, None, None, None);
        Self {
            machine,
            rate,
            request,
            answer,
            stray,
            deadline,
            drains: false,
            lost: false,
            stopped: false,
            reported: 0,
        }
    }

    fn leads(&self, now: Duration) -> bool {
        self.deadline.is_some_and(|deadline| !self.lost && !deadline.has_passed(on_clock(now, self.rate)))
    }

    /// Returns the simulated time at which the clock of this elector shows `local`.
    fn when(&self, local: Duration) -> Duration {
        local.div_f64(self.rate) + Duration::from_micros(1)
    }
}

fn on_clock(now: Duration, rate: f64) -> Now {
    let local = now.mul_f64(rate);
    Now { boot: local, monotonic: local, wall: Timestamp::UNIX_EPOCH + local }
}

impl World {
    fn new(rates: [f64; 2]) -> Self {
        let [a, b] = rates;
        let peers = [Peer::new("a", a), Peer::new("b", b)];
        Self { now: Duration::ZERO, peers, stored: None, version: 0, broken: None }
    }

    fn moves(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        for (index, peer) in self.peers.iter().enumerate() {
            let hints = self.version > peer.reported && self.stored.is_some();
            let may = [
                (peer.machine.wake_at().is_some(), Move::Timer(index)),
                (peer.request.is_some() && peer.answer.is_none(), Move::Serve(index)),
                (peer.answer.is_some(), Move::Hear(index)),
                (peer.request.is_some(), Move::GiveUp(index)),
                (peer.stray.is_some(), Move::ServeStray(index)),
                (hints, Move::Watch(index)),
                (!peer.stopped, Move::Stop(index)),
                (peer.deadline.is_some() && (peer.drains || peer.lost), Move::Rest(index)),
            ];
            moves.extend(may.into_iter().filter(|(may, _)| *may).map(|(_, next)| next));
        }
        moves
    }

    fn make(&mut self, next: Move) {
        match next {
            Move::Timer(index) => {
                let wake = self.peers[index].machine.wake_at().expect("a timer");
                self.now = self.now.max(self.peers[index].when(wake.monotonic));
                self.step(index, Signal::Tick);
            }
            Move::Serve(index) => {
                let (request, _) = self.peers[index].request.clone().expect("a request");
                let answer = self.serve(&request);
                self.peers[index].answer = Some(answer);
            }
            Move::Hear(index) => {
                let peer = &mut self.peers[index];
                peer.request = None;
                let answer = peer.answer.take().expect("an answer");
                self.step(index, answer);
            }
            Move::GiveUp(index) => {
                let peer = &mut self.peers[index];
                let (request, late) = peer.request.take().expect("a request");
                let is_read = request == LockRequest::Read;
                if peer.answer.take().is_none() && !is_read {
                    peer.stray = Some(request);
                }
                self.now = self.now.max(late);
                let none = Failure::unknown();
                self.step(index, if is_read { Signal::Read(Err(none)) } else { Signal::Written(Err(none)) });
            }
            Move::ServeStray(index) => {
                let stray = self.peers[index].stray.take().expect("a write");
                self.serve(&stray);
            }
            Move::Watch(index) => {
                self.peers[index].reported = self.version;
                let state = self.stored.clone().expect("a lock");
                self.step(index, Signal::Watch(Hint::Up));
                self.step(index, Signal::Watch(Hint::Changed(state)));
            }
            Move::Stop(index) => {
                self.peers[index].stopped = true;
                self.step(index, Signal::Stop);
            }
            Move::Rest(index) => {
                let peer = &mut self.peers[index];
                (peer.deadline, peer.drains, peer.lost) = (None, false, false);
                self.step(index, Signal::WorkEnded);
            }
        }
        if self.peers.iter().all(|peer| peer.leads(self.now)) {
            self.broken = Some("S1: both lead");
        }
    }

    fn serve(&mut self, request: &LockRequest) -> Signal {
        let current = self.stored.as_ref().map(|state| &state.version);
        let (record, answer) = match request {
            LockRequest::Read => return Signal::Read(Ok(self.stored.clone())),
            LockRequest::Create(record) => (record, current.is_none()),
            LockRequest::Update { base, record } => (record, current == Some(base)),
        };
        if !answer {
            return Signal::Written(Err(Failure { effect: Effect::Conflict, retry_after: None }));
        }
        self.version += 1;
        let version = Version { uid: "1".into(), resource_version: self.version.to_string() };
        self.stored = Some(LockState::new(version.clone(), record.clone()));
        Signal::Written(Ok(version))
    }

    fn step(&mut self, index: usize, signal: Signal) {
        let now = on_clock(self.now, self.peers[index].rate);
        for instruction in self.peers[index].machine.step(signal, now) {
            let works = self.peers[index].leads(self.now);
            let peer = &mut self.peers[index];
            match instruction {
                Instruction::Send { request, timeout } => {
                    if matches!(&request, LockRequest::Update { record, .. } if record.is_vacant()) && works {
                        self.broken = Some("S4: released while the work goes on");
                    }
                    let late = peer.when(now.monotonic + timeout);
                    peer.request = Some((request, late));
                }
                Instruction::StartLeading { deadline, .. } => {
                    if peer.deadline.is_some() {
                        self.broken = Some("S11: a term began before the last one ended");
                    }
                    peer.deadline = Some(deadline);
                }
                Instruction::Extend(deadline) => {
                    if peer.lost {
                        self.broken = Some("S7: a term that was lost goes on");
                    }
                    peer.deadline = Some(deadline);
                }
                Instruction::Drain(_) => peer.drains = true,
                Instruction::StopLeading(_) => peer.lost = true,
                _ => {}
            }
        }
    }

    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        format!("{self:?}").hash(&mut hasher);
        hasher.finish()
    }
}

/// Returns the number of explored states. If a rule is violated, returns the sequence of moves and the rule.
fn search(start: World, depth: usize) -> Result<usize, (Vec<Move>, &'static str)> {
    let mut seen = HashSet::from([start.fingerprint()]);
    let mut worlds = vec![(start, Vec::new())];
    for _ in 0..depth {
        let mut next_worlds = Vec::new();
        for (world, path) in worlds {
            for next in world.moves() {
                let mut world = world.clone();
                let path: Vec<Move> = path.iter().copied().chain([next]).collect();
                world.make(next);
                if let Some(broken) = world.broken {
                    return Err((path, broken));
                }
                if seen.insert(world.fingerprint()) {
                    next_worlds.push((world, path));
                }
            }
        }
        worlds = next_worlds;
    }
    Ok(seen.len())
}

/// Returns a state where one elector leads and the other elector has just observed the leader.
fn led(rates: [f64; 2]) -> World {
    let mut world = World::new(rates);
    let [timer, serve, hear] = [Move::Timer, Move::Serve, Move::Hear];
    let moves = [timer(0), serve(0), hear(0), serve(0), hear(0), timer(1), serve(1), hear(1)];
    moves.into_iter().for_each(|next| world.make(next));
    assert!(world.peers[0].leads(world.now) && !world.peers[1].leads(world.now));
    world
}

/// Returns the search depth. The environment variable `PINTLE_DEPTH` overrides the default.
fn depth(usual: usize) -> usize {
    env::var("PINTLE_DEPTH").ok().map_or(usual, |depth| depth.parse().expect("PINTLE_DEPTH"))
}

/// The clock rates stay within the limit for the default durations: one clock must run less than 1.5 times as fast as
/// the other.
const WITHIN: [f64; 2] = [1.0, 1.45];

#[test]
#[allow(clippy::print_stdout, reason = "prints the number of worlds")]
fn one_leader_in_all_sequences_of_seven_moves() {
    let worlds = search(led(WITHIN), depth(7)).unwrap_or_else(|(path, broken)| panic!("{broken} after {path:?}"));
    println!("{worlds} worlds from one that is led");
    assert!(worlds > 10_000, "{worlds}");
}

#[test]
#[allow(clippy::print_stdout, reason = "worlds explored")]
fn one_leader_in_all_sequences_from_the_start() {
    let worlds =
        search(World::new(WITHIN), depth(7)).unwrap_or_else(|(path, broken)| panic!("{broken} after {path:?}"));
    println!("{worlds} worlds from the first");
    assert!(worlds > 1_000, "{worlds}");
}

#[test]
fn search_finds_two_leaders_when_clock_rates_exceed_bound() {
    // The candidate observes the renewal. The candidate acquires the lock when the lease duration has passed on its
    // fast clock.
    let mut world = led([1.0, 1.7]);
    [Move::Timer(0), Move::Serve(0), Move::Hear(0), Move::Watch(1)].into_iter().for_each(|next| world.make(next));
    let (path, broken) = search(world, 6).unwrap_err();
    assert_eq!(broken, "S1: both lead", "{path:?}");
}
