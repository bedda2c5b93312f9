//! One replica of a program that shares its work with others, so that each shard of the work has one leader.

use std::collections::BTreeMap;
use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use pintle_leaderelect::__private::machine::Preference;
use pintle_leaderelect::__private::state_of;
use pintle_leaderelect::{
    Deadline, EndReason, InvalidConfig, LeaderCallbacks, LeaderElectionConfig, LeaderElector, Leadership, Lease,
    LeaseGroup, LeaseLock, TermEnd,
};
use pintle_meta::{ListWatch, ObjectApi, WatchEvent};
use pintle_ratelimit::Jitter;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::config::{SHARDS_LABEL, ShardsConfig};
use crate::fleet::Fleet;
use crate::members::Members;
use crate::shard::{Shard, fnv1a};
use crate::status::ShardsStatus;

/// Divides all objects into [shards](Shard), and assigns the shards to several replicas. One replica leads each shard.
/// Each value of this type represents one replica.
///
/// Each replica has a membership lease and contends for all shards. For each shard, rendezvous hashing determines an
/// order of the members. The first member in this order is called the preferred replica of the shard. If a replica
/// joins or leaves, only the shards of that replica move. If the leader of a shard is not the preferred replica, this
/// leader ends its work and releases the shard. The preferred replica then takes the shard immediately.
///
/// # What is guaranteed
///
/// - Two replicas never work on the same shard at the same time. Every [`Leadership`] gives this guarantee. Only the
///   holder of the shard's lease works on the shard. The assignment of shards only determines which replica tries to
///   take a shard first.
/// - Two replicas never work on the same object at the same time, even if they use different [numbers of
///   shards](ShardsConfig::shards). The names of the leases contain the number of shards. After a replica has taken a
///   shard, it lists all leases before it begins to work on the shard.
/// - After a replica dies, other replicas work on its shards when the leases of these shards have expired. The delay,
///   counted from the last renewal, is at most a `lease_duration`, plus 120 ms, plus the time for three requests. The
///   three requests are a GET and a PUT that take the lease, and a LIST. The LIST finds replicas that use another
///   number of shards.
/// - After a replica releases a shard, the shard has no leader for up to 40 ms, plus the time for four requests. The
///   four requests are a GET and a PUT that release the lease, and a PUT and a LIST by the next leader.
/// - If the preferred replica does not take a free shard, the second replica in the order takes the shard after twice
///   the `retry_period`. If the second replica does not take the shard either, the third replica takes it after four
///   times the `retry_period`, and so on. The replica that takes the shard keeps it until another replica joins or
///   leaves.
///
/// In two cases, a shard can be without a leader for an unlimited time:
///
/// - Lists fail.
/// - Two replicas with different numbers of shards take leases at the same time. Both replicas may then release their
///   leases. Each of the two replicas tries again after a random pause. If watches are forbidden, the pause is up to a
///   `lease_duration`.
///
/// A replica needs permission to get, list, watch, create, update and delete leases. Without the permission to watch, a
/// replica cannot find the other replicas. The guarantees still apply, but the first replica takes all shards, and the
/// other replicas detect its death only by polling. Without the permission to list, a replica never leads a shard. If a
/// replica loses the permission to list after it has taken a shard, it releases the shard after a `lease_duration`
/// without work.
///
/// # Examples
///
/// See the example of the [crate](crate).
pub struct Shards<A: ObjectApi<Lease> + ListWatch<Object = Lease>> {
    fleet: Fleet<A>,
    /// The elector for this replica's membership lease.
    member: LeaderElector<LeaseLock<A>>,
    /// One elector for each shard. The electors are kept after the future of `run` is dropped. The next `run` can
    /// therefore wait for the permits of the previous `run`.
    electors: Vec<LeaderElector<LeaseLock<A>>>,
}

