//! A state machine that makes all decisions of an elector, without I/O, clocks or tasks.
//!
//! The caller passes signals and the current time to a [`Machine`], and executes the instructions that it returns. The
//! `Machine` makes all decisions that affect safety, so a test can simulate many electors from one seed.
//!
//! Invariants:
//!
//! - The deadline of a term is `renew_deadline` after the last successful write was *sent*.
//! - When the `Machine` observes a deletion, or another record or uid, it ends the term before it does anything else. A
//!   term never resumes, and the next term begins only after the work of the previous term has ended.
//! - Each write replaces a version that the `Machine` has observed. After the leader's work has ended, the `Machine`
//!   releases the lock if the last read returned a record of the same term.

mod departing;
mod following;
mod leading;
mod observation;
mod releasing;
mod signal;
mod stamps;

use std::time::Duration;

use pintle_ratelimit::{Backoff, Jitter};

use crate::clocks::{Deadline, Now};
use crate::config::LeaderElectionConfig;
use crate::record::{LeaderElectionRecord, LockState, TimePrecision, Version};

pub use signal::{Effect, Failure, Hint, Instruction, LockRequest, Preference, Signal};

use observation::Observation;
use stamps::Stamp;

use crate::term::{EndReason, Term};

/// A state machine that contends for one lock.
#[derive(Clone, Debug)]
pub struct Machine {
    config: LeaderElectionConfig,
    precision: TimePrecision,
    retries: Backoff,
    jitter: Jitter,
    first_renewal: Duration,
    /// The granularity of renewal times on the monotonic clock, or zero to allow any time. Renewals are sent at multiples
    /// of `grain`.
    grain: Duration,
    /// The batch in which this `Machine` sends its renewals, from 0 to 3.
    batch: u128,
    phase: Phase,
    stopping: bool,
    watch_is_up: bool,
    /// Whether the watch is open and has not missed a change that a read has returned.
    watching: bool,
    /// The latest state that the watch reported while this elector held the lock.
    last_hint: Option<Observation>,
    /// The free lock that the watch has reported. The next write replaces this lock at the time `next_try`.
    vacancy: Option<LockState>,
    sent: Option<Sent>,
    /// The time of the next tick, unless a signal arrives first.
    next_try: Duration,
    observed: Option<Observation>,
    /// The time until which a deleted, replaced or restored lock is treated as held.
    held_until: Duration,
    /// The time at which the lock was first observed to be missing.
    absent_since: Option<Duration>,
    preference: Preference,
    reported: Option<String>,
    /// Failed writes that the server may have stored anyway. For example, the client may send a write twice, and the
    /// server may store the first attempt and reject the second one. The server has stored at most one of these writes,
    /// because each version can be replaced only once. These writes are forgotten when a term begins or ends.
    in_doubt: Vec<Doubt>,
    /// The uid and the record of the lock in the last term of this elector. No contender leads while the lock still
    /// contains this record.
    last_term: Option<(String, LeaderElectionRecord)>,
    /// The time in the last record that this elector sent.
    last_written: Option<Stamp>,
    /// The earliest time of the next write, which prevents records with times ahead of the clock.
    write_not_before: Duration,
    slow_paths: u64,
}

#[derive(Clone, Debug)]
enum Phase {
    Following,
    Leading(Leading),
    Lost,
    Releasing(Releasing),
    Finished,
}

#[derive(Clone, Debug)]
struct Leading {
    term: Term,
    base: LockState,
    /// The time at which the last write that candidates observe as a change was sent. The term's deadline is computed
    /// from this time.
    counted: Now,
    deadline: Deadline,
    last_sent: Duration,
    conflicts: u32,
    /// Whether another program has written the lock object during this term and may write it again.
    had_conflict: bool,
    /// Whether the `Machine` must read the lock before its next write.
    read_back: bool,
    /// Whether the control plane prefers another holder. A yielding elector stops renewing, and the term ends at its
    /// deadline or when the leader's work has ended.
    yielding: bool,
    /// Whether the lock must be released after the leader's work, even if `release_on_cancel` is `false`.
    gives_up: bool,
    /// The lock of another contender, as reported by the watch. `None` after a read has returned the current state of the
    /// lock.
    foreign: Option<Box<Observation>>,
}

