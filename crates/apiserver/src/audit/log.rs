//! The audit log. Records with equal common fields share one copy of these fields.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;

use pintle_apimachinery::verb::RequestVerb;
use pintle_meta::__private::Mutex;
use pintle_storage::committed::Commit;
use tokio::time::Instant;

use super::{AuditRecord, ServerAudit};

/// The maximum memory use of all audit records, in bytes. A maximum number of records would
/// not bound the memory, because clients choose the length of the strings in the records.
const MAX_BYTES: usize = 32 << 20;

#[derive(Debug)]
pub(crate) struct AuditLog {
    limit: usize,
    stored: Mutex<StoredRequests>,
}

#[derive(Debug, Default)]
struct StoredRequests {
    records: VecDeque<StoredRecord>,
    common: HashSet<Arc<Common>>,
    bytes: usize,
    lost: u64,
    lost_until: Option<Instant>,
}

#[derive(Debug)]
struct StoredRecord {
    common: Arc<Common>,
    received: Instant,
    name: Box<str>,
    code: u16,
    committed: Option<Commit>,
    annotations: BTreeMap<String, String>,
}

/// The fields that are usually the same for all requests of one client for one resource. Records with equal `Common`
/// values share one copy.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Common {
    user: String,
    user_agent: String,
    verb: Option<RequestVerb>,
    group: String,
    resource: String,
    subresource: String,
    namespace: String,
}

impl AuditLog {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, stored: Mutex::default() }
    }

    pub(crate) fn record(&self, record: AuditRecord) {
        let AuditRecord { received, user, user_agent, verb, group, resource, subresource, namespace, .. } = record;
        let AuditRecord { name, code, committed, annotations, .. } = record;
        let common = Common { user, user_agent, verb, group, resource, subresource, namespace };
        let name = name.into();
        let mut stored = self.stored.lock();
        let (common, _known) = stored.share(common);
        stored.add(StoredRecord { common, received, name, code, committed, annotations });
        while stored.records.len() > self.limit || stored.bytes > MAX_BYTES {
            stored.drop_oldest();
        }
        drop(stored);
    }

    pub(crate) fn read(&self) -> ServerAudit {
        let stored = self.stored.lock();
        let records = stored.records.iter().map(StoredRecord::to_record).collect();
        ServerAudit { records, lost: stored.lost, lost_until: stored.lost_until }
    }
}

impl StoredRequests {
    /// Returns the stored `Common` that equals `common`. If an equal value was already stored, also returns `common`,
    /// which the caller must drop after releasing the lock.
    fn share(&mut self, common: Common) -> (Arc<Common>, Option<Common>) {
        let last = self.records.back().map(|last| &last.common).filter(|last| ***last == common);
        if let Some(known) = last.or_else(|| self.common.get(&common)) {
            return (known.clone(), Some(common));
        }
        let common = Arc::new(common);
        self.bytes += common.size();
        self.common.insert(common.clone());
        (common, None)
    }

    fn add(&mut self, record: StoredRecord) {
        self.bytes += record.size();
        self.records.push_back(record);
    }

    fn drop_oldest(&mut self) {
        let Some(oldest) = self.records.pop_front() else { return };
        self.bytes -= oldest.size();
        self.lost += 1;
        let last = oldest.committed.map_or(oldest.received, |commit| commit.at.max(oldest.received));
        self.lost_until = self.lost_until.max(Some(last));
        // With two references left, only this record and the set of shared values still use the `Common`, so remove it
        // from the set.
        if Arc::strong_count(&oldest.common) == 2 {
            self.bytes -= oldest.common.size();
            self.common.remove(&oldest.common);
        }
    }
}

impl StoredRecord {
    fn to_record(&self) -> AuditRecord {
        let Common { user, user_agent, verb, group, resource, subresource, namespace } = &*self.common;
        AuditRecord {
            received: self.received,
            user: user.clone(),
            user_agent: user_agent.clone(),
            verb: *verb,
            group: group.clone(),
            resource: resource.clone(),
            subresource: subresource.clone(),
            namespace: namespace.clone(),
            name: self.name.to_string(),
            code: self.code,
            committed: self.committed,
            annotations: self.annotations.clone(),
        }
    }

    fn size(&self) -> usize {
        size_of::<Self>()
            + self.name.len()
            + self.annotations.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>()
    }
}

impl Common {
    fn size(&self) -> usize {
        let Self { user, user_agent, verb: _, group, resource, subresource, namespace } = self;
        let texts = [user, user_agent, group, resource, subresource, namespace];
        size_of::<Self>() + texts.into_iter().map(String::len).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(user: &str, name: &str) -> AuditRecord {
        AuditRecord {
            received: Instant::now(),
            user: user.into(),
            user_agent: "test".into(),
            verb: Some(RequestVerb::Get),
            group: "apps".into(),
            resource: "deployments".into(),
            subresource: "status".into(),
            namespace: "default".into(),
            name: name.into(),
            code: 200,
            committed: None,
            annotations: BTreeMap::from([("key".into(), "value".into())]),
        }
    }

    #[test]
    fn records_round_trip_and_dropped_records_free_memory() {
        let log = AuditLog::new(3);
        let records: Vec<_> =
            [("a", "1"), ("b", "2"), ("a", "3"), ("a", "4")].map(|(user, name)| record(user, name)).into();
        for record in &records {
            log.record(record.clone());
        }
        let read = log.read();
        assert_eq!((&read.records[..], read.lost), (&records[1..], 1));
        assert_eq!(log.stored.lock().common.len(), 2);
        log.record(record("a", "5"));
        assert_eq!(log.stored.lock().common.len(), 1, "no record of b is left");
        for user in 0..9 {
            log.record(record(&user.to_string(), "6"));
        }
        let mut stored = log.stored.lock();
        assert_eq!((stored.records.len(), stored.common.len()), (3, 3));
        (0..3).for_each(|_| stored.drop_oldest());
        assert_eq!((stored.bytes, stored.common.len()), (0, 0));
    }

    #[test]
    fn memory_of_records_is_bounded() {
        let log = AuditLog::new(usize::MAX);
        let long = "x".repeat(1 << 20);
        (0..100).for_each(|number| log.record(record(&format!("{long}{number}"), &long)));
        let stored = log.stored.lock();
        assert!(
            stored.bytes <= MAX_BYTES
                && stored.bytes > MAX_BYTES - (3 << 20)
                && stored.common.len() == stored.records.len()
        );
    }
}
