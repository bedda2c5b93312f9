//! Assigns shards to replicas, and deletes unused leases.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use pintle_leaderelect::__private::ListOutage;
use pintle_leaderelect::__private::machine::Preference;
use pintle_leaderelect::{Deadline, LeaderElectionConfig, Lease, Version};
use pintle_meta::{DeleteOptions, ListOptions, ListWatch, ObjectApi, ObjectKey, Preconditions};
use tokio::sync::{Mutex, watch};

use crate::config::ShardsConfig;
use crate::members::{Members, preference};
use crate::rivals::Rivals;

/// A replica's view of the replicas that share the shards.
pub(crate) struct Fleet<A> {
    pub(crate) api: A,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) options: ListOptions,
    pub(crate) config: ShardsConfig,
    pub(crate) own_lease: String,
    pub(crate) members: Arc<watch::Sender<Members>>,
    /// One channel per shard, through which the shard's elector receives the preferred holder.
    pub(crate) preferences: Vec<watch::Sender<Preference>>,
}

impl<A: ObjectApi<Lease> + ListWatch<Object = Lease>> Fleet<A> {
    pub(crate) fn rivals(&self, outage: ListOutage) -> Rivals<'_, A> {
        let (api, namespace, options) = (&self.api, &*self.namespace, self.options.clone());
        let (election, members) = (self.election(), &*self.members);
        let (started, last) = (AtomicU64::new(0), Mutex::default());
        Rivals { api, namespace, options, election, members, outage, started, last }
    }

    /// Lets other replicas try first to acquire each shard, because this replica does not know the preferred holders
    /// until it knows all members.
    pub(crate) fn defer_to_others(&self) {
        let unknown = Preference { defer: self.election().lease_duration, yield_to: None };
        self.preferences.iter().for_each(|preference| drop(preference.send_replace(unknown.clone())));
    }

    /// Updates the preferred holder of each shard after a replica has joined or left the fleet.
    pub(crate) async fn prefer(&self) {
        let LeaderElectionConfig { clocks, lease_duration, .. } = self.election();
        let mut members = self.members.subscribe();
        let known_at = clocks.now().monotonic + *lease_duration;
        let (mut waits, mut preferred_among) = (false, None);
        loop {
            let now = clocks.now().monotonic;
            // Do not log while `members` is borrowed, because the task that renews all leases must be able to
            // change `members`.
            let (rivals, live, wake) = {
                let members = members.borrow_and_update();
                // Wait for this replica's lease until `known_at`, because the watch may report it only after its
                // initial events.
                let known = members.knows(&self.own_lease) || now >= known_at;
                let wake = members.next_expiry(now).into_iter().chain((!known).then_some(known_at)).min();
                (members.rivals_until(now).is_some(), known.then(|| members.live(now)), wake)
            };
            if rivals && !waits {
                let (name, shards) = (&self.name, self.config.shards);
                tracing::warn!(name, shards, "waiting until replicas with another number of shards no longer lead");
            }
            waits = rivals;
            if preferred_among != live {
                self.prefer_among(live.as_deref().unwrap_or_default());
                preferred_among = live;
            }
            let wake = Deadline::monotonic(wake.unwrap_or(Duration::MAX));
            tokio::select! {
                biased;
                Ok(()) = members.changed() => {}
                () = clocks.sleep_until(wake) => {}
            }
        }
    }

    fn prefer_among(&self, members: &[String]) {
        let step = self.election().retry_period * 2;
        for (shard, sender) in (0..).zip(&self.preferences) {
            let preference = preference(members, self.me(), shard, step);
            sender.send_if_modified(|last| {
                let changed = *last != preference;
                *last = preference;
                changed
            });
        }
    }

    /// Deletes the leases of replicas that have left, and the leases for unused shard counts. Normally, the
    /// preferred replica of the first shard deletes these leases. The other replicas wait twice as long, and then
    /// delete the remaining leases. After the longer wait, the other replicas also forget leases whose deletion
    /// their watches have missed.
    pub(crate) async fn clean(&self) {
        let LeaderElectionConfig { clocks, lease_duration, .. } = self.election();
        loop {
            clocks.sleep_until(Deadline::after(clocks.now(), *lease_duration * 4)).await;
            let is_first =
                self.preferences.first().is_some_and(|preference| *preference.borrow() == Preference::default());
            let now = clocks.now().monotonic;
            let own = if is_first { *lease_duration } else { *lease_duration * 2 };
            let forgotten = self.members.borrow().forgotten(own, now);
            for (name, Version { uid, resource_version }) in forgotten {
                let preconditions = Some(Preconditions { uid: Some(uid), resource_version: Some(resource_version) });
                let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
                let key = ObjectKey::new(&self.namespace, &name);
                match self.api.delete(&key, &options).await {
                    Ok(()) => {}
                    // Another replica has deleted the lease, and the watch has not reported the deletion yet.
                    Err(error) if error.is_object_not_found() => {
                        let now = clocks.now().monotonic;
                        self.members.send_modify(|members| members.is_gone(&name, *lease_duration, now));
                    }
                    Err(error) => {
                        tracing::debug!(lease = %key, %error, "cannot delete an unused lease")
                    }
                }
            }
        }
    }

    pub(crate) fn election(&self) -> &LeaderElectionConfig {
        &self.config.electors.election
    }

    pub(crate) fn me(&self) -> &str {
        &self.election().identity
    }
}