#[derive(Clone, Debug)]
struct Releasing {
    /// The term whose lock is being released, or `None` if it is unknown whether a write began a term.
    term: Option<Term>,
    until: Duration,
    conflicts: u32,
    /// The write that releases the lock, or `None` until a read has returned this elector's record.
    write: Option<LockRequest>,
}

#[derive(Clone, Debug)]
struct Sent {
    request: LockRequest,
    purpose: Purpose,
    at: Now,
    /// Whether this request creates the lock, and another contender's lock was observed while the request was in flight.
    overtaken: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Contend,
    Renew,
    Release,
}

#[derive(Clone, Debug)]
struct Doubt {
    /// The object version that this write replaces, or `None` if the write creates the lock.
    base: Option<Version>,
    record: LeaderElectionRecord,
    sent: Now,
}

/// The number of batches into which a group divides its renewals.
const BATCHES: u32 = 4;

/// The maximum number of writes with an unknown result that the `Machine` remembers. When this limit is reached, the
/// `Machine` forgets the oldest write. If the server has stored a forgotten write, the `Machine` treats its record as
/// another contender's record. Forgetting a write can delay the next term, but it cannot cause two leaders.
const MAX_DOUBTS: usize = 8;

/// The maximum random delay before a candidate acquires an expired lock. With this delay, most of a hundred candidates
/// observe the next leader before they try to acquire the lock.
const EXPIRY_JITTER: Duration = Duration::from_millis(120);

/// The maximum random delay before a candidate acquires a lock that the watch has reported as free. With this delay, most
/// candidates observe the next leader before they try to acquire the lock.
const HINT_JITTER: Duration = Duration::from_millis(40);

impl Machine {
    /// Creates a contender that tries to acquire the lock immediately.
    ///
    /// `config` must be [valid](LeaderElectionConfig::validate). `precision` is the precision of the times that the
    /// lock stores.
    pub fn new(config: LeaderElectionConfig, precision: TimePrecision, now: Now) -> Self {
        let seed = config.seed();
        Self {
            retries: Backoff::new(config.retries(), seed),
            // Use a second seed so that the two random sequences differ.
            jitter: Jitter::new(!seed),
            first_renewal: config.retry_period,
            grain: Duration::ZERO,
            batch: 0,
            config,
            precision,
            phase: Phase::Following,
            stopping: false,
            watch_is_up: false,
            watching: false,
            last_hint: None,
            vacancy: None,
            sent: None,
            next_try: now.monotonic,
            observed: None,
            held_until: Duration::ZERO,
            absent_since: None,
            preference: Preference::default(),
            reported: None,
            in_doubt: Vec::new(),
            last_term: None,
            last_written: None,
            write_not_before: Duration::ZERO,
            slow_paths: 0,
        }
    }

    /// Sets the delay between the beginning of a term and its first renewal, as a fraction of the retry period. Choose
    /// different fractions for `Machine`s whose terms begin at the same time, to spread their renewals. The default
    /// is 1.
    pub fn begin_renewals_at(&mut self, share: f64) {
        self.first_renewal = self.config.retry_period.mul_f64(share.clamp(0.0, 1.0));
    }

    /// Rounds renewal times down to multiples of a quarter of the retry period. Rounding lets many `Machine`s send
    /// their renewals in batches and share a timer. Rounding has no effect if it could place two renewals less than a
    /// second apart.
    pub fn gather_renewals(&mut self) {
        let grain = self.config.retry_period / BATCHES;
        // A renewal within a second of the previous renewal does not extend the term.
        if self.config.retry_period - grain > Duration::from_secs(1) {
            self.grain = grain;
        }
    }

