//! The shell around the [`Machine`]: one task that owns its timer, its one request, and its word to the work.

use std::collections::HashSet;
use std::fmt;
use std::future::{Future, pending};
use std::mem::{self, Discriminant};
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::time::Duration;

use pintle_meta::{ApiError, ErrorKind};
use pintle_metrics::Counter;
use pintle_ratelimit::Backoff;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::leadership::TermHandle;
use crate::lock::{Lock, LockEvent, Locked};
use crate::machine::{Failure, Hint, Instruction, LockRequest, Machine, Signal};
use crate::metrics::Instruments;
use crate::status::Observed;
use crate::watching::{Told, follow};
use crate::{Clocks, Deadline, LeaderElectionConfig, LockState, Version};

/// What the driver tells the one who runs the work, in order.
pub(crate) enum Notice {
    NewLeader(String),
    Started(TermHandle),
}

pub(crate) struct Driver<L: Lock> {
    lock: Arc<L>,
    name: Arc<str>,
    clocks: Arc<dyn Clocks>,
    renew_deadline: Duration,
    machine: Machine,
    /// The object that was last read or written, to which the next write puts the record.
    object: Option<(Version, Arc<L::Object>)>,
    /// The object that the watch told last: a free lock is taken as it was told.
    hinted: Option<(Version, Arc<L::Object>)>,
    request: Option<Exchange<L::Object>>,
    term: Option<TermHandle>,
    observed: watch::Sender<Observed>,
    notices: mpsc::UnboundedSender<Notice>,
    /// The elector's, and gone with it, whenever this task is.
    metrics: Option<Weak<Instruments>>,
    /// How many have been told.
    slow_paths: u64,
    reads: Trouble,
    writes: Trouble,
}

/// How requests of a verb have failed since the last one that did not.
type Trouble = HashSet<Kind>;

/// A kind of failure: of what kind the error is, and which code the server answered. None: no answer in time.
type Kind = Option<(Discriminant<ErrorKind>, Option<u16>)>;

type Exchange<O> = Pin<Box<dyn Future<Output = Answer<O>> + Send>>;

enum Answer<O> {
    Read(Result<Option<Locked<O>>, ApiError>),
    Written(Result<Locked<O>, ApiError>),
    /// No answer in time.
    Late {
        read: bool,
    },
}

impl<L: Lock> Driver<L> {
    pub(crate) fn new(
        lock: Arc<L>,
        config: LeaderElectionConfig,
        observed: watch::Sender<Observed>,
        notices: mpsc::UnboundedSender<Notice>,
        metrics: Option<Weak<Instruments>>,
    ) -> Self {
        let (renew_deadline, clocks) = (config.renew_deadline, config.clocks.clone());
        let machine = Machine::new(config, lock.time_precision(), clocks.now());
        let name = lock.key().as_str().into();
        let (object, hinted, request, term) = (None, None, None, None);
        let (slow_paths, reads, writes) = (0, HashSet::new(), HashSet::new());
        Self {
            lock,
            name,
            clocks,
            renew_deadline,
            machine,
            object,
            hinted,
            request,
            term,
            observed,
            notices,
            metrics,
            slow_paths,
            reads,
            writes,
        }
    }

