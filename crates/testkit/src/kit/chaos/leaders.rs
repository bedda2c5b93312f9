//! Checks that only the leader writes. The check orders writes and Lease changes by their revisions.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use pintle_apiserver::AuditRecord;
use pintle_meta::ObjectKey;
use pintle_sharding::Shard;
use serde_json::Value;
use tokio::time::Instant;

use crate::journal::LeaseWrite;
use crate::lab::Lab;
use crate::request::{is_housekeeping, is_registration};
use crate::world::World;

/// Returns the process that holds the Lease. Returns `None` if the operator has several Leases or if the holder is not
/// running.
fn leader<W: World>(lab: &Lab<W>) -> Option<String> {
    let leases = Leases::of(lab.journal.leases());
    let [writes] = leases.0.values().collect::<Vec<_>>()[..] else { return None };
    let last = writes.last().filter(|last| !last.holder.is_empty())?;
    lab.running().into_iter().find(|process| *process == last.process)
}

/// Returns the leader. If there is no leader, returns the running process that `choice` selects.
pub(super) fn leader_or<W: World>(lab: &Lab<W>, choice: usize) -> Option<String> {
    let running = lab.running();
    leader(lab).or_else(|| running.get(choice % running.len().max(1)).cloned())
}

/// Returns the writes of processes that did not hold the Lease for the written object, or whose Lease had expired.
///
/// Writes of definitions and webhook configurations are excluded, because every replica sends them before the election.
pub(super) fn writes_without_leading<W: World>(lab: &Lab<W>) -> Vec<String> {
    let leases = Leases::of(lab.journal.leases());
    if leases.0.is_empty() {
        return Vec::new();
    }
    let owners = Owners::of(&lab.server().snapshot().to_text());
    let writes = lab.server().audit().despite_loss().writes();
    let is_own = |write: &AuditRecord| {
        is_housekeeping(&write.group, &write.resource) || is_registration(&write.group, &write.resource)
    };
    let writes = writes.records().iter().filter(|write| write.user_agent.starts_with("operator-") && !is_own(write));
    let wrong = writes.filter_map(|write| {
        let held = leases.held_before(write.committed?.revision, write.received);
        let keys = owners.shard_keys(write);
        let leads = |(lease, holder): &(&str, &str)| *holder == write.user_agent && covers_any(lease, &keys);
        (!held.iter().any(leads)).then(|| describe(write, &held, &keys))
    });
    wrong.collect()
}

fn describe(write: &AuditRecord, held: &[(&str, &str)], keys: &[ObjectKey]) -> String {
    let covering = held.iter().filter(|(lease, _)| covers_any(lease, keys));
    let holders: BTreeSet<&str> = covering.map(|(_, holder)| *holder).collect();
    let holders = holders.into_iter().collect::<Vec<_>>().join(" and ");
    let who = if holders.is_empty() { "no process" } else { &holders };
    let verb = write.verb.map(|verb| verb.to_string()).unwrap_or_default();
    let AuditRecord { user_agent, resource, namespace, name, .. } = write;
    let of_key = match keys {
        [key, ..] if held.iter().any(|(lease, _)| shard_of(lease).is_some()) => format!(" the shard of {key}"),
        _ => String::new(),
    };
    format!("{user_agent} sent {verb} {resource} {namespace}/{name} while {who} led{of_key}")
}

/// The writes to each Lease of the operator, ordered by revision. Excludes membership Leases, because each replica
/// holds its own membership Lease.
struct Leases(BTreeMap<String, Vec<LeaseWrite>>);

impl Leases {
    fn of(writes: Vec<LeaseWrite>) -> Self {
        let mut leases = BTreeMap::<String, Vec<LeaseWrite>>::new();
        for write in writes.into_iter().filter(|write| !is_membership(&write.lease)) {
            leases.entry(write.lease.clone()).or_default().push(write);
        }
        leases.values_mut().for_each(|writes| writes.sort_by_key(|write| write.revision));
        Self(leases)
    }

    /// Returns the Leases that were held just before `revision` and had not expired at `at`, each with its holder.
    fn held_before(&self, revision: u64, at: Instant) -> Vec<(&str, &str)> {
        let last = |writes: &'_ [LeaseWrite]| writes.iter().rposition(|lease| lease.revision < revision);
        let held = self.0.iter().filter_map(|(name, writes)| Some((name, &writes[last(writes)?])));
        let held = held.filter(|(_, lease)| !lease.holder.is_empty() && at <= lease.expires);
        held.map(|(name, lease)| (name.as_str(), lease.process.as_str())).collect()
    }
}

fn is_membership(lease: &str) -> bool {
    lease.rsplit_once("-of-").is_some_and(|(name, count)| name.contains("-member-") && count.parse::<u32>().is_ok())
}

/// Returns the shard from a Lease name such as `website-controller-website-3-of-16`.
fn shard_of(lease: &str) -> Option<Shard> {
    let (name, count) = lease.rsplit_once("-of-")?;
    let (_, index) = name.rsplit_once('-')?;
    let index = index.parse().ok()?;
    Shard::all(count.parse().ok()?).nth(index)
}

/// Returns `true` if the Lease covers one of `keys`, or if `keys` is empty. A Lease without a shard covers all keys.
fn covers_any(lease: &str, keys: &[ObjectKey]) -> bool {
    keys.is_empty() || shard_of(lease).is_none_or(|shard| keys.iter().any(|key| shard.has_key(key)))
}