    /// Returns the time of the first renewal in a term that began with a write at `sent`.
    fn first_renewal_at(&mut self, sent: Duration) -> Duration {
        let at = self.rounded(sent + self.first_renewal);
        self.batch = self.batch_at(at);
        at
    }

    /// Returns the time of the renewal after a renewal at `sent`. A slow response can merge the batches of a group. To
    /// separate them again, a `Machine` outside of its batch renews one grain earlier until it is in its batch.
    fn renewal_after(&self, sent: Duration) -> Duration {
        let at = self.rounded(sent + self.config.retry_period);
        let earlier = at.saturating_sub(self.grain);
        let is_late = self.batch_at(at) != self.batch && earlier > sent + Duration::from_secs(1);
        if is_late { earlier } else { at }
    }

    fn rounded(&self, due: Duration) -> Duration {
        let early = due.as_nanos().checked_rem(self.grain.as_nanos()).unwrap_or_default();
        due.saturating_sub(Duration::from_nanos_u128(early))
    }

    fn batch_at(&self, at: Duration) -> u128 {
        at.as_nanos().checked_div(self.grain.as_nanos()).unwrap_or_default() % u128::from(BATCHES)
    }

    /// Makes the `Machine` release the lock after the leader's work has ended, even if `release_on_cancel` is `false`.
    /// The owner of the `Machine` must call this method before it passes [`Signal::WorkEnded`].
    pub(crate) fn give_up(&mut self) {
        if let Phase::Leading(leading) = &mut self.phase {
            leading.gives_up = true;
        }
    }

    /// Processes one signal, and returns the instructions for the owner to execute in order.
    pub fn step(&mut self, signal: Signal, now: Now) -> Vec<Instruction> {
        let mut instructions = Vec::new();
        // Check the deadline before processing the signal, because the term may already have expired.
        if let Phase::Leading(leading) = &self.phase
            && leading.deadline.has_passed(now)
        {
            self.lose(EndReason::Deadline, now, &mut instructions);
        }
        match signal {
            Signal::Tick => {}
            Signal::Stop => self.stop(now, &mut instructions),
            Signal::WorkEnded => self.work_ended(now),
            Signal::Watch(hint) => self.watch(hint, now, &mut instructions),
            Signal::Prefer(preference) => self.prefer(preference, now, &mut instructions),
            Signal::Read(answer) => {
                if let Some(sent) = self.sent.take() {
                    self.read(sent, answer, now, &mut instructions);
                }
            }
            Signal::Written(answer) => {
                if let Some(sent) = self.sent.take() {
                    self.written(sent, answer, now, &mut instructions);
                }
            }
        }
        self.act(now, &mut instructions);
        instructions
    }

    /// Returns the time by which the owner must call [`Machine::step`] with [`Signal::Tick`] if no other signal arrives
    /// first. Returns `None` if no tick is required.
    pub fn wake_at(&self) -> Option<Deadline> {
        let next_try = self.sent.is_none().then_some(self.next_try);
        match &self.phase {
            Phase::Finished => None,
            Phase::Lost => None,
            Phase::Following => next_try.map(Deadline::monotonic),
            Phase::Releasing(releasing) => next_try.map(|next| Deadline::monotonic(next.min(releasing.until))),
            Phase::Leading(leading) => {
                Some(next_try.map_or(leading.deadline, |next| leading.deadline.or(Deadline::monotonic(next))))
            }
        }
    }

    /// Returns `true` if watch events help this `Machine` to act earlier or to avoid conflicts. A leader needs no watch,
    /// because its next renewal finds a change of the lock.
    pub(crate) fn needs_watch(&self) -> bool {
        match &self.phase {
            Phase::Following | Phase::Lost => !self.stopping,
            Phase::Leading(leading) => self.config.coordinated || leading.had_conflict,
            Phase::Releasing(_) | Phase::Finished => false,
        }
    }

