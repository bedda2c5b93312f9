//! A model of client-go's elector that competes with this crate's electors. Tests drive the model in the same way as
//! the `Machine`.

use std::time::Duration;

use pintle_leaderelect::__private::machine::{Effect, Failure, Instruction, LockRequest, Signal};
use pintle_leaderelect::{Deadline, LeaderElectionConfig, LeaderElectionRecord, LockState, Now, Version};
use pintle_leaderelect::{EndReason, Term};
use pintle_meta::MicroTime;

#[derive(Debug)]
pub(crate) struct ClientGo {
    config: LeaderElectionConfig,
    rng: fastrand::Rng,
    /// The last record that the model has read, with times in whole seconds.
    raw: Option<Raw>,
    observed: LeaderElectionRecord,
    observed_at: Duration,
    object: Option<Version>,
    request: Option<LockRequest>,
    tried_at: Duration,
    next_try: Duration,
    /// The end of the current renewal round, or the end of the next round if no round is in progress.
    round_ends: Option<Duration>,
    /// The time limit for the release, or `None` if the elector has not been cancelled.
    releases_until: Option<Duration>,
    /// Whether the model uses its configured lease duration instead of the duration in the record, like client-go
    /// before 1.27.
    counts_by_its_own: bool,
}

type Raw = (String, i32, Option<i64>, Option<i64>, i32);

impl ClientGo {
    pub(crate) fn new(config: LeaderElectionConfig, counts_by_its_own: bool, now: Now) -> Self {
        let rng = fastrand::Rng::with_seed(config.seed.unwrap_or_default());
        let (observed, observed_at) = (LeaderElectionRecord::default(), now.monotonic);
        let (next_try, tried_at) = (now.monotonic, now.monotonic);
        let (raw, object, request, round_ends, releases_until) = (None, None, None, None, None);
        Self {
            config,
            rng,
            raw,
            observed,
            observed_at,
            object,
            request,
            tried_at,
            next_try,
            round_ends,
            releases_until,
            counts_by_its_own,
        }
    }

    fn duration_of(&self, record: &LeaderElectionRecord) -> Duration {
        if self.counts_by_its_own { self.config.lease_duration } else { record.lease_duration(Duration::ZERO) }
    }

    pub(crate) fn wake_at(&self) -> Option<Duration> {
        if self.releases_until.is_some() {
            return self.releases_until;
        }
        let next_try = self.request.is_none().then_some(self.next_try);
        self.round_ends.into_iter().chain(next_try).min()
    }

    pub(crate) fn step(&mut self, signal: Signal, now: Now) -> Vec<Instruction> {
        let mut instructions = Vec::new();
        if self.releases_until.is_some() {
            self.release(signal, now, &mut instructions);
            return instructions;
        }
        if self.round_ends.is_some_and(|end| now.monotonic >= end) {
            self.round_ends = None;
            self.next_try = self.next_try.max(now.monotonic);
            instructions.push(Instruction::StopLeading(EndReason::Deadline));
        }
        match signal {
            Signal::Stop if self.round_ends.is_some() => {
                self.releases_until = Some(now.monotonic + self.config.renew_deadline);
                self.send(LockRequest::Read, &mut instructions);
                return instructions;
            }
            Signal::Stop => return vec![Instruction::Finish],
            // When the election ends, drop its request in flight, and begin the next election with a read.
            Signal::Read(_) | Signal::Written(_) if !instructions.is_empty() => {
                (self.request, self.object) = (None, None);
                self.failed(now);
            }
            Signal::Read(answer) => {
                self.request = None;
                self.read(answer, now, &mut instructions);
            }
            Signal::Written(answer) => {
                if let Some(request) = self.request.take() {
                    self.written(request, answer, now, &mut instructions);
                }
            }
            _ => {}
        }
        if self.request.is_none() && now.monotonic >= self.next_try {
            self.tried_at = now.monotonic;
            let is_own = self.observed.holder_identity == self.config.identity;
            let valid = self.observed_at + self.duration_of(&self.observed) > now.monotonic;
            match self.object.clone() {
                Some(base) if is_own && valid => {
                    let record = self.record(now, self.observed.acquire_time, self.observed.leader_transitions);
                    self.send(LockRequest::Update { base, record }, &mut instructions);
                }
                _ => self.send(LockRequest::Read, &mut instructions),
            }
        }
        instructions
    }

