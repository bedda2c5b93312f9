//! Tests of `MutationCache`.

use std::time::{Duration, Instant};

use pintle_delta_fifo::{KeyError, MutationCache, MutationCacheConfig, ObjectVersion};

#[derive(Clone, Debug, PartialEq)]
struct Pod {
    name: &'static str,
    uid: u32,
    version: String,
    node: &'static str,
}

fn pod(name: &'static str, uid: u32, version: &str) -> Pod {
    Pod { name, uid, version: version.into(), node: "n1" }
}

struct Cache {
    cache: MutationCache<&'static str, Pod>,
    now: Instant,
}

fn cache(config: MutationCacheConfig) -> Cache {
    let version_of = |pod: &Pod| {
        let version = pod.version.parse().map_err(KeyError::new)?;
        Ok(ObjectVersion { key: pod.name, uid: pod.uid.to_string(), version })
    };
    Cache { cache: MutationCache::new(version_of, config), now: Instant::now() }
}

fn plain() -> Cache {
    cache(MutationCacheConfig::default())
}

fn with_adds() -> Cache {
    cache(MutationCacheConfig { includes_adds: true, ..MutationCacheConfig::default() })
}

impl Cache {
    fn write(&mut self, pod: Pod) {
        self.cache.mutation(pod, self.now).unwrap();
    }

    fn delete(&mut self, pod: &Pod) {
        self.cache.on_delete(pod, self.now);
    }

    fn get(&mut self, stored: Option<Pod>) -> Option<Pod> {
        self.cache.get_by_key(&"a", stored, self.now)
    }
}

#[test]
fn s14_newer_numeric_version_wins() {
    let mut cache = plain();
    cache.write(pod("a", 1, "9"));
    cache.write(pod("a", 1, "10"));
    cache.write(pod("a", 1, "8"));
    assert_eq!(cache.get(Some(pod("a", 1, "9"))), Some(pod("a", 1, "10")));
    let caught_up = Pod { node: "n2", ..pod("a", 1, "10") };
    assert_eq!(cache.get(Some(caught_up.clone())), Some(caught_up));
    assert_eq!(
        cache.get(Some(pod("a", 1, "9"))),
        Some(pod("a", 1, "9")),
        "the write was removed once the store had it"
    );
    assert!(cache.cache.mutation(pod("a", 1, "x"), cache.now).is_err());
    cache.write(pod("a", 1, "11"));
    assert_eq!(
        cache.get(Some(pod("a", 1, "x"))),
        Some(pod("a", 1, "x")),
        "versions that are not numbers cannot be compared"
    );
}

#[test]
fn s14_unstored_write_is_returned_when_adds_are_included() {
    let mut plain = plain();
    plain.write(pod("a", 1, "10"));
    assert_eq!(plain.get(None), None);
    let mut with_adds = with_adds();
    with_adds.write(pod("a", 1, "10"));
    assert_eq!(with_adds.get(None), Some(pod("a", 1, "10")));
}

#[test]
fn s14_equally_new_stored_object_clears_the_write() {
    for (version, is_left) in [("9", true), ("10", false), ("11", false)] {
        let mut cache = with_adds();
        cache.write(pod("a", 1, "10"));
        cache.cache.on_add_or_update(&pod("a", 1, version));
        assert_eq!(cache.get(None).is_some(), is_left, "{version}");
    }
}

#[test]
fn s14_deletion_removes_earlier_writes() {
    let cases = [(pod("a", 1, "9"), false), (pod("a", 2, "11"), false), (pod("a", 2, "9"), true)];
    for (deleted, is_left) in cases {
        let mut cache = with_adds();
        cache.write(pod("a", 1, "10"));
        cache.delete(&deleted);
        assert_eq!(cache.get(None).is_some(), is_left, "{deleted:?}");
    }
}

#[test]
fn s14_late_write_of_a_deleted_object_is_ignored() {
    let mut cache = with_adds();
    cache.delete(&pod("a", 1, "10"));
    for late in [pod("a", 2, "9"), pod("a", 2, "10"), pod("a", 1, "11")] {
        cache.write(late);
        assert_eq!(cache.get(None), None);
    }
    // The response to a write of the deleted object arrives after the object was recreated.
    cache.write(pod("a", 2, "12"));
    cache.write(pod("a", 1, "9"));
    assert_eq!(cache.get(None), Some(pod("a", 2, "12")));
    assert_eq!(cache.get(Some(pod("a", 2, "12"))), Some(pod("a", 2, "12")));

    let mut seen = with_adds();
    seen.delete(&pod("a", 1, "10"));
    assert_eq!(seen.get(Some(pod("a", 1, "9"))), Some(pod("a", 1, "9")), "tombstones do not affect lookups");
}

#[test]
fn s14_by_index_includes_writes_and_excludes_deleted_objects() {
    let matches = |pod: &Pod| pod.node == "n1";
    let mut cache = with_adds();
    cache.write(pod("a", 1, "10"));
    cache.write(pod("b", 2, "11"));
    cache.write(pod("c", 3, "12"));
    cache.write(Pod { node: "n2", ..pod("d", 4, "13") });
    cache.write(Pod { node: "n2", ..pod("e", 5, "14") });
    cache.delete(&pod("c", 3, "12"));
    let stored = || vec![pod("a", 1, "9"), pod("d", 4, "9"), pod("f", 6, "9"), pod("g", 7, "x")];
    let found = cache.cache.by_index(stored(), matches, cache.now);
    assert_eq!(found, [pod("a", 1, "10"), pod("f", 6, "9"), pod("g", 7, "x"), pod("b", 2, "11")]);

    let mut without = plain();
    without.write(pod("a", 1, "10"));
    without.write(pod("b", 2, "11"));
    let found = without.cache.by_index(vec![pod("a", 1, "9")], matches, without.now);
    assert_eq!(found, [pod("a", 1, "10")]);
}

#[test]
fn s14_writes_expire_by_time_and_capacity() {
    let ttl = MutationCacheConfig::default().ttl;
    let mut cache = with_adds();
    cache.write(pod("a", 1, "10"));
    let (at_the_end, after) = (cache.now + ttl, cache.now + ttl + Duration::from_nanos(1));
    assert!(cache.cache.get_by_key(&"a", None, at_the_end).is_some());
    assert!(cache.cache.by_index(vec![], |_| true, after).is_empty());
    assert!(cache.cache.get_by_key(&"a", None, after).is_none());

    let mut small = self::cache(MutationCacheConfig { capacity: 2, includes_adds: true, ..Default::default() });
    small.write(pod("a", 1, "10"));
    small.write(pod("b", 1, "11"));
    assert!(small.get(None).is_some(), "a recently used key stays");
    small.write(pod("c", 1, "12"));
    let names: Vec<_> = small.cache.by_index(vec![], |_| true, small.now).iter().map(|pod| pod.name).collect();
    assert_eq!(names, ["a", "c"]);
}
