//! Replaces a store's objects with a snapshot's objects.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::{Db, Inner};
use crate::{Change, Draft, Expect, Key, Present, ResourceKey, Stored};

type StoreKey = (ResourceKey, Key);

/// The maximum number of attempts to compare the store with the snapshot without holding the lock. An attempt fails if
/// another request writes during the comparison. After the last failed attempt, the comparison runs while holding the
/// lock.
const OPTIMISTIC_ATTEMPTS: usize = 3;

#[derive(Default)]
struct Difference<'a> {
    same: HashMap<StoreKey, Arc<Stored>>,
    /// The objects to remove, and their revisions. The snapshot does not contain these objects, or contains them with
    /// different content.
    to_remove: Vec<(StoreKey, u64)>,
    to_create: Vec<&'a StoreKey>,
    drafts: HashMap<&'a StoreKey, Draft>,
}

impl Db {
    /// Replaces all objects with the objects in `wanted`, in a single commit. Objects with the same content in the
    /// store and in `wanted` are kept. The commit removes the other current objects, and writes the other objects in
    /// `wanted`. Returns the number of writes in the commit.
    ///
    /// Because of the single commit, no reader sees a partial state, in which the garbage collector could delete
    /// dependents whose owner has not been restored yet. The lock is held only while objects are written. Objects are
    /// encoded and compared without holding the lock, unless every attempt conflicts with another write.
    pub fn restore(&self, wanted: &BTreeMap<StoreKey, Arc<Stored>>) -> usize {
        let mut difference = Difference::default();
        for _ in 0..OPTIMISTIC_ATTEMPTS {
            let current = self.now();
            difference.update(self, wanted, current.everything());
            let mut inner = self.inner.lock();
            if inner.store.revision() == current.revision() {
                let replaced = self.apply_difference(&mut inner, difference);
                drop(inner);
                return replaced.changes.len();
            }
        }
        let mut inner = self.inner.lock();
        let current = inner.store.now().everything();
        difference.update(self, wanted, current);
        let replaced = self.apply_difference(&mut inner, difference);
        drop(inner);
        replaced.changes.len()
    }

    fn apply_difference(&self, inner: &mut Inner, mut difference: Difference<'_>) -> Replaced {
        let now = self.clock.instant();
        let mut changes = Vec::new();
        // Objects with different content are removed and re-created. Remove all these objects first, because their
        // unique values could conflict with the values of new objects.
        for ((resource, key), revision) in difference.to_remove {
            changes.extend(inner.store.remove(now, &resource, &key, revision));
        }
        for place in difference.to_create {
            let Some(draft) = difference.drafts.remove(place) else { continue };
            let draft = inner.with_free_claims(&place.0, &place.1, Expect::Absent, draft);
            changes.extend(inner.store.put(now, &place.0, &place.1, Expect::Absent, draft));
        }
        let present = self.notify(inner, &changes);
        Replaced { changes, _present: present }
    }
}

/// The state before the restore, which can own the last references to many objects. Drop a `Replaced` only after
/// releasing the lock.
struct Replaced {
    changes: Vec<Arc<Change>>,
    _present: Arc<Present>,
}

