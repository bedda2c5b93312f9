//! Detects rivals: replicas of the fleet whose configured number of shards differs from this replica's number.
//!
//! The shards of a rival have different leases, but may contain the same objects as the shards of this replica.
//! Therefore, a replica that has acquired a shard's lease lists all leases of the fleet before it works on the shard.
//! If two rivals acquire leases at the same time, at least one of the rivals finds the other's lease in its list, and
//! gives up its own lease.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::StreamExt;
use pintle_leaderelect::__private::{ListOutage, state_of};
use pintle_leaderelect::{Deadline, LeaderElectionConfig, LeaderElectionRecord, Lease, LockState, Version};
use pintle_meta::__private::ContinueTokens;
use pintle_meta::{ApiError, ListOptions, ListPart, ListWatch, ObjectMeta, PartialObject};
use tokio::sync::{Mutex, watch};

use crate::members::Members;

pub(crate) struct Rivals<'a, A> {
    pub(crate) api: &'a A,
    pub(crate) namespace: &'a str,
    pub(crate) options: ListOptions,
    pub(crate) election: &'a LeaderElectionConfig,
    pub(crate) members: &'a watch::Sender<Members>,
    /// Reports failed list requests in the status of the membership election.
    pub(crate) outage: ListOutage,
    /// The number of list requests started so far.
    pub(crate) started: AtomicU64,
    /// The number of the last completed list request, and whether its response showed that a rival led a shard.
    pub(crate) last: Mutex<(u64, bool)>,
}

impl<A: ListWatch<Object = Lease>> Rivals<'_, A> {
    /// Waits until all known rivals have lost their shards.
    pub(crate) async fn wait_until_gone(&self) {
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

    /// Returns `true` if a rival leads a shard, according to a list request that starts after this call. Concurrent
    /// callers share one list request.
    pub(crate) async fn any_leads(&self) -> bool {
        let started = self.started.load(Ordering::Relaxed);
        let mut last = self.last.lock().await;
        if last.0 > started {
            return last.1;
        }
        loop {
            let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
            match self.list_once().await {
                Ok(leads) => {
                    self.outage.end();
                    *last = (number, leads);
                    return leads;
                }
                Err(error) => {
                    let namespace = self.namespace;
                    tracing::warn!(namespace, %error, "cannot list the leases of the shards; new shards wait for it");
                    self.outage.add(self.election.clocks.now().monotonic, error.to_string());
                }
            }
            let clocks = &self.election.clocks;
            clocks.sleep_until(Deadline::after(clocks.now(), self.election.retry_period)).await;
        }
    }

    async fn list_once(&self) -> Result<bool, ApiError> {
        let LeaderElectionConfig { clocks, lease_duration, .. } = self.election;
        let sent = clocks.now();
        let found = tokio::select! {
            biased;
            found = self.list_rival_leases() => found?,
            () = clocks.sleep_until(Deadline::after(sent, self.election.request_timeout())) => {
                return Err(ApiError::timeout("no response before the timeout"));
            }
        };
        let now = clocks.now().monotonic;
        let mut leads = false;
        self.members.send_if_modified(|members| {
            let mut has_changed = false;
            for (name, state) in &found {
                has_changed |= members.record(name, state, *lease_duration, now);
            }
            // A lease that expires after the list request was sent counts as held, because it may have been renewed
            // after the server read it. A lease that expired before the request was not renewed in time. If such a
            // lease had been renewed, the list would contain the renewal.
            leads = members.rivals_until(sent.monotonic).is_some();
            has_changed
        });
        Ok(leads)
    }

    /// Lists the shard leases of all rivals, and returns their names and states. All pages have the same revision,
    /// which is at least as recent as the request.
    async fn list_rival_leases(&self) -> Result<Vec<(String, LockState)>, ApiError> {
        let (mut found, mut options, mut tokens) = (Vec::new(), self.options.clone(), ContinueTokens::default());
        loop {
            let mut page = self.api.list(&options).await?;
            options.continue_token = String::new();
            let mut items = 0;
            while let Some(part) = page.next().await {
                match part? {
                    ListPart::Item(object) => {
                        items += 1;
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
            tokens.add(&options.continue_token, items)?;
        }
    }
}

/// Returns a placeholder state for a lease that cannot be decoded. With this placeholder, the lease counts as held for
/// one lease duration after each change.
fn held_by_unknown(metadata: &ObjectMeta, error: &impl fmt::Display) -> LockState {
    let ObjectMeta { namespace, name, uid, resource_version, .. } = metadata;
    tracing::warn!(namespace, name, %error, "cannot read a lease of another number of shards; treating it as held");
    let record = LeaderElectionRecord { holder_identity: "unknown".into(), ..LeaderElectionRecord::default() };
    let version = Version { uid: uid.clone(), resource_version: resource_version.clone() };
    // Any write may be a renewal, so use the resourceVersion as the stored data.
    LockState { version, record, raw: Some(resource_version.as_str().into()) }
}

#[cfg(test)]
mod tests {
    use futures_util::future::ready;
    use futures_util::{FutureExt, stream};
    use pintle_leaderelect::{LeaderElector, LeaseLock};
    use pintle_meta::{ApiResource, ListMeta, RawObject, Resource, WatchEvent, WatchOptions};
    use pintle_testing::Collection;

    use super::*;

    /// A server whose pages all name the same next page.
    #[derive(Default)]
    struct Endless {
        lists: AtomicU64,
    }

    impl ListWatch for Endless {
        type Object = Lease;
        type Page = stream::Iter<std::vec::IntoIter<Result<ListPart, ApiError>>>;
        type Events = stream::Empty<Result<WatchEvent<RawObject>, ApiError>>;

        fn api_resource(&self) -> ApiResource {
            Lease::api_resource()
        }

        fn namespace(&self) -> Option<&str> {
            None
        }

        async fn list(&self, _: &ListOptions) -> Result<Self::Page, ApiError> {
            if self.lists.fetch_add(1, Ordering::Relaxed) == 10 {
                return Err(ApiError::timeout("the tenth page"));
            }
            let metadata = ListMeta { continue_token: "same".into(), ..ListMeta::default() };
            Ok(stream::iter(vec![Ok(ListPart::Metadata(metadata))]))
        }

        fn watch(&self, _: &WatchOptions) -> impl Future<Output = Result<Self::Events, ApiError>> + Send {
            ready(Ok(stream::empty()))
        }
    }

    #[test]
    fn repeated_continue_token_fails_the_list() {
        let election = LeaderElectionConfig::default();
        let lock = LeaseLock::new(Collection::default().client("a"), "kube-system", "lock");
        let rivals = Rivals {
            api: &Endless::default(),
            namespace: "kube-system",
            options: ListOptions::default(),
            election: &election,
            members: &watch::Sender::new(Members::new("site", 4)),
            outage: LeaderElector::new(lock, election.clone()).unwrap().list_outage(),
            started: AtomicU64::new(0),
            last: Mutex::default(),
        };
        let listed = rivals.list_rival_leases().now_or_never().expect("the server answers at once");
        let error = listed.map(|found| found.len()).unwrap_err().to_string();
        assert!(error.contains("repeats a continue token"), "{error}");
    }
}
