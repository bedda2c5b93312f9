//! Locks that keep a queue blocked until a test unlocks it.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use pintle_workqueue::ratelimit::{Clock, ManualClock, RateLimiter, Sleep, Timer};
use pintle_workqueue::{Order, Queued, Ticket, WorkQueue};

/// The time limit for operations that must not wait for the lock.
const LIMIT: Duration = Duration::from_secs(10);

pub(crate) struct Gate {
    entered: Receiver<()>,
    leave: SyncSender<()>,
}

/// Blocks user code under the queue's lock until the test opens the [`Gate`].
#[derive(Debug)]
pub(crate) struct Bar {
    entered: SyncSender<()>,
    leave: Receiver<()>,
}

/// An [`Order`] whose `push` blocks for the gate key.
#[derive(Debug)]
struct Gated<K> {
    order: Box<dyn Order<K>>,
    is_gate: fn(&K) -> bool,
    bar: Bar,
}

/// A limiter whose `forget` blocks. Because `forget` makes no key available, no waiter is woken when it continues.
pub(crate) struct GatedLimiter(pub(crate) Bar);

/// A clock that can open a gate when it is read. If the queue has metrics, an operation that finds the lock contended
/// reads the clock first. An `Opener` can therefore keep the queue locked until another operation has found the lock
/// contended.
#[derive(Clone)]
pub(crate) struct Opener {
    pub(crate) clock: ManualClock,
    opens: Arc<AtomicBool>,
    leave: SyncSender<()>,
}

pub(crate) fn gate() -> (Gate, Bar) {
    let (tell_entered, entered) = sync_channel(1);
    let (leave, told_leave) = sync_channel(1);
    (Gate { entered, leave }, Bar { entered: tell_entered, leave: told_leave })
}

pub(crate) fn gated<K: fmt::Debug + 'static>(
    order: Box<dyn Order<K>>,
    is_gate: fn(&K) -> bool,
) -> (Box<dyn Order<K>>, Gate) {
    let (gate, bar) = gate();
    (Box::new(Gated { order, is_gate, bar }), gate)
}

impl Gate {
    /// Runs `steps` while another thread holds the queue's lock, because it adds the gate key. The test fails if
    /// `steps` waits for the lock.
    pub(crate) fn hold<K: Hash + Eq + Send, C: Clock>(&self, queue: &WorkQueue<K, C>, gate: K, steps: impl FnOnce()) {
        let steps = || {
            steps();
            self.open();
        };
        self.hold_by(|| queue.add(gate), steps);
    }

    /// Runs `steps` while the [`Bar`] blocks `call` on another thread. The last step must open the gate.
    pub(crate) fn hold_by<T: Send>(&self, call: impl FnOnce() -> T + Send, steps: impl FnOnce()) -> T {
        thread::scope(|scope| {
            let call = scope.spawn(call);
            self.entered.recv_timeout(LIMIT).expect("the call reaches the bar");
            steps();
            call.join().unwrap()
        })
    }

    pub(crate) fn open(&self) {
        self.leave.send(()).unwrap();
    }

    pub(crate) fn opener(&self) -> Opener {
        Opener { clock: ManualClock::new(), opens: Arc::default(), leave: self.leave.clone() }
    }
}

impl Bar {
    pub(crate) fn wait(&self) {
        self.entered.send(()).unwrap();
        self.leave.recv_timeout(LIMIT).expect("no step waits for the lock");
    }
}

impl Opener {
    pub(crate) fn opens_next(&self) {
        self.opens.store(true, Ordering::SeqCst);
    }
}

impl Clock for Opener {
    fn now(&self) -> Instant {
        if self.opens.swap(false, Ordering::SeqCst) {
            self.leave.send(()).unwrap();
        }
        self.clock.now()
    }

    fn park_until(&self, deadline: Option<Instant>) {
        self.clock.park_until(deadline);
    }
}

impl Timer for Opener {
    fn sleep_until(&self, deadline: Instant) -> Sleep {
        self.clock.sleep_until(deadline)
    }
}

impl<K> RateLimiter<K> for GatedLimiter {
    fn delay(&mut self, _: &K, _: u32, _: Instant) -> Duration {
        Duration::ZERO
    }

    fn forget(&mut self, _: &K) {
        self.0.wait();
    }
}

impl<K: fmt::Debug> Order<K> for Gated<K> {
    fn push(&mut self, key: Queued<'_, K>) -> u64 {
        if (self.is_gate)(key.key) {
            self.bar.wait();
        }
        self.order.push(key)
    }

    fn pop(&mut self) -> Option<Ticket> {
        self.order.pop()
    }

    fn remove(&mut self, key: Queued<'_, K>, place: u64) {
        self.order.remove(key, place);
    }

    fn touch(&mut self, key: Queued<'_, K>, place: u64, priority: i32) -> u64 {
        self.order.touch(key, place, priority)
    }

    fn len(&self) -> usize {
        self.order.len()
    }

    fn needs_time(&self) -> bool {
        self.order.needs_time()
    }
}
