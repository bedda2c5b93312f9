//! A simulated process that runs an elector and the leader's work. The elector is either this crate's elector or a
//! model of client-go's elector.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use pintle_leaderelect::__private::machine::{Failure, Instruction, LockRequest, Signal};
use pintle_leaderelect::{
    Clocks, Deadline, LeaderCallbacks, LeaderElectionConfig, LeaderElectionRecord, LeaderElector, Leadership, Lock,
    MultiLock, Version,
};
use pintle_meta::ObjectKey;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::client_go::ClientGo;
use super::clock::NodeClock;
use super::network::{Line, Request, Watcher, Write};
use super::{Holds, Share, Stored, World};

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) identity: String,
    pub(crate) incarnation: u64,
    pub(crate) is_client_go: bool,
    pub(crate) holds: Holds,
    pub(crate) clock: Arc<NodeClock>,
    pub(crate) renew_deadline: Duration,
    pub(crate) cut_off_until: Instant,
    pub(crate) answers_late: Duration,
    pub(crate) watch_lag: Duration,
    pub(crate) watchers: Vec<Watcher>,
    pub(crate) stop: CancellationToken,
    pub(crate) run: Option<JoinHandle<()>>,
    pub(crate) stored: Vec<Write>,
    pub(crate) guard: Option<Leadership>,
    /// The time until which the model of client-go's elector believes that it is the leader.
    pub(crate) belief: Option<Deadline>,
    pub(crate) works: bool,
    /// The latest end of each action with a permit, on the node's clock.
    pub(crate) effects: Vec<Duration>,
    /// The latest end of each action that was in progress when the machine was suspended. Such an action may outlast
    /// its term, because its timeout uses a clock that stops during a suspend. Only a fencing token could stop the
    /// action. Actions that outlast the term are counted, but are not treated as violations.
    pub(crate) slept: Vec<Duration>,
    pub(crate) last_leader: Option<String>,
    pub(crate) usurped: Option<Instant>,
    pub(crate) knows: Option<u64>,
    /// The observed versions of the lock, with the time of each first observation on the node's clock.
    pub(crate) observed: BTreeMap<u64, Duration>,
    /// The time when the node's last term ended, on the node's clock.
    pub(crate) rested: Option<Duration>,
}

impl Node {
    /// Returns `true` if the write that was sent at `sent` was stored. For a node that uses both halves, both halves
    /// must have stored this write.
    pub(crate) fn has_stored(&self, sent: Duration) -> bool {
        let other_half = |write: &Write| {
            let is_other = |other: &&Write| other.half != write.half && other.record == write.record;
            self.holds != Holds::Both || self.stored.iter().rev().any(|other| is_other(&other))
        };
        self.stored.iter().rev().any(|write| write.sent == sent && other_half(write))
    }

    pub(crate) fn has_written(&self, record: &LeaderElectionRecord) -> bool {
        self.stored.iter().rev().any(|write| is_same_term(&write.record, record))
    }

    pub(crate) fn observe(&mut self, version: &Version) {
        let now = self.clock.monotonic();
        self.observed.entry(version.resource_version.parse().unwrap()).or_insert(now);
    }

    /// Returns `true` if a coordinated node may send a write at `sent`. When the observed version of the lock expires,
    /// the node must not write for one lease duration. Nodes record no versions during a term or a release.
    pub(crate) fn has_in_time(&self, sent: Duration, stored: &Stored) -> bool {
        let Some(observed) = self.observed.get(&stored.version).copied() else { return false };
        let was_unaware = self.rested.is_some_and(|rested| observed < rested + self.renew_deadline);
        let (own, slack) = (Duration::from_secs(15), Duration::from_micros(5));
        let expires = observed + stored.record.lease_duration(own);
        was_unaware || sent < expires + slack || sent + slack >= expires + own
    }

    pub(crate) fn leads(&self) -> bool {
        let guarded = self.guard.as_ref().is_some_and(|guard| guard.check().is_ok());
        // A halted process does nothing until it resumes, and then acts on the last state that it has observed.
        let believes = self.belief.is_some_and(|deadline| self.clock.monotonic() < deadline.monotonic);
        guarded || self.has_effects() || (believes && !self.clock.is_halted())
    }

