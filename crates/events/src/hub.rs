//! Delivers recorded events to all listeners.

use std::sync::Arc;

use pintle_meta::__private::RwLock;
use pintle_meta::ObjectKey;
use tokio::sync::mpsc;

use crate::event::{Event, EventType};
use crate::metrics::Counters;
use crate::watcher::Watch;

/// Delivers events to all listeners without blocking the caller. A listener with a full queue misses the event.
#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) counters: Arc<Counters>,
    /// The listeners, or `None` after the broadcaster was dropped. Each change replaces the list, so that the hub can
    /// clone the `Arc` and call the listeners without holding the lock.
    listeners: RwLock<Option<Arc<[Listener]>>>,
}

#[derive(Clone, Debug)]
pub(crate) enum Listener {
    Sink(mpsc::Sender<Arc<Event>>),
    Watcher(Watch),
    Log,
}

impl Hub {
    pub(crate) fn new(counters: Counters) -> Self {
        Self { counters: Arc::new(counters), listeners: RwLock::new(Some(Arc::new([]))) }
    }

    pub(crate) fn add(&self, listener: Listener) {
        self.change(|listeners| listeners.push(listener));
    }

    /// Removes all listeners. After this call, listeners can still receive the events in their queues.
    pub(crate) fn close(&self) {
        // Drop the listeners after releasing the lock, because dropping a filter can run user code.
        let listeners = self.listeners.write().take();
        drop(listeners);
    }

    pub(crate) fn record(&self, event: Event) {
        let listeners = self.listeners.read().clone();
        let is_known = [EventType::Normal, EventType::Warning].iter().any(|known| known.as_str() == event.event_type);
        let Some(listeners) = listeners.filter(|_| is_known) else {
            self.counters.recorded.add(1);
            return self.dropped(&event);
        };
        let event = Arc::new(event);
        let mut has_left = false;
        for listener in &*listeners {
            match listener {
                Listener::Sink(queue) => {
                    self.counters.recorded.add(1);
                    if queue.try_send(event.clone()).is_err() {
                        self.dropped(&event);
                    }
                }
                Listener::Watcher(watch) => has_left |= !watch.offer(&event),
                Listener::Log => log(&event),
            }
        }
        if has_left {
            self.change(|listeners| {
                listeners.retain(|listener| !matches!(listener, Listener::Watcher(watch) if watch.is_closed()))
            });
        }
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Listener>)) {
        let mut listeners = self.listeners.write();
        let Some(present) = &*listeners else { return };
        let mut changed = present.to_vec();
        change(&mut changed);
        let old = listeners.replace(changed.into());
        drop(listeners);
        drop(old);
    }

    fn dropped(&self, event: &Event) {
        self.counters.dropped.add(1);
        let Event { reason, event_type, involved_object, .. } = event;
        tracing::debug!(reason, r#type = event_type, object = involved_object.name, "an event was dropped");
    }
}

fn log(event: &Event) {
    let about = &event.involved_object;
    tracing::info!(
        object = %ObjectKey::new(&about.namespace, &about.name),
        field_path = about.field_path,
        kind = about.kind,
        api_version = about.api_version,
        r#type = event.event_type,
        reason = event.reason,
        action = event.action,
        message = event.message,
        "Event occurred"
    );
}