#[derive(Default)]
struct Owners {
    owners: HashMap<(String, String), String>,
    resources: BTreeSet<String>,
}

impl Owners {
    fn of(text: &str) -> Self {
        let lines: Vec<Value> = text.lines().skip(1).filter_map(|line| serde_json::from_str(line).ok()).collect();
        let identities: HashMap<&str, (String, String)> = lines
            .iter()
            .filter_map(|line| Some((line["object"]["metadata"]["uid"].as_str()?, identity(line)?)))
            .collect();
        let mut found = Self::default();
        for line in &lines {
            let owners = line["object"]["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            let mut uids = owners.filter(|owner| owner["controller"] == true).filter_map(|owner| owner["uid"].as_str());
            if let Some((identity, (resource, owner))) =
                identity(line).zip(uids.find_map(|uid| identities.get(uid)).cloned())
            {
                found.owners.insert(identity, owner);
                found.resources.insert(resource);
            }
        }
        found
    }

    /// Returns the keys that may have been reconciled when the write was sent: the key of the owner, and the key of the
    /// object itself if it can be an owner. Returns an empty list if the reconciled key is unknown.
    fn shard_keys(&self, write: &AuditRecord) -> Vec<ObjectKey> {
        if write.name.is_empty() {
            return Vec::new();
        }
        let key = ObjectKey::new(&write.namespace, &write.name);
        let owner = self.owners.get(&(write.resource.clone(), key.to_string()));
        let own = self.resources.contains(&write.resource).then_some(key);
        owner.and_then(|owner| owner.parse().ok()).into_iter().chain(own).collect()
    }
}

fn identity(line: &Value) -> Option<(String, String)> {
    let resource = line["resource"].as_str()?.split('.').next().unwrap_or_default();
    Some((resource.to_owned(), line["key"].as_str()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    const DURATION: Duration = Duration::from_secs(15);

    fn lease(lease: &str, revision: u64, process: &str) -> LeaseWrite {
        let holder = process.into();
        LeaseWrite {
            revision,
            process: process.into(),
            lease: lease.into(),
            holder,
            expires: Instant::now() + DURATION,
        }
    }

    fn record(resource: &str, name: &str) -> AuditRecord {
        AuditRecord {
            received: Instant::now(),
            user: String::new(),
            user_agent: "operator-1".into(),
            verb: None,
            group: String::new(),
            resource: resource.into(),
            subresource: String::new(),
            namespace: "a".into(),
            name: name.into(),
            code: 200,
            committed: None,
            annotations: BTreeMap::new(),
        }
    }

    #[test]
    fn lease_of_a_shard_covers_only_its_keys() {
        let (first, second) = ("sites-0-of-2", "sites-1-of-2");
        for number in 0..20 {
            let key = ObjectKey::new("default", &number.to_string());
            let keys = [key];
            assert!(covers_any(first, &keys) != covers_any(second, &keys) && covers_any("sites", &keys), "{keys:?}");
        }
        assert!(covers_any(first, &[]), "the key is unknown");
        assert!(is_membership("sites-member-0123456789abcdef-of-2") && !is_membership("sites-0-of-2"));
        assert_eq!(shard_of("sites-2-of-2"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn expired_lease_is_not_held() {
        let leases = Leases::of(vec![lease("sites", 3, "operator-1")]);
        let held = |at| leases.held_before(6, at).len();
        assert_eq!((held(Instant::now() + DURATION), held(Instant::now() + 2 * DURATION)), (1, 0));
    }

    #[test]
    fn held_leases_are_those_before_the_revision() {
        let released = LeaseWrite { holder: String::new(), ..lease("sites-0-of-2", 9, "operator-1") };
        let member = lease("sites-member-0123456789abcdef-of-2", 1, "operator-2");
        let writes =
            vec![released, lease("sites-0-of-2", 3, "operator-1"), lease("sites-1-of-2", 5, "operator-2"), member];
        let leases = Leases::of(writes);
        assert_eq!(leases.held_before(3, Instant::now()), []);
        assert_eq!(
            leases.held_before(6, Instant::now()),
            [("sites-0-of-2", "operator-1"), ("sites-1-of-2", "operator-2")]
        );
        assert_eq!(leases.held_before(10, Instant::now()), [("sites-1-of-2", "operator-2")]);
    }

    #[test]
    fn shard_of_a_child_is_that_of_its_owner() {
        let object = |resource: &str, key: &str, uid: &str, owner: &str| {
            let owners = json!([{"controller": true, "uid": owner}]);
            json!({"resource": resource, "key": key, "object": {"metadata": {"uid": uid, "ownerReferences": owners}}})
        };
        let (site, map) =
            (object("websites.example.com", "a/blog", "1", "9"), object("configmaps", "a/child", "2", "1"));
        let owners = Owners::of(&format!("header\n{site}\n{map}"));
        let keys = |resource: &str, name: &str| -> Vec<String> {
            owners.shard_keys(&record(resource, name)).iter().map(ToString::to_string).collect()
        };
        assert_eq!(keys("configmaps", "child"), ["a/blog"]);
        assert_eq!(keys("websites", "shop"), ["a/shop"]);
        assert!(keys("configmaps", "rogue").is_empty() && keys("websites", "").is_empty());
    }
}