    pub(crate) fn has_effects(&self) -> bool {
        !self.effects.is_empty() && {
            let now = self.clock.monotonic();
            self.effects.iter().any(|end| now < *end)
        }
    }

    /// Disconnects the node from the network for `span`. No message from or to the node arrives during this time.
    pub(crate) fn cut_off_for(&mut self, span: Duration) {
        self.cut_off_until = Instant::now() + span;
        self.watchers.clear();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.run.as_ref().is_some_and(JoinHandle::is_finished)
    }
}

pub(crate) fn is_same_term(one: &LeaderElectionRecord, other: &LeaderElectionRecord) -> bool {
    let term = |record: &LeaderElectionRecord| (record.acquire_time, record.leader_transitions);
    one.holder_identity == other.holder_identity && term(one) == term(other)
}

impl World {
    /// Starts a new process on the machine `index`, whose previous process was killed at an await point.
    pub(crate) fn start(self: &Arc<Self>, index: usize, incarnation: u64) {
        let mut state = self.lock();
        let rate = 1.0 + self.chaos.rate_error * (2.0 * state.rng.f64() - 1.0);
        let offset = if self.chaos.coordinated {
            // The clock is initially off by less than a second.
            self.start.elapsed().as_secs() as i64 + state.rng.i64(-1..=1)
        } else {
            state.rng.i64(-3_600..3_600)
        };
        let clock = Arc::new(NodeClock::new(rate, offset));
        let identity = format!("node-{index}-{incarnation}");
        let config = LeaderElectionConfig {
            identity: identity.clone(),
            seed: Some(state.rng.u64(..)),
            clocks: clock.clone(),
            coordinated: self.chaos.coordinated,
            ..LeaderElectionConfig::default()
        };
        let is_client_go = match self.chaos.client_go {
            Share::None => false,
            Share::Half => index % 2 == 1,
            Share::All => true,
        };
        let node = Node {
            identity,
            incarnation,
            is_client_go,
            holds: self.chaos.locks.of(index),
            clock: clock.clone(),
            renew_deadline: config.renew_deadline,
            cut_off_until: self.start,
            answers_late: Duration::ZERO,
            watch_lag: Duration::ZERO,
            watchers: Vec::new(),
            stop: CancellationToken::new(),
            run: None,
            stored: Vec::new(),
            guard: None,
            belief: None,
            works: false,
            effects: Vec::new(),
            slept: Vec::new(),
            last_leader: None,
            usurped: None,
            knows: None,
            observed: BTreeMap::new(),
            rested: None,
        };
        let holds = node.holds;
        let stop = node.stop.clone();
        match state.nodes.get_mut(index) {
            Some(old) => {
                let old = std::mem::replace(old, node);
                if let Some(run) = old.run {
                    run.abort();
                }
            }
            None => state.nodes.push(node),
        }
        let line = |half: usize| {
            let key = ObjectKey::new("kube-system", "lock");
            Line { world: self.clone(), key, half, node: index, incarnation, clock: clock.clone() }
        };
        let process = Process { world: self.clone(), index, incarnation };
        state.nodes[index].run = Some(match (holds, is_client_go) {
            (Holds::Half(half), false) => tokio::spawn(process.run(line(half), clock, config, stop)),
            (Holds::Both, false) => tokio::spawn(process.run(MultiLock::new(line(0), line(1)), clock, config, stop)),
            (Holds::Half(half), true) => tokio::spawn(process.run_client_go(line(half), config, stop)),
            (Holds::Both, true) => panic!("client-go's MultiLock is not modelled"),
        });
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Process {
    world: Arc<World>,
    index: usize,
    incarnation: u64,
}

impl Process {
    /// Updates the state of the node, unless a newer process is running on the node.
    fn update(&self, change: impl FnOnce(&mut super::State, usize)) {
        let mut state = self.world.lock();
        if state.nodes[self.index].incarnation == self.incarnation {
            change(&mut state, self.index);
            state.exclusion(&self.world);
        }
    }

    async fn run<L: Lock>(self, lock: L, clock: Arc<NodeClock>, config: LeaderElectionConfig, stop: CancellationToken) {
        let mut elector = LeaderElector::new(lock, config).unwrap();
        let (stopped, seen) = (self.clone(), self.clone());
        let callbacks = LeaderCallbacks {
            on_stopped_leading: Box::new(move |end| stopped.update(|state, node| state.stopped(node, &end.reason))),
            on_new_leader: Box::new(move |leader| seen.update(|state, node| state.new_leader(node, leader))),
            ..LeaderCallbacks::new(move |leadership: Leadership| self.clone().work(leadership, clock.clone()))
        };
        elector.run(&stop, callbacks).await;
    }

    /// Runs the work of a term, which makes steps and sometimes starts an action that continues independently.
    async fn work(self, leadership: Leadership, clock: Arc<NodeClock>) {
        self.update(|state, node| state.started(node, &leadership));
        let _rest = Rest(&self);
        loop {
            self.update(|state, node| state.at_work(node));
            let (step, effect, drain) = {
                let rng = &mut self.world.lock().rng;
                (rng.u64(200..900), rng.u8(0..8) == 0, rng.u64(0..4_000))
            };
            if effect && let Ok(permit) = leadership.permit() {
                let (process, clock) = (self.clone(), clock.clone());
                // The action takes at most the remaining time of its permit, like a request with a timeout.
                let span = Duration::from_millis(drain).min(permit.remaining());
                let end = clock.monotonic() + span;
                self.update(|state, node| state.nodes[node].effects.push(end));
                tokio::spawn(async move {
                    clock.pass(span).await;
                    process.update(|state, node| {
                        state.nodes[node].effects.retain(|other| *other != end);
                        state.nodes[node].slept.retain(|other| *other != end);
                    });
                    drop(permit);
                });
            }
            tokio::select! {
                biased;
                () = leadership.cancelled() => {
                    clock.pass(Duration::from_millis(drain)).await;
                    return self.update(|state, node| state.at_work(node));
                }
                () = clock.pass(Duration::from_millis(step)) => {}
            }
        }
    }

    async fn run_client_go(self, line: Line, mut config: LeaderElectionConfig, stop: CancellationToken) {
        let (clock, line) = (line.clock.clone(), Arc::new(line));
        let is_old = self.world.chaos.client_go_is_old;
        if is_old {
            config.lease_duration = Duration::from_secs(6);
            (config.renew_deadline, config.retry_period) = (Duration::from_secs(4), Duration::from_secs(1));
        }
        let mut machine = ClientGo::new(config, is_old, clock.now());
        let mut stopped = false;
        let mut request: Option<Pin<Box<dyn Future<Output = Signal> + Send>>> = None;
        let mut signal = Signal::Tick;
        loop {
            for instruction in machine.step(signal, clock.now()) {
                match instruction {
                    Instruction::Send { request: next, timeout } => {
                        request = Some(Box::pin(exchange(line.clone(), next, timeout)));
                    }
                    Instruction::StartLeading { deadline, .. } | Instruction::Extend(deadline) => {
                        self.update(|state, node| state.nodes[node].belief = Some(deadline));
                    }
                    Instruction::StopLeading(_) => self.update(|state, node| state.nodes[node].belief = None),
                    Instruction::Finish => return,
                    _ => {}
                }
            }
            let wake = machine.wake_at().unwrap_or(Duration::MAX);
            signal = tokio::select! {
                biased;
                signal = async { request.as_mut().expect("no request").await }, if request.is_some() => {
                    request = None;
                    signal
                }
                () = stop.cancelled(), if !stopped => {
                    stopped = true;
                    Signal::Stop
                }
                () = clock.sleep_until(Deadline::monotonic(wake)) => Signal::Tick,
            };
        }
    }
}

async fn exchange(line: Arc<Line>, request: LockRequest, timeout: Duration) -> Signal {
    let read = request == LockRequest::Read;
    let request = match request {
        LockRequest::Read => Request::Get,
        LockRequest::Create(record) => Request::Create(record),
        LockRequest::Update { base, record } => Request::Update(base, record),
    };
    let answer = tokio::select! {
        biased;
        answer = line.call(request) => answer.map_err(|error| Failure::from(&error)),
        () = line.clock.pass(timeout) => Err(Failure::unknown()),
    };
    if read {
        Signal::Read(answer)
    } else {
        Signal::Written(answer.map(|state| state.expect("a write returns the stored state").version))
    }
}

/// Records the end of the leader's work when dropped, even if the work has not finished.
struct Rest<'a>(&'a Process);

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        self.0.update(|state, node| state.nodes[node].works = false);
    }
}