    /// Returns `true` during a term.
    pub fn leads(&self) -> bool {
        matches!(self.phase, Phase::Leading(_))
    }

    /// Returns the last observed holder. Returns an empty string if the lock is free, or `None` before the first read.
    pub fn leader(&self) -> Option<&str> {
        self.reported.as_deref()
    }

    /// Returns the number of renewals that required a read of the lock, like client-go's metric
    /// `leader_election_slowpath_total`.
    pub fn slow_paths(&self) -> u64 {
        self.slow_paths
    }

    fn read(
        &mut self,
        sent: Sent,
        answer: Result<Option<LockState>, Failure>,
        now: Now,
        instructions: &mut Vec<Instruction>,
    ) {
        if let (Phase::Following, false, Ok(found)) = (&self.phase, self.stopping, &answer)
            && self.is_overtaken(&sent, found.as_ref())
        {
            let pause = self.retries.next(None);
            return self.act_within(pause, now);
        }
        if let Ok(found) = &answer {
            let unreported =
                |seen: &Observation| found.as_ref().is_none_or(|found| found.version != seen.state.version);
            if self.observed.as_ref().is_some_and(unreported) {
                // The watch missed this change, so do not rely on the watch any longer.
                self.watching = false;
            }
            self.vacancy = None;
            self.observe_read(&sent, found.as_ref(), now, instructions);
        }
        match self.phase {
            Phase::Following => self.contend(sent, answer, now, instructions),
            Phase::Leading(_) => self.read_back(answer, now, instructions),
            Phase::Releasing(_) => self.release_read(sent, answer, now),
            Phase::Lost | Phase::Finished => {}
        }
    }

    fn written(&mut self, sent: Sent, answer: Result<Version, Failure>, now: Now, instructions: &mut Vec<Instruction>) {
        let (base, record) = match sent.request {
            LockRequest::Create(record) => (None, record),
            LockRequest::Update { base, record } => (Some(base), record),
            LockRequest::Read => return,
        };
        if let Ok(version) = &answer {
            let state = LockState::new(version.clone(), record.clone());
            self.observe(Some(&state), now, instructions);
        }
        match (&self.phase, sent.purpose) {
            (Phase::Following, Purpose::Contend) => {
                let doubt = Doubt { base, record, sent: sent.at };
                self.contended(doubt, sent.overtaken, answer, now, instructions);
            }
            (Phase::Leading(_), Purpose::Renew) => {
                let doubt = Doubt { base, record, sent: sent.at };
                self.renewed(doubt, answer, now, instructions);
            }
            (Phase::Releasing(_), Purpose::Release) => self.released(answer, now),
            // The request was sent in a term that has ended, so its result only updates the observed state.
            (Phase::Following, _) if self.stopping => self.release_rest(now),
            _ => self.next_try = self.next_try.min(now.monotonic + self.config.retry_period),
        }
    }

    fn act(&mut self, now: Now, instructions: &mut Vec<Instruction>) {
        if self.sent.is_some() || now.monotonic < self.next_try {
            return self.finish_if_late(now, instructions);
        }
        let due = match &mut self.phase {
            Phase::Following if !self.stopping => Some((self.next_contest(now), Purpose::Contend)),
            Phase::Leading(leading) if !leading.read_back && now.monotonic < self.write_not_before => {
                self.next_try = self.write_not_before;
                None
            }
            Phase::Leading(leading) if leading.yielding => {
                self.next_try = leading.deadline.monotonic;
                None
            }
            Phase::Leading(_) => Some((self.next_renewal(now), Purpose::Renew)),
            Phase::Releasing(releasing) if now.monotonic < releasing.until => {
                Some((releasing.write.take().unwrap_or(LockRequest::Read), Purpose::Release))
            }
            _ => None,
        };
        if let Some((request, purpose)) = due {
            self.send(request, purpose, now, instructions);
        }
        self.finish_if_late(now, instructions);
    }

