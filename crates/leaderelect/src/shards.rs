//! Replicas that share the work: each shard is led by one of them.

mod fleet;
mod members;
mod rivals;
mod shard;
mod sharded;

use std::collections::BTreeMap;
use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use pintle_meta::{ListWatch, ObjectApi, WatchEvent};
use pintle_ratelimit::Jitter;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::lock::state_of;
use crate::machine::Preference;
use crate::{
    Deadline, EndReason, InvalidConfig, LeaderCallbacks, LeaderElectionConfig, LeaderElector, Leadership, Lease,
    LeaseGroup, LeaseGroupConfig, LeaseLock, TermEnd,
};

use fleet::Fleet;
use members::Members;
pub use shard::Shard;
use shard::fnv1a;
pub use sharded::{OfShard, Sharded};

/// The label of all leases of [`Shards`], with their name.
pub const SHARDS_LABEL: &str = "pintle-shards";

/// How [`Shards`] are shared.
#[derive(Clone, Debug)]
pub struct ShardsConfig {
    /// How many there are: 16 by default; more than a few for each replica are spread more evenly. Replicas with different numbers, as
    /// in a rollout that changes it, never work at a time: those who come later wait until none of the others leads a shard any more.
    pub shards: u32,
    /// How they are contended for. The [label](SHARDS_LABEL) is added, and is the only one by which the leases are found: the others
    /// may differ between replicas, and are those of whoever wrote last.
    pub electors: LeaseGroupConfig,
}

impl Default for ShardsConfig {
    fn default() -> Self {
        Self { shards: 16, electors: LeaseGroupConfig::default() }
    }
}

/// The share of this replica in the work of many: all objects are divided into [shards](Shard), and each is led by one replica.
///
/// Each replica has a lease that says that it is there, and contends for all shards. Who should have which shard follows from who
/// is there, by rendezvous hashing: a replica that comes or goes moves its own share and nothing else. Whoever leads a
/// shard that another one should have has its work end, and gives it up; the other one takes it at once.
///
/// # What is guaranteed
///
/// - No shard is worked on by two, as for any [`Leadership`]: its lease decides, and who should have it only says who tries first.
/// - Nor is any object, if replicas divide into different [numbers of shards](ShardsConfig::shards): the number is part of the names of
///   their leases, and whoever has taken one lists all of them before it begins to work.
/// - A shard whose replica has died is worked on by another one when its lease has expired, a `lease_duration` after its last
///   renewal, 120 ms and three requests later: a GET and a PUT take it, and a LIST tells that nobody divides otherwise. A shard that is
///   given up is without work for 40 ms and four requests after its work has ended: a GET and a PUT, and the next one's PUT and LIST.
/// - If the one that should have a free shard does not come for it, the next one does after twice the `retry_period`, the one
///   after that another such time later, and keeps it until replicas come or go.
///
/// There is no bound on how long a shard is without work where lists fail, or while replicas of two numbers take leases at a
/// time: both may give theirs up, and try again after a random pause, or where watches are forbidden after up to a `lease_duration`.
///
/// A replica gets, lists, watches, creates, updates and deletes leases. Where it may not watch them, it sees no others: the guarantees
/// hold, but whoever comes first has all, and what a dead one had is found by polls. Where it may not list them, it takes no part, and
/// what it has taken as it still might, it gives up after a `lease_duration` without work.
///
/// # Examples
///
/// ```
/// use pintle_leaderelect::{InvalidConfig, Leadership, Lease, Shard, Sharded, Shards, ShardsConfig};
/// use pintle_meta::{DynamicObject, ListWatch, ObjectApi};
/// use tokio_util::sync::CancellationToken;
///
/// async fn work<A, P>(leases: A, pods: P, stop: &CancellationToken) -> Result<(), InvalidConfig>
/// where
///     A: ObjectApi<Lease> + ListWatch<Object = Lease> + Clone,
///     P: ListWatch<Object = DynamicObject> + Clone,
/// {
///     let mut shards = Shards::start(leases, "kube-system", "website-controller", ShardsConfig::default())?;
///     let work = async |shard: Shard, leadership: Leadership| {
///         // An informer of these sees the objects of the shard, and goes with the term.
///         let source = Sharded { source: pods.clone(), shard };
///         # drop(source);
///         leadership.cancelled().await;
///     };
///     shards.run(stop, work).await;
///     Ok(())
/// }
/// ```
pub struct Shards<A: ObjectApi<Lease> + ListWatch<Object = Lease>> {
    fleet: Fleet<A>,
    /// By which this replica says that it is there.
    member: LeaderElector<LeaseLock<A>>,
    /// One for each shard. A run that was dropped leaves them behind, so that the next one waits for what they have permitted.
    electors: Vec<LeaderElector<LeaseLock<A>>>,
}

