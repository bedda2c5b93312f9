//! A [`Contest`], which combines a [`Machine`] with the state for executing its instructions.

use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::mem::{self, Discriminant};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use pintle_meta::{ApiError, ErrorKind, ObjectKey};
use pintle_metrics::Counter;
use tokio::sync::{mpsc, watch};

use crate::clocks::{Clocks, Deadline, Now};
use crate::config::LeaderElectionConfig;
use crate::leadership::TermHandle;
use crate::lock::{Lock, LockEvent, LockSnapshot};
use crate::machine::{Effect, Failure, Hint, Instruction, LockRequest, Machine, Signal};
use crate::metrics::Instruments;
use crate::record::{LockState, Version};
use crate::status::{Observed, Outage};

pub(crate) enum Notice {
    NewLeader(String),
    Started(TermHandle),
}

pub(crate) struct Contest<L: Lock> {
    lock: Arc<L>,
    pub(super) key: ObjectKey,
    name: Arc<str>,
    clocks: Arc<dyn Clocks>,
    renew_deadline: Duration,
    machine: Machine,
    /// The last object that was read or written. The next write replaces the record in this object.
    object: Option<Base<L::Object>>,
    /// The last object that the watch reported. A write that acquires a free lock replaces the record in this object.
    hinted: Option<Base<L::Object>>,
    /// The next request with its timeout and the latest time for sending it.
    request: Option<(LockRequest, Duration, Deadline)>,
    reads: bool,
    term: Option<TermHandle>,
    observed: watch::Sender<Observed>,
    /// The channel is unbounded, because each response produces only a few messages, and the elector always
    /// drains the channel.
    notices: mpsc::UnboundedSender<Notice>,
    /// A weak reference, because the elector may be dropped before the `Contest` ends.
    metrics: Option<Weak<Instruments>>,
    /// The number of slow-path renewals that the metrics already contain.
    slow_paths: u64,
    read_trouble: Trouble,
    write_trouble: Trouble,
}

type Base<O> = (Version, Arc<O>);

/// The kinds of failures since the last successful read or the last successful write.
type Trouble = HashSet<Kind>;

/// The kind and the status code of an error, or `None` for a timeout.
type Kind = Option<(Discriminant<ErrorKind>, Option<u16>)>;

pub(super) type Exchange<O> = Pin<Box<dyn Future<Output = Answer<O>> + Send>>;

pub(super) enum Answer<O> {
    Read(Result<Option<LockSnapshot<O>>, ApiError>),
    Written(Result<LockSnapshot<O>, ApiError>),
    Late,
    /// The write was not sent, because the object to replace is unknown.
    BaseUnknown,
    /// The request was not sent, because it would have been too late.
    Unsent,
}

pub(super) enum Stepped {
    Quiet,
    /// The `Contest` has a request, which the caller should send with [`exchange`](Contest::exchange) by this time. The
    /// caller must call [`depart`](Contest::depart) first if the request was queued.
    Sends(Duration),
    Finished,
}

impl<L: Lock> Contest<L> {
    pub(crate) fn new(
        lock: Arc<L>,
        config: LeaderElectionConfig,
        observed: watch::Sender<Observed>,
        notices: mpsc::UnboundedSender<Notice>,
        metrics: Option<Weak<Instruments>>,
    ) -> Self {
        let (renew_deadline, clocks) = (config.renew_deadline, config.clocks.clone());
        let machine = Machine::new(config, lock.time_precision(), clocks.now());
        let key = lock.key().clone();
        let name = key.as_str().into();
        let (object, hinted, request, term) = (None, None, None, None);
        let (reads, slow_paths, read_trouble, write_trouble) = (false, 0, HashSet::new(), HashSet::new());
        Self {
            lock,
            key,
            name,
            clocks,
            renew_deadline,
            machine,
            object,
            hinted,
            request,
            reads,
            term,
            observed,
            notices,
            metrics,
            slow_paths,
            read_trouble,
            write_trouble,
        }
    }

    pub(super) fn begin_renewals_at(&mut self, share: f64) {
        self.machine.begin_renewals_at(share);
    }

    pub(super) fn gather_renewals(&mut self) {
        self.machine.gather_renewals();
    }

    pub(super) fn needs_watch(&self) -> bool {
        self.machine.needs_watch()
    }

    pub(super) fn wake_at(&self) -> Option<Deadline> {
        self.machine.wake_at()
    }

