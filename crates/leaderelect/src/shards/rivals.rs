//! Rivals, which are replicas that use another number of shards.
//!
//! A rival's shard has a different lease than the shards of this replica, but may contain the same objects. So a
//! replica that has taken a shard reads all leases before it works on the shard. If two rivals take leases at the same
//! time, at least one of them reads the lease of the other replica and gives up its own lease.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::StreamExt;
use pintle_meta::{ApiError, ListOptions, ListPart, ListWatch, ObjectMeta, PartialObject};
use tokio::sync::{Mutex, watch};

use super::Members;
use crate::lock::state_of;
use crate::{Deadline, LeaderElectionConfig, LeaderElectionRecord, Lease, LockState, Version};

/// Detects rivals.
pub(super) struct Rivals<'a, A> {
    pub(super) api: &'a A,
    pub(super) namespace: &'a str,
    /// The options of a list of all leases of the fleet.
    pub(super) options: ListOptions,
    pub(super) election: &'a LeaderElectionConfig,
    pub(super) members: &'a watch::Sender<Members>,
    /// The number of lists that were started.
    pub(super) begun: AtomicU64,
    /// The number of the last complete list, and whether it found rivals that lead.
    pub(super) last: Mutex<(u64, bool)>,
}

impl<A: ListWatch<Object = Lease>> Rivals<'_, A> {
    /// Waits until no known rival leads a shard.
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

    /// Returns whether a rival leads a shard. The answer comes from a list that was sent after this call. Concurrent
    /// callers share that list.
    pub(super) async fn lead(&self) -> bool {
        let begun = self.begun.load(Ordering::Relaxed);
        let mut last = self.last.lock().await;
        if last.0 > begun {
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
                    "cannot list the leases of the shards; new shards wait for it"
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
                return Err(ApiError::timeout("no response before the timeout"));
            }
        };
        let now = clocks.now().monotonic;
        self.members.send_modify(|members| {
            found.iter().for_each(|(name, state)| members.saw(name, state, *lease_duration, now));
        });
        // Compare with the time at which the list was sent. A lease that had expired by then was unchanged in the list,
        // so it will not be renewed.
        Ok(self.members.borrow().rivals_until(sent.monotonic).is_some())
    }

    /// Lists the shard leases of rivals, with their names. All pages have the same revision, which is not older than
    /// the request.
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
                            let state = state.unwrap_or_else(|error| held_by_unknown(&metadata, &error));
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

/// Returns a state for a lease that cannot be decoded. Its holder may lead for a lease duration after the last change.
fn held_by_unknown(metadata: &ObjectMeta, error: &impl fmt::Display) -> LockState {
    let ObjectMeta { namespace, name, uid, resource_version, .. } = metadata;
    tracing::warn!(namespace, name, %error, "cannot read a lease of another number of shards; treating it as held");
    let record = LeaderElectionRecord { holder_identity: "unknown".into(), ..LeaderElectionRecord::default() };
    let version = Version { uid: uid.clone(), resource_version: resource_version.clone() };
    // Use the resourceVersion as stored data, because each write may be a renewal.
    LockState { version, record, raw: Some(resource_version.as_str().into()) }
}
