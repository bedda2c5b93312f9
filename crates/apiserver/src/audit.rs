//! What was asked of a server, by whom, and what it answered: for tests that hold their clients to it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

/// One request that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// When it came.
    pub received: Instant,
    /// Who asked, after impersonation; empty where that was not found out.
    pub user: String,
    /// The `User-Agent`.
    pub user_agent: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`; of what is no resource, the method in small
    /// letters.
    pub verb: String,
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
    /// The HTTP status. Of a watch, that with which it began.
    pub code: u16,
    /// What admission has to say of it, as a real server has it in the annotations of its audit events: of a pod the security standard to
    /// which it is held, `pod-security.kubernetes.io/enforce-policy`, and what it has against that which its namespace only has audited,
    /// `pod-security.kubernetes.io/audit-violations`.
    pub annotations: BTreeMap<String, String>,
}

impl AuditRecord {
    /// Whether it is of a verb that changes something, and did not fail. That a dry run changes nothing does not count.
    pub fn is_write(&self) -> bool {
        let changes = ["create", "update", "patch", "delete", "deletecollection"].contains(&&*self.verb);
        changes && !self.resource.is_empty() && (200..300).contains(&self.code)
    }
}

/// The requests that a server has answered up to one moment, oldest first, from [`ApiServer::audit`](crate::ApiServer::audit). Each
/// method keeps some of them.
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
/// assert!(server.audit().writes().by_user_agent("elector-a").received_after(end_of_term).is_empty());
/// assert!(server.audit().by_user_agent("controller").most_lists_of_a_resource() <= 1);
/// server.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct ServerAudit {
    records: Vec<AuditRecord>,
    lost: u64,
}

impl ServerAudit {
    /// The requests themselves.
    pub fn records(&self) -> &[AuditRecord] {
        &self.records
    }

    /// How many older ones are no longer known: who has seen none since the start has to look at this, too.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Those of which `is_meant` says so.
    pub fn only(mut self, is_meant: impl FnMut(&AuditRecord) -> bool) -> Self {
        self.records.retain(is_meant);
        self
    }

    /// Those that [changed something](AuditRecord::is_write).
    pub fn writes(self) -> Self {
        self.only(AuditRecord::is_write)
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
        self.only(|record| record.received > moment)
    }

    /// How often the resource was listed that was listed most, each namespace and all of them together counted apart. Pages of one list
    /// are a request each.
    pub fn most_lists_of_a_resource(&self) -> usize {
        let mut counts: HashMap<_, usize> = HashMap::new();
        for record in self.records.iter().filter(|record| record.verb == "list") {
            *counts.entry((&record.group, &record.resource, &record.namespace)).or_default() += 1;
        }
        counts.into_values().max().unwrap_or(0)
    }
}

/// The annotations of a request that is on its way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Annotations(Arc<Mutex<BTreeMap<String, String>>>);

impl Annotations {
    pub(crate) fn note(&self, key: &str, value: String) {
        self.lock().insert(key.into(), value);
    }

    pub(crate) fn take(&self) -> BTreeMap<String, String> {
        std::mem::take(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the records may take in memory, in bytes: the texts in them are as long as their clients like.
const MOST_BYTES: usize = 32 << 20;

/// Where they are kept.
#[derive(Debug)]
pub(crate) struct AuditLog {
    most: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    records: VecDeque<AuditRecord>,
    bytes: usize,
    lost: u64,
}

impl AuditLog {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, kept: Mutex::default() }
    }

    pub(crate) fn note(&self, record: AuditRecord) {
        let mut kept = self.lock();
        kept.bytes += weight(&record);
        kept.records.push_back(record);
        while kept.records.len() > self.most || kept.bytes > MOST_BYTES {
            let Some(oldest) = kept.records.pop_front() else { return };
            kept.bytes -= weight(&oldest);
            kept.lost += 1;
        }
    }

    pub(crate) fn read(&self) -> ServerAudit {
        let kept = self.lock();
        ServerAudit { records: kept.records.iter().cloned().collect(), lost: kept.lost }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn weight(record: &AuditRecord) -> usize {
    let AuditRecord { user, user_agent, verb, group, resource, subresource, namespace, name, annotations, .. } = record;
    let texts = [user, user_agent, verb, group, resource, subresource, namespace, name].into_iter();
    let texts = texts.chain(annotations.iter().flat_map(|(key, value)| [key, value]));
    size_of::<AuditRecord>() + texts.map(String::len).sum::<usize>()
}