    pub(super) fn step(&mut self, signal: Signal) -> Stepped {
        let mut stepped = Stepped::Quiet;
        if matches!(signal, Signal::WorkEnded) && self.term.as_ref().is_some_and(TermHandle::gives_up) {
            self.machine.give_up();
        }
        let now = self.clocks.now();
        for instruction in self.machine.step(signal, now) {
            match instruction {
                Instruction::Send { request, timeout } => {
                    self.set_request(request, timeout, now);
                    stepped = Stepped::Sends(self.machine.leave_by(now));
                }
                Instruction::NewLeader(identity) => {
                    if identity.is_empty() {
                        tracing::info!(lock = %self.name, "the lock is free");
                    } else if !self.machine.is_own(&identity) {
                        tracing::info!(lock = %self.name, leader = identity, "new leader");
                    }
                    self.observed.send_modify(|observed| {
                        observed.leader = Some(identity.clone());
                        observed.write_outage = None;
                    });
                    self.notify(Notice::NewLeader(identity));
                }
                Instruction::StartLeading { term, deadline } => {
                    tracing::info!(lock = %self.name, transitions = term.record.leader_transitions, "started leading");
                    let began = LockState::new(term.version.clone(), term.record.clone());
                    let token = self.lock.token(&began);
                    let term = TermHandle::new(self.name.clone(), term, token, self.clocks.clone(), deadline);
                    self.term = Some(term.clone());
                    self.count(|metrics| &*metrics.terms, 1);
                    self.notify(Notice::Started(term));
                }
                Instruction::Extend(deadline) => {
                    self.with_term(|term| term.extend(deadline));
                    self.renewed(deadline);
                }
                Instruction::Drain(reason) => self.with_term(|term| term.drain(reason)),
                Instruction::StopLeading(reason) => {
                    tracing::warn!(lock = %self.name, %reason, "stopped leading");
                    self.with_term(|term| term.lose(reason.clone()));
                }
                Instruction::Finish => return Stepped::Finished,
            }
        }
        self.count_slow_paths();
        stepped
    }

    fn count_slow_paths(&mut self) {
        let slow_paths = self.machine.slow_paths();
        self.count(|metrics| &*metrics.slow_paths, slow_paths - self.slow_paths);
        self.slow_paths = slow_paths;
    }

    fn set_request(&mut self, request: LockRequest, timeout: Duration, now: Now) {
        self.reads = request == LockRequest::Read;
        self.request = Some((request, timeout, Deadline::after(now, timeout)));
    }

    /// Records that a queued request is being sent. Returns `false` if it is too late to send the request, and the
    /// caller must then call [`step`](Contest::step).
    pub(super) fn depart(&mut self) -> bool {
        let now = self.clocks.now();
        self.request = None;
        if let Some((request, timeout)) = self.machine.depart(now) {
            self.set_request(request, timeout, now);
        }
        self.count_slow_paths();
        self.request.is_some()
    }

    /// Returns a future that sends the next request. The deadline of the term is measured from the time at which the
    /// `Machine` created the request or `depart` was called. If the future is first polled too late, for example after
    /// a suspend, the request is not sent, because the term may be over.
    pub(super) fn exchange(&mut self) -> Option<Exchange<L::Object>> {
        let (request, timeout, worth) = self.request.take()?;
        let (lock, clocks) = (self.lock.clone(), self.clocks.clone());
        let base = match &request {
            LockRequest::Update { base, .. } => {
                let known = [&self.object, &self.hinted].into_iter().flatten().find(|(version, _)| version == base);
                known.map(|(_, object)| object.clone())
            }
            _ => None,
        };
        let exchange = async move {
            match request {
                LockRequest::Read => Answer::Read(lock.get().await),
                LockRequest::Create(record) => Answer::Written(lock.create(&record).await),
                LockRequest::Update { record, .. } => match base {
                    Some(object) => Answer::Written(lock.update(&object, &record).await),
                    None => Answer::BaseUnknown,
                },
            }
        };
        Some(Box::pin(async move {
            let now = clocks.now();
            if worth.has_passed(now) {
                return Answer::Unsent;
            }
            let late = Deadline::after(now, timeout);
            tokio::select! {
                biased;
                answer = exchange => answer,
                () = clocks.sleep_until(late) => Answer::Late,
            }
        }))
    }

