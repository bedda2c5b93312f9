//! Puts back what a store has held.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::{Db, Inner};
use crate::store::{Draft, Expect, Key, ResourceKey, Stored};

/// Where an object is.
type StoredAt = (ResourceKey, Key);

/// So often what is there is held against what is wanted under no lock. If somebody writes each time, what was written since the last
/// time is under it.
const RESTORE_LOOKS: usize = 3;

/// What is to be done for what is wanted to be there.
#[derive(Default)]
struct Difference<'a> {
    /// What is there with the content that is wanted.
    same: HashMap<StoredAt, Arc<Stored>>,
    /// What is there otherwise, and at which revision.
    wrong: Vec<(StoredAt, u64)>,
    missing: Vec<&'a StoredAt>,
    drafts: HashMap<&'a StoredAt, Draft>,
}

impl Db {
    /// Makes the objects those that are given, in one step: what is none of them goes, what is as it was stays untouched, and each
    /// other is a write. Answers how many writes that took.
    ///
    /// It is one step since whoever saw a half of it would act upon that: an owner that is yet to come back is none, and what depends
    /// on it goes. So the lock is held for as long as its writes take, and for no longer: not for what they are made of, nor for what
    /// is there already.
    pub(crate) fn restore(&self, wanted: &BTreeMap<StoredAt, Arc<Stored>>) -> usize {
        let mut difference = Difference::default();
        for _ in 0..RESTORE_LOOKS {
            let there = self.now();
            difference.look(self, wanted, there.everything());
            let mut inner = self.lock();
            if inner.store.revision() == there.revision() {
                return self.make_up(&mut inner, difference);
            }
        }
        let mut inner = self.lock();
        let there = inner.store.now().everything();
        difference.look(self, wanted, there);
        self.make_up(&mut inner, difference)
    }

    fn make_up(&self, inner: &mut Inner, mut difference: Difference<'_>) -> usize {
        let now = self.clock.instant();
        let mut changes = Vec::new();
        // What takes the place of another is another object, and may claim what others let go first.
        for ((resource, key), revision) in difference.wrong {
            changes.extend(inner.store.remove(now, &resource, &key, revision));
        }
        for place in difference.missing {
            let Some(draft) = difference.drafts.remove(place) else { continue };
            let draft = inner.with_free_claims(&place.0, &place.1, Expect::Absent, draft);
            changes.extend(inner.store.put(now, &place.0, &place.1, Expect::Absent, draft));
        }
        self.tell(inner, &changes);
        changes.len()
    }
}

