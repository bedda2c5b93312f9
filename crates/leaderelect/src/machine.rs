//! A state machine that makes all decisions of an elector. The state machine uses no I/O, no clocks and no tasks.
//!
//! The owner of the `Machine` passes signals and the current time to the `Machine`, and executes the instructions that
//! the `Machine` returns. All decisions that affect safety are in this `Machine`, so a test can simulate many electors
//! from one seed.
//!
//! Invariants:
//!
//! - The deadline of a leadership term is `renew_deadline` after the `Machine` *sent* the last write that was stored.
//! - If the `Machine` observes another record, a deletion or another uid, it ends the leadership term before it does
//!   anything else. The term never resumes. The next leadership term begins only after the work of the current term has
//!   ended.
//! - Each write request contains the version of the last read. The `Machine` releases the lock only after the work has
//!   ended, and only if the last read returned a record of this leadership term.

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
///
/// # Examples
///
/// ```
/// use pintle_leaderelect::machine::{Instruction, LockRequest, Machine, Signal};
/// use pintle_leaderelect::{Clocks, LeaderElectionConfig, SystemClocks, TimePrecision, Version};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let now = SystemClocks::new().now();
/// let mut machine = Machine::new(LeaderElectionConfig::default(), TimePrecision::Micros, now);
///
/// // The machine reads, finds no lock, creates one, and leads.
/// let instructions = machine.step(Signal::Tick, now);
/// assert!(matches!(instructions[..], [Instruction::Send { request: LockRequest::Read, .. }]));
/// let instructions = machine.step(Signal::Read(Ok(None)), now);
/// assert!(instructions.iter().any(|instruction| matches!(instruction, Instruction::Send { request: LockRequest::Create(_), .. })));
/// let version = Version { uid: "1".into(), resource_version: "1".into() };
/// let instructions = machine.step(Signal::Written(Ok(version)), now);
/// assert!(instructions.iter().any(|instruction| matches!(instruction, Instruction::StartLeading { .. })));
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Machine {
    config: LeaderElectionConfig,
    precision: TimePrecision,
    /// The pauses between the attempts of a candidate.
    retries: Backoff,
    jitter: Jitter,
    /// The time between the beginning of a leadership term and its first renewal.
    first_renewal: Duration,
    /// The `Machine` sends renewals at multiples of this duration on the monotonic clock. Zero allows any time.
    grain: Duration,
    phase: Phase,
    stopping: bool,
    /// Whether the watch is open.
    watch_is_up: bool,
    /// Whether the `Machine` relies on the watch. The watch must be open, and no read may have returned a change that
    /// the watch did not report.
    watching: bool,
    /// The newest state that the watch has reported while this elector was the holder.
    last_hint: Option<LockState>,
    /// The version of the free lock that the watch reported. The next write, at `next_try`, replaces this version.
    vacancy: Option<LockState>,
    /// The request in flight.
    sent: Option<Sent>,
    /// The time of the next tick, unless a signal arrives first.
    next_try: Duration,
    observed: Option<Observation>,
    /// A deleted lock still counts as held until this time.
    held_until: Duration,
    /// The time when the `Machine` first observed that the lock does not exist. `None` if the lock exists.
    absent_since: Option<Duration>,
    preference: Preference,
    reported: Option<String>,
    /// Failed writes that the server may have stored. The list is emptied when a leadership term begins or ends. If a
    /// client sends a write twice, the first attempt may be stored and cause a conflict of the second attempt. Each
    /// version of the object can be replaced only once. When one of these writes is known to be stored, no other write
    /// in this list can be stored.
    in_doubt: Vec<Doubt>,
    /// The uid of the lock and the record of the last leadership term, after that term is over. If the lock still
    /// contains that record, no contender leads.
    last_term: Option<(String, LeaderElectionRecord)>,
    /// The time in the record that was sent most recently.
    last_written: Option<Stamp>,
    /// The `Machine` writes no record before this time, so that the times in the records are not ahead of the clock.
    write_not_before: Duration,
    slow_paths: u64,
}

#[derive(Clone, Debug)]
enum Phase {
    Following,
    Leading(Leading),
    /// The leadership term is lost, but its work still runs.
    Lost,
    Releasing(Releasing),
    Finished,
}

