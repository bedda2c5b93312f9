//! What was asked of a server, by whom, and what it answered: for tests that hold their clients to it.

mod log;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use log::AuditLog;
use tokio::time::Instant;

use crate::verb::RequestVerb;

/// One request that was answered, or given up by its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// When it came.
    pub received: Instant,
    /// Who asked, after impersonation; empty where that was not found out.
    pub user: String,
    /// The `User-Agent`.
    pub user_agent: String,
    /// What it asked for. None: for what is no resource, such as `/version`.
    pub verb: Option<RequestVerb>,
    /// The API group; the empty one is the core group.
    pub group: String,
    /// The resource, by its plural; empty for what is none, such as `/version`.
    pub resource: String,
    /// Such as `status`.
    pub subresource: String,
    /// The namespace; empty in cluster scope, and across all.
    pub namespace: String,
    /// The name; empty for a collection.
    pub name: String,
    /// The HTTP status. Of a watch, that with which it began; 0 where the client went before there was one. A request that took too long is
    /// noted once nothing is done for it any more, which may be after its answer.
    pub code: u16,
    /// What it wrote, whatever was answered; the last of it, where that was more than one object. None: nothing, as of a read, a dry
    /// run, what was refused, and what left everything as it was.
    pub committed: Option<Commit>,
    /// What admission has to say of it, as a real server has it in the annotations of its audit events: of a pod the security standard to
    /// which it is held, `pod-security.kubernetes.io/enforce-policy`, and what it has against that which its namespace only has audited,
    /// `pod-security.kubernetes.io/audit-violations`.
    pub annotations: BTreeMap<String, String>,
}

/// That something was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// When: in the order of the revisions, however long the request had waited before, and its answer did after.
    pub at: Instant,
    /// The `resourceVersion` that it made.
    pub revision: u64,
}

/// The requests that a server has answered up to one moment, in the order of their answers, from
/// [`ApiServer::audit`](crate::ApiServer::audit). Each method keeps some of them.
///
/// Of very many requests the oldest are forgotten (see [`ApiServerConfig::audit`](crate::ApiServerConfig::audit)). So that nobody takes
/// them for requests that were never made, what is asked of the rest panics then, unless it is only about what came
/// [after](Self::committed_after) a moment since which nothing was forgotten, or the loss is [accepted](Self::despite_loss).
///
/// # Examples
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use pintle_apiserver::{ApiServer, ApiServerConfig};
/// use tokio::time::Instant;
///
/// let server = ApiServer::start(ApiServerConfig::default()).await?;
/// // … here controllers run, and a term ends:
/// let end_of_term = Instant::now();
/// // … and then:
/// assert!(server.audit().writes().by_user_agent("elector-a").committed_after(end_of_term).is_empty());
/// assert!(server.audit().by_user_agent("controller").most_lists_of_a_resource() <= 1);
/// server.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct ServerAudit {
    records: Vec<AuditRecord>,
    lost: u64,
    /// Of what is lost, nothing came or was written later.
    lost_until: Option<Instant>,
}

impl ServerAudit {
    /// The requests themselves.
    ///
    /// # Panics
    ///
    /// If others that may belong to them were forgotten.
    pub fn records(&self) -> &[AuditRecord] {
        let lost = self.lost;
        assert!(lost == 0, "{lost} requests are no longer known: raise ApiServerConfig::audit, or say despite_loss()");
        &self.records
    }

    /// How many others, older than these, are no longer known.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The same with nothing said of those that were forgotten.
    pub fn despite_loss(self) -> Self {
        Self { lost: 0, ..self }
    }

    /// How many there are.
    ///
    /// # Panics
    ///
    /// If others that may belong to them were forgotten.
    pub fn len(&self) -> usize {
        self.records().len()
    }

    /// Whether there are none.
    ///
    /// # Panics
    ///
    /// If others that may belong to them were forgotten.
    pub fn is_empty(&self) -> bool {
        self.records().is_empty()
    }

    /// Those of which `is_meant` says so.
    pub fn only(mut self, is_meant: impl FnMut(&AuditRecord) -> bool) -> Self {
        self.records.retain(is_meant);
        self
    }

    /// Those that [wrote something](AuditRecord::committed), whatever their clients were told.
    pub fn writes(self) -> Self {
        self.only(|record| record.committed.is_some())
    }

    /// Those of this user.
    pub fn by_user(self, name: &str) -> Self {
        self.only(|record| record.user == name)
    }

    /// Those whose `User-Agent` begins so.
    pub fn by_user_agent(self, prefix: &str) -> Self {
        self.only(|record| record.user_agent.starts_with(prefix))
    }

    /// Those to this resource, by its plural, its parts included.
    pub fn of(self, group: &str, resource: &str) -> Self {
        self.only(|record| record.group == group && record.resource == resource)
    }

    /// Those that came after this moment.
    pub fn received_after(self, moment: Instant) -> Self {
        self.complete_after(moment).only(|record| record.received > moment)
    }

    /// Those that wrote something after this moment, whenever they came.
    pub fn committed_after(self, moment: Instant) -> Self {
        self.complete_after(moment).only(|record| record.committed.is_some_and(|commit| commit.at > moment))
    }

    /// Where only what is later than this moment is meant, what was forgotten before does not count.
    fn complete_after(self, moment: Instant) -> Self {
        match self.lost_until {
            Some(until) if until <= moment => self.despite_loss(),
            _ => self,
        }
    }

    /// How often the resource was listed that was listed most, each namespace and all of them together counted apart. Pages of one list
    /// are a request each.
    ///
    /// # Panics
    ///
    /// If lists may have been forgotten.
    pub fn most_lists_of_a_resource(&self) -> usize {
        let mut counts: HashMap<_, usize> = HashMap::new();
        for record in self.records().iter().filter(|record| record.verb == Some(RequestVerb::List)) {
            *counts.entry((&record.group, &record.resource, &record.namespace)).or_default() += 1;
        }
        counts.into_values().max().unwrap_or(0)
    }
}

tokio::task_local! {
    /// Where what the request of this task writes is noted.
    static COMMITTED: Committed;
}

/// What a request has written so far. It is asked from outside of the request's work, which may be given up half-way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Committed(Arc<Mutex<Option<Commit>>>);

impl Committed {
    /// Has what `work` writes noted here.
    pub(crate) async fn during<R>(&self, work: impl Future<Output = R>) -> R {
        COMMITTED.scope(self.clone(), work).await
    }

    pub(crate) fn last(&self) -> Option<Commit> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes that something was written: for the request that is worked on, if it was one.
pub(crate) fn note_commit(revision: u64) {
    let note = |Committed(committed): &Committed| {
        *committed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Commit { at: Instant::now(), revision });
    };
    // What works in the background has no request.
    let _ = COMMITTED.try_with(note);
}
