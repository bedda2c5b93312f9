//! The elector as a state machine, without I/O, clocks or tasks.
//!
//! Its owner passes in signals and the time, and executes the returned instructions. All decisions that make an
//! election safe are made here, so a test can drive a whole fleet from one seed.
//!
//! Invariants:
//!
//! - A term's deadline is `renew_deadline` after a stored write was *sent*.
//! - Another record, a deletion or another uid ends the term before anything else happens. The term never resumes. The
//!   next term begins after the work of this one has ended.
//! - Each write states the version that was read. The lock is released only after the work has ended, and only if the
//!   record that was just read belongs to this term.

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

/// One contender for one lock.
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
    /// The pauses between a candidate's attempts.
    retries: Backoff,
    jitter: Jitter,
    /// The delay of a term's first renewal.
    first_renewal: Duration,
    /// Renewals happen at whole multiples of this, on the monotonic clock. Zero allows any time.
    grain: Duration,
    phase: Phase,
    stopping: bool,
    /// Whether the watch is open.
    watch_is_up: bool,
    /// Whether the watch is reliable: it is open, and no read has shown a change that it had not reported.
    watching: bool,
    /// The newest state that the watch reported while this elector held the lock.
    last_hint: Option<LockState>,
    /// The free lock that the watch reported. It is taken in that version at `next_try`.
    vacancy: Option<LockState>,
    /// The request in flight.
    sent: Option<Sent>,
    /// When to act next, unless a signal arrives earlier.
    next_try: Duration,
    observed: Option<Observation>,
    /// Until when a deleted lock counts as held.
    held_until: Duration,
    /// Since when the lock is known not to exist.
    absent_since: Option<Duration>,
    preference: Preference,
    reported: Option<String>,
    /// Failed writes of the current contest or term whose effect is unknown. A client may have sent a write twice and
    /// received a conflict caused by the first attempt. One version can be replaced only once, so all of these writes
    /// are resolved as soon as one write is known to be stored.
    in_doubt: Vec<Doubt>,
    /// The record of the last term, which is over. If the lock still has this record, no contender leads by it.
    last_term: Option<(String, LeaderElectionRecord)>,
    /// The time in the last record sent.
    last_written: Option<Stamp>,
    /// No writes before this time, so that record times do not run ahead of the clock.
    write_not_before: Duration,
    slow_paths: u64,
}

#[derive(Clone, Debug)]
enum Phase {
    Following,
    Leading(Leading),
    /// The term is lost, but its work has not ended yet.
    Lost,
    Releasing(Releasing),
    Finished,
}

#[derive(Clone, Debug)]
struct Leading {
    term: Term,
    /// The state that the next renewal replaces.
    base: LockState,
    /// The write from which the deadline counts.
    counted: Now,
    deadline: Deadline,
    last_sent: Duration,
    conflicts: u32,
    /// Whether to read before the next write.
    read_back: bool,
    /// Another holder is preferred, so the term is not renewed. It lasts until its current deadline, or until the work
    /// has ended.
    yielding: bool,
    /// The work ends in favor of another contender, so the lock must be released.
    gives_up: bool,
    /// A foreign lock that the watch reported and that no read has shown yet.
    foreign: Option<Box<Observation>>,
}

#[derive(Clone, Debug)]
struct Releasing {
    /// The term to release. `None` if only writes in doubt might have begun one.
    term: Option<Term>,
    until: Duration,
    conflicts: u32,
    /// The write to send next. `None` until a read shows that the lock is ours.
    write: Option<LockRequest>,
}

#[derive(Clone, Debug)]
struct Sent {
    request: LockRequest,
    purpose: Purpose,
    at: Now,
    /// Whether the request creates the lock and a foreign lock was seen since.
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
    /// The version that it replaces. `None` if it creates the lock.
    base: Option<Version>,
    record: LeaderElectionRecord,
    sent: Now,
}

/// At most this many writes in doubt are remembered; the oldest are dropped first. If a dropped write was stored after
/// all, it looks foreign, which only costs time.
const MAX_DOUBTS: usize = 8;

/// After a record has expired, a candidate waits up to this long. So out of a hundred candidates, most learn of the
/// successor before they read.
const EXPIRY_JITTER: Duration = Duration::from_millis(120);

/// After the watch reports a free lock, a candidate waits up to this long, so that most of the slower candidates see
/// the successor first.
const HINT_JITTER: Duration = Duration::from_millis(40);

