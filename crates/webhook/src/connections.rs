//! The server's open connections, and the rule for closing idle connections if there are too many.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use pintle_meta::__private::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

#[derive(Clone)]
pub(crate) struct Connections {
    slots: Arc<Semaphore>,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    next: u64,
    /// The tokens of idle connections, longest idle first.
    idle: BTreeMap<u64, CancellationToken>,
    /// The number of calls to `open` that wait for a connection slot.
    waiting: usize,
    /// The connections that the server is closing to free their slots, by their former key in `idle`.
    closing: BTreeSet<u64>,
}

struct Waiter<'a>(&'a Mutex<Shared>);

pub(crate) struct Connection {
    shared: Arc<Mutex<Shared>>,
    activity: Mutex<Activity>,
    /// Cancelled when the server closes this connection to free its slot.
    give_way: CancellationToken,
    _slot: OwnedSemaphorePermit,
}

struct Activity {
    in_flight: usize,
    /// The connection's current or last key in `idle`.
    place: u64,
    since: Instant,
}

/// A request in flight, which ends when the `InFlight` is dropped.
pub(crate) struct InFlight(Arc<Connection>);

impl Connections {
    pub(crate) fn new(limit: usize) -> Self {
        Self { slots: Arc::new(Semaphore::new(limit)), shared: Arc::default() }
    }

    /// Adds a connection to the open connections. At the connection limit, it first closes the connection that has been
    /// idle longest, or else the next connection that becomes idle. Returns `None` only if the semaphore is closed,
    /// which never happens.
    pub(crate) async fn open(&self) -> Option<Arc<Connection>> {
        let slot = match self.slots.clone().try_acquire_owned() {
            Ok(slot) => slot,
            Err(_) => {
                let _waiter = Waiter::new(&self.shared);
                self.slots.clone().acquire_owned().await.ok()?
            }
        };
        let give_way = CancellationToken::new();
        let place = self.shared.lock().place(&give_way);
        let activity = Mutex::new(Activity { in_flight: 0, place, since: Instant::now() });
        Some(Arc::new(Connection { shared: self.shared.clone(), activity, give_way, _slot: slot }))
    }
}

impl<'a> Waiter<'a> {
    fn new(shared: &'a Mutex<Shared>) -> Self {
        let longest_idle = {
            let mut shared = shared.lock();
            shared.waiting += 1;
            let longest_idle = if shared.needs_slot() { shared.idle.pop_first() } else { None };
            shared.closing.extend(longest_idle.iter().map(|(place, _)| place));
            longest_idle
        };
        longest_idle.inspect(|(_, give_way)| give_way.cancel());
        Self(shared)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
    }
}

impl Shared {
    /// Returns `true` if more calls wait for a slot than connections are closing.
    fn needs_slot(&self) -> bool {
        self.waiting > self.closing.len()
    }

    fn place(&mut self, give_way: &CancellationToken) -> u64 {
        let place = self.next;
        self.next += 1;
        self.idle.insert(place, give_way.clone());
        place
    }
}

impl Connection {
    pub(crate) fn request(self: &Arc<Self>) -> InFlight {
        let mut activity = self.activity.lock();
        activity.in_flight += 1;
        self.shared.lock().idle.remove(&activity.place);
        InFlight(self.clone())
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.activity.lock().in_flight > 0
    }

    #[cfg(test)]
    pub(crate) fn must_give_way(&self) -> bool {
        self.give_way.is_cancelled()
    }

    /// Waits until the server should close this connection, because its slot is needed or it has been idle for `limit`.
    pub(crate) async fn is_useless(&self, limit: Duration) {
        let idle = async {
            loop {
                let until = match *self.activity.lock() {
                    Activity { in_flight: 0, since, .. } if since.elapsed() >= limit => return,
                    Activity { in_flight: 0, since, .. } => since + limit,
                    _ => Instant::now() + limit,
                };
                sleep_until(until).await;
            }
        };
        tokio::select! {
            () = self.give_way.cancelled() => {}
            () = idle => {}
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let place = self.activity.lock().place;
        let mut shared = self.shared.lock();
        shared.idle.remove(&place);
        shared.closing.remove(&place);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut activity = self.0.activity.lock();
        activity.in_flight -= 1;
        if activity.in_flight > 0 {
            return;
        }
        activity.since = Instant::now();
        let mut shared = self.0.shared.lock();
        if shared.closing.contains(&activity.place) {
            return;
        }
        if shared.needs_slot() {
            shared.closing.insert(activity.place);
            drop(shared);
            drop(activity);
            self.0.give_way.cancel();
        } else {
            activity.place = shared.place(&self.0.give_way);
        }
    }
}