impl<'a> Difference<'a> {
    /// Compares the store's objects with `wanted`. After the first call of `update`, each call compares only the
    /// objects that have changed since the previous call.
    fn update(
        &mut self,
        db: &Db,
        wanted: &'a BTreeMap<StoreKey, Arc<Stored>>,
        current: impl Iterator<Item = (ResourceKey, Key, Arc<Stored>)>,
    ) {
        let before = std::mem::take(&mut self.same);
        self.to_remove.clear();
        for (resource, key, stored) in current {
            let place = (resource, key);
            let is_known = || before.get(&place).is_some_and(|known| Arc::ptr_eq(known, &stored));
            match wanted.get(&place) {
                Some(kept) if is_known() || kept.has_content_of(&stored) => drop(self.same.insert(place, stored)),
                _ => self.to_remove.push((place, stored.revision())),
            }
        }
        let to_create = wanted.iter().filter(|(place, _)| !self.same.contains_key(*place));
        self.to_create = to_create.map(|(place, _)| place).collect();
        for &place in &self.to_create {
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

    use pintle_apimachinery::clock::Clock;
    use pintle_json::{Json, json};

    use super::*;
    use crate::db::Drafting;
    use crate::{History, Order, Refused};

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

    fn all(db: &Db) -> BTreeMap<StoreKey, Arc<Stored>> {
        db.now().everything().map(|(resource, key, stored)| ((resource, key), stored)).collect()
    }

    #[test]
    fn restored_objects_are_encoded_without_the_lock() {
        static RESTORED: OnceLock<Db> = OnceLock::new();
        const UNLOCKED: Drafting = |interner, _, object| {
            assert!(RESTORED.get().is_none_or(|db| db.inner.try_lock().is_some()));
            Draft::new(interner, object, Order::Declared, Vec::new())
        };
        let db = db(UNLOCKED, 3);
        let db = RESTORED.get_or_init(|| db);
        let resource = ResourceKey::from("configmaps");
        let wanted = all(db);
        let [changed, gone] = ["0", "1"].map(|key| db.get(&resource, key).expect("the object exists").revision());
        db.put(&resource, "0", Expect::At(changed), object(7)).expect("as expected");
        db.remove(&resource, "1", gone).expect("as expected");
        assert_eq!((db.restore(&wanted), db.restore(&wanted)), (3, 0));
    }

    #[test]
    fn writes_during_restore_are_undone() {
        static RESTORED: OnceLock<Db> = OnceLock::new();
        static BUSY: AtomicBool = AtomicBool::new(false);
        static DRAFTS: AtomicUsize = AtomicUsize::new(0);
        const WITH_WRITES: Drafting = |interner, resource, object| {
            if let Some(db) = RESTORED.get()
                && !BUSY.swap(true, Ordering::Relaxed)
            {
                let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
                let key = format!("late-{number}");
                db.put(&resource.into(), &key, Expect::Absent, json!({"metadata": {"name": key}})).expect("absent");
                let old = db.get(resource, "5").expect("the object exists").revision();
                db.put(&resource.into(), "5", Expect::At(old), json!({"data": {"k": number}})).expect("as expected");
                BUSY.store(false, Ordering::Relaxed);
            }
            Draft::new(interner, object, Order::Declared, Vec::new())
        };
        let db = db(WITH_WRITES, 100);
        let wanted = all(&db);
        for gone in 0..3 {
            let key = gone.to_string();
            let at = db.get("configmaps", &key).expect("the object exists").revision();
            db.remove(&"configmaps".into(), &key, at).expect("as expected");
        }
        let db = RESTORED.get_or_init(|| db);
        let writes = db.restore(&wanted);
        let late = DRAFTS.load(Ordering::Relaxed);
        assert_eq!((late, writes), (4, 3 + late + 2), "three deletions, one change and some creations");
        let texts = |all: BTreeMap<StoreKey, Arc<Stored>>| -> Vec<_> {
            all.into_iter().map(|(place, stored)| (place, stored.decode()["metadata"]["name"].clone())).collect()
        };
        assert_eq!(texts(all(db)), texts(wanted));
    }

    #[test]
    fn object_with_a_conflicting_claim_is_restored_without_it() {
        const CLAIMING: Drafting =
            |interner, _, object| Draft::new(interner, object, Order::Declared, vec!["address".to_owned()]);
        const PLAIN: Drafting = |interner, _, object| Draft::new(interner, object, Order::Declared, Vec::new());
        let (kept, restored) = (db(PLAIN, 2), db(CLAIMING, 0));
        assert_eq!(restored.restore(&all(&kept)), 2);
        let maps: ResourceKey = "configmaps".into();
        let at = |name: &str| restored.get(&maps, name).expect("the object exists").revision();
        let going = || json!({"metadata": {"name": "1", "deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let put = restored.put(&maps, "1", Expect::At(at("1")), going());
        assert!(matches!(put, Err(Refused::Taken)));
        restored
            .put_leaving(&maps, "1", at("1"), going())
            .expect("a terminating object can be written without its claim");
        restored.put(&maps, "0", Expect::At(at("0")), object(0)).expect("no other object has its claim");
    }
}
