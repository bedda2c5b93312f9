use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use pintle_meta::Object;
use tokio::sync::Notify;

use crate::subscription::Queue;
use crate::{Indexer, Output, Subscription};

/// The store of an informer, and those who want to hear of it.
///
/// A change goes to the store first and then to all subscribers, both under the lock of `audience`. So who subscribes gets
/// the store's content and then each later change, none of them twice.
pub(crate) struct Cache<T> {
    pub(crate) indexer: Arc<Indexer<T>>,
    audience: Mutex<Audience<T>>,
    /// A subscriber came whose resync may be due before all others.
    pub(crate) resyncs_changed: Notify,
}

struct Audience<T> {
    queues: Vec<Weak<Queue<T>>>,
    has_synced: bool,
    is_closed: bool,
}

impl<T: Object> Cache<T> {
    pub(crate) fn new() -> Self {
        let audience = Audience { queues: Vec::new(), has_synced: false, is_closed: false };
        Self { indexer: Arc::default(), audience: Mutex::new(audience), resyncs_changed: Notify::new() }
    }

    pub(crate) fn subscribe(&self, now: Instant, resync: Option<Duration>) -> Subscription<T> {
        let mut audience = self.lock();
        let queue = Arc::new(Queue::new(resync.map(|period| (period, now + period))));
        for object in self.indexer.list() {
            queue.added(object, true);
        }
        if audience.has_synced {
            queue.upstream_synced();
        }
        if audience.is_closed {
            queue.close();
        }
        audience.queues.push(Arc::downgrade(&queue));
        self.resyncs_changed.notify_one();
        Subscription::new(queue)
    }

    pub(crate) fn apply(&self, output: Output<Arc<T>>) {
        let mut audience = self.lock();
        let queues = audience.present();
        match output {
            Output::Replaced { objects, resource_version } => {
                let replacement = self.indexer.replace(objects, &resource_version);
                let is_initial = !audience.has_synced;
                for object in replacement.deleted {
                    queues.iter().for_each(|queue| queue.deleted(object.clone(), object.clone(), false));
                }
                for (old, new) in replacement.present {
                    tell(&queues, old, &new, is_initial);
                }
                audience.has_synced = true;
                queues.iter().for_each(|queue| queue.upstream_synced());
            }
            Output::Added(object) | Output::Updated(object) => {
                let old = self.indexer.upsert(object.clone());
                tell(&queues, old, &object, false);
            }
            Output::Deleted(object) => {
                if let Some(old) = self.indexer.delete(&object.key(), object.resource_version()) {
                    queues.iter().for_each(|queue| queue.deleted(old.clone(), object.clone(), true));
                }
            }
            Output::Bookmark { resource_version } => self.indexer.bookmark(&resource_version),
        }
    }

    /// Whether the store has held the whole resource at least once.
    pub(crate) fn has_synced(&self) -> bool {
        self.lock().has_synced
    }

    /// When the next subscriber wants to be reminded of all objects.
    pub(crate) fn next_resync(&self) -> Option<Instant> {
        self.lock().present().iter().filter_map(|queue| queue.next_resync()).min()
    }

    /// Reminds those who are due.
    pub(crate) fn resync(&self, now: Instant) {
        let mut audience = self.lock();
        for queue in audience.present() {
            if queue.is_resync_due(now) {
                self.indexer.list().into_iter().for_each(|object| queue.sync(object));
            }
        }
    }

    pub(crate) fn close(&self) {
        let mut audience = self.lock();
        audience.is_closed = true;
        audience.present().iter().for_each(|queue| queue.close());
        self.indexer.close();
    }

    /// Nothing panics under this lock but what has changed nothing yet, so poison says nothing.
    fn lock(&self) -> MutexGuard<'_, Audience<T>> {
        self.audience.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Audience<T> {
    /// Those who still listen.
    fn present(&mut self) -> Vec<Arc<Queue<T>>> {
        let mut present = Vec::with_capacity(self.queues.len());
        self.queues.retain(|queue| match queue.upgrade() {
            Some(queue) => {
                present.push(queue);
                true
            }
            None => false,
        });
        present
    }
}

fn tell<T: Object>(queues: &[Arc<Queue<T>>], old: Option<Arc<T>>, new: &Arc<T>, is_initial: bool) {
    match old {
        None => queues.iter().for_each(|queue| queue.added(new.clone(), is_initial)),
        Some(old) if is_same_state(&*old, &**new) => {}
        Some(old) => queues.iter().for_each(|queue| queue.updated(old.clone(), new.clone())),
    }
}

/// Whether a relist brought what is known. Without a resourceVersion nothing can be said, and all counts as news.
fn is_same_state<T: Object>(old: &T, new: &T) -> bool {
    let (old, new) = (old.metadata(), new.metadata());
    !new.resource_version().is_empty() && old.resource_version() == new.resource_version() && old.uid() == new.uid()
}
