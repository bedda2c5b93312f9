//! The elector as a state machine: no I/O, no clock, no task.
//!
//! Its owner passes in what happened and the time, and does what it returns. Everything that makes an election safe is decided
//! here, so that a test can drive a whole fleet from one seed.
//!
//! What holds at every step:
//!
//! - A term's deadline is `renew_deadline` after the *sending* of a write that was stored.
//! - Anything that contradicts the term ends it before anything else is done: another record, a deletion, another uid. It never
//!   resumes; the next one begins after the work of this one has ended.
//! - Nothing is written without the version of what was read, and the lock is released only after the work has ended, and only
//!   if what was just read is this term's record.

mod departing;
mod following;
mod leading;
mod releasing;
mod signal;
mod stamps;

use std::time::Duration;

use pintle_ratelimit::{Backoff, Jitter};

use crate::clocks::{Deadline, Now};
use crate::config::LeaderElectionConfig;
use crate::record::{LeaderElectionRecord, LockState, TimePrecision, Version};

pub use signal::{Effect, Failure, Hint, Instruction, LockRequest, Preference, Signal};

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
/// // It looks, finds no lock, creates one, and leads.
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
    /// The pauses between a candidate's tries.
    retries: Backoff,
    jitter: Jitter,
    /// How long after a term's beginning it is renewed for the first time.
    first_renewal: Duration,
    /// Renewals come at whole multiples of it, by the monotonic clock; zero: at any time.
    grain: Duration,
    phase: Phase,
    stopping: bool,
    /// Whether the watch is open.
    watch_is_up: bool,
    /// Whether it tells what happens: it is open, and nothing was read that it had not told.
    watching: bool,
    /// The newest state of which the watch told while the lock was ours.
    told: Option<LockState>,
    /// The free lock that the watch told of, to be taken as it was told once `next_try` has come.
    vacancy: Option<LockState>,
    /// The one request under way.
    sent: Option<Sent>,
    /// When to act next, if nothing happens before.
    next_try: Duration,
    observed: Option<Observation>,
    /// Until when a lock that was deleted counts as held.
    held_until: Duration,
    /// Since when there is known to be no lock.
    absent_since: Option<Duration>,
    preference: Preference,
    reported: Option<String>,
    /// Writes of the present contest or term that failed. Each may have been done: a client may have sent it twice, and been
    /// refused the second time on account of the first. One version can be replaced only once, so all of them are settled as soon
    /// as any write is known to have been done.
    in_doubt: Vec<Doubt>,
    /// The record of the last term, which is over: if the lock still has it, nobody leads by it.
    last_term: Option<(String, LeaderElectionRecord)>,
    /// The time in the last record that was sent.
    last_written: Option<Stamp>,
    /// Until when nothing is written, so that these times do not run ahead of the clock.
    write_not_before: Duration,
    slow_paths: u64,
}

#[derive(Clone, Debug)]
enum Phase {
    Following,
    Leading(Leading),
    /// The term is lost, and its work has not ended yet.
    Lost,
    Releasing(Releasing),
    Finished,
}

#[derive(Clone, Debug)]
struct Leading {
    term: Term,
    /// What the next renewal replaces.
    base: LockState,
    /// The write from which the deadline counts.
    counted: Now,
    deadline: Deadline,
    last_sent: Duration,
    conflicts: u32,
    /// Whether to look before writing again.
    read_back: bool,
    /// Another one is preferred, so nothing is written any more: the term lasts for as long as it did then, or until the work
    /// has ended.
    yielding: bool,
    /// The work ends for another one, who is to find the lock free.
    gives_up: bool,
    /// A lock of somebody else's, of which the watch told and which no look has shown yet.
    stranger: Option<Box<Observation>>,
}

#[derive(Clone, Debug)]
struct Releasing {
    /// The term to release; none where only writes in doubt might have begun one.
    term: Option<Term>,
    until: Duration,
    conflicts: u32,
    /// The write to send next; none until the lock was read and is ours.
    write: Option<LockRequest>,
}

