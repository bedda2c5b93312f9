//! Events: each goes an hour after its last write, as a real server has etcd's leases do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Controller, all};
use crate::registry::Registry;
use crate::store::{Change, ChangeKind, Key};

/// Where the events of both groups are stored.
const EVENTS: &str = "events";

const LIFETIME: Duration = Duration::from_secs(3600);

/// Those whose times are as close as this go together.
const GRANULARITY: Duration = Duration::from_secs(1);

/// Lets them go.
#[derive(Debug, Default)]
pub(super) struct Expiry {
    /// When each event goes, and which it is, by the revision of its last write: they go in this order.
    due: BTreeMap<u64, (Instant, Key)>,
}

impl Controller for Expiry {
    const OF: Option<&'static [&'static str]> = Some(&[EVENTS]);

    fn observe(&mut self, change: &Change) -> bool {
        if let Some(old) = &change.old {
            self.due.remove(&old.revision());
        }
        if change.kind != ChangeKind::Deleted {
            self.due.insert(change.revision(), (Instant::from_std(change.at) + LIFETIME, change.key.clone()));
        }
        true
    }

    /// What is found here was written before anybody knows, and gets its whole time.
    fn look_anew(&mut self, registry: &Registry) {
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
            // What another cluster has, that cluster lets go.
            if !registry.db.is_left_alone(EVENTS, &key) && registry.db.remove(&EVENTS.into(), &key, revision).is_err() {
                tracing::trace!(key = &*key, "an event was written as it expired, and stays");
            }
            tokio::task::yield_now().await;
        }
        self.due.values().next().map(|(at, _)| *at + GRANULARITY)
    }
}

#[cfg(test)]
mod tests {
    use pintle_json::{Json, json};

    use super::*;
    use crate::config::ApiServerConfig;
    use crate::store::Expect;

    #[tokio::test(start_paused = true)]
    async fn nothing_is_left_of_events_that_have_gone() {
        let registry = Arc::new(Registry::new(ApiServerConfig::default(), None));
        let mut changes = registry.db.follow_all(Expiry::OF);
        let put = |name: &str, expect, note: &str| -> u64 {
            let object: Json = json!({"metadata": {"name": name, "namespace": "a"}, "message": note});
            registry.db.put(&EVENTS.into(), &format!("a/{name}"), expect, object).expect("as expected").revision()
        };
        let mut expiry = Expiry::default();
        put("found", Expect::Absent, "");
        expiry.look_anew(&registry);
        let deleted = put("deleted", Expect::Absent, "");
        registry.db.remove(&EVENTS.into(), "a/deleted", deleted).expect("it is there");
        let mut revision = put("updated", Expect::Absent, "");
        for time in 0..100 {
            revision = put("updated", Expect::At(revision), &time.to_string());
        }
        let mut take = |expiry: &mut Expiry| {
            while let Some(Ok(change)) = changes.try_next() {
                expiry.observe(&change);
            }
        };
        take(&mut expiry);
        assert_eq!(expiry.due.len(), 2, "one for each that is there, however often it was written");
        expiry.look_anew(&registry);
        let wake = expiry.work(&registry, 0).await.expect("some are there");
        assert_eq!(registry.db.objects_of(EVENTS, &crate::store::Range::namespace(None)).count(), 2);
        tokio::time::sleep_until(wake).await;
        assert_eq!(expiry.work(&registry, 0).await, None);
        take(&mut expiry);
        assert!(expiry.due.is_empty());
        assert_eq!(registry.db.objects_of(EVENTS, &crate::store::Range::namespace(None)).count(), 0);
    }
}
