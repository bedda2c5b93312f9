//! Records the operator's requests, its Lease writes, and the failed processes of a run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pintle_apiserver::RequestVerb;
use pintle_meta::__private::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::reporter::{FailedCall, Reporter};
use crate::request::{BlockedOwner, SentRequest};
use crate::violation::Violation;

/// The maximum number of requests in a run. A correct operator sends far fewer requests. An operator that loops without
/// a delay exceeds the maximum, because the paused clock does not advance during the loop.
const MAX_REQUESTS: usize = 50_000;
/// The maximum number of requests within one second of the paused clock. An operator that loops without a delay usually
/// exceeds this limit before `MAX_REQUESTS`.
const MAX_RATE: usize = 2_000;

const STALLED_REQUESTS: usize = 15;

pub(crate) const PANICKED: &str = "it panicked";

#[derive(Debug)]
pub(crate) struct Journal {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    requests: Vec<SentRequest>,
    leases: Vec<LeaseWrite>,
    /// The index of each request that the server answered with the status 403, and the message of the response.
    forbidden: Vec<(usize, String)>,
    last_activity: Instant,
    is_flooded: bool,
    /// The start of the current second on the paused clock, and the number of requests before this second.
    second: (Instant, usize),
    /// The name of each ended process, with the cause: a panic, or an error that no disturbance explains.
    ended: Vec<(String, String)>,
    /// The processes whose tasks are running. The reporter is `None` until the manager of the process is created.
    running: BTreeMap<String, Option<Reporter>>,
}

/// A running process. Dropping this guard records that the process has ended.
pub(crate) struct Running(Arc<Journal>, String);

impl Drop for Running {
    fn drop(&mut self) {
        let removed = self.0.inner.lock().running.remove(&self.1);
        // Release the lock before dropping the controllers of the process, because dropping them runs code of the
        // operator.
        drop(removed);
    }
}

#[derive(Clone, Debug)]
pub(crate) struct LeaseWrite {
    pub(crate) revision: u64,
    pub(crate) process: String,
    pub(crate) lease: String,
    /// The holder of the Lease after the write. The holder is empty if the write released the Lease.
    pub(crate) holder: String,
    /// The time at which the Lease expires if the holder does not renew it.
    pub(crate) expires: Instant,
}

#[derive(Debug, Default)]
pub(crate) struct Effect {
    pub(crate) changes: Vec<String>,
    pub(crate) blocked_owners: Vec<BlockedOwner>,
}

impl Journal {
    pub(crate) fn new() -> Self {
        let inner = Inner {
            requests: Vec::new(),
            leases: Vec::new(),
            forbidden: Vec::new(),
            last_activity: Instant::now(),
            is_flooded: false,
            second: (Instant::now(), 0),
            ended: Vec::new(),
            running: BTreeMap::new(),
        };
        Self { inner: Mutex::new(inner) }
    }

    pub(crate) fn running(self: &Arc<Self>, process: &str) -> Running {
        self.inner.lock().running.insert(process.into(), None);
        Running(self.clone(), process.into())
    }

    pub(crate) fn report(&self, process: &str, reporter: Reporter) {
        if let Some(running) = self.inner.lock().running.get_mut(process) {
            *running = Some(reporter);
        }
    }

    pub(crate) fn errors(&self) -> Vec<String> {
        let errors = |(process, reporter): (String, Reporter)| {
            reporter.errors().into_iter().map(move |error| format!("{process}: {error}"))
        };
        self.reporters().into_iter().flat_map(errors).collect()
    }

    /// Returns the failed reconciliations of keys that no process has reconciled since. A standby still reports the
    /// failed reconciliations of its last term.
    pub(crate) fn failed_calls(&self) -> Vec<(String, FailedCall)> {
        let reporters = self.reporters();
        let calls = |(process, reporter): &(String, Reporter)| {
            let process = process.clone();
            reporter.failed_calls().into_iter().map(move |call| (process.clone(), call))
        };
        let is_last =
            |(_, call): &(String, FailedCall)| !reporters.iter().any(|(_, reporter)| reporter.has_called_since(call));
        reporters.iter().flat_map(calls).filter(is_last).collect()
    }

    pub(crate) fn was_deleted(&self, controller: &str, key: &str) -> bool {
        self.reporters().iter().any(|(_, reporter)| reporter.was_deleted(controller, key))
    }

    fn reporters(&self) -> Vec<(String, Reporter)> {
        let inner = self.inner.lock();
        inner.running.iter().filter_map(|(name, reporter)| Some((name.clone(), reporter.clone()?))).collect()
    }