#[derive(Clone, Debug)]
struct Leading {
    term: Term,
    /// The state of the lock that the next renewal request replaces.
    base: LockState,
    /// The values of the clocks when the last stored write was sent. The deadline of the leadership term is computed
    /// from these values.
    counted: Now,
    deadline: Deadline,
    last_sent: Duration,
    conflicts: u32,
    /// Whether the `Machine` must read the lock before the next write request.
    read_back: bool,
    /// Whether the control plane prefers another holder. The `Machine` must then not renew the leadership term. The
    /// leadership term lasts until its deadline, or until the work has ended.
    yielding: bool,
    /// Whether the `Machine` asked the leader's work to end for the sake of another contender. The `Machine` must then
    /// release the lock.
    gives_up: bool,
    /// A lock of another contender, as reported by the watch. The `Machine` stores this lock until a read shows the
    /// current state.
    foreign: Option<Box<Observation>>,
}

#[derive(Clone, Debug)]
struct Releasing {
    /// The term to release. The value is `None` if it is unknown whether a write has begun a leadership term.
    term: Option<Term>,
    until: Duration,
    conflicts: u32,
    /// The write to send next. The value is `None` until a read shows that the lock contains a record of this elector.
    write: Option<LockRequest>,
}

#[derive(Clone, Debug)]
struct Sent {
    request: LockRequest,
    purpose: Purpose,
    at: Now,
    /// Whether the request creates the lock, and a lock of another contender was observed after the request was sent.
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
    /// The version of the lock that the write replaces. The value is `None` if the write creates the lock.
    base: Option<Version>,
    record: LeaderElectionRecord,
    sent: Now,
}

/// The `Machine` stores at most this number of writes with an unknown result. If there are more, the `Machine` drops
/// the oldest ones. If a dropped write was stored after all, the `Machine` treats its record as a record of another
/// contender. Dropping a write is safe, but can delay the next leadership term.
const MAX_DOUBTS: usize = 8;

/// The maximum random delay before a candidate takes a lock whose record has expired. In a group of a hundred
/// candidates, most candidates then observe the next leader before they try to take the lock.
const EXPIRY_JITTER: Duration = Duration::from_millis(120);

/// The maximum random delay before a candidate takes a lock that the watch reported as free. Most candidates with a
/// longer delay observe the next leader first.
const HINT_JITTER: Duration = Duration::from_millis(40);

impl Machine {
    /// Creates a contender that makes its first attempt immediately.
    ///
    /// The configuration must be [valid](LeaderElectionConfig::validate). `precision` is the precision of the times
    /// that the lock stores.
    pub fn new(config: LeaderElectionConfig, precision: TimePrecision, now: Now) -> Self {
        let seed = config.seed();
        Self {
            retries: Backoff::new(config.retries(), seed),
            // Use another seed here, so that the two random sequences differ.
            jitter: Jitter::new(!seed),
            first_renewal: config.retry_period,
            grain: Duration::ZERO,
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

    /// Sets the time between the beginning of a leadership term and its first renewal, as a fraction of the retry
    /// period. If `Machine`s have different fractions, terms that begin at the same time are renewed at different
    /// times. Default: 1.
    pub fn begin_renewals_at(&mut self, share: f64) {
        self.first_renewal = self.config.retry_period.mul_f64(share.clamp(0.0, 1.0));
    }

    /// Rounds the time of each renewal down to a whole sixteenth of the retry period. As a result, the leadership terms
    /// of many `Machine`s are renewed in batches, and one timer can serve several renewals. This setting has no effect
    /// if two renewals could be less than a second apart because of the rounding.
    pub fn gather_renewals(&mut self) {
        let grain = self.config.retry_period / 16;
        // If a renewal is sent less than a second after the previous renewal, it does not extend the leadership term.
        if self.config.retry_period - grain > Duration::from_secs(1) {
            self.grain = grain;
        }
    }

    /// Returns the time at which the `Machine` sends a renewal that becomes due at `due`.
    fn renewal_at(&self, due: Duration) -> Duration {
        let early = due.as_nanos().checked_rem(self.grain.as_nanos()).unwrap_or_default();
        due.saturating_sub(Duration::from_nanos_u128(early))
    }

    /// Makes the `Machine` release the lock after the leader's work has ended, even if `release_on_cancel` is not set.
    /// Call this method before the leader's work has ended.
    pub(crate) fn give_up(&mut self) {
        if let Phase::Leading(leading) = &mut self.phase {
            leading.gives_up = true;
        }
    }

    /// Processes one signal, and returns the instructions that the owner of the `Machine` must execute in order.
    pub fn step(&mut self, signal: Signal, now: Now) -> Vec<Instruction> {
        let mut instructions = Vec::new();
        // Check the deadline before the signal is processed, because the leadership term may have expired.
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

    /// Returns the time when the owner must call [`Machine::step`] with a tick, unless a signal arrives first. Returns
    /// `None` if the `Machine` needs no tick.
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

    /// Returns whether a leadership term is in progress.
    pub fn leads(&self) -> bool {
        matches!(self.phase, Phase::Leading(_))
    }

    /// Returns the last observed holder. The holder is an empty string if the lock is free, and `None` before the first
    /// read.
    pub fn leader(&self) -> Option<&str> {
        self.reported.as_deref()
    }

    /// Returns the number of renewals that had to read the lock first. This number corresponds to client-go's metric
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
                // The read shows a change that the watch did not report, so the `Machine` no longer relies on the
                // watch.
                self.watching = false;
            }
            self.vacancy = None;
            self.observe(found.as_ref(), now, instructions);
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
            // Ignore a result that does not belong to the request in flight.
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
            // The leadership term in which this request was sent is over, so use the result only to update the state of
            // the lock.
            (Phase::Following, _) if self.stopping => self.release_rest(now),
            _ => self.next_try = self.next_try.min(now.monotonic + self.config.retry_period),
        }
    }

