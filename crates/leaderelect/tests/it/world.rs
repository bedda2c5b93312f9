//! A simulated cluster of electors, which is called a world. The seed determines all events in a world. A world
//! contains processes with separate clocks, a lock (possibly a `MultiLock`), and a network that loses, delays and
//! duplicates messages. The simulation runs the real elector with its tasks, guards and timers. The [rules](rules) are
//! checked at each request and response, and at each step of the leader's work.

pub(crate) mod clock;
mod control_plane;
mod network;
mod node;
mod rules;
pub(crate) mod seeds;
pub(crate) mod weather;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pintle_leaderelect::{LeaderElectionRecord, LockState, Version};
use tokio::time::Instant;

use node::Node;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Chaos {
    pub(crate) nodes: usize,
    /// The maximum deviation of a clock's rate from 1.
    pub(crate) rate_error: f64,
    pub(crate) loss: f64,
    pub(crate) slow: f64,
    pub(crate) refused: f64,
    /// The probability that the network sends a write twice and the client receives only the second response.
    pub(crate) resent: f64,
    pub(crate) partitions: bool,
    /// Whether processes are stopped for some time, as with SIGSTOP.
    pub(crate) pauses: bool,
    /// Whether machines are suspended. Some of these machines are paused virtual machines, where only the wall clock
    /// keeps running.
    pub(crate) suspends: bool,
    pub(crate) crashes: bool,
    pub(crate) stops: bool,
    /// Whether wall clocks are set to the wrong time. This fault cannot be combined with `suspends`, because a paused
    /// virtual machine with a wrong wall clock has no correct clock.
    pub(crate) wall_jumps: bool,
    pub(crate) watches: bool,
    pub(crate) locks: Locks,
    /// The nodes that run the model of client-go's elector.
    pub(crate) client_go: Share,
    /// Whether client-go's electors are stopped during the simulation. A stopped elector of client-go releases the
    /// lock.
    pub(crate) client_go_stops: bool,
    /// Whether client-go's electors are older than 1.27 and have shorter durations than this crate's electors.
    pub(crate) client_go_is_old: bool,
    /// Whether another program sometimes deletes the lock or clears its record. After such a change of the lock, two
    /// nodes may lead at the same time, but all other rules still apply.
    pub(crate) tampering: bool,
    /// Whether another program deletes the lock after all running contenders have observed it.
    pub(crate) deletions: bool,
    /// Whether other programs write the lock object without changing its record.
    pub(crate) touches: bool,
    /// Whether the control plane selects the leader. With coordinated elections, the wall clocks of the machines differ
    /// by at most two seconds.
    pub(crate) coordinated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Share {
    None,
    Half,
    All,
}

/// The locks that the nodes use: a single lock, or one or both locks (halves) of a `MultiLock`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Locks {
    One,
    Both,
    /// The first rollout of a migration, where every second node uses only the primary half.
    PrimaryOrBoth,
    /// The second rollout of a migration, where every second node uses only the secondary half.
    BothOrSecondary,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Holds {
    Half(usize),
    Both,
}

impl Locks {
    pub(crate) fn of(self, node: usize) -> Holds {
        match (self, node % 2) {
            (Self::One, _) | (Self::PrimaryOrBoth, 1) => Holds::Half(0),
            (Self::BothOrSecondary, 1) => Holds::Half(1),
            _ => Holds::Both,
        }
    }
}

#[derive(Debug)]
pub(crate) struct World {
    chaos: Chaos,
    seed: u64,
    /// Whether each half stores times in whole seconds.
    seconds_only: [bool; 2],
    start: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(crate) struct State {
    rng: fastrand::Rng,
    calm: bool,
    /// Whether another program may cause two leaders, in which case terms may begin in any order.
    tampering: bool,
    coordinated: bool,
    /// The node that the control plane has selected.
    eldest: usize,
    halves: [Option<Stored>; 2],
    last_uid: u64,
    last_version: u64,
    last_term: Option<Version>,
    nodes: Vec<Node>,
    broken: Option<String>,
    terms: usize,
    writes: usize,
    reads: usize,
    cuts: usize,
    /// The number of actions that were in progress both when the leader's machine was suspended and while another
    /// contender led.
    outlived: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Stored {
    uid: u64,
    version: u64,
    record: LeaderElectionRecord,
    committed: Instant,
}

impl Stored {
    fn state(&self) -> LockState {
        let version = Version { uid: self.uid.to_string(), resource_version: self.version.to_string() };
        LockState::new(version, self.record.clone())
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally {
    pub(crate) terms: usize,
    pub(crate) writes: usize,
    pub(crate) reads: usize,
    pub(crate) cuts: usize,
    pub(crate) outlived: usize,
}

pub(crate) fn in_world<T>(chaos: Chaos, seed: u64, story: impl AsyncFnOnce(&Arc<World>) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut rng = fastrand::Rng::with_seed(seed);
        let seconds_only =
            if chaos.locks == Locks::One { [rng.bool() && !chaos.coordinated; 2] } else { [true, false] };
        let state = State {
            rng,
            calm: false,
            tampering: chaos.tampering,
            coordinated: chaos.coordinated,
            eldest: 0,
            halves: [None, None],
            last_uid: 0,
            last_version: 0,
            last_term: None,
            nodes: Vec::new(),
            broken: None,
            terms: 0,
            writes: 0,
            reads: 0,
            cuts: 0,
            outlived: 0,
        };
        let world = Arc::new(World { chaos, seed, seconds_only, start: Instant::now(), state: Mutex::new(state) });
        for index in 0..chaos.nodes {
            world.start(index, 0);
        }
        if chaos.coordinated {
            tokio::spawn(world.clone().choose());
        }
        let ended = story(&world).await;
        world.check();
        ended
    })
}

impl World {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A violated rule panics while this lock is held. Ignore the poison flag, so that the other tasks can finish
        // after this panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the world for `seconds` with faults.
    ///
    /// # Panics
    ///
    /// Panics with the first violation of a [rule](rules).
    pub(crate) async fn run(self: &Arc<Self>, seconds: u64) {
        let end = Instant::now() + Duration::from_secs(seconds);
        loop {
            self.check();
            let pause = Duration::from_millis(self.lock().rng.u64(0..6_000));
            if Instant::now() + pause >= end {
                tokio::time::sleep_until(end).await;
                return self.check();
            }
            tokio::time::sleep(pause).await;
            self.trouble();
        }
    }

    fn check(&self) {
        let mut state = self.lock();
        state.exclusion(self);
        state.see_panics();
        if let Some(broken) = &state.broken {
            panic!("{broken} (seed {})", self.seed);
        }
    }

    pub(crate) fn calm_down(self: &Arc<Self>) {
        let finished: Vec<_> = {
            let mut state = self.lock();
            state.calm = true;
            for node in &mut state.nodes {
                node.cut_off_until = self.start;
                node.watch_lag = Duration::ZERO;
            }
            let finished = state.nodes.iter().enumerate().filter(|(_, node)| node.has_ended());
            finished.map(|(index, node)| (index, node.incarnation)).collect()
        };
        finished.into_iter().for_each(|(index, incarnation)| self.start(index, incarnation + 1));
    }

    pub(crate) fn leaders(&self) -> usize {
        self.lock().nodes.iter().filter(|node| node.leads()).count()
    }

    pub(crate) fn tally(&self) -> Tally {
        let state = self.lock();
        let State { terms, writes, reads, cuts, outlived, .. } = *state;
        Tally { terms, writes, reads, cuts, outlived }
    }

    pub(crate) fn leader(&self) -> usize {
        self.lock().nodes.iter().position(Node::leads).expect("a leader")
    }

    pub(crate) fn change(&self, index: usize, change: impl FnOnce(&mut Node)) {
        change(&mut self.lock().nodes[index]);
    }

    fn trouble(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.calm {
            return;
        }
        let chaos = self.chaos;
        let index = state.rng.usize(..chaos.nodes);
        let span = Duration::from_millis(state.rng.u64(0..30_000));
        let (dice, coin) = (state.rng.u32(0..9), state.rng.bool());
        let jump = state.rng.i64(-20..20);
        let until = Instant::now() + span;
        let mut cuts = 0;
        let node = &mut state.nodes[index];
        let restart = match dice {
            0 if chaos.partitions => {
                cuts += usize::from(node.cut_off_until <= Instant::now() && !node.has_ended());
                node.cut_off_for(span);
                false
            }
            1 if chaos.pauses => {
                node.clock.halt(clock::Halt::Stopped, until);
                false
            }
            2 if chaos.crashes => true,
            3 if chaos.stops => {
                if (!node.is_client_go || chaos.client_go_stops) && !node.clock.is_halted() {
                    node.stop.cancel();
                }
                node.has_ended()
            }
            4 if chaos.wall_jumps => {
                node.clock.jump_wall(jump);
                false
            }
            5 if chaos.tampering => {
                self.tamper(&mut state);
                false
            }
            5 if chaos.deletions => {
                state.delete();
                false
            }
            6 if chaos.suspends => {
                let how = if coin { clock::Halt::Suspended } else { clock::Halt::VmPaused };
                if node.clock.halt(how, until) {
                    cuts += usize::from(!node.has_ended());
                    node.slept.append(&mut node.effects);
                }
                false
            }
            7 if chaos.watches => {
                node.watch_lag = if coin { span } else { Duration::ZERO };
                if !coin {
                    node.watchers.clear();
                }
                false
            }
            8 if chaos.touches => {
                self.touch(&mut state);
                false
            }
            _ => false,
        };
        state.cuts += cuts;
        let incarnation = state.nodes[index].incarnation;
        drop(state);
        if restart {
            self.start(index, incarnation + 1);
        }
    }

    fn tamper(&self, state: &mut State) {
        let half = if self.chaos.locks == Locks::One { 0 } else { state.rng.usize(..2) };
        let Some(mut stored) = state.halves[half].take() else { return };
        let action = state.rng.u8(0..4);
        if action == 0 {
            return state.tell_watchers(half, None, &stored);
        }
        match action {
            1 => stored.record.holder_identity = String::new(),
            // A record with another transition count does not belong to the term of any elector.
            2 => stored.record.leader_transitions += 1,
            _ => {}
        }
        if action < 3 {
            stored.committed = Instant::now();
        }
        state.rewrite(half, stored);
    }

    fn touch(&self, state: &mut State) {
        let half = if self.chaos.locks == Locks::One { 0 } else { state.rng.usize(..2) };
        if let Some(stored) = state.halves[half].take() {
            state.rewrite(half, stored);
        }
    }
}

impl State {
    fn rewrite(&mut self, half: usize, mut stored: Stored) {
        self.last_version += 1;
        stored.version = self.last_version;
        self.tell_watchers(half, Some(&stored), &stored);
        self.halves[half] = Some(stored);
    }

    fn delete(&mut self) {
        let Some(stored) = self.halves[0].take() else { return };
        if self.nodes.iter().all(|node| node.knows == Some(stored.uid)) {
            return self.tell_watchers(0, None, &stored);
        }
        self.halves[0] = Some(stored);
    }
}