    /// Returns the violation for a run whose paused clock did not advance for the real time `limit`.
    pub(crate) fn stalled(&self, limit: Duration) -> Violation {
        let running: Vec<String> = self.inner.lock().running.keys().cloned().collect();
        let processes = if running.is_empty() { "no process".into() } else { running.join(" and ") };
        let what = format!(
            "the paused clock did not advance for {} s of real time, and {processes} was running; a task never waits, \
             for example because a reconciler waits in a loop without a delay",
            limit.as_secs_f64()
        );
        Violation::NotSteady { what, requests: self.tail(STALLED_REQUESTS), errors: self.errors() }
    }

    /// Adds a request and returns its index. Returns `None` if the run exceeds the maximum number of requests.
    pub(crate) fn begin(&self, request: SentRequest) -> Option<usize> {
        let mut inner = self.inner.lock();
        let sent = inner.requests.len();
        if inner.second.0.elapsed() >= Duration::from_secs(1) {
            inner.second = (Instant::now(), sent);
        }
        if sent >= MAX_REQUESTS || sent - inner.second.1 >= MAX_RATE {
            inner.is_flooded = true;
            return None;
        }
        inner.requests.push(request);
        Some(inner.requests.len() - 1)
    }

    pub(crate) fn complete(&self, index: usize, code: Option<u16>, fault: &str, effect: Effect) {
        let mut inner = self.inner.lock();
        let request = &mut inner.requests[index];
        request.code = code.or(request.code);
        if !fault.is_empty() {
            request.fault = fault.into();
        }
        if !effect.changes.is_empty() {
            request.changes = effect.changes;
            request.blocked_owners = effect.blocked_owners;
        }
        if request.is_activity() {
            inner.last_activity = Instant::now();
        }
    }

    pub(crate) fn forbidden(&self, index: usize, message: String) {
        self.inner.lock().forbidden.push((index, message));
    }

    /// Returns the first request for each verb, resource and namespace that the server rejected because `user` lacks a
    /// permission. Admission plugins, webhooks and injected faults also cause responses with the status 403, but with other
    /// messages, so this method omits their requests.
    pub(crate) fn denied(&self, user: &str) -> Vec<SentRequest> {
        let (inner, user) = (self.inner.lock(), [format!("User {user:?} cannot "), format!("user {user:?} (groups=")]);
        let mut denied = Vec::<SentRequest>::new();
        for (index, _) in inner.forbidden.iter().filter(|(_, message)| user.iter().any(|text| message.contains(text))) {
            let request = &inner.requests[*index];
            if !denied.iter().any(|known| known.is_same(request, false)) {
                denied.push(request.clone());
            }
        }
        denied
    }

    pub(crate) fn lease_written(&self, process: &str, lease: &Value) {
        let text = |path: &str| lease.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let Ok(revision) = text("/metadata/resourceVersion").parse() else { return };
        let seconds = lease.pointer("/spec/leaseDurationSeconds").and_then(Value::as_u64).unwrap_or_default();
        let (lease, holder) = (text("/metadata/name"), text("/spec/holderIdentity"));
        let expires = Instant::now() + Duration::from_secs(seconds);
        self.inner.lock().leases.push(LeaseWrite { revision, process: process.into(), lease, holder, expires });
    }

    /// Records an action of the user. The operator then does not count as idle until the quiet time has passed again,
    /// because it must react to the action.
    pub(crate) fn touch(&self) {
        self.inner.lock().last_activity = Instant::now();
    }

    pub(crate) fn ended(&self, process: &str, cause: String) {
        self.inner.lock().ended.push((process.into(), cause));
    }

    pub(crate) fn first_ended(&self) -> Option<(String, String)> {
        self.inner.lock().ended.first().cloned()
    }

    pub(crate) fn first_panic(&self) -> Option<(String, String)> {
        self.inner.lock().ended.iter().find(|(_, cause)| cause.starts_with(PANICKED)).cloned()
    }

    pub(crate) fn last_activity(&self) -> Instant {
        self.inner.lock().last_activity
    }

    pub(crate) fn is_flooded(&self) -> bool {
        self.inner.lock().is_flooded
    }

    pub(crate) fn requests(&self) -> Vec<SentRequest> {
        self.inner.lock().requests.clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.inner.lock().requests.len()
    }

    pub(crate) fn leases(&self) -> Vec<LeaseWrite> {
        self.inner.lock().leases.clone()
    }

    /// Returns the last `limit` requests. Omits housekeeping requests and watches.
    pub(crate) fn tail(&self, limit: usize) -> Vec<SentRequest> {
        let inner = self.inner.lock();
        let is_shown = |request: &&SentRequest| request.verb.is_some_and(|verb| verb != RequestVerb::Watch);
        let relevant = inner.requests.iter().rev().filter(|request| !request.is_housekeeping()).filter(is_shown);
        let mut tail: Vec<_> = relevant.take(limit).cloned().collect();
        tail.reverse();
        tail
    }
}