    /// Drives the machine until it has finished.
    pub(crate) async fn run(mut self, stop: CancellationToken, mut work_ended: mpsc::Receiver<()>, pauses: Backoff) {
        let (to_us, mut hints) = mpsc::channel(8);
        let lock = self.lock.clone();
        let mut watching = pin!(follow(lock.key(), || lock.watch(), self.clocks.clone(), pauses, to_us));
        let mut watched = true;
        let mut signal = Signal::Tick;
        let mut stopping = false;
        while self.step(signal) {
            let (clocks, wake) = (self.clocks.clone(), self.machine.wake_at());
            signal = tokio::select! {
                biased;
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    Signal::Stop
                }
                Some(()) = work_ended.recv() => Signal::WorkEnded,
                answer = next_answer(&mut self.request) => self.answer(answer),
                Some(told) = hints.recv() => Signal::Watch(self.hint(told)),
                () = &mut watching, if watched => {
                    watched = false;
                    Signal::Tick
                }
                () = sleep(&*clocks, wake) => Signal::Tick,
            };
        }
    }

    /// Does what the machine answers. False after the end.
    fn step(&mut self, signal: Signal) -> bool {
        for instruction in self.machine.step(signal, self.clocks.now()) {
            match instruction {
                Instruction::Send { request, timeout } => self.send(request, timeout),
                Instruction::NewLeader(identity) => {
                    tracing::info!(lock = %self.name, leader = identity, "another leader");
                    self.observed.send_modify(|observed| observed.leader = Some(identity.clone()));
                    self.tell(Notice::NewLeader(identity));
                }
                Instruction::StartLeading { term, deadline } => {
                    tracing::info!(lock = %self.name, transitions = term.record.leader_transitions, "started leading");
                    let began = LockState { version: term.version.clone(), record: term.record.clone() };
                    let token = self.lock.token(&began);
                    let term = TermHandle::new(self.name.clone(), term, token, self.clocks.clone(), deadline);
                    self.term = Some(term.clone());
                    self.count(|metrics| &*metrics.terms, 1);
                    self.tell(Notice::Started(term));
                }
                Instruction::Extend(deadline) => {
                    self.of_term(|term| term.extend(deadline));
                    self.renewed(deadline);
                }
                Instruction::Drain(reason) => self.of_term(|term| term.drain(reason)),
                Instruction::StopLeading(reason) => {
                    tracing::warn!(lock = %self.name, %reason, "stopped leading");
                    self.of_term(|term| term.lose(reason.clone()));
                }
                Instruction::Finish => return false,
            }
        }
        let slow_paths = self.machine.slow_paths();
        self.count(|metrics| &*metrics.slow_paths, slow_paths - self.slow_paths);
        self.slow_paths = slow_paths;
        true
    }

    fn send(&mut self, request: LockRequest, timeout: Duration) {
        let lock = self.lock.clone();
        let base = match &request {
            LockRequest::Update { base, .. } => {
                let known = [&self.object, &self.hinted].into_iter().flatten().find(|(version, _)| version == base);
                known.map(|(_, object)| object.clone())
            }
            _ => None,
        };
        let clocks = self.clocks.clone();
        let read = request == LockRequest::Read;
        let exchange = async move {
            match request {
                LockRequest::Read => Answer::Read(lock.get().await),
                LockRequest::Create(record) => Answer::Written(lock.create(&record).await),
                LockRequest::Update { record, .. } => match base {
                    Some(object) => Answer::Written(lock.update(&object, &record).await),
                    // Not the object that the machine means. To look again puts that right.
                    None => Answer::Late { read: false },
                },
            }
        };
        self.request = Some(Box::pin(async move {
            let late = Deadline::after(clocks.now(), timeout);
            tokio::select! {
                biased;
                answer = exchange => answer,
                () = clocks.sleep_until(late) => Answer::Late { read },
            }
        }));
    }

    /// Remembers the object of an answer, and tells the machine of the rest.
    fn answer(&mut self, answer: Answer<L::Object>) -> Signal {
        self.request = None;
        match answer {
            Answer::Read(Ok(found)) => {
                self.reads.clear();
                Signal::Read(Ok(found.map(|locked| {
                    let version = locked.state.version.clone();
                    self.object = Some((version, Arc::new(locked.object)));
                    locked.state
                })))
            }
            Answer::Written(Ok(locked)) => {
                self.writes.clear();
                let version = locked.state.version;
                self.object = Some((version.clone(), Arc::new(locked.object)));
                Signal::Written(Ok(version))
            }
            Answer::Read(Err(error)) => Signal::Read(Err(self.failure(true, &error))),
            Answer::Written(Err(error)) => Signal::Written(Err(self.failure(false, &error))),
            Answer::Late { read } => {
                self.warn(read, None, &"no answer in time");
                match read {
                    true => Signal::Read(Err(Failure::unknown())),
                    false => Signal::Written(Err(Failure::unknown())),
                }
            }
        }
    }

    /// Remembers the object of an event, and tells the machine of the rest.
    fn hint(&mut self, told: Told<LockEvent<L::Object>>) -> Hint {
        match told {
            Told::Up => Hint::Up,
            Told::Down => Hint::Down,
            Told::Event(LockEvent::Changed(locked)) => {
                self.hinted = Some((locked.state.version.clone(), Arc::new(locked.object)));
                Hint::Changed(locked.state)
            }
            Told::Event(LockEvent::Deleted { uid }) => Hint::Deleted { uid },
            Told::Event(LockEvent::Touched) => Hint::Touched,
        }
    }

    fn failure(&mut self, read: bool, error: &ApiError) -> Failure {
        let code = error.status().map(|status| status.code);
        if matches!(error.kind, ErrorKind::Decode(_)) {
            self.count(|metrics| &*metrics.malformed, 1);
        }
        match error.is_conflict() || error.is_already_exists() {
            // Another one was quicker, as in every election.
            true => tracing::debug!(lock = %self.name, %error, "lost a race for the lock"),
            false => self.warn(read, Some((mem::discriminant(&error.kind), code)), error),
        }
        Failure::from(error)
    }

    /// Logs a failure so that it is seen, and not once in each retry period.
    fn warn(&mut self, read: bool, kind: Kind, error: &dyn fmt::Display) {
        let (verb, trouble) = if read { ("read", &mut self.reads) } else { ("write", &mut self.writes) };
        match trouble.insert(kind) {
            true => tracing::warn!(lock = %self.name, %error, "cannot {verb} the lock"),
            false => tracing::debug!(lock = %self.name, %error, "still cannot {verb} the lock"),
        }
    }

    fn of_term(&self, change: impl FnOnce(&TermHandle)) {
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

    fn tell(&self, notice: Notice) {
        // The receiver is gone only when this task is about to be aborted.
        let _ = self.notices.send(notice);
    }
}

async fn next_answer<O>(request: &mut Option<Exchange<O>>) -> Answer<O> {
    match request {
        Some(request) => request.await,
        None => pending().await,
    }
}

async fn sleep(clocks: &dyn Clocks, wake: Option<Deadline>) {
    match wake {
        Some(wake) => clocks.sleep_until(wake).await,
        None => pending().await,
    }
}
