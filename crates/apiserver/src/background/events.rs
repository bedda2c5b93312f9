//! Deletes each event an hour after its last write, as kube-apiserver does with etcd leases.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pintle_storage::{Change, ChangeKind, Key};
use tokio::time::Instant;

use super::{Controller, all};
use crate::registry::Registry;

/// Both API groups of events share this resource name in the store.
const EVENTS: &str = "events";

const LIFETIME: Duration = Duration::from_secs(3600);

/// The maximum delay before an expired event is deleted. The delay lets one call of `work` delete several expired
/// events.
const GRANULARITY: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Expiry {
    /// The expiry times and keys of all events. The map is sorted by expiry, because its keys are the revisions of the
    /// events' last writes.
    due: BTreeMap<u64, (Instant, Key)>,
}

impl Controller for Expiry {
    const RESOURCES: Option<&'static [&'static str]> = Some(&[EVENTS]);

    fn observe(&mut self, change: &Change) -> bool {
        if let Some(old) = &change.old {
            self.due.remove(&old.revision());
        }
        if change.kind != ChangeKind::Deleted {
            self.due.insert(change.revision(), (Instant::from_std(change.at) + LIFETIME, change.key.clone()));
        }
        true
    }

    /// Sets the expiry of an event with an unknown write time to a full `LIFETIME` from now.
    fn resync(&mut self, registry: &Registry) {
        let known = std::mem::take(&mut self.due);
        let latest = Instant::now() + LIFETIME;
        let found = all(registry, EVENTS).map(|(key, event)| {
            let at = known.get(&event.revision()).map_or(latest, |(at, _)| *at);
            (event.revision(), (at, key))
        });
        self.due = found.collect();
    }

    async fn work(&mut self, registry: &Arc<Registry>, _: u64) -> Option<Instant> {
        let now = Instant::now();
        while let Some(first) = self.due.first_entry().filter(|first| first.get().0 <= now) {
            let (revision, (_, key)) = first.remove_entry();
            // In a plan, the upstream cluster deletes its own expired events.
            if !registry.db.follows_upstream(EVENTS, &key)
                && registry.db.remove(&EVENTS.into(), &key, revision).is_err()
            {
                tracing::trace!(key = &*key, "kept an Event that was written while it expired");
            }
            tokio::task::yield_now().await;
        }
        self.due.values().next().map(|(at, _)| *at + GRANULARITY)
    }
}

#[cfg(test)]
mod tests {
    use pintle_json::{Json, json};
    use pintle_storage::Expect;

    use super::*;
    use crate::config::ApiServerConfig;

    #[tokio::test(start_paused = true)]
    async fn expired_events_leave_no_state_behind() {
        let registry = Arc::new(Registry::new(ApiServerConfig::default(), None));
        let mut changes = registry.db.follow_all(Expiry::RESOURCES);
        let put = |name: &str, expect, note: &str| -> u64 {
            let object: Json = json!({"metadata": {"name": name, "namespace": "a"}, "message": note});
            registry.db.put(&EVENTS.into(), &format!("a/{name}"), expect, object).expect("as expected").revision()
        };
        let mut expiry = Expiry::default();
        put("found", Expect::Absent, "");
        expiry.resync(&registry);
        let deleted = put("deleted", Expect::Absent, "");
        registry.db.remove(&EVENTS.into(), "a/deleted", deleted).expect("an existing event");
        let mut revision = put("updated", Expect::Absent, "");
        for time in 0..100 {
            revision = put("updated", Expect::At(revision), &time.to_string());
        }
        let mut observe_all = |expiry: &mut Expiry| {
            while let Some(Ok(change)) = changes.try_next() {
                expiry.observe(&change);
            }
        };
        observe_all(&mut expiry);
        assert_eq!(expiry.due.len(), 2, "one entry per event, however often it was written");
        expiry.resync(&registry);
        let wake = expiry.work(&registry, 0).await.expect("there are events");
        assert_eq!(registry.db.objects_of(EVENTS, &pintle_storage::Range::namespace(None)).count(), 2);
        tokio::time::sleep_until(wake).await;
        assert_eq!(expiry.work(&registry, 0).await, None);
        observe_all(&mut expiry);
        assert!(expiry.due.is_empty());
        assert_eq!(registry.db.objects_of(EVENTS, &pintle_storage::Range::namespace(None)).count(), 0);
    }
}