    fn send(&mut self, request: LockRequest, purpose: Purpose, now: Now, instructions: &mut Vec<Instruction>) {
        if purpose == Purpose::Contend {
            // Signals that arrive during the request may set an earlier time for the next request.
            self.next_try = Duration::MAX;
        }
        self.sent = Some(Sent { request: request.clone(), purpose, at: now, overtaken: false });
        instructions.push(Instruction::Send { request, timeout: self.timeout(now) });
    }

    /// Stops trying to release the lock at the time limit. Finishes the `Machine` if a stop was requested and no
    /// request or work is pending.
    fn finish_if_late(&mut self, now: Now, instructions: &mut Vec<Instruction>) {
        if let Phase::Releasing(releasing) = &self.phase
            && self.sent.is_none()
            && now.monotonic >= releasing.until
        {
            self.in_doubt.clear();
            self.phase = Phase::Following;
            self.next_try = now.monotonic + self.retries.next(None);
        }
        // Do not finish while the lock still has to be released. The release starts with the response to the current
        // request.
        let nothing_left = self.left_over().is_none();
        let quiet = self.sent.as_ref().is_none_or(|sent| sent.request == LockRequest::Read && nothing_left);
        if self.stopping && quiet && self.in_doubt.is_empty() && matches!(self.phase, Phase::Following) {
            self.phase = Phase::Finished;
            instructions.push(Instruction::Finish);
        }
    }

    fn stop(&mut self, now: Now, instructions: &mut Vec<Instruction>) {
        if self.stopping {
            return;
        }
        self.stopping = true;
        match &self.phase {
            Phase::Leading(_) => instructions.push(Instruction::Drain(EndReason::Cancelled)),
            Phase::Following if self.sent.is_none() => self.release_rest(now),
            _ => {}
        }
    }

    fn prefer(&mut self, preference: Preference, now: Now, instructions: &mut Vec<Instruction>) {
        let sooner = preference.defer < self.preference.defer;
        self.preference = preference;
        if sooner
            && matches!(self.phase, Phase::Following)
            && let Some(free) = self.free_from()
        {
            self.next_try = self.next_try.min(free.max(now.monotonic));
        }
        self.yield_if_asked(instructions);
    }

    /// Asks the leader's work to finish if the control plane or the caller prefers another holder.
    fn yield_if_asked(&mut self, instructions: &mut Vec<Instruction>) {
        if let Phase::Leading(leading) = &mut self.phase
            && let Some(other) = self.preference.yield_to.take()
        {
            leading.gives_up = true;
            instructions.push(Instruction::Drain(EndReason::Preferred { other }));
        }
    }

    fn work_ended(&mut self, now: Now) {
        match std::mem::replace(&mut self.phase, Phase::Following) {
            Phase::Leading(leading) => {
                self.last_term = Some((leading.term.version.uid.clone(), leading.term.record.clone()));
                let span = if leading.gives_up { self.config.renew_deadline } else { self.release_span() };
                self.begin_release(Some(leading.term), span, now);
            }
            Phase::Lost => {
                self.next_try = now.monotonic;
                if self.stopping {
                    self.release_rest(now);
                }
            }
            other => self.phase = other,
        }
    }

    fn lose(&mut self, reason: EndReason, now: Now, instructions: &mut Vec<Instruction>) {
        let mut foreign = None;
        if let Phase::Leading(leading) = std::mem::replace(&mut self.phase, Phase::Lost) {
            self.last_term = Some((leading.term.version.uid, leading.term.record));
            foreign = leading.foreign;
        }
        self.in_doubt.clear();
        self.next_try = now.monotonic;
        // If the term ended before its deadline, no other contender has led since the last renewal. Therefore, do not
        // wait for the holder of a lock that was deleted before the term.
        if reason != EndReason::Deadline {
            self.held_until = Duration::ZERO;
        }
        if reason == EndReason::Deleted {
            // Another contender may have held the lock since its deletion, so this contender must wait.
            self.observed = foreign.map(|foreign| *foreign);
        }
        instructions.push(Instruction::StopLeading(reason));
    }