impl Machine {
    /// Creates a contender that tries at once.
    ///
    /// The configuration must be [valid](LeaderElectionConfig::validate). `precision` is the precision of the times
    /// that the lock stores.
    pub fn new(config: LeaderElectionConfig, precision: TimePrecision, now: Now) -> Self {
        let seed = config.seed();
        Self {
            retries: Backoff::new(config.retries(), seed),
            // A different seed, so that the two sequences differ.
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

    /// Sets the delay of a term's first renewal, as a fraction of the retry period, so that terms that begin together
    /// are not renewed together. Default: 1.
    pub fn begin_renewals_at(&mut self, share: f64) {
        self.first_renewal = self.config.retry_period.mul_f64(share.clamp(0.0, 1.0));
    }

    /// Renews at whole sixteenths of the retry period, rounded down, so that some of many terms are renewed together. A
    /// wake-up for several renewals costs less than one for each. Not used if two effective renewals could then be less
    /// than a second apart.
    pub fn gather_renewals(&mut self) {
        let grain = self.config.retry_period / 16;
        // A renewal less than a second after the previous one has no effect.
        if self.config.retry_period - grain > Duration::from_secs(1) {
            self.grain = grain;
        }
    }

    /// Returns when to perform a renewal that is due at the given time.
    fn renewal_at(&self, due: Duration) -> Duration {
        let early = due.as_nanos().checked_rem(self.grain.as_nanos()).unwrap_or_default();
        due.saturating_sub(Duration::from_nanos_u128(early))
    }

    /// Called when the work has ended for a reason that requires a release, even without `release_on_cancel`.
    pub(crate) fn give_up(&mut self) {
        if let Phase::Leading(leading) = &mut self.phase {
            leading.gives_up = true;
        }
    }

    /// Processes one signal and returns the instructions to execute, in order.
    pub fn step(&mut self, signal: Signal, now: Now) -> Vec<Instruction> {
        let mut instructions = Vec::new();
        // Check the deadline first, so that no signal is processed for an expired term.
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

    /// Returns when to call [`Machine::step`] with a tick, unless a signal arrives earlier. `None` after the end.
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

    /// Returns whether there is a term.
    pub fn leads(&self) -> bool {
        matches!(self.phase, Phase::Leading(_))
    }

    /// Returns the last observed holder. Empty if the lock is free, `None` before the first read.
    pub fn leader(&self) -> Option<&str> {
        self.reported.as_deref()
    }

    /// Returns how many renewals read the lock first: client-go's `leader_election_slowpath_total`.
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
                // The read shows a change that the watch did not report.
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
            // The owner passed an answer that does not match the request. It is ignored.
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
            // The request was sent for a term that is over, so the answer counts only as a read.
            (Phase::Following, _) if self.stopping => self.release_rest(now),
            _ => self.next_try = self.next_try.min(now.monotonic + self.config.retry_period),
        }
    }

    /// Sends the request that is due, if any.
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
            // Signals during the request set this. An older answer does not reset it.
            self.next_try = Duration::MAX;
        }
        self.sent = Some(Sent { request: request.clone(), purpose, at: now, overtaken: false });
        instructions.push(Instruction::Send { request, timeout: self.timeout(now) });
    }

    /// Ends the release phase once there is nothing to wait for. Finishes the machine if it is stopping.
    fn finish_if_late(&mut self, now: Now, instructions: &mut Vec<Instruction>) {
        if let Phase::Releasing(releasing) = &self.phase
            && self.sent.is_none()
            && now.monotonic >= releasing.until
        {
            self.in_doubt.clear();
            self.phase = Phase::Following;
            self.next_try = now.monotonic + self.retries.next(None);
        }
        // A pending release starts after the answer to the request in flight.
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

    /// Asks the work to end if another contender is preferred.
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
        // No other contender could lead by that lock before the deadline, so there is no wait if it was deleted.
        if reason != EndReason::Deadline {
            self.held_until = Duration::ZERO;
        }
        if reason == EndReason::Deleted {
            // A holder that came after the deletion, and may be gone again, still causes a wait.
            self.observed = foreign.map(|foreign| *foreign);
        }
        instructions.push(Instruction::StopLeading(reason));
    }

    /// Records an observed state. Only a change of the record or uid restarts the expiry. Returns whether there was
    /// such a change.
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

    /// The observed lock was deleted. Its last holder may have renewed or acquired it unseen right before that, and
    /// works for less than a duration afterwards.
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

    /// Returns the same state in the newest known version. Another program may have written the object since it was
    /// read, and the watch has reported that.
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

    /// Returns when the write in doubt that is found stored was sent.
    fn settle(&self, found: &LeaderElectionRecord) -> Option<Now> {
        self.in_doubt.iter().find(|doubt| doubt.record == *found).map(|doubt| doubt.sent)
    }

    /// Returns the pause after a conflict with a program that keeps writing the same object. It is jittered, so that it
    /// does not synchronize with those writes.
    fn conflict_pause(&mut self) -> Duration {
        self.config.retry_period / 4 + self.jitter.up_to(self.config.retry_period / 8)
    }

    fn hint_jitter(&mut self) -> Duration {
        self.jitter.up_to(HINT_JITTER.min(self.config.retry_period))
    }
}
