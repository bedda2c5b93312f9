//! A world of electors that is driven by one seed: machines with clocks of their own, one lock, and a network that loses,
//! delays and forgets. It checks the rules of an election at every step and panics at the first that is broken.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use crate::client_go::ClientGo;
use jiff::Timestamp;
use pintle_leaderelect::machine::{Effect, Failure, Hint, Instruction, LockRequest, Machine, Signal};
use pintle_leaderelect::{
    Deadline, LeaderElectionConfig, LeaderElectionRecord, LockState, Now, Term, TimePrecision, Version,
};

pub(crate) const SECOND: u64 = 1_000_000;
/// The rounding of the clocks' arithmetic, in microseconds.
const SLACK: u64 = 5;

/// What may go wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chaos {
    pub(crate) nodes: usize,
    /// Clocks run between `1 - rate_error` and `1 + rate_error`.
    pub(crate) rate_error: f64,
    pub(crate) loss: f64,
    pub(crate) slow: f64,
    pub(crate) refused: f64,
    pub(crate) partitions: bool,
    pub(crate) pauses: bool,
    pub(crate) crashes: bool,
    pub(crate) stops: bool,
    pub(crate) wall_jumps: bool,
    pub(crate) hints: bool,
    /// Every second node is client-go's, or all are.
    pub(crate) client_go: Share,
    /// The lock is deleted and blanked by a stranger. Exclusion cannot hold then, all else must.
    pub(crate) tampering: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Share {
    None,
    Half,
    All,
}

/// Who decides for a node.
#[derive(Debug)]
enum Mind {
    Ours(Box<Machine>),
    ClientGo(Box<ClientGo>),
}

impl Mind {
    fn step(&mut self, signal: Signal, now: Now) -> Vec<Instruction> {
        match self {
            Self::Ours(machine) => machine.step(signal, now),
            Self::ClientGo(machine) => machine.step(signal, now),
        }
    }

