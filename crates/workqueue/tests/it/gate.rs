//! Holds a queue locked for as long as a test wants it.

use std::fmt;
use std::hash::Hash;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use pintle_workqueue::ratelimit::ManualClock;
use pintle_workqueue::{Order, Queued, Ticket, WorkQueue};

/// How long a step may take that should not have to wait.
const LIMIT: Duration = Duration::from_secs(10);

/// What a test has of a [`Gated`] order.
pub(crate) struct Gate {
    entered: Receiver<()>,
    leave: SyncSender<()>,
}

/// Waits, under the queue's lock, while it is given the key that is the gate.
#[derive(Debug)]
struct Gated<K> {
    order: Box<dyn Order<K>>,
    is_gate: fn(&K) -> bool,
    entered: SyncSender<()>,
    leave: Receiver<()>,
}

/// What `order` is, but for the gate.
pub(crate) fn gated<K: fmt::Debug + 'static>(
    order: Box<dyn Order<K>>,
    is_gate: fn(&K) -> bool,
) -> (Box<dyn Order<K>>, Gate) {
    let (tell_entered, entered) = sync_channel(1);
    let (leave, told_leave) = sync_channel(1);
    let order = Gated { order, is_gate, entered: tell_entered, leave: told_leave };
    (Box::new(order), Gate { entered, leave })
}

impl Gate {
    /// Takes steps while another thread, which adds the gate, has the queue locked. If one of them waits for the lock, the test fails.
    pub(crate) fn hold<K: Hash + Eq + Send>(&self, queue: &WorkQueue<K, ManualClock>, gate: K, steps: impl FnOnce()) {
        thread::scope(|scope| {
            scope.spawn(|| queue.add(gate));
            self.entered.recv().unwrap();
            steps();
            self.leave.send(()).unwrap();
        });
    }
}

impl<K: fmt::Debug> Order<K> for Gated<K> {
    fn push(&mut self, key: Queued<'_, K>) -> u64 {
        if (self.is_gate)(key.key) {
            self.entered.send(()).unwrap();
            self.leave.recv_timeout(LIMIT).expect("no step waits for the lock");
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
