//! Round robin between tenants.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::Hash;

use super::{Fifo, Order, Ticket};

/// Round robin between tenants: a tenant with many queued keys does not delay those of the others.
///
/// With `n` tenants that have keys queued, the next key of each is handed out after at most `n - 1` keys of others. Within a
/// tenant another order decides: first in first out, or the one given to [`with_lanes`](Fair::with_lanes).
///
/// # Examples
///
/// ```
/// use pintle_workqueue::{Fair, Queue, QueueConfig};
///
/// let namespace = |key: &String| key.split('/').next().unwrap_or_default().to_owned();
/// let config = QueueConfig { order: Box::new(Fair::new(namespace)), ..QueueConfig::default() };
/// let queue: Queue<String> = Queue::new(config);
/// for key in ["big/1", "big/2", "big/3", "small/1"] {
///     queue.add(key.to_owned());
/// }
/// let order: Vec<_> = std::iter::from_fn(|| queue.try_get().ok()).map(|item| item.key().clone()).collect();
/// assert_eq!(order, ["big/1", "small/1", "big/2", "big/3"]);
/// ```
pub struct Fair<K, T> {
    tenant: Box<dyn Fn(&K) -> T + Send>,
    lane: Box<dyn Fn() -> Box<dyn Order<K>> + Send>,
    /// Of the tenants that have keys queued.
    lanes: HashMap<T, Box<dyn Order<K>>>,
    /// The same tenants, the next one first.
    turns: VecDeque<T>,
    len: usize,
    needs_time: bool,
}

const KEEP: usize = 64;

impl<K, T: Hash + Eq + Clone> Fair<K, T> {
    /// An order in which the tenant of a key is what `tenant` returns, and the keys of one tenant come first in first out.
    pub fn new(tenant: impl Fn(&K) -> T + Send + 'static) -> Self {
        Self::with_lanes(tenant, || Box::new(Fifo::default()))
    }

    /// An order in which the keys of one tenant come in the order that `lane` makes. It is called for each tenant that comes
    /// up.
    pub fn with_lanes(
        tenant: impl Fn(&K) -> T + Send + 'static,
        lane: impl Fn() -> Box<dyn Order<K>> + Send + 'static,
    ) -> Self {
        let needs_time = lane().needs_time();
        Self {
            tenant: Box::new(tenant),
            lane: Box::new(lane),
            lanes: HashMap::new(),
            turns: VecDeque::new(),
            len: 0,
            needs_time,
        }
    }
}

impl<K, T: Hash + Eq + Clone + Send> Order<K> for Fair<K, T> {
    fn push(&mut self, ticket: Ticket, key: &K, priority: i32, now: u64) {
        let tenant = (self.tenant)(key);
        let lane = self.lanes.entry(tenant.clone()).or_insert_with(|| {
            self.turns.push_back(tenant);
            (self.lane)()
        });
        lane.push(ticket, key, priority, now);
        self.len += 1;
    }

    fn pop(&mut self) -> Option<Ticket> {
        let tenant = self.turns.pop_front()?;
        let lane = self.lanes.get_mut(&tenant)?;
        let ticket = lane.pop();
        self.len -= usize::from(ticket.is_some());
        if lane.is_empty() {
            self.lanes.remove(&tenant);
            if self.lanes.capacity() > KEEP && self.lanes.len() < self.lanes.capacity() / 8 {
                self.lanes.shrink_to(KEEP);
                self.turns.shrink_to(KEEP);
            }
        } else {
            self.turns.push_back(tenant);
        }
        ticket
    }

    fn touch(&mut self, ticket: Ticket, key: &K, priority: i32, now: u64) {
        if let Some(lane) = self.lanes.get_mut(&(self.tenant)(key)) {
            lane.touch(ticket, key, priority, now);
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn needs_time(&self) -> bool {
        self.needs_time
    }
}

impl<K, T> fmt::Debug for Fair<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fair").field("tenants", &self.lanes.len()).field("len", &self.len).finish_non_exhaustive()
    }
}