    fn wake_at(&self) -> Option<Duration> {
        match self {
            Self::Ours(machine) => machine.wake_at(),
            Self::ClientGo(machine) => machine.wake_at(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct World {
    chaos: Chaos,
    /// Whether the lock keeps whole seconds only.
    seconds_only: bool,
    calm: bool,
    now: u64,
    rng: fastrand::Rng,
    lock: Option<Stored>,
    last_uid: u64,
    last_version: u64,
    last_token: Option<(String, u64)>,
    pub(crate) nodes: Vec<Node>,
    happenings: BinaryHeap<Reverse<(u64, u64)>>,
    details: Vec<Option<Happening>>,
    pub(crate) terms: usize,
    pub(crate) writes: usize,
    pub(crate) reads: usize,
}

#[derive(Clone, Debug)]
struct Stored {
    uid: u64,
    version: u64,
    record: LeaderElectionRecord,
    committed: u64,
}

#[derive(Debug)]
pub(crate) struct Node {
    identity: String,
    config: LeaderElectionConfig,
    mind: Mind,
    incarnation: u64,
    born: u64,
    rate: f64,
    wall_offset: i64,
    paused_until: u64,
    cut_off_until: u64,
    /// The request under way and when it was sent, on this node's clock.
    request: Option<(u64, LockRequest)>,
    requests: u64,
    /// When writes were sent that were stored, on this node's clock.
    stored: Vec<Duration>,
    work: Option<Work>,
    finished: bool,
}

#[derive(Debug)]
struct Work {
    term: Term,
    deadline: u64,
}

#[derive(Debug)]
enum Happening {
    Wake { node: usize, incarnation: u64 },
    Arrive { node: usize, incarnation: u64, id: u64, request: LockRequest, sent: u64 },
    Answer { node: usize, incarnation: u64, id: u64, signal: Signal },
    GiveUp { node: usize, incarnation: u64, id: u64 },
    Hint { node: usize, incarnation: u64, hint: Hint },
    WorkEnds { node: usize, incarnation: u64, token: Version },
    Trouble,
}

impl World {
    pub(crate) fn new(chaos: Chaos, seed: u64) -> Self {
        let mut world = Self {
            chaos,
            seconds_only: seed % 2 == 1,
            calm: false,
            now: 0,
            rng: fastrand::Rng::with_seed(seed),
            lock: None,
            last_uid: 0,
            last_version: 0,
            last_token: None,
            nodes: Vec::new(),
            happenings: BinaryHeap::new(),
            details: Vec::new(),
            terms: 0,
            writes: 0,
            reads: 0,
        };
        for index in 0..chaos.nodes {
            let node = world.new_node(index, 0);
            world.nodes.push(node);
            world.born(index);
        }
        world.later(SECOND, Happening::Trouble);
        world
    }

    /// Lets `seconds` pass.
    pub(crate) fn run(&mut self, seconds: u64) {
        let end = self.now + seconds * SECOND;
        while let Some(&Reverse((time, index))) = self.happenings.peek() {
            if time > end {
                break;
            }
            self.happenings.pop();
            self.now = self.now.max(time);
            let happening = self.details[index as usize].take();
            if let Some(happening) = happening {
                self.happen(happening);
            }
        }
        self.now = end;
    }

    /// From here on, nothing goes wrong any more.
    pub(crate) fn calm_down(&mut self) {
        self.calm = true;
        for node in &mut self.nodes {
            node.cut_off_until = 0;
        }
        for index in 0..self.nodes.len() {
            if self.nodes[index].finished {
                self.restart(index);
            }
        }
    }

    /// How many nodes hold a guard whose deadline has not come.
    pub(crate) fn leaders(&self) -> usize {
        self.nodes.iter().filter(|node| node.leads_at(self.now)).count()
    }

    fn new_node(&mut self, index: usize, incarnation: u64) -> Node {
        let rate = 1.0 + self.chaos.rate_error * (2.0 * self.rng.f64() - 1.0);
        let identity = format!("node-{index}-{incarnation}");
        let mut config = LeaderElectionConfig { identity: identity.as_str().into(), ..LeaderElectionConfig::default() };
        config.seed = Some(self.rng.u64(..));
        let wall_offset = self.rng.i64(-3_600..3_600) * SECOND as i64;
        let born = self.now;
        let start = Now { elapsed: Duration::ZERO, wall: wall(born, wall_offset) };
        let is_client_go = match self.chaos.client_go {
            Share::None => false,
            Share::Half => index % 2 == 1,
            Share::All => true,
        };
        // Half of the worlds keep the record in an annotation.
        let precision = if self.seconds_only { TimePrecision::Seconds } else { TimePrecision::Micros };
        let mind = match is_client_go {
            false => Mind::Ours(Box::new(Machine::new(config.clone(), precision, start))),
            true => Mind::ClientGo(Box::new(ClientGo::new(config.clone(), start))),
        };
        Node {
            mind,
            identity,
            config,
            incarnation,
            born,
            rate,
            wall_offset,
            paused_until: 0,
            cut_off_until: 0,
            request: None,
            requests: 0,
            stored: Vec::new(),
            work: None,
            finished: false,
        }
    }

    fn restart(&mut self, index: usize) {
        let incarnation = self.nodes[index].incarnation + 1;
        self.nodes[index] = self.new_node(index, incarnation);
        self.born(index);
    }

    fn born(&mut self, index: usize) {
        if self.chaos.hints {
            self.step(index, Signal::Watch(Hint::Up));
        }
        self.step(index, Signal::Tick);
    }

    fn happen(&mut self, happening: Happening) {
        // What concerns a paused node waits until it goes on; so does what it would have done by itself.
        if let Some((node, incarnation)) = happening.concerns() {
            if self.nodes[node].incarnation != incarnation {
                return;
            }
            if self.nodes[node].paused_until > self.now {
                let until = self.nodes[node].paused_until;
                return self.at(until, happening);
            }
        }
        match happening {
            Happening::Wake { node, .. } => self.step(node, Signal::Tick),
            Happening::Arrive { node, incarnation, id, request, sent } => {
                self.arrive(node, incarnation, id, request, sent);
            }
            Happening::Answer { node, id, signal, .. } => self.answer(node, id, signal),
            Happening::GiveUp { node, id, .. } => {
                let failure = Failure::unknown();
                let signal = match self.nodes[node].request {
                    Some((_, LockRequest::Read)) => Signal::Read(Err(failure)),
                    _ => Signal::Written(Err(failure)),
                };
                self.answer(node, id, signal);
            }
            Happening::Hint { node, hint, .. } => self.step(node, Signal::Watch(hint)),
            Happening::WorkEnds { node, token, .. } => self.end_work(node, &token),
            Happening::Trouble => self.trouble(),
        }
    }

    fn step(&mut self, index: usize, signal: Signal) {
        if self.nodes[index].finished {
            return;
        }
        let now = self.nodes[index].local(self.now);
        let work_ended = matches!(signal, Signal::WorkEnded);
        let instructions = self.nodes[index].mind.step(signal, now);
        let mut ended = None;
        for instruction in instructions {
            match instruction {
                Instruction::Send { request, timeout } => self.send(index, request, timeout),
                Instruction::NewLeader(_) => {}
                Instruction::StartLeading { term, deadline } => self.start(index, term, deadline),
                Instruction::Extend(deadline) => self.extend(index, deadline),
                Instruction::Drain => {
                    let token = self.nodes[index].work.as_ref().map(|work| work.term.token.clone());
                    let token = token.expect("a drain without a term");
                    let delay = self.rng.u64(0..4 * SECOND);
                    let incarnation = self.nodes[index].incarnation;
                    self.later(delay, Happening::WorkEnds { node: index, incarnation, token });
                }
                Instruction::StopLeading(_) => {
                    // None where the work had ended before the machine noticed that the deadline had come.
                    ended = self.nodes[index].work.as_ref().map(|work| work.term.token.clone());
                    assert!(ended.is_some() || work_ended, "stopped leading without leading");
                }
                Instruction::Finish => self.nodes[index].finished = true,
            }
        }
        if let Some(token) = ended {
            self.end_work(index, &token);
        }
        self.schedule_wake(index);
    }

    fn schedule_wake(&mut self, index: usize) {
        let node = &self.nodes[index];
        let Some(wake) = node.mind.wake_at().filter(|_| !node.finished) else { return };
        let incarnation = node.incarnation;
        // Timers fire late, never early.
        let at = node.global(wake) + self.rng.u64(1..2_000);
        self.at(at.max(self.now + 1), Happening::Wake { node: index, incarnation });
    }

    fn start(&mut self, index: usize, term: Term, deadline: Deadline) {
        assert!(self.nodes[index].work.is_none(), "S11: a term began while the work of the last one ran");
        let version: u64 = term.token.resource_version.parse().unwrap();
        if let Some((uid, last)) = &self.last_token {
            // Once a stranger breaks the exclusion, two terms may begin in either order. Their tokens still tell which is later.
            let ordered = *uid != term.token.uid || version > *last || self.chaos.tampering;
            assert!(ordered, "S8: token {version} after {last}");
        }
        self.last_token = Some((term.token.uid.clone(), version));
        self.terms += 1;
        let work = Work { term, deadline: self.nodes[index].global(deadline.elapsed) };
        self.nodes[index].work = Some(work);
        self.check_guard(index, deadline);
    }

    fn extend(&mut self, index: usize, deadline: Deadline) {
        let end = self.nodes[index].global(deadline.elapsed);
        let work = self.nodes[index].work.as_mut().expect("extended without leading");
        assert!(end > work.deadline, "a deadline moved back");
        work.deadline = end;
        self.check_guard(index, deadline);
    }

    fn check_guard(&mut self, index: usize, deadline: Deadline) {
        let node = &self.nodes[index];
        if let Mind::Ours(_) = node.mind {
            let sent = deadline.elapsed - node.config.renew_deadline;
            assert!(node.stored.contains(&sent), "S2: the deadline does not count from the sending of a stored write");
        }
        let now = self.now;
        let others = self.nodes.iter().filter(|other| other.identity != node.identity && other.leads_at(now));
        let others: Vec<_> = others.map(|other| &other.identity).collect();
        let exclusive = others.is_empty() || !node.leads_at(now) || self.chaos.tampering;
        assert!(exclusive, "S1: {} leads at {now}, and so does {others:?}", node.identity);
    }

    fn end_work(&mut self, index: usize, token: &Version) {
        if self.nodes[index].work.as_ref().is_some_and(|work| work.term.token == *token) {
            self.nodes[index].work = None;
            self.step(index, Signal::WorkEnded);
        }
    }

    fn send(&mut self, index: usize, request: LockRequest, timeout: Duration) {
        let (delay, lost) = self.network(index);
        let node = &mut self.nodes[index];
        assert!(node.request.is_none(), "two requests under way");
        let incarnation = node.incarnation;
        node.requests += 1;
        let id = node.requests;
        node.request = Some((id, request.clone()));
        let sent = self.now;
        let give_up = (timeout.as_micros() as f64 / node.rate) as u64 + 1;
        self.later(give_up, Happening::GiveUp { node: index, incarnation, id });
        if !lost {
            self.later(delay, Happening::Arrive { node: index, incarnation, id, request, sent });
        }
    }

    fn arrive(&mut self, index: usize, incarnation: u64, id: u64, request: LockRequest, sent: u64) {
        let refused = !self.calm && self.rng.f64() < self.chaos.refused;
        let signal = match request {
            LockRequest::Read => {
                self.reads += 1;
                let found = self.lock.as_ref().map(Stored::state);
                Signal::Read(if refused { Err(Failure::unknown()) } else { Ok(found) })
            }
            _ if refused => {
                let effect = if self.rng.bool() { Effect::None } else { Effect::Unknown };
                Signal::Written(Err(Failure { effect, retry_after: Some(Duration::from_secs(1)) }))
            }
            LockRequest::Create(record) => match self.lock {
                Some(_) => Signal::Written(Err(Failure { effect: Effect::Conflict, retry_after: None })),
                None => {
                    self.last_uid += 1;
                    Signal::Written(Ok(self.store(index, incarnation, record, sent)))
                }
            },
            LockRequest::Update { base, record } => match &self.lock {
                None => Signal::Written(Err(Failure { effect: Effect::NotFound, retry_after: None })),
                Some(stored) if stored.state().version != base => {
                    Signal::Written(Err(Failure { effect: Effect::Conflict, retry_after: None }))
                }
                Some(_) => Signal::Written(Ok(self.store(index, incarnation, record, sent))),
            },
        };
        let (delay, lost) = self.network(index);
        if !lost {
            self.later(delay, Happening::Answer { node: index, incarnation, id, signal });
        }
    }

    fn answer(&mut self, index: usize, id: u64, signal: Signal) {
        if self.nodes[index].request.as_ref().is_some_and(|(current, _)| *current == id) {
            self.nodes[index].request = None;
            self.step(index, signal);
        }
    }

    /// A write is done. The sender may be a former incarnation, or may have given it up long ago.
    fn store(&mut self, index: usize, incarnation: u64, record: LeaderElectionRecord, sent: u64) -> Version {
        self.writes += 1;
        let node = &mut self.nodes[index];
        let living = node.incarnation == incarnation;
        if let Some(old) = &self.lock
            && let Mind::Ours(_) = node.mind
            && living
        {
            check_write(node, old, &record, sent);
        }
        if living {
            let sent = node.local(sent).elapsed;
            node.stored.push(sent);
        }
        self.last_version += 1;
        let stored = Stored { uid: self.last_uid, version: self.last_version, record, committed: self.now };
        let state = stored.state();
        self.lock = Some(stored);
        self.hint(&Hint::Changed(state.clone()));
        state.version
    }

    fn hint(&mut self, hint: &Hint) {
        if !self.chaos.hints {
            return;
        }
        for node in 0..self.nodes.len() {
            let (delay, lost) = self.network(node);
            let incarnation = self.nodes[node].incarnation;
            if !lost {
                self.later(delay, Happening::Hint { node, incarnation, hint: hint.clone() });
            }
        }
    }

    /// How long a message takes, and whether it is lost.
    fn network(&mut self, index: usize) -> (u64, bool) {
        let quick = self.rng.u64(500..30_000);
        if self.calm {
            return (quick, false);
        }
        let slow = self.rng.f64() < self.chaos.slow;
        let delay = if slow { self.rng.u64(quick..8 * SECOND) } else { quick };
        let lost = self.rng.f64() < self.chaos.loss || self.nodes[index].cut_off_until > self.now;
        (delay, lost)
    }

    /// Once in a while, something goes wrong with someone.
    fn trouble(&mut self) {
        if self.calm {
            return;
        }
        let index = self.rng.usize(..self.nodes.len());
        let span = self.rng.u64(0..30 * SECOND);
        let chaos = self.chaos;
        match self.rng.u32(0..8) {
            0 if chaos.partitions => self.nodes[index].cut_off_until = self.now + span,
            1 if chaos.pauses => self.nodes[index].paused_until = self.now + span,
            2 if chaos.crashes => self.restart(index),
            3 if chaos.stops && self.nodes[index].finished => self.restart(index),
            3 if matches!(self.nodes[index].mind, Mind::ClientGo(_)) => {}
            3 if chaos.stops && self.nodes[index].paused_until <= self.now => self.step(index, Signal::Stop),
            4 if chaos.wall_jumps => self.nodes[index].wall_offset += self.rng.i64(-20..20) * SECOND as i64,
            5 if chaos.tampering => self.tamper(),
            _ => {}
        }
        let pause = self.rng.u64(0..6 * SECOND);
        self.later(pause, Happening::Trouble);
    }

    fn tamper(&mut self) {
        let Some(mut stored) = self.lock.take() else { return };
        if self.rng.bool() {
            return self.hint(&Hint::Deleted { uid: stored.uid.to_string() });
        }
        self.last_version += 1;
        stored.version = self.last_version;
        if self.rng.bool() {
            stored.record.holder_identity = String::new();
        }
        self.lock = Some(stored);
    }

    fn later(&mut self, delay: u64, happening: Happening) {
        self.at(self.now + delay, happening);
    }

    fn at(&mut self, time: u64, happening: Happening) {
        self.happenings.push(Reverse((time, self.details.len() as u64)));
        self.details.push(Some(happening));
    }
}

impl Happening {
    fn concerns(&self) -> Option<(usize, u64)> {
        match self {
            Self::Wake { node, incarnation }
            | Self::Answer { node, incarnation, .. }
            | Self::GiveUp { node, incarnation, .. }
            | Self::Hint { node, incarnation, .. }
            | Self::WorkEnds { node, incarnation, .. } => Some((*node, *incarnation)),
            Self::Arrive { .. } | Self::Trouble => None,
        }
    }
}

impl Stored {
    fn state(&self) -> LockState {
        let version = Version { uid: self.uid.to_string(), resource_version: self.version.to_string() };
        LockState { version, record: self.record.clone() }
    }
}

impl Node {
    fn local(&self, now: u64) -> Now {
        let elapsed = Duration::from_micros(((now - self.born) as f64 * self.rate) as u64);
        Now { elapsed, wall: wall(now, self.wall_offset) }
    }

    fn global(&self, elapsed: Duration) -> u64 {
        self.born + (elapsed.as_micros() as f64 / self.rate).ceil() as u64
    }

    fn leads_at(&self, now: u64) -> bool {
        self.work.as_ref().is_some_and(|work| now + SLACK < work.deadline)
    }
}

/// What must hold of a write to an existing lock.
fn check_write(node: &Node, old: &Stored, new: &LeaderElectionRecord, sent: u64) {
    let was = &old.record;
    let transitions = (was.leader_transitions, new.leader_transitions);
    if new.is_vacant() {
        assert_eq!(was.holder_identity, node.identity, "S4: released what another one held");
        assert!(node.work.is_none(), "S4: released while the work ran");
        assert_eq!(transitions.0, transitions.1, "S9: a release counted");
        return;
    }
    assert_eq!(new.holder_identity, node.identity);
    if was.holder_identity == new.holder_identity {
        assert_eq!(transitions.0, transitions.1, "S9: counted without a change");
        assert!(new.renew_time >= was.renew_time || node.work.is_none(), "S10: the renew time went back");
        if let Some(work) = &node.work {
            assert_eq!(new.acquire_time, work.term.record.acquire_time, "S10: the acquire time moved within a term");
        }
        return;
    }
    assert_eq!(transitions.0 + 1, transitions.1, "S9: a change did not count by one");
    if !was.is_vacant() {
        let seen = ((sent.saturating_sub(old.committed)) as f64 * node.rate) as u64 + SLACK;
        let needed = was.lease_duration_seconds as u64 * SECOND;
        assert!(seen >= needed, "S6: taken over after {seen} of {needed} µs");
    }
}

fn wall(now: u64, offset: i64) -> Timestamp {
    Timestamp::from_microsecond(1_800_000_000 * SECOND as i64 + now as i64 + offset).unwrap()
}
