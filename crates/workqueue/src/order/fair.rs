//! An order that serves tenants round-robin.

use std::collections::BTreeMap;
use std::fmt;

use super::{Fifo, Order, Queued, Ticket};

/// An [`Order`] that serves tenants round-robin, so that a tenant with many queued keys does not delay other tenants.
///
/// If `n` tenants have queued keys, each tenant's next key is dequeued after at most `n - 1` keys of other tenants. The
/// keys of a tenant are dequeued in FIFO order, or in the order passed to [`with_lanes`](Fair::with_lanes). The tenant
/// function may be called several times for a key, and must return the same tenant each time.
///
/// # Examples
///
/// ```
/// use pintle_workqueue::{Fair, QueueConfig, WorkQueue};
///
/// let namespace = |key: &String| key.split('/').next().unwrap_or_default().to_owned();
/// let config = QueueConfig { order: Box::new(Fair::new(namespace)), ..QueueConfig::default() };
/// let queue: WorkQueue<String> = WorkQueue::new(config);
/// for key in ["big/1", "big/2", "big/3", "small/1"] {
///     queue.add(key.to_owned());
/// }
/// let order: Vec<_> = std::iter::from_fn(|| queue.try_get().ok()).map(|item| item.key().clone()).collect();
/// assert_eq!(order, ["big/1", "small/1", "big/2", "big/3"]);
/// ```
pub struct Fair<K, T> {
    tenant: Box<dyn Fn(&K) -> T + Send>,
    lane: Box<dyn Fn() -> Box<dyn Order<K>> + Send>,
    /// The order (*lane*) of each tenant that has queued keys. The map is a tree, because a growing hash table would
    /// move all its entries at once.
    lanes: BTreeMap<T, Lane<K>>,
    /// The tenants that have queued keys, by turn number, where the lowest number is served next.
    turns: BTreeMap<u64, T>,
    last_turn: u64,
    len: usize,
    needs_time: bool,
}

struct Lane<K> {
    order: Box<dyn Order<K>>,
    turn: u64,
}

impl<K, T: Ord + Clone> Fair<K, T> {
    /// Creates an order that serves tenants round-robin. `tenant` returns a key's tenant. The keys of a tenant are
    /// dequeued in FIFO order.
    pub fn new(tenant: impl Fn(&K) -> T + Send + 'static) -> Self {
        Self::with_lanes(tenant, || Box::new(Fifo::default()))
    }

    /// Creates an order that serves tenants round-robin. When a key is queued for a tenant that has no queued keys,
    /// `lane` creates the order of this tenant's keys.
    pub fn with_lanes(
        tenant: impl Fn(&K) -> T + Send + 'static,
        lane: impl Fn() -> Box<dyn Order<K>> + Send + 'static,
    ) -> Self {
        let needs_time = lane().needs_time();
        Self {
            tenant: Box::new(tenant),
            lane: Box::new(lane),
            lanes: BTreeMap::new(),
            turns: BTreeMap::new(),
            last_turn: 0,
            len: 0,
            needs_time,
        }
    }
}

impl<K, T: Ord + Clone + Send> Order<K> for Fair<K, T> {
    fn push(&mut self, key: Queued<'_, K>) -> u64 {
        let tenant = (self.tenant)(key.key);
        let lane = self.lanes.entry(tenant.clone()).or_insert_with(|| {
            let order = (self.lane)();
            self.last_turn += 1;
            self.turns.insert(self.last_turn, tenant);
            Lane { order, turn: self.last_turn }
        });
        let place = lane.order.push(key);
        self.len += 1;
        place
    }

    fn pop(&mut self) -> Option<Ticket> {
        // Try each lane once, because a lane that contains keys can still return `None`.
        for _ in 0..self.turns.len() {
            let (_, tenant) = self.turns.pop_first()?;
            let Some(lane) = self.lanes.get_mut(&tenant) else { continue };
            let ticket = lane.order.pop();
            if lane.order.is_empty() {
                self.lanes.remove(&tenant);
            } else {
                self.last_turn += 1;
                lane.turn = self.last_turn;
                self.turns.insert(self.last_turn, tenant);
            }
            if ticket.is_some() {
                self.len -= 1;
                return ticket;
            }
        }
        None
    }

    fn remove(&mut self, key: Queued<'_, K>, place: u64) {
        let tenant = (self.tenant)(key.key);
        let Some(lane) = self.lanes.get_mut(&tenant) else { return };
        let before = lane.order.len();
        lane.order.remove(key, place);
        self.len -= before - lane.order.len();
        if lane.order.is_empty() {
            self.turns.remove(&lane.turn);
            self.lanes.remove(&tenant);
        }
    }

    fn touch(&mut self, key: Queued<'_, K>, place: u64, priority: i32) -> u64 {
        match self.lanes.get_mut(&(self.tenant)(key.key)) {
            Some(lane) => lane.order.touch(key, place, priority),
            None => place,
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

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::super::tests::{Naive, compare, config};
    use super::*;

    /// The tenants in the order of their turns, each with its queued keys, and the total number of tenants.
    struct Tenants(VecDeque<(u32, Vec<Ticket>)>, u32);

    impl Naive for Tenants {
        fn push(&mut self, ticket: Ticket, key: u32, _priority: i32, _now: u64) {
            let tenant = key % self.1;
            match self.0.iter_mut().find(|(known, _)| *known == tenant) {
                Some((_, tickets)) => tickets.push(ticket),
                None => self.0.push_back((tenant, vec![ticket])),
            }
        }

        fn pop(&mut self) -> Option<Ticket> {
            let (tenant, mut tickets) = self.0.pop_front()?;
            let ticket = tickets.remove(0);
            if !tickets.is_empty() {
                self.0.push_back((tenant, tickets));
            }
            Some(ticket)
        }

        fn remove(&mut self, ticket: Ticket) {
            self.0.iter_mut().for_each(|(_, tickets)| tickets.retain(|queued| *queued != ticket));
            self.0.retain(|(_, tickets)| !tickets.is_empty());
        }

        fn touch(&mut self, _ticket: Ticket, _priority: i32) {}
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn tenants_alternate(seed in any::<u64>(), tenants in 1..300u32) {
            compare(Fair::new(move |key| key % tenants), Tenants(VecDeque::new(), tenants), seed);
        }
    }
}