    /// Releases the lock while the leader's work continues. An elector that believes it is the leader overwrites any
    /// record, even after it has read another contender's record.
    fn release(&mut self, signal: Signal, now: Now, instructions: &mut Vec<Instruction>) {
        let late = self.releases_until.is_some_and(|until| now.monotonic >= until);
        match signal {
            Signal::Read(Ok(Some(found))) if !late && self.observed.holder_identity == self.config.identity => {
                let time = Some(MicroTime(now.wall));
                let record = LeaderElectionRecord {
                    lease_duration_seconds: 1,
                    acquire_time: time,
                    renew_time: time,
                    leader_transitions: found.record.leader_transitions,
                    ..LeaderElectionRecord::default()
                };
                self.send(LockRequest::Update { base: found.version, record }, instructions);
            }
            Signal::Written(Err(Failure { effect: Effect::Conflict, .. })) if !late => {
                self.send(LockRequest::Read, instructions);
            }
            Signal::Tick | Signal::Stop if !late => {}
            _ => instructions.extend([Instruction::StopLeading(EndReason::Cancelled), Instruction::Finish]),
        }
    }

    fn read(&mut self, answer: Result<Option<LockState>, Failure>, now: Now, instructions: &mut Vec<Instruction>) {
        let found = match answer {
            Ok(Some(found)) => found,
            Ok(None) => {
                let record = self.record(now, None, 0);
                return self.send(LockRequest::Create(record), instructions);
            }
            Err(_) => return self.failed(now),
        };
        let raw = raw(&found.record);
        if self.raw.as_ref() != Some(&raw) {
            (self.raw, self.observed, self.observed_at) = (Some(raw), found.record.clone(), now.monotonic);
        }
        self.object = Some(found.version.clone());
        let is_own = found.record.holder_identity == self.config.identity;
        let expires = self.observed_at + self.duration_of(&self.observed);
        if !found.record.is_vacant() && !is_own && expires > self.tried_at {
            return self.failed(now);
        }
        let count = found.record.leader_transitions;
        let record =
            if is_own { self.record(now, found.record.acquire_time, count) } else { self.record(now, None, count + 1) };
        self.send(LockRequest::Update { base: found.version, record }, instructions);
    }

    fn written(
        &mut self,
        request: LockRequest,
        answer: Result<Version, Failure>,
        now: Now,
        instructions: &mut Vec<Instruction>,
    ) {
        let record = match request {
            LockRequest::Create(record) | LockRequest::Update { record, .. } => record,
            LockRequest::Read => return,
        };
        let Ok(version) = answer else {
            let fast = self.object.take().is_some() && self.observed.holder_identity == record.holder_identity;
            return if fast { self.send(LockRequest::Read, instructions) } else { self.failed(now) };
        };
        let term = Term { version: version.clone(), record: record.clone() };
        (self.object, self.observed, self.observed_at) = (Some(version), record, now.monotonic);
        self.next_try = now.monotonic + self.config.retry_period;
        let deadline = Deadline::after(now, self.config.retry_period + self.config.renew_deadline);
        let led = self.round_ends.replace(deadline.monotonic).is_some();
        instructions.push(if led {
            Instruction::Extend(deadline)
        } else {
            Instruction::StartLeading { term, deadline }
        });
    }

    fn failed(&mut self, now: Now) {
        let retry = self.config.retry_period;
        self.next_try = match self.round_ends {
            Some(_) => (self.tried_at + retry).max(now.monotonic),
            None => now.monotonic + retry + retry.mul_f64(1.2 * self.rng.f64()),
        };
    }

    fn send(&mut self, request: LockRequest, instructions: &mut Vec<Instruction>) {
        self.request = Some(request.clone());
        instructions.push(Instruction::Send { request, timeout: self.config.renew_deadline / 2 });
    }

    fn record(&self, now: Now, acquired: Option<MicroTime>, transitions: i32) -> LeaderElectionRecord {
        LeaderElectionRecord {
            holder_identity: self.config.identity.clone(),
            lease_duration_seconds: self.config.lease_duration.as_secs() as i32,
            acquire_time: acquired.or(Some(MicroTime(now.wall))),
            renew_time: Some(MicroTime(now.wall)),
            leader_transitions: transitions,
            ..LeaderElectionRecord::default()
        }
    }
}

fn raw(record: &LeaderElectionRecord) -> Raw {
    let seconds = |time: Option<MicroTime>| time.map(|time| time.0.as_second());
    let (acquired, renewed) = (seconds(record.acquire_time), seconds(record.renew_time));
    (record.holder_identity.clone(), record.lease_duration_seconds, acquired, renewed, record.leader_transitions)
}