impl<A: ObjectApi<Lease> + ListWatch<Object = Lease> + Clone> Shards<A> {
    /// The shards of that name, whose leases are in `namespace`: `{name}-0-of-16` and so on, and `{name}-member-…-of-16` for each replica.
    ///
    /// # Errors
    ///
    /// The first rule that `config` breaks, or a name that no label can have.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start(api: A, namespace: &str, name: &str, config: ShardsConfig) -> Result<Self, InvalidConfig> {
        if config.electors.election.coordinated {
            return Err(InvalidConfig::CoordinatedShards);
        }
        let mut electors = config.electors.clone();
        let common = BTreeMap::from([(SHARDS_LABEL.to_owned(), name.to_owned())]);
        electors.labels.extend(common.clone());
        let LeaderElectionConfig { clocks, lease_duration, .. } = electors.election.clone();
        let members = Arc::new(watch::Sender::new(Members::new(name, config.shards)));
        let told = members.clone();
        let tap = move |event: &WatchEvent<Lease>| {
            let now = clocks.now().monotonic;
            told.send_modify(|members| match event {
                WatchEvent::Added(lease) | WatchEvent::Modified(lease) => {
                    members.saw(&lease.metadata.name, &state_of(lease), lease_duration, now);
                }
                WatchEvent::Deleted(lease) => members.is_gone(&lease.metadata.name, lease_duration, now),
                _ => {}
            });
        };
        let electors = LeaseGroup::start_with(api.clone(), namespace, electors, &common, tap)?;
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

    /// Works on each shard for as long as this replica leads it, until `stop` is cancelled, or the work on a shard ends by itself: then
    /// that end is returned. Either way, the work on all shards is asked to end first, and they are given up.
    ///
    /// All work is done where this future is polled; what is to be spread over threads has to be spawned, and
    /// [run](Leadership::run) inside its leadership.
    ///
    /// # Panics
    ///
    /// As for [`LeaderElector::run`](crate::LeaderElector::run).
    ///
    /// # Cancel safety
    ///
    /// As for [`LeaderElector::run`](crate::LeaderElector::run).
    pub async fn run<W, Fut>(&mut self, stop: &CancellationToken, work: W) -> Option<(Shard, TermEnd<Fut::Output>)>
    where
        W: Fn(Shard, Leadership) -> Fut,
        Fut: Future,
    {
        let (fleet, member, electors) = (&self.fleet, &mut self.member, &mut self.electors);
        let (stop, work, rivals) = (stop.child_token(), &work, &fleet.rivals());
        let LeaderElectionConfig { clocks, lease_duration, retry_period, .. } = fleet.election();
        // It leaves first of all, so that the others know whose the shards are that it gives up.
        let present = async {
            // The others would yield to one that cannot list, and never works.
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = rivals.lead() => {}
            }
            let stay = LeaderCallbacks::new(async |leadership: Leadership| leadership.cancelled().await);
            member.run(&stop, stay).await;
        };
        // Who should have what is not known before the others are.
        let unknown = Preference { defer: *lease_duration, yield_to: None };
        fleet.preferences.iter().for_each(|preference| drop(preference.send_replace(unknown.clone())));
        let shards = Shard::all(fleet.config.shards).zip(electors).map(async |(shard, elector)| {
            let seed = fleet.election().seed() ^ fnv1a(format!("{shard} {}", fleet.me()).as_bytes());
            let (mut pause, mut jitter) = (Duration::ZERO, Jitter::new(seed));
            let end = loop {
                let free = async {
                    rivals.are_gone().await;
                    clocks.sleep_until(Deadline::after(clocks.now(), pause)).await;
                    while rivals.lead().await {
                        rivals.are_gone().await;
                    }
                };
                tokio::select! {
                    biased;
                    () = stop.cancelled() => break None,
                    () = free => {}
                }
                let callbacks = LeaderCallbacks::new(move |leadership: Leadership| async move {
                    // Where that cannot be told, another one may be able to.
                    let late = Deadline::after(clocks.now(), *lease_duration);
                    let lead = tokio::select! {
                        biased;
                        () = leadership.cancelled() => return None,
                        lead = rivals.lead() => lead,
                        () = clocks.sleep_until(late) => true,
                    };
                    if lead {
                        leadership.give_up();
                        return None;
                    }
                    Some(work(shard, leadership).await)
                });
                // It contends again for what it loses, without another look before: the one that follows each taking decides.
                match elector.run(&stop, callbacks).await {
                    // It was not begun. Of two who have seen each other, one is to come back first.
                    Some(TermEnd { reason: EndReason::Completed, work: Some(Ok(None)) }) => {
                        pause = jitter.up_to(*retry_period);
                    }
                    end => break end,
                }
            };
            stop.cancel();
            let TermEnd { reason, work } = end?;
            let work = match work {
                Some(Ok(output)) => output.map(Ok),
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
            // Where there are no shards, there is nothing to do.
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
