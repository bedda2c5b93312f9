//! Where the records are kept: what many of them have in common, once.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::{AuditRecord, Commit, ServerAudit};
use crate::verb::RequestVerb;

/// What the records may take in memory, in bytes: the texts in them are as long as their clients like.
const MOST_BYTES: usize = 32 << 20;

/// The last requests.
#[derive(Debug)]
pub(crate) struct AuditLog {
    most: usize,
    kept: Mutex<KeptRequests>,
}

#[derive(Debug, Default)]
struct KeptRequests {
    records: VecDeque<KeptRecord>,
    common: HashSet<Arc<Common>>,
    bytes: usize,
    lost: u64,
    lost_until: Option<Instant>,
}

#[derive(Debug)]
struct KeptRecord {
    common: Arc<Common>,
    received: Instant,
    name: Box<str>,
    code: u16,
    committed: Option<Commit>,
    annotations: BTreeMap<String, String>,
}

/// What a client's requests to one resource have in common.
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
    pub(crate) fn new(most: usize) -> Self {
        Self { most, kept: Mutex::default() }
    }

    pub(crate) fn note(&self, record: AuditRecord) {
        let AuditRecord { received, user, user_agent, verb, group, resource, subresource, namespace, .. } = record;
        let AuditRecord { name, code, committed, annotations, .. } = record;
        let common = Common { user, user_agent, verb, group, resource, subresource, namespace };
        let name = name.into();
        let mut kept = self.lock();
        let (common, _known) = kept.share(common);
        kept.add(KeptRecord { common, received, name, code, committed, annotations });
        while kept.records.len() > self.most || kept.bytes > MOST_BYTES {
            kept.forget_oldest();
        }
        drop(kept);
    }

    pub(crate) fn read(&self) -> ServerAudit {
        let kept = self.lock();
        let records = kept.records.iter().map(KeptRecord::whole).collect();
        ServerAudit { records, lost: kept.lost, lost_until: kept.lost_until }
    }

    fn lock(&self) -> MutexGuard<'_, KeptRequests> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeptRequests {
    /// The shared one; and the other, if it is not needed any more, to be freed under no lock.
    fn share(&mut self, common: Common) -> (Arc<Common>, Option<Common>) {
        let last = self.records.back().map(|last| &last.common).filter(|last| ***last == common);
        if let Some(known) = last.or_else(|| self.common.get(&common)) {
            return (known.clone(), Some(common));
        }
        let common = Arc::new(common);
        self.bytes += common.weight();
        self.common.insert(common.clone());
        (common, None)
    }

    fn add(&mut self, record: KeptRecord) {
        self.bytes += record.weight();
        self.records.push_back(record);
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.records.pop_front() else { return };
        self.bytes -= oldest.weight();
        self.lost += 1;
        let last = oldest.committed.map_or(oldest.received, |commit| commit.at.max(oldest.received));
        self.lost_until = self.lost_until.max(Some(last));
        // This one has it, and the set.
        if Arc::strong_count(&oldest.common) == 2 {
            self.bytes -= oldest.common.weight();
            self.common.remove(&oldest.common);
        }
    }
}

impl KeptRecord {
    fn whole(&self) -> AuditRecord {
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

    fn weight(&self) -> usize {
        size_of::<Self>()
            + self.name.len()
            + self.annotations.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>()
    }
}

impl Common {
    fn weight(&self) -> usize {
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
    fn records_come_out_as_they_went_in_and_what_is_forgotten_leaves_nothing() {
        let log = AuditLog::new(3);
        let records: Vec<_> =
            [("a", "1"), ("b", "2"), ("a", "3"), ("a", "4")].map(|(user, name)| record(user, name)).into();
        for record in &records {
            log.note(record.clone());
        }
        let read = log.read();
        assert_eq!((&read.records[..], read.lost), (&records[1..], 1));
        assert_eq!(log.lock().common.len(), 2);
        log.note(record("a", "5"));
        assert_eq!(log.lock().common.len(), 1, "nobody has b's any more");
        for user in 0..9 {
            log.note(record(&user.to_string(), "6"));
        }
        let mut kept = log.lock();
        assert_eq!((kept.records.len(), kept.common.len()), (3, 3));
        (0..3).for_each(|_| kept.forget_oldest());
        assert_eq!((kept.bytes, kept.common.len()), (0, 0));
    }

    #[test]
    fn the_records_are_bounded_in_bytes() {
        let log = AuditLog::new(usize::MAX);
        let long = "x".repeat(1 << 20);
        (0..100).for_each(|number| log.note(record(&format!("{long}{number}"), &long)));
        let kept = log.lock();
        assert!(
            kept.bytes <= MOST_BYTES && kept.bytes > MOST_BYTES - (3 << 20) && kept.common.len() == kept.records.len()
        );
    }
}
