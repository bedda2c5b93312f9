//! The simulated lock, and the network that connects it to the electors.

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use pintle_leaderelect::{
    Clocks, LeaderElectionRecord, Lock, LockEvent, LockEvents, LockSnapshot, LockState, TimePrecision, Version,
};
use pintle_meta::{ApiError, ApiResource, ObjectKey, Reason, Scope, Status};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::clock::NodeClock;
use super::{State, Stored, World};

/// A process's connection to the lock, or to one half of the lock.
pub(crate) struct Line {
    pub(crate) world: Arc<World>,
    pub(crate) key: ObjectKey,
    pub(crate) half: usize,
    pub(crate) node: usize,
    pub(crate) incarnation: u64,
    pub(crate) clock: Arc<NodeClock>,
}

#[derive(Clone, Debug)]
pub(crate) enum Request {
    Get,
    Create(LeaderElectionRecord),
    Update(Version, LeaderElectionRecord),
}

/// A write that the lock has stored.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) half: usize,
    /// The time at which the write was sent, on the node's clock.
    pub(crate) sent: Duration,
    pub(crate) record: LeaderElectionRecord,
}

type Answer = Result<Option<LockState>, ApiError>;

impl Line {
    /// Sends a request. The request continues even if the caller drops this future.
    pub(crate) async fn call(&self, request: Request) -> Answer {
        let (world, clock, node, incarnation) = (self.world.clone(), self.clock.clone(), self.node, self.incarnation);
        let half = self.half;
        let (sent, sent_locally) = (Instant::now(), clock.now().monotonic);
        world.lock().sending(node, incarnation, &request);
        let (answered, answer) = oneshot::channel();
        tokio::spawn(async move {
            let (delay, lost) = world.way(node);
            if lost {
                return;
            }
            tokio::time::sleep(delay).await;
            let by = Sender { node, incarnation, half, sent, sent_locally };
            let mut answer = world.serve(&by, &request);
            if world.again(&request) {
                let (delay, _) = world.way(node);
                tokio::time::sleep(delay).await;
                answer = world.serve(&by, &request);
            }
            let (delay, lost) = world.way(node);
            if lost {
                return;
            }
            let late = world.lock().nodes[node].answers_late;
            tokio::time::sleep(delay + late).await;
            clock.awake().await;
            if answered.is_closed() {
                return;
            }
            world.lock().answering(node, incarnation, &answer);
            let _ = answered.send(answer);
        });
        match answer.await {
            Ok(answer) => answer,
            Err(_) => pending().await,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    pub(crate) node: usize,
    pub(crate) incarnation: u64,
    pub(crate) half: usize,
    /// The simulated time at which the write was sent.
    pub(crate) sent: Instant,
    /// The time at which the write was sent, on the node's clock.
    pub(crate) sent_locally: Duration,
}

impl World {
    /// Returns a random delay for a message, and whether the network loses the message.
    fn way(&self, node: usize) -> (Duration, bool) {
        let mut state = self.lock();
        let quick = state.rng.u64(500..30_000);
        if state.calm {
            return (Duration::from_micros(quick), false);
        }
        let slow = state.rng.f64() < self.chaos.slow;
        let delay = if slow { state.rng.u64(quick..8_000_000) } else { quick };
        let lost = state.rng.f64() < self.chaos.loss || state.nodes[node].cut_off_until > Instant::now();
        (Duration::from_micros(delay), lost)
    }

    /// Returns `true` if the network should send the request twice. The network repeats only writes, and only at
    /// random.
    fn again(&self, request: &Request) -> bool {
        let mut state = self.lock();
        !state.calm && !matches!(request, Request::Get) && state.rng.f64() < self.chaos.resent
    }

    fn serve(&self, by: &Sender, request: &Request) -> Answer {
        let mut state = self.lock();
        state.exclusion(self);
        if !state.calm && state.rng.f64() < self.chaos.refused {
            let mut error = if state.rng.bool() {
                refusal(429, Reason::TooManyRequests)
            } else {
                refusal(503, Reason::ServiceUnavailable)
            };
            error.retry_after = Some(Duration::from_secs(1));
            return Err(error);
        }
        match request {
            Request::Get => {
                state.reads += 1;
                Ok(state.halves[by.half].as_ref().map(Stored::state))
            }
            Request::Create(_) if state.halves[by.half].is_some() => Err(refusal(409, Reason::AlreadyExists)),
            Request::Create(record) => {
                state.last_uid += 1;
                Ok(Some(state.store(by, record)))
            }
            Request::Update(base, record) => match &state.halves[by.half] {
                None => Err(refusal(404, Reason::NotFound)),
                Some(stored) if stored.state().version != *base => Err(refusal(409, Reason::Conflict)),
                Some(_) => Ok(Some(state.store(by, record))),
            },
        }
    }
}

fn refusal(code: u16, reason: Reason) -> ApiError {
    Status::failure(code, reason, "rejected by the simulated server").into()
}

impl State {
    /// Applies a write. The server executes the write even if the process was restarted or the write has timed out.
    fn store(&mut self, by: &Sender, record: &LeaderElectionRecord) -> LockState {
        self.writes += 1;
        self.check_write(by, record);
        if self.nodes[by.node].incarnation == by.incarnation {
            let write = Write { half: by.half, sent: by.sent_locally, record: record.clone() };
            self.nodes[by.node].stored.push(write);
        }
        self.put(by.half, record)
    }

    pub(super) fn put(&mut self, half: usize, record: &LeaderElectionRecord) -> LockState {
        self.last_version += 1;
        let (uid, version) = (self.last_uid, self.last_version);
        let stored = Stored { uid, version, record: record.clone(), committed: Instant::now() };
        self.tell_watchers(half, Some(&stored), &stored);
        let state = stored.state();
        self.halves[half] = Some(stored);
        state
    }

    pub(crate) fn tell_watchers(&mut self, half: usize, now: Option<&Stored>, before: &Stored) {
        let event = || match now {
            Some(stored) => changed(stored),
            None => LockEvent::Deleted { uid: before.uid.to_string() },
        };
        let send = |(of, watcher): &Watcher| *of != half || watcher.send(event()).is_ok();
        self.nodes.iter_mut().for_each(|node| node.watchers.retain(send));
    }
}

pub(crate) type Watcher = (usize, mpsc::UnboundedSender<LockEvent<LockState>>);

fn changed(stored: &Stored) -> LockEvent<LockState> {
    LockEvent::Changed(LockSnapshot { state: stored.state(), object: stored.state() })
}

impl Lock for Line {
    type Object = LockState;

    fn resource(&self) -> ApiResource {
        ApiResource::new("example.com/v1", "Lock", "locks", Scope::Namespaced)
    }

    fn key(&self) -> &ObjectKey {
        &self.key
    }

    fn time_precision(&self) -> TimePrecision {
        if self.world.seconds_only[self.half] { TimePrecision::Seconds } else { TimePrecision::Micros }
    }

    async fn watch(&self) -> Result<Option<LockEvents<LockState>>, ApiError> {
        if !self.world.chaos.watches {
            return Ok(None);
        }
        let (delay, lost) = self.world.way(self.node);
        if lost {
            return Err(ApiError::transport("the connection broke"));
        }
        tokio::time::sleep(delay).await;
        let (watcher, mut raw) = mpsc::unbounded_channel();
        {
            let mut state = self.world.lock();
            if let Some(stored) = &state.halves[self.half] {
                let _ = watcher.send(changed(stored));
            }
            state.nodes[self.node].watchers.push((self.half, watcher));
        }
        let (sender, events) = mpsc::unbounded_channel();
        let (world, clock, node, incarnation) = (self.world.clone(), self.clock.clone(), self.node, self.incarnation);
        tokio::spawn(async move {
            while let Some(event) = raw.recv().await {
                let lag = world.lock().nodes[node].watch_lag;
                tokio::time::sleep(lag + world.way(node).0).await;
                clock.awake().await;
                world.lock().telling(node, incarnation, &event);
                if sender.send(event).is_err() {
                    return;
                }
            }
            clock.awake().await;
        });
        Ok(Some(Box::pin(Told(events))))
    }

    async fn get(&self) -> Result<Option<LockSnapshot<LockState>>, ApiError> {
        Ok(self.call(Request::Get).await?.map(|state| LockSnapshot { object: state.clone(), state }))
    }

    async fn create(&self, record: &LeaderElectionRecord) -> Result<LockSnapshot<LockState>, ApiError> {
        self.write(Request::Create(record.clone())).await
    }

    async fn update(
        &self,
        base: &LockState,
        record: &LeaderElectionRecord,
    ) -> Result<LockSnapshot<LockState>, ApiError> {
        self.write(Request::Update(base.version.clone(), record.clone())).await
    }
}

impl Line {
    async fn write(&self, request: Request) -> Result<LockSnapshot<LockState>, ApiError> {
        let state = self.call(request).await?.expect("a write returns the stored state");
        Ok(LockSnapshot { object: state.clone(), state })
    }
}

struct Told(mpsc::UnboundedReceiver<LockEvent<LockState>>);

impl Stream for Told {
    type Item = LockEvent<LockState>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}
