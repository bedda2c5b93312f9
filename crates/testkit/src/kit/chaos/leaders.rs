//! Checks that only the leader writes. The server's revisions define the order of the writes and of the Lease changes.

use pintle_apiserver::AuditRecord;

use crate::journal::LeaseWrite;
use crate::lab::Lab;
use crate::request::{is_housekeeping, is_registration};
use crate::world::World;

/// Returns the process that holds the Lease, if that process is running.
fn leader<W: World>(lab: &Lab<W>) -> Option<String> {
    let leases = leases(lab)?;
    let last = leases.last().filter(|last| !last.holder.is_empty())?;
    lab.running().into_iter().find(|process| *process == last.process)
}

/// Returns the leader. If there is no leader, returns a running process that `choice` selects.
pub(super) fn leader_or<W: World>(lab: &Lab<W>, choice: usize) -> Option<String> {
    let running = lab.running();
    leader(lab).or_else(|| running.get(choice % running.len().max(1)).cloned())
}

/// Returns the writes that a process sent while the Lease named another process or no process.
///
/// Writes of definitions and of webhook configurations are excluded, because each replica registers them before the
/// election.
pub(super) fn writes_without_leading<W: World>(lab: &Lab<W>) -> Vec<String> {
    let Some(leases) = leases(lab) else { return Vec::new() };
    let writes = lab.server().audit().despite_loss().writes();
    let is_own = |write: &AuditRecord| {
        is_housekeeping(&write.group, &write.resource) || is_registration(&write.group, &write.resource)
    };
    let writes = writes.records().iter().filter(|write| write.user_agent.starts_with("operator-") && !is_own(write));
    let wrong = writes.filter_map(|write| {
        let revision = write.committed?.revision;
        let holder = leases.iter().rev().find(|lease| lease.revision < revision);
        let holder = holder.filter(|holder| !holder.holder.is_empty()).map(|holder| holder.process.as_str());
        let target = format!("{} {}/{}", write.resource, write.namespace, write.name);
        let verb = write.verb.map(|verb| verb.to_string()).unwrap_or_default();
        let who = holder.unwrap_or("no process");
        (holder != Some(&write.user_agent))
            .then(|| format!("{} sent {verb} {target} while {who} led", write.user_agent))
    });
    wrong.collect()
}

/// Returns the writes of the operator's Lease, ordered by revision. Returns `None` if the operator has no Lease or
/// several Leases.
fn leases<W: World>(lab: &Lab<W>) -> Option<Vec<LeaseWrite>> {
    let mut leases = lab.journal().leases();
    leases.sort_by_key(|lease| lease.revision);
    let first = leases.first()?.lease.clone();
    leases.iter().all(|lease| lease.lease == first).then_some(leases)
}
