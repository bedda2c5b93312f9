//! Stale views of the store, which fault rules use to serve outdated data.

use std::time::Duration;

use pintle_kinds::Kind;
use tokio::time::Instant;

use super::Registry;
use crate::faults::{Lag, View};

impl Registry {
    pub(crate) fn view_revision(&self, kind: &Kind, view: View) -> u64 {
        let resource = kind.stored_as.to_string();
        self.db.read(|store| {
            let version = match view {
                View::At(version) => return version,
                View::Behind(Lag::Versions(last)) => store.revision().saturating_sub(last),
                View::Behind(Lag::Time(lag)) => match self.clock.instant().checked_sub(lag) {
                    Some(then) => store.revision_at(&resource, then),
                    None => 0,
                },
            };
            version.max(store.oldest(&resource))
        })
    }

    /// Waits until a stale view of a resource has reached the revision `version`.
    ///
    /// # Cancel safety
    ///
    /// The future only waits, so dropping it has no effect.
    pub(crate) async fn wait_until_visible(&self, kind: &Kind, version: u64, lag: Lag) {
        let last = match lag {
            Lag::Time(_) => version,
            Lag::Versions(last) => version.saturating_add(last),
        };
        while !self.db.wait_for(last, Duration::MAX).await {}
        let Lag::Time(lag) = lag else { return };
        let written = self.db.read(|store| store.written_at(kind.resource_key(), version));
        match written.map(|at| Instant::from_std(at).checked_add(lag)) {
            Some(Some(then)) => tokio::time::sleep_until(then).await,
            // An `Instant` cannot represent the time at which the view reaches the revision, so wait forever.
            Some(None) => std::future::pending().await,
            None => (),
        }
    }
}