#[derive(Clone, Debug)]
struct Sent {
    request: LockRequest,
    purpose: Purpose,
    at: Now,
    /// Whether it is to create the lock, and another one's was seen since.
    overtaken: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Contend,
    Renew,
    Release,
}

#[derive(Clone, Debug)]
struct Observation {
    state: LockState,
    /// When this record was first seen in this object, on arrival. Other writes of the object do not move it.
    at: Duration,
    /// When it was seen last.
    confirmed: Duration,
}

impl Observation {
    fn new(state: LockState, at: Duration) -> Self {
        Self { state, at, confirmed: at }
    }

    /// Whether the record and the uid are still those that were seen. Then this takes over the version of `found`.
    ///
    /// A holder whose clock was set back may write a record that it has written before. So after `blind` without a look, a write of the
    /// object counts as a renewal.
    fn is_repeated(&mut self, found: &LockState, now: Duration, blind: Duration) -> bool {
        let looked = now.saturating_sub(self.confirmed) < blind;
        let is_repeated = found.repeats(&self.state) && (looked || found.version == self.state.version);
        if is_repeated {
            self.state.repeated_as(found);
            self.confirmed = now;
        }
        is_repeated
    }
}

#[derive(Clone, Debug)]
struct Doubt {
    /// What it was to replace; none where it was to create the lock.
    base: Option<Version>,
    record: LeaderElectionRecord,
    sent: Now,
}

/// Writes in doubt beyond this many are forgotten, the oldest first. A forgotten one that was done after all is taken for a
/// foreign record, which costs time and nothing else.
const MAX_DOUBTS: usize = 8;

/// When a record has expired, a candidate waits up to this long, so that a hundred of them do not all look before they hear that one of
/// them was first.
const EXPIRY_JITTER: Duration = Duration::from_millis(120);

/// After good news from a watch, a candidate waits up to this long, so that most of those who come late see the successor first.
const HINT_JITTER: Duration = Duration::from_millis(40);

impl Machine {
    /// A contender that will try at once.
    ///
    /// The configuration has to be [valid](LeaderElectionConfig::validate), and the lock has to store times by `precision`.
    pub fn new(config: LeaderElectionConfig, precision: TimePrecision, now: Now) -> Self {
        let seed = config.seed();
        Self {
            retries: Backoff::new(config.retries(), seed),
            // Another seed, so that the two do not go in step.
            jitter: Jitter::new(!seed),
            first_renewal: config.retry_period,
            grain: Duration::ZERO,
            config,
            precision,
            phase: Phase::Following,
            stopping: false,
            watch_is_up: false,
            watching: false,
            told: None,
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

    /// Renews a term for the first time after this share of the retry period, from 0 to 1, so that terms that begin together are
    /// not renewed together. 1 by default.
    pub fn begin_renewals_at(&mut self, share: f64) {
        self.first_renewal = self.config.retry_period.mul_f64(share.clamp(0.0, 1.0));
    }

    /// Renews at whole sixteenths of the retry period, early rather than late, so that of many terms some are renewed together: what is
    /// awake for one renewal takes a fraction of the time for the next. Not where less than a second might then be between two.
    pub fn gather_renewals(&mut self) {
        let grain = self.config.retry_period / 16;
        // Within a second of the one before, a renewal does not count.
        if self.config.retry_period - grain > Duration::from_secs(1) {
            self.grain = grain;
        }
    }

    /// When to renew what is due at that time.
    fn renewal_at(&self, due: Duration) -> Duration {
        let early = due.as_nanos().checked_rem(self.grain.as_nanos()).unwrap_or_default();
        due.saturating_sub(Duration::from_nanos_u128(early))
    }

    /// The work has ended for a reason for which the lock is to be free at once, also where a stop leaves it as it is.
    pub(crate) fn give_up(&mut self) {
        if let Phase::Leading(leading) = &mut self.phase {
            leading.gives_up = true;
        }
    }

    /// Takes in one signal, and returns what to do, in order.
    pub fn step(&mut self, signal: Signal, now: Now) -> Vec<Instruction> {
        let mut instructions = Vec::new();
        // First of all, so that no signal, however good its news, is looked at on behalf of a term that is over.
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

    /// When to call [`Machine::step`] with a tick, if nothing happens before; none after the end.
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

    /// Whether there is a term.
    pub fn leads(&self) -> bool {
        matches!(self.phase, Phase::Leading(_))
    }

    /// The holder that was last observed; empty when nobody holds the lock, none before the first look.
    pub fn leader(&self) -> Option<&str> {
        self.reported.as_deref()
    }

    /// How many renewals had to read the lock first: client-go's `leader_election_slowpath_total`.
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
            return self.look_within(pause, now);
        }
        if let Ok(found) = &answer {
            let untold = |seen: &Observation| found.as_ref().is_none_or(|found| found.version != seen.state.version);
            if self.observed.as_ref().is_some_and(untold) {
                // Something happened, and the watch kept silent.
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
            // The owner mixed answers up. It counts as none.
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
            // The term for which it was sent is over, so it says no more than a look at the lock does.
            (Phase::Following, _) if self.stopping => self.release_rest(now),
            _ => self.next_try = self.next_try.min(now.monotonic + self.config.retry_period),
        }
    }

    /// Sends what is due.
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
            // What is heard meanwhile sets it, and is not forgotten for an answer that is older.
            self.next_try = Duration::MAX;
        }
        self.sent = Some(Sent { request: request.clone(), purpose, at: now, overtaken: false });
        instructions.push(Instruction::Send { request, timeout: self.timeout(now) });
    }