    /// Sends the next request if the request is due.
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
            // A signal that arrives during the request can set an earlier time. The result of the request must not
            // overwrite that earlier time.
            self.next_try = Duration::MAX;
        }
        self.sent = Some(Sent { request: request.clone(), purpose, at: now, overtaken: false });
        instructions.push(Instruction::Send { request, timeout: self.timeout(now) });
    }

    /// Ends the release when the time limit of the release has passed. If a stop was requested and no request or work
    /// is pending, finishes the `Machine`.
    fn finish_if_late(&mut self, now: Now, instructions: &mut Vec<Instruction>) {
        if let Phase::Releasing(releasing) = &self.phase
            && self.sent.is_none()
            && now.monotonic >= releasing.until
        {
            self.in_doubt.clear();
            self.phase = Phase::Following;
            self.next_try = now.monotonic + self.retries.next(None);
        }
        // Do not finish while a release is still pending. The release starts after the response to the current request
        // has arrived.
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

    /// Asks the leader's work to end if another contender is preferred as the holder.
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
        // The deadline has not passed, so no other contender can have led since the last renewal. The `Machine` can
        // therefore end an earlier wait for a deleted lock.
        if reason != EndReason::Deadline {
            self.held_until = Duration::ZERO;
        }
        if reason == EndReason::Deleted {
            // Another contender may have held the lock after it was deleted. This contender must then wait.
            self.observed = foreign.map(|foreign| *foreign);
        }
        instructions.push(Instruction::StopLeading(reason));
    }

    /// Records a state of the lock after it was observed. If the record or the uid has changed, the wait for the
    /// record's expiry starts again. Otherwise the wait continues. Returns whether the record or the uid has changed.
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

    /// Makes this contender wait, because a lock that it had observed was deleted. The holder of that lock may have
    /// acquired or renewed it right before the deletion. The holder may then work for almost a lease duration after the
    /// deletion.
    fn wait_out(&mut self, gone: &LockState, now: Now) {
        let own = self.config.lease_duration;
        if self.config.wait_after_deletion {
            self.held_until = now.monotonic.saturating_add(gone.record.lease_duration(own).max(own));
        }
    }

    fn report(&mut self, holder: &str, instructions: &mut Vec<Instruction>) {
        let known = self.reported.as_deref();
        if known == Some(holder) || (known.is_none() && holder.is_empty()) {
            return;
        }
        self.reported = Some(holder.into());
        instructions.push(Instruction::NewLeader(holder.into()));
    }

    /// Returns the state of the lock with the newest known version. Another program may have written the object after
    /// the read, and the watch may have reported this write.
    fn newest(&self, mut found: LockState) -> LockState {
        let seen = self.observed.as_ref().map(|observed| &observed.state);
        for known in seen.into_iter().chain(&self.last_hint) {
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

    /// If a write with an unknown result has stored the state `found`, returns the time when that write was sent.
    fn settle(&self, found: &LeaderElectionRecord) -> Option<Now> {
        self.in_doubt.iter().find(|doubt| doubt.record == *found).map(|doubt| doubt.sent)
    }

    /// Returns the pause after a conflict with another program that repeatedly writes the same object. Without jitter,
    /// the attempts could always coincide with the writes of that program.
    fn conflict_pause(&mut self) -> Duration {
        self.config.retry_period / 4 + self.jitter.up_to(self.config.retry_period / 8)
    }

    fn hint_jitter(&mut self) -> Duration {
        self.jitter.up_to(HINT_JITTER.min(self.config.retry_period))
    }
}
