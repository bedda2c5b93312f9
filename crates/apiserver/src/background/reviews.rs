//! Calls the admission webhooks that a controller's writes need. While a webhook processes a review, the controller
//! continues with other objects.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use pintle_apimachinery::failure::Failure;
use pintle_apimachinery::request::Requester;
use pintle_apimachinery::request::user::User;
use pintle_meta::Time;
use pintle_serving::offload::Offload;
use tokio::task::{Id, JoinSet};

use crate::registry::Registry;

/// The maximum number of objects whose reviews are in flight at the same time. kube-controller-manager also has 20
/// workers that collect garbage.
pub(super) const MAX_IN_FLIGHT: usize = 20;

/// The reviews that the writes of a controller are waiting for. Each key identifies an object that the controller
/// processes.
///
/// A write attempt never waits. If an attempt needs a webhook's response, the attempt fails, and the controller passes
/// the failure to [`call`](Self::call). [`next`](Self::next) returns the key as soon as the webhook has responded. The
/// controller then processes the object again, with the same requester, which contains the response.
#[derive(Debug)]
pub(super) struct Reviews<K> {
    user: &'static str,
    /// The keys whose reviews are in flight or delayed, and the requesters of reviews in flight.
    waiting: HashMap<K, Option<Requester>>,
    in_flight: HashMap<Id, K>,
    calls: JoinSet<()>,
    /// The keys that exceed the maximum number of reviews in flight.
    delayed: VecDeque<K>,
    /// The keys that the controller must process again.
    ready: VecDeque<K>,
    answered: HashMap<K, Requester>,
}

impl<K: Clone + Eq + Hash> Reviews<K> {
    /// Creates reviews of the writes of a controller in kube-controller-manager.
    pub(super) fn new(user: &'static str) -> Self {
        Self {
            user,
            waiting: HashMap::new(),
            in_flight: HashMap::new(),
            calls: JoinSet::new(),
            delayed: VecDeque::new(),
            ready: VecDeque::new(),
            answered: HashMap::new(),
        }
    }

    /// Returns the requester for an attempt to process an object. Returns `None` while reviews for the object are in
    /// flight or delayed.
    pub(super) fn requester(&mut self, registry: &Registry, key: &K) -> Option<Requester> {
        if self.waiting.contains_key(key) {
            return None;
        }
        let by = self.answered.remove(key).unwrap_or_else(|| Requester::new(User::controller(self.user)));
        registry.prepare_webhooks(&by);
        Some(by)
    }

    /// Calls the webhooks that an attempt needs. Returns `false` if the attempt has failed for another reason.
    pub(super) fn call(&mut self, registry: &Arc<Registry>, key: K, by: Requester, failure: &Failure) -> bool {
        if !failure.is_waiting() {
            return false;
        }
        if self.in_flight.len() >= MAX_IN_FLIGHT {
            // Drop the requester, because a review contains a copy of the object.
            self.waiting.insert(key.clone(), None);
            self.delayed.push_back(key);
            return true;
        }
        let (registry, requester) = (registry.clone(), by.clone());
        let permits = registry.offload_permits.clone();
        // Ignore an error. The next attempt fails with the same error.
        let call = async move { drop(registry.settle(&requester).await) };
        let task = self.calls.spawn(Offload::new(&permits, call));
        self.in_flight.insert(task.id(), key.clone());
        self.waiting.insert(key, Some(by));
        true
    }

    /// Returns the next object that the controller must process again. Waits if there is no such object.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub(super) async fn next(&mut self) -> K {
        loop {
            while self.in_flight.len() + self.ready.len() < MAX_IN_FLIGHT
                && let Some(key) = self.delayed.pop_front()
            {
                self.ready.push_back(key);
            }
            if let Some(key) = self.ready.pop_front() {
                if let Some(Some(by)) = self.waiting.remove(&key) {
                    self.answered.insert(key.clone(), by);
                }
                return key;
            }
            let id = match self.calls.join_next_with_id().await {
                Some(Ok((id, ()))) => id,
                Some(Err(error)) => error.id(),
                None => std::future::pending().await,
            };
            self.ready.extend(self.in_flight.remove(&id));
        }
    }

    /// Forgets the responses for an object that no longer exists.
    pub(super) fn forget(&mut self, key: &K) {
        self.answered.remove(key);
    }

    /// Forgets all responses that no attempt has used. A controller that processes all of its objects at once calls this
    /// method afterwards.
    pub(super) fn forget_unused(&mut self) {
        self.answered.clear();
    }

    /// Returns `true` if the controller waits for a webhook.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }
}

/// Returns the current time as text, or the time of the first attempt if the requester calls webhooks. All attempts
/// must write the same object, because each different object needs another review.
pub(super) fn now_text(registry: &Registry, by: &Requester) -> String {
    Time(by.now(|| registry.clock.now())).to_string()
}