    /// Records the observed state of the lock. Returns `true` if the record or the uid has changed, which restarts the
    /// timeout for the expiry of the record.
    fn observe(&mut self, found: Option<&LockState>, now: Now, instructions: &mut Vec<Instruction>) -> bool {
        let Some(found) = found else {
            if let Some(gone) = self.observed.take() {
                self.wait_out(&gone.state, now);
            }
            self.absent_since.get_or_insert(now.monotonic);
            self.report("", instructions);
            return true;
        };
        self.absent_since = None;
        if let Some(Sent { request: LockRequest::Create(record), overtaken, .. }) = &mut self.sent {
            *overtaken |= *record != found.record;
        }
        let (at, blind) = (now.monotonic, self.blind_after(&found.record));
        let changed = !self.observed.as_mut().is_some_and(|observed| observed.is_repeated(found, at, blind));
        if changed {
            let last = self.observed.replace(Observation::new(found.clone(), at));
            if let Some(gone) = last.filter(|last| !last.state.version.goes_on_in(&found.version)) {
                self.wait_out(&gone.state, now);
            }
        }
        self.report(&found.record.holder_identity, instructions);
        changed
    }

    /// Makes this contender wait after it has noticed that the lock was deleted, or restored from a backup. The holder
    /// may have renewed the lock right before, and may then act as the leader for almost a lease duration.
    fn wait_out(&mut self, gone: &LockState, now: Now) {
        let own = self.config.lease_duration;
        if self.config.wait_after_deletion {
            self.held_until = now.monotonic.saturating_add(gone.record.lease_duration(own).max(own));
        }
    }

    /// Returns `true` if `holder` is this contender's own identity.
    pub(crate) fn is_own(&self, holder: &str) -> bool {
        self.config.identity == holder
    }

    fn report(&mut self, holder: &str, instructions: &mut Vec<Instruction>) {
        let known = self.reported.as_deref();
        if known == Some(holder) || (known.is_none() && holder.is_empty()) {
            return;
        }
        self.reported = Some(holder.into());
        instructions.push(Instruction::NewLeader(holder.into()));
    }

    /// Returns `found` with the newest known version of the object. During the read, the watch may have reported a newer
    /// version that another program has written without changing the record.
    fn newest(&self, mut found: LockState) -> LockState {
        for Observation { state: known, .. } in self.observed.iter().chain(&self.last_hint) {
            if known.repeats(&found) && found.version.is_before(&known.version) == Some(true) {
                found.version = known.version.clone();
            }
        }
        found
    }

    fn doubt(&mut self, doubt: Doubt) {
        if self.in_doubt.len() == MAX_DOUBTS {
            self.in_doubt.remove(0);
        }
        self.in_doubt.push(doubt);
    }

    /// Returns the time at which this elector sent the record `found`, if it is among the writes with an unknown result.
    /// Returns `None` if no such write contains this record.
    fn settle(&self, found: &LeaderElectionRecord) -> Option<Now> {
        self.in_doubt.iter().find(|doubt| doubt.record == *found).map(|doubt| doubt.sent)
    }

    /// Returns the pause after repeated conflicts with another program. Without jitter, each attempt of the elector could
    /// collide with a write of the other program.
    fn conflict_pause(&mut self) -> Duration {
        self.config.retry_period / 4 + self.jitter.up_to(self.config.retry_period / 8)
    }

    fn hint_jitter(&mut self) -> Duration {
        self.jitter.up_to(HINT_JITTER.min(self.config.retry_period))
    }
}