    pub(super) fn answer(&mut self, answer: Answer<L::Object>) -> Signal {
        let failure = match answer {
            Answer::Read(Ok(found)) => {
                self.read_trouble.clear();
                self.observed.send_if_modified(|observed| observed.read_outage.take().is_some());
                return Signal::Read(Ok(found.map(|locked| {
                    let version = locked.state.version.clone();
                    if self.object.as_ref().is_some_and(|(known, _)| *known != version) {
                        self.end_write_outage();
                    }
                    self.object = Some((version, Arc::new(locked.object)));
                    locked.state
                })));
            }
            Answer::Written(Ok(locked)) => {
                self.write_trouble.clear();
                self.end_write_outage();
                let version = locked.state.version;
                self.object = Some((version.clone(), Arc::new(locked.object)));
                return Signal::Written(Ok(version));
            }
            Answer::Read(Err(error)) | Answer::Written(Err(error)) => self.failure(&error),
            Answer::Late => {
                self.warn(None, &"no response before the timeout");
                Failure::unknown()
            }
            Answer::BaseUnknown => {
                tracing::debug!(lock = %self.name, "the object for the write is unknown; reading the lock again");
                // Report a conflict, which makes the `Machine` read the lock. The response to this read contains the
                // object for the next write.
                Failure { effect: Effect::Conflict, retry_after: None }
            }
            Answer::Unsent => Failure { effect: Effect::None, retry_after: None },
        };
        if self.reads { Signal::Read(Err(failure)) } else { Signal::Written(Err(failure)) }
    }

    /// Stores the object of a watch event, unless the stored object is newer. A newer stored object must be kept,
    /// because the `Machine` may be about to replace it.
    pub(super) fn remember_hint(&mut self, object: Option<Base<L::Object>>) {
        let known = self.hinted.as_ref().map(|(version, _)| version);
        if object.as_ref().is_some_and(|(hinted, _)| known.is_none_or(|known| hinted.is_before(known) != Some(true))) {
            if let (Some((new, _)), Some(known)) = (&object, known)
                && new != known
            {
                self.end_write_outage();
            }
            self.hinted = object;
        }
    }

    /// Forgets failed writes after the lock has changed, because this contender may never have to write again.
    fn end_write_outage(&self) {
        self.observed.send_if_modified(|observed| observed.write_outage.take().is_some());
    }

    fn failure(&mut self, error: &ApiError) -> Failure {
        let code = error.status().map(|status| status.code);
        if matches!(error.kind, ErrorKind::Decode(_)) {
            self.count(|metrics| &*metrics.malformed, 1);
        }
        if error.is_conflict() || error.is_already_exists() {
            // A conflict of a candidate only means that another contender was faster.
            tracing::debug!(lock = %self.name, %error, "lost a race for the lock");
        } else {
            self.warn(Some((mem::discriminant(&error.kind), code)), error);
        }
        Failure::from(error)
    }

    /// Logs the first failure of each kind as a warning, and later failures of the same kind at debug level.
    fn warn(&mut self, kind: Kind, error: &dyn fmt::Display) {
        let (verb, trouble) =
            if self.reads { ("read", &mut self.read_trouble) } else { ("write", &mut self.write_trouble) };
        if trouble.insert(kind) {
            tracing::warn!(lock = %self.name, %error, "cannot {verb} the lock")
        } else {
            tracing::debug!(lock = %self.name, %error, "still cannot {verb} the lock")
        }
        let (reads, now, error) = (self.reads, self.clocks.now().monotonic, error.to_string());
        self.observed.send_if_modified(|observed| {
            let outage = if reads { &mut observed.read_outage } else { &mut observed.write_outage };
            Outage::add(outage, now, error)
        });
    }

    fn with_term(&self, change: impl FnOnce(&TermHandle)) {
        if let Some(term) = &self.term {
            change(term);
        }
    }

    fn renewed(&self, deadline: Deadline) {
        if let Some(metrics) = self.metrics.as_ref().and_then(Weak::upgrade) {
            metrics.renewals.add(1);
            let sent = deadline.monotonic.saturating_sub(self.renew_deadline);
            metrics.renewal_duration.observe(self.clocks.now().monotonic.saturating_sub(sent).as_secs_f64());
        }
    }

    fn count(&self, counter: fn(&Instruments) -> &dyn Counter, events: u64) {
        if events > 0
            && let Some(metrics) = self.metrics.as_ref().and_then(Weak::upgrade)
        {
            counter(&metrics).add(events);
        }
    }

    fn notify(&self, notice: Notice) {
        // Ignore the error: sending fails only if the elector was dropped, which also ends this `Contest`.
        let _ = self.notices.send(notice);
    }
}

pub(super) fn hint<O>(event: LockEvent<O>) -> (Hint, Option<Base<O>>) {
    match event {
        LockEvent::Changed(locked) => {
            let object = (locked.state.version.clone(), Arc::new(locked.object));
            (Hint::Changed(locked.state), Some(object))
        }
        LockEvent::Deleted { uid } => (Hint::Deleted { uid }, None),
        LockEvent::MaybeChanged => (Hint::MaybeChanged, None),
    }
}
