//! A replica of a program whose work is divided into shards, each of which has one leader.

use std::collections::BTreeMap;
use std::fmt;
use std::future::pending;
use std::sync::Arc;

use futures_util::stream::{FuturesUnordered, StreamExt};
use pintle_leaderelect::__private::machine::Preference;
use pintle_leaderelect::__private::state_of;
use pintle_leaderelect::{
    InvalidConfig, LeaderCallbacks, LeaderElectionConfig, LeaderElector, Leadership, Lease, LeaseGroup, LeaseLock,
    TermEnd,
};
use pintle_meta::{ListWatch, ObjectApi, WatchEvent};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::config::{SHARDS_LABEL, ShardsConfig};
use crate::contender::Contender;
use crate::fleet::Fleet;
use crate::members::Members;
use crate::shard::Shard;
use crate::status::ShardsStatus;

/// Divides all objects into [shards](Shard), and distributes the shards over several replicas. Each shard has one
/// leader, which is one of the replicas. A `Shards` value represents one replica.
///
/// Each replica has a membership lease and contends for all shards. Rendezvous hashing orders the replicas for each
/// shard, and the first replica is the preferred replica of the shard. If a replica joins or leaves, only the shards
/// that this replica gains or loses move. A leader that is not the preferred replica of its shard ends its work and
/// releases the shard. The preferred replica then acquires the shard immediately.
///
/// # What is guaranteed
///
/// - Two replicas do not work on the same shard at the same time, which every [`Leadership`] guarantees. Only the
///   holder of a shard's lease works on the shard. The hash of a shard only determines which replica tries first to
///   acquire the shard.
/// - Two replicas do not work on the same object at the same time, even if their [numbers of
///   shards](ShardsConfig::shards) differ. The names of the leases contain the number of shards, and a replica that has
///   acquired a shard lists all leases before it starts to work on the shard.
/// - After a replica has died, other replicas take over its shards when the leases expire. The takeover takes at most
///   one `lease_duration`, plus 120 ms, plus the time of three requests, measured from the last renewal. The three
///   requests are a GET and a PUT to acquire the lease, and a LIST to find replicas with a different number of shards.
/// - After a replica has released a shard, the shard is without a leader for up to 40 ms plus the time of four
///   requests. The four requests are a GET and a PUT to release the lease, and a PUT and a LIST of the next leader.
/// - If the preferred replica does not acquire a free shard, the second replica acquires it after twice the
///   `retry_period`. If the second replica does not acquire the shard either, the third replica acquires it after four
///   times the `retry_period`, and so on. The new leader keeps the shard until a replica joins or leaves.
///
/// A shard can be without a leader for an unlimited time in two cases:
///
/// - The list requests of the replicas fail.
/// - Two replicas with different numbers of shards acquire leases at the same time. Both replicas may then release
///   their leases. Each replica tries again after a random pause, which can last a whole `lease_duration` if watches
///   are forbidden.
///
/// A replica needs permission to get, list, watch, create, update and delete leases. Without permission to watch, a
/// replica does not see the other replicas. The guarantees still hold, but the first replica acquires all shards, and
/// the other replicas detect its death only by polling. Without permission to list, a replica does not lead any shard.
/// If a replica loses the permission to list before it starts to work on an acquired shard, it releases the shard after
/// a `lease_duration`.
///
/// # Examples
///
/// See the [crate documentation](crate) for an example.
pub struct Shards<A: ObjectApi<Lease> + ListWatch<Object = Lease>> {
    fleet: Fleet<A>,
    member: LeaderElector<LeaseLock<A>>,
    /// The electors, one per shard. The electors outlive the future of `run`, so that the next `run` can wait for the
    /// permits of the previous run.
    electors: Vec<LeaderElector<LeaseLock<A>>>,
}

impl<A: ObjectApi<Lease> + ListWatch<Object = Lease> + Clone> Shards<A> {
    /// Joins the fleet of replicas that share the shards named `name`. The elections begin when [`run`](Self::run) is
    /// called, on the runtime of its caller. All leases of the fleet are in `namespace`. The lease of a shard has a
    /// name such as `{name}-0-of-16`, and the lease of a replica has a name such as `{name}-member-…-of-16`.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidConfig`] with the first rule that `config` violates, or if `name` is not a valid label value.
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

    /// Returns a handle to the state of all elections, for example for a status page.
    pub fn status(&self) -> ShardsStatus {
        let shards = Shard::all(self.fleet.config.shards).zip(&self.electors);
        ShardsStatus {
            name: self.fleet.name.clone(),
            member: self.member.status(),
            shards: shards.map(|(shard, elector)| (shard, elector.status())).collect(),
        }
    }

    /// Returns all shards, including the shards that other replicas lead.
    pub fn all(&self) -> impl Iterator<Item = Shard> + use<A> {
        Shard::all(self.fleet.config.shards)
    }

    /// Works on each shard that this replica leads. Returns after `stop` has been cancelled, or after the work on a
    /// shard has ended by itself. If the work on a shard has ended by itself, `run` returns the shard and the reason
    /// why its leadership term ended. Before returning, `run` asks the work on all shards to finish, and releases the
    /// shards.
    ///
    /// If the work on a shard calls [`Leadership::give_up`] before it ends, the replica releases only this shard. The
    /// replica contends for this shard again after a `lease_duration`, so that another replica can acquire it.
    ///
    /// All work runs in the task that polls the returned future. To use more than one thread, spawn tasks. In each
    /// task, run the work on a shard inside [`Leadership::run`] of its leadership.
    ///
    /// # Panics
    ///
    /// Panics in the same cases as [`LeaderElector::run`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has the same effect as dropping the future of [`LeaderElector::run`].
    pub async fn run<W, Fut>(&mut self, stop: &CancellationToken, work: W) -> Option<(Shard, TermEnd<Fut::Output>)>
    where
        W: Fn(Shard, Leadership) -> Fut,
        Fut: Future,
    {
        let (fleet, member, electors) = (&self.fleet, &mut self.member, &mut self.electors);
        member.start_shared_shell();
        let (stop, work, rivals) = (&stop.child_token(), &work, &fleet.rivals(member.list_outage()));
        // End the membership first, so that other replicas get this replica's shards.
        let present = async {
            // Become a member only after a successful list request. A member that cannot list leases does no work, and
            // the other replicas would wait for it.
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = rivals.any_leads() => {}
            }
            let stay = LeaderCallbacks::new(async |leadership: Leadership| leadership.cancelled().await);
            member.run(stop, stay).await;
        };
        fleet.defer_to_others();
        let shards = Shard::all(fleet.config.shards).zip(electors).map(async |(shard, elector)| {
            let end = Contender { shard, rivals, stop }.run(elector, work).await;
            stop.cancel();
            end
        });
        let mut shards: FuturesUnordered<_> = shards.collect();
        let share = async {
            let mut ended = None;
            while let Some(end) = shards.next().await {
                ended = ended.or(end);
            }
            // Return immediately if the fleet has no shards.
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