impl<A: ObjectApi<Lease> + ListWatch<Object = Lease> + Clone> Shards<A> {
    /// Joins the shards `name`. The elections begin when [`run`](Self::run) is called, on the runtime of that call. The
    /// leases of the shards and of the replicas are in `namespace`. Each shard has a lease with a name such as
    /// `{name}-0-of-16`, and each replica has a lease `{name}-member-…-of-16`.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidConfig`] with the first rule that `config` violates. Returns an error if `name` is not a valid
    /// label value.
    pub fn start(api: A, namespace: &str, name: &str, config: ShardsConfig) -> Result<Self, InvalidConfig> {
        if config.electors.election.coordinated {
            return Err(InvalidConfig::CoordinatedShards);
        }
        let mut electors = config.electors.clone();
        let common = BTreeMap::from([(SHARDS_LABEL.to_owned(), name.to_owned())]);
        electors.labels.extend(common.clone());
        let LeaderElectionConfig { clocks, lease_duration, .. } = electors.election.clone();
        let members = Arc::new(watch::Sender::new(Members::new(name, config.shards)));
        let seen = members.clone();
        let tap = move |event: &WatchEvent<Lease>| {
            let now = clocks.now().monotonic;
            seen.send_if_modified(|members| match event {
                WatchEvent::Added(lease) | WatchEvent::Modified(lease) => {
                    members.record(&lease.metadata.name, &state_of(lease), lease_duration, now)
                }
                WatchEvent::Deleted(lease) => {
                    members.is_gone(&lease.metadata.name, lease_duration, now);
                    true
                }
                _ => false,
            });
        };
        let electors = LeaseGroup::new(api.clone(), namespace, electors, &common, tap)?;
        let own_lease = members.borrow().lease_of_member(&config.electors.election.identity);
        let member = electors.elector(&own_lease);
        let of_shard = |shard: Shard| {
            let preference = watch::Sender::new(Preference::default());
            let elector = electors.elector(&members.borrow().lease_of_shard(shard.index()));
            (elector.prefer(preference.subscribe()), preference)
        };
        let (of_shards, preferences) = Shard::all(config.shards).map(of_shard).unzip();
        let (namespace, name, options) = (namespace.into(), name.into(), electors.list_options());
        let fleet = Fleet { api, namespace, name, options, config, own_lease, members, preferences };
        Ok(Self { fleet, member, electors: of_shards })
    }

    /// Returns a handle to read the state of all elections, for example for a status page.
    pub fn status(&self) -> ShardsStatus {
        let shards = Shard::all(self.fleet.config.shards).zip(&self.electors);
        ShardsStatus {
            name: self.fleet.name.clone(),
            member: self.member.status(),
            shards: shards.map(|(shard, elector)| (shard, elector.status())).collect(),
        }
    }

    /// Returns all shards, including those that this replica does not lead.
    pub fn all(&self) -> impl Iterator<Item = Shard> + use<A> {
        Shard::all(self.fleet.config.shards)
    }

