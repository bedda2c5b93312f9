//! A ledger of each replica's shards, which checks the rules at every step of the work.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pintle_leaderelect::Leadership;
use pintle_sharding::Shard;
use tokio::time::Instant;

use crate::clock::NodeClock;

/// Checks three rules of the leaders' work on shards. The leadership must be valid at every step. Before work on a
/// shard begins, all earlier workers of this shard must have stopped permanently. After a machine has resumed from a
/// suspend, its work must be dropped before the next step.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<Book>>);

#[derive(Default)]
struct Book {
    entries: BTreeMap<u32, Vec<Worker>>,
    /// The shards without a worker, with the time at which their last worker stopped.
    free: BTreeMap<u32, Instant>,
    gaps: Vec<Duration>,
    starts: usize,
    /// The first rule that was violated.
    broken: Option<String>,
}

struct Worker {
    shard: Shard,
    identity: String,
    leadership: Leadership,
    machine: Option<Arc<NodeClock>>,
}

impl Worker {
    fn works(&self) -> bool {
        self.leadership.check().is_ok() || !self.machine.as_ref().is_some_and(|machine| machine.is_halted())
    }
}

/// Returns `true` if two shards overlap, even if their replicas have different numbers of shards.
fn meet(one: Shard, other: Shard) -> bool {
    let before = |one: Shard, other: Shard| one.index() * other.count() < (other.index() + 1) * one.count();
    before(one, other) && before(other, one)
}

pub(crate) struct Entry {
    ledger: Ledger,
    shard: u32,
    identity: String,
    leadership: Leadership,
}

impl Ledger {
    pub(crate) fn starts(
        &self,
        shard: Shard,
        identity: &str,
        leadership: &Leadership,
        machine: Option<Arc<NodeClock>>,
    ) -> Entry {
        let mut book = self.0.lock().unwrap();
        book.starts += 1;
        let workers = book.entries.values().flatten().filter(|worker| worker.works() && meet(worker.shard, shard));
        let others: Vec<String> = workers.map(|worker| worker.identity.clone()).collect();
        if !others.is_empty() {
            book.broken.get_or_insert(format!("{identity} starts on {shard:?}, and {others:?} work on it"));
        }
        if let Some(since) = book.free.remove(&shard.index()) {
            book.gaps.push(since.elapsed());
        }
        let worker = Worker { shard, identity: identity.into(), leadership: leadership.clone(), machine };
        let shard = shard.index();
        book.entries.entry(shard).or_default().push(worker);
        Entry { ledger: self.clone(), shard, identity: identity.into(), leadership: leadership.clone() }
    }

    /// Returns the current worker of each shard.
    pub(crate) fn owners(&self) -> BTreeMap<u32, String> {
        let book = self.0.lock().unwrap();
        let works =
            book.entries.iter().filter_map(|(shard, entries)| Some((*shard, entries.first()?.identity.clone())));
        works.collect()
    }

    pub(crate) fn shards(&self) -> Vec<Shard> {
        self.0.lock().unwrap().entries.values().flatten().map(|worker| worker.shard).collect()
    }

    pub(crate) fn starts_so_far(&self) -> usize {
        self.0.lock().unwrap().starts
    }

    pub(crate) fn forget_gaps(&self) {
        self.0.lock().unwrap().gaps.clear();
    }

    /// Returns the longest time without a worker of any shard.
    pub(crate) fn longest_gap(&self) -> Duration {
        self.check(0);
        self.0.lock().unwrap().gaps.iter().max().copied().unwrap_or_default()
    }

    pub(crate) fn check(&self, seed: u64) {
        let book = self.0.lock().unwrap();
        for (shard, entries) in &book.entries {
            let leaders: Vec<_> = entries
                .iter()
                .filter(|worker| worker.leadership.check().is_ok())
                .map(|worker| &worker.identity)
                .collect();
            assert!(leaders.len() < 2, "{leaders:?} lead shard {shard} (seed {seed})");
        }
        assert_eq!(book.broken, None, "(seed {seed})");
    }
}

impl Entry {
    pub(crate) fn works(&self) {
        if self.leadership.check().is_err() {
            let mut book = self.ledger.0.lock().unwrap();
            book.broken.get_or_insert(format!("{} works on shard {} after its deadline", self.identity, self.shard));
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut book = self.ledger.0.lock().unwrap();
        let entries = book.entries.entry(self.shard).or_default();
        entries.retain(|worker| worker.identity != self.identity);
        if entries.is_empty() {
            book.free.insert(self.shard, Instant::now());
        }
    }
}
