//! In-memory collections of sites, children and leases.

use pintle_informer::{InformerConfig, SharedInformer};
use pintle_leaderelect::{LeaderElectionConfig, LeaderElector, Lease, LeaseGroupConfig, LeaseLock};
use pintle_meta::{Object, ObjectKey, ObjectMeta, OwnerReference, Reason, Status};
use pintle_sharding::{Shards, ShardsConfig};
use pintle_testing::{Break, Client, Collection, FaultScript, Outcome};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Site {
    pub(crate) metadata: ObjectMeta,
}
pintle_meta::resource!(Site, "example.com/v1", "Site", "sites", Namespaced);

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Child {
    pub(crate) metadata: ObjectMeta,
}
pintle_meta::resource!(Child, "example.com/v1", "Child", "children", Namespaced);

impl Site {
    pub(crate) fn named(name: &str) -> Self {
        Self { metadata: ObjectMeta::new("ns", name) }
    }
}

impl Child {
    pub(crate) fn named(name: &str) -> Self {
        Self { metadata: ObjectMeta::new("ns", name) }
    }

    pub(crate) fn of(owner: &Site, name: &str) -> Self {
        let mut child = Self::named(name);
        child.metadata.owner_references.push(OwnerReference::controller_of(owner));
        child
    }
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

pub(crate) fn sites_named(names: &[&str]) -> Collection<Site> {
    names.iter().map(|name| Site::named(name)).collect()
}

pub(crate) fn informer<T: Object + DeserializeOwned>(objects: &Collection<T>) -> SharedInformer<T> {
    SharedInformer::new(objects.clone(), InformerConfig { seed: Some(7), ..InformerConfig::default() })
}

pub(crate) fn touch(sites: &Collection<Site>, name: &str) {
    sites.change(&key(name), |_| {});
}

/// Deletes a site while all watches are broken. Only a re-list reveals this deletion, because the revision of the
/// watches has expired.
pub(crate) fn delete_unseen(sites: &Collection<Site>, name: &str) {
    sites.break_watches(Break::expired());
    assert!(sites.remove(&key(name)));
    sites.compact();
}

pub(crate) fn forbid(faults: &FaultScript) {
    faults.when(|_| Some(Outcome::Fails(Status::failure(403, Reason::Forbidden, "you may not list this").into())));
}

pub(crate) fn elector(client: &Client<Lease>, identity: &str) -> LeaderElector<LeaseLock<Client<Lease>>> {
    elector_of(client, LeaderElectionConfig { identity: identity.into(), ..LeaderElectionConfig::default() })
}

pub(crate) fn elector_of(
    client: &Client<Lease>,
    config: LeaderElectionConfig,
) -> LeaderElector<LeaseLock<Client<Lease>>> {
    let config = LeaderElectionConfig { seed: Some(7), ..config };
    LeaderElector::new(LeaseLock::new(client.clone(), "ns", "lock"), config).unwrap()
}

pub(crate) fn holder(leases: &Collection<Lease>) -> String {
    leases.object(&key("lock")).map_or("(none)".into(), |lease| lease.spec.record().holder_identity)
}

pub(crate) fn take_lease_over(leases: &Collection<Lease>, by: &str) {
    leases.change(&key("lock"), |lease| lease.spec.holder_identity = Some(by.into()));
}

pub(crate) const SHARDS: u32 = 8;

pub(crate) fn shards(leases: &Collection<Lease>, election: LeaderElectionConfig) -> Shards<Client<Lease>> {
    let api = leases.client(&election.identity);
    let electors = LeaseGroupConfig { election, ..LeaseGroupConfig::default() };
    Shards::start(api, "ns", "sites", ShardsConfig { shards: SHARDS, electors }).unwrap()
}