    /// Works on each shard that this replica leads. The method returns after `stop` is cancelled. The method also
    /// returns if the work on one shard ends although the shard's elector did not ask the work to end. In the second
    /// case, the method returns the shard, and how the leadership term of the shard ended. In both cases, the replica
    /// first asks the work on all shards to end, and then releases the shards.
    ///
    /// If the work on a shard has called [`Leadership::give_up`] before it ends, the replica releases only this shard. The
    /// replica contends for the shard again after a `lease_duration`. Until then, another replica can take the shard.
    ///
    /// All work runs in the task that polls the future returned by this method. To use several threads, spawn tasks. In
    /// each of these tasks, pass the work on a shard to [`Leadership::run`] of this shard's leadership.
    ///
    /// # Panics
    ///
    /// Panics in the same cases as [`LeaderElector::run`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has the same effect as for [`LeaderElector::run`].
    pub async fn run<W, Fut>(&mut self, stop: &CancellationToken, work: W) -> Option<(Shard, TermEnd<Fut::Output>)>
    where
        W: Fn(Shard, Leadership) -> Fut,
        Fut: Future,
    {
        let (fleet, member, electors) = (&self.fleet, &mut self.member, &mut self.electors);
        member.start_shared_shell();
        let (stop, work, rivals) = (stop.child_token(), &work, &fleet.rivals(member.list_outage()));
        let LeaderElectionConfig { clocks, lease_duration, retry_period, .. } = fleet.election();
        // End the membership first, so that the other replicas compute a new assignment of the shards.
        let present = async {
            // Become a member only after a list request has succeeded. If the replica became a member earlier, other
            // replicas would wait for a replica that cannot list and therefore never works.
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = rivals.any_leads() => {}
            }
            let stay = LeaderCallbacks::new(async |leadership: Leadership| leadership.cancelled().await);
            member.run(&stop, stay).await;
        };
        // Until this replica knows all members, it does not know the preferred replicas, so it lets other replicas try
        // first.
        let unknown = Preference { defer: *lease_duration, yield_to: None };
        fleet.preferences.iter().for_each(|preference| drop(preference.send_replace(unknown.clone())));
        let shards = Shard::all(fleet.config.shards).zip(electors).map(async |(shard, elector)| {
            let seed = fleet.election().seed() ^ fnv1a(format!("{shard} {}", fleet.me()).as_bytes());
            let (mut pause, mut jitter) = (Duration::ZERO, Jitter::new(seed));
            let end = loop {
                let free = async {
                    rivals.wait_until_gone().await;
                    clocks.sleep_until(Deadline::after(clocks.now(), pause)).await;
                    while rivals.any_leads().await {
                        rivals.wait_until_gone().await;
                    }
                };
                tokio::select! {
                    biased;
                    () = stop.cancelled() => break None,
                    () = free => {}
                }
                let callbacks = LeaderCallbacks::new(move |leadership: Leadership| async move {
                    // If the list requests fail for too long, release the shard, because another replica may be able to
                    // list.
                    let late = Deadline::after(clocks.now(), *lease_duration);
                    let lead = tokio::select! {
                        biased;
                        () = leadership.cancelled() => return None,
                        lead = rivals.any_leads() => lead,
                        () = clocks.sleep_until(late) => true,
                    };
                    if lead {
                        leadership.give_up();
                        return None;
                    }
                    let output = work(shard, leadership.clone()).await;
                    Some((output, leadership.gives_up()))
                });
                // After a leadership term is lost, contend again without a list request. The list request after each
                // acquisition finds replicas that use another number of shards.
                match elector.run(&stop, callbacks).await {
                    // The work has not begun, because a replica that uses another number of shards leads a shard. The
                    // pause is random, so one of two conflicting replicas tries again before the other.
                    Some(TermEnd { reason: EndReason::Completed, work: Some(Ok(None)) }) => {
                        pause = jitter.up_to(*retry_period);
                    }
                    // The work gave the shard up, so another replica may take it first.
                    Some(TermEnd { reason: EndReason::Completed, work: Some(Ok(Some((_, true)))) }) => {
                        pause = *lease_duration;
                    }
                    end => break end,
                }
            };
            stop.cancel();
            let TermEnd { reason, work } = end?;
            let work = match work {
                Some(Ok(output)) => output.map(|(output, _)| Ok(output)),
                Some(Err(panic)) => Some(Err(panic)),
                None => None,
            };
            matches!(reason, EndReason::Completed | EndReason::Panicked).then_some((shard, TermEnd { reason, work }))
        });
        let mut shards: FuturesUnordered<_> = shards.collect();
        let share = async {
            let mut ended = None;
            while let Some(end) = shards.next().await {
                ended = ended.or(end);
            }
            // If there are no shards, the method returns immediately.
            stop.cancel();
            ended
        };
        tokio::select! {
            biased;
            (_, ended) = async { tokio::join!(present, share) } => ended,
            () = fleet.prefer() => pending().await,
            () = fleet.clean() => pending().await,
        }
    }
}

impl<A: ObjectApi<Lease> + ListWatch<Object = Lease>> fmt::Debug for Shards<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fleet { name, config, .. } = &self.fleet;
        f.debug_struct("Shards").field("name", name).field("config", config).finish_non_exhaustive()
    }
}