impl<'a> Difference<'a> {
    /// Holds what is there against what is wanted. What was there the last time as well is known.
    fn look(
        &mut self,
        db: &Db,
        wanted: &'a BTreeMap<StoredAt, Arc<Stored>>,
        there: impl Iterator<Item = (ResourceKey, Key, Arc<Stored>)>,
    ) {
        let before = std::mem::take(&mut self.same);
        self.wrong.clear();
        for (resource, key, stored) in there {
            let place = (resource, key);
            let is_known = || before.get(&place).is_some_and(|known| Arc::ptr_eq(known, &stored));
            match wanted.get(&place) {
                Some(kept) if is_known() || kept.has_content_of(&stored) => drop(self.same.insert(place, stored)),
                _ => self.wrong.push((place, stored.revision())),
            }
        }
        let missing = wanted.iter().filter(|(place, _)| !self.same.contains_key(*place));
        self.missing = missing.map(|(place, _)| place).collect();
        for &place in &self.missing {
            self.drafts.entry(place).or_insert_with(|| {
                let kept = &wanted[place];
                let mut value = kept.decode();
                value["apiVersion"] = kept.version().into();
                db.draft(&place.0, &value)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use pintle_json::{Json, json};

    use super::*;
    use crate::clock::Clock;
    use crate::store::db::Drafting;
    use crate::store::{History, Order, Refused};

    fn object(number: usize) -> Json {
        json!({"metadata": {"name": number.to_string()}})
    }

    fn db(draft: Drafting, objects: usize) -> Db {
        let db = Db::new(1, History::default(), draft, Arc::new(Clock::new(None)));
        for number in 0..objects {
            db.put(&"configmaps".into(), &number.to_string(), Expect::Absent, object(number)).expect("absent");
        }
        db
    }

    fn all(db: &Db) -> BTreeMap<StoredAt, Arc<Stored>> {
        db.now().everything().map(|(resource, key, stored)| ((resource, key), stored)).collect()
    }

    #[test]
    fn the_bytes_of_what_is_restored_are_made_under_no_lock() {
        static RESTORED: OnceLock<Db> = OnceLock::new();
        const UNLOCKED: Drafting = |interner, _, object| {
            assert!(RESTORED.get().is_none_or(|db| db.inner.try_lock().is_ok()));
            Draft::new(interner, object, Order::Declared, Vec::new())
        };
        let db = db(UNLOCKED, 3);
        let db = RESTORED.get_or_init(|| db);
        let resource = ResourceKey::from("configmaps");
        let wanted = all(db);
        let [changed, gone] = ["0", "1"].map(|key| db.get(&resource, key).expect("it is there").revision());
        db.put(&resource, "0", Expect::At(changed), object(7)).expect("as expected");
        db.remove(&resource, "1", gone).expect("as expected");
        assert_eq!((db.restore(&wanted), db.restore(&wanted)), (3, 0));
    }

    #[test]
    fn what_is_written_while_it_is_worked_out_what_to_restore_is_undone_as_well() {
        static RESTORED: OnceLock<Db> = OnceLock::new();
        static BUSY: AtomicBool = AtomicBool::new(false);
        static DRAFTS: AtomicUsize = AtomicUsize::new(0);
        // Each time something is drafted for the restoration, somebody writes.
        const BUSY_ONE: Drafting = |interner, resource, object| {
            if let Some(db) = RESTORED.get()
                && !BUSY.swap(true, Ordering::Relaxed)
            {
                let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
                let key = format!("late-{number}");
                db.put(&resource.into(), &key, Expect::Absent, json!({"metadata": {"name": key}})).expect("absent");
                let old = db.get(resource, "5").expect("it is there").revision();
                db.put(&resource.into(), "5", Expect::At(old), json!({"data": {"k": number}})).expect("as expected");
                BUSY.store(false, Ordering::Relaxed);
            }
            Draft::new(interner, object, Order::Declared, Vec::new())
        };
        let db = db(BUSY_ONE, 100);
        let wanted = all(&db);
        for gone in 0..3 {
            let key = gone.to_string();
            let at = db.get("configmaps", &key).expect("it is there").revision();
            db.remove(&"configmaps".into(), &key, at).expect("as expected");
        }
        let db = RESTORED.get_or_init(|| db);
        let writes = db.restore(&wanted);
        let late = DRAFTS.load(Ordering::Relaxed);
        assert_eq!((late, writes), (4, 3 + late + 2), "three are gone, one has changed, and some are new");
        let texts = |all: BTreeMap<StoredAt, Arc<Stored>>| -> Vec<_> {
            all.into_iter().map(|(place, stored)| (place, stored.decode()["metadata"]["name"].clone())).collect()
        };
        assert_eq!(texts(all(db)), texts(wanted));
    }

    #[test]
    fn what_claims_the_same_is_restored_without_it_and_may_go() {
        const CLAIMING: Drafting =
            |interner, _, object| Draft::new(interner, object, Order::Declared, vec!["address".to_owned()]);
        const PLAIN: Drafting = |interner, _, object| Draft::new(interner, object, Order::Declared, Vec::new());
        let (kept, restored) = (db(PLAIN, 2), db(CLAIMING, 0));
        assert_eq!(restored.restore(&all(&kept)), 2);
        let maps: ResourceKey = "configmaps".into();
        let at = |name: &str| restored.get(&maps, name).expect("it is there").revision();
        let going = || json!({"metadata": {"name": "1", "deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let put = restored.put(&maps, "1", Expect::At(at("1")), going());
        assert!(matches!(put, Err(Refused::Taken)));
        restored.put_leaving(&maps, "1", at("1"), going()).expect("it is no hindrance");
        restored.put(&maps, "0", Expect::At(at("0")), object(0)).expect("its claim is its own");
    }
}
