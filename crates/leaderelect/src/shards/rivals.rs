//! Those who divide otherwise: whether they lead.
//!
//! A shard of theirs has another lease than ours, and may have the same objects. So nobody begins to work on what it has taken before it
//! has read all leases of the fleet: of two who take their leases at a time, at least one reads that of the other, and gives its own up.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::StreamExt;
use pintle_meta::{ApiError, ListOptions, ListPart, ListWatch, ObjectMeta, PartialObject};
use tokio::sync::{Mutex, watch};

use super::Members;
use crate::lock::state_of;
use crate::{Deadline, LeaderElectionConfig, LeaderElectionRecord, Lease, LockState, Version};

/// Looks for them.
pub(super) struct Rivals<'a, A> {
    pub(super) api: &'a A,
    pub(super) namespace: &'a str,
    /// Which leases those of the fleet are.
    pub(super) options: ListOptions,
    pub(super) election: &'a LeaderElectionConfig,
    pub(super) members: &'a watch::Sender<Members>,
    /// How many looks have begun.
    pub(super) begun: AtomicU64,
    /// The last look that has ended, and whether it found any.
    pub(super) last: Mutex<(u64, bool)>,
}

impl<A: ListWatch<Object = Lease>> Rivals<'_, A> {
    /// Waits until none leads, by what is known.
    pub(super) async fn are_gone(&self) {
        let mut members = self.members.subscribe();
        loop {
            let now = self.election.clocks.now().monotonic;
            let Some(until) = members.borrow_and_update().rivals_until(now) else { return };
            tokio::select! {
                biased;
                Ok(()) = members.changed() => {}
                () = self.election.clocks.sleep_until(Deadline::monotonic(until)) => {}
            }
        }
    }

    /// Whether one leads, by a read that was sent after this was called. Those who ask meanwhile share the next one.
    pub(super) async fn lead(&self) -> bool {
        let asked = self.begun.load(Ordering::Relaxed);
        let mut last = self.last.lock().await;
        if last.0 > asked {
            return last.1;
        }
        loop {
            let look = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
            match self.look().await {
                Ok(lead) => {
                    *last = (look, lead);
                    return lead;
                }
                Err(error) => tracing::warn!(
                    namespace = self.namespace,
                    %error,
                    "cannot list the leases of the shards, and nobody works on what is new before"
                ),
            }
            let clocks = &self.election.clocks;
            clocks.sleep_until(Deadline::after(clocks.now(), self.election.retry_period)).await;
        }
    }

    async fn look(&self) -> Result<bool, ApiError> {
        let LeaderElectionConfig { clocks, lease_duration, .. } = self.election;
        let sent = clocks.now();
        let found = tokio::select! {
            biased;
            found = self.found() => found?,
            () = clocks.sleep_until(Deadline::after(sent, self.election.request_timeout())) => {
                return Err(ApiError::timeout("no answer in time"));
            }
        };
        let now = clocks.now().monotonic;
        self.members.send_modify(|members| {
            found.iter().for_each(|(name, state)| members.saw(name, state, *lease_duration, now));
        });
        // What has expired by then was still the same when it was read, so it will not be renewed any more.
        Ok(self.members.borrow().rivals_until(sent.monotonic).is_some())
    }

    /// The leases of theirs that there are, by their names. All of one revision, which is not older than the request.
    async fn found(&self) -> Result<Vec<(String, LockState)>, ApiError> {
        let (mut found, mut options) = (Vec::new(), self.options.clone());
        loop {
            let mut page = self.api.list(&options).await?;
            options.continue_token = String::new();
            while let Some(part) = page.next().await {
                match part? {
                    ListPart::Item(object) => {
                        let metadata = object.decode::<PartialObject>()?.metadata;
                        if metadata.namespace == self.namespace && self.members.borrow().is_rival(&metadata.name) {
                            let state = object.decode().map(|lease| state_of(&lease));
                            let state = state.unwrap_or_else(|error| held_by_somebody(&metadata, &error));
                            found.push((metadata.name, state));
                        }
                    }
                    ListPart::Metadata(list) => options.continue_token = list.continue_token,
                }
            }
            if options.continue_token.is_empty() {
                return Ok(found);
            }
        }
    }
}

/// What counts for a lease that cannot be read: whoever holds it may lead, for a lease duration unless it changes.
fn held_by_somebody(metadata: &ObjectMeta, error: &impl fmt::Display) -> LockState {
    let ObjectMeta { namespace, name, uid, resource_version, .. } = metadata;
    tracing::warn!(namespace, name, %error, "cannot read a lease of another number of shards, which counts as held");
    let record = LeaderElectionRecord { holder_identity: "somebody".into(), ..LeaderElectionRecord::default() };
    let version = Version { uid: uid.clone(), resource_version: resource_version.clone() };
    // Each write may be a renewal.
    LockState { version, record, raw: Some(resource_version.as_str().into()) }
}