    /// Ends the phase of releasing once there is nothing to wait for, and the whole machine with it if it has to stop.
    fn finish_if_late(&mut self, now: Now, instructions: &mut Vec<Instruction>) {
        if let Phase::Releasing(releasing) = &self.phase
            && self.sent.is_none()
            && now.monotonic >= releasing.until
        {
            self.in_doubt.clear();
            self.phase = Phase::Following;
            self.next_try = now.monotonic + self.retries.next(None);
        }
        // Where there is something left to release, that comes after the answer to what is under way.
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

    /// Asks the work to end if another one should have the lock.
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
        let mut stranger = None;
        if let Phase::Leading(leading) = std::mem::replace(&mut self.phase, Phase::Lost) {
            self.last_term = Some((leading.term.version.uid, leading.term.record));
            stranger = leading.stranger;
        }
        self.in_doubt.clear();
        self.next_try = now.monotonic;
        // Until the deadline nobody else could lead by that lock, so there is nobody to be waited for if it is gone.
        if reason != EndReason::Deadline {
            self.held_until = Duration::ZERO;
        }
        if reason == EndReason::Deleted {
            // Who came after the deletion, and may be gone again, is waited for.
            self.observed = stranger.map(|stranger| *stranger);
        }
        instructions.push(Instruction::StopLeading(reason));
    }

    /// Takes a state of the lock in. Only a change of the record or of the uid moves the moment from which its expiry counts.
    /// Returns whether there was such a change.
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
        let (at, blind) = (now.monotonic, self.config.renew_deadline);
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

    /// The lock that was seen so is deleted. Its last holder may have renewed, or even come, unseen and right before that, and
    /// works for less than a duration after it.
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

    /// The same state in the newest version that is known: somebody may have written beside the record since it was read, and the watch
    /// has told of it.
    fn newest(&self, mut found: LockState) -> LockState {
        let seen = self.observed.as_ref().map(|observed| &observed.state);
        for known in seen.into_iter().chain(&self.told) {
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

    /// When the write in doubt was sent that is found stored.
    fn settle(&self, found: &LeaderElectionRecord) -> Option<Now> {
        self.in_doubt.iter().find(|doubt| doubt.record == *found).map(|doubt| doubt.sent)
    }

    /// The pause after a conflict with somebody who writes the same object again and again. They are not all alike, so that it does
    /// not go in step with such writes.
    fn conflict_pause(&mut self) -> Duration {
        self.config.retry_period / 4 + self.jitter.up_to(self.config.retry_period / 8)
    }

    fn hint_jitter(&mut self) -> Duration {
        self.jitter.up_to(HINT_JITTER.min(self.config.retry_period))
    }
}
