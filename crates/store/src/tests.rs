//! Compares the store with a model that keeps a full copy of all objects for every revision.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pintle_json::{Json, json};
use proptest::prelude::*;

use super::*;

type World = BTreeMap<String, (u64, Json)>;

fn object(text: &str) -> Draft {
    claiming(text, &[])
}

fn claiming(text: &str, claims: &[&str]) -> Draft {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": text}});
    Draft::new(&Arc::default(), &object, MemberOrder::Declared, claims.iter().copied().map(Into::into).collect())
}

fn text(stored: &Stored) -> Json {
    stored.decode()["data"]["k"].clone()
}

fn resources() -> [ResourceKey; 2] {
    ["configmaps".into(), "pods".into()]
}

#[derive(Clone, Debug)]
enum Step {
    Put { resource: usize, key: usize, stale: bool },
    Remove { resource: usize, key: usize },
    Compact { back: u64 },
}

const KEYS: [&str; 12] = ["a", "a-b/x", "a/", "a/v", "a/w", "a/x", "a/y", "a/z", "a0", "b/w", "b/x", "c"];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..2usize, 0..KEYS.len(), prop::bool::weighted(0.1))
            .prop_map(|(resource, key, stale)| Step::Put { resource, key, stale }),
        3 => (0..2usize, 0..KEYS.len()).prop_map(|(resource, key)| Step::Remove { resource, key }),
        1 => (0..6u64).prop_map(|back| Step::Compact { back }),
    ];
    prop::collection::vec(step, 1..80)
}

/// Returns the keys, revisions and contents of the objects in a namespace of a snapshot. Also checks the number of
/// remaining objects that the iterator reports after each object.
fn read(objects: &Objects, namespace: Option<&str>) -> Vec<(String, u64, Json)> {
    let mut run = objects.run(&KeyRange::namespace(namespace));
    let mut read = Vec::new();
    let mut left = run.left();
    while let Some((key, stored)) = run.next() {
        let (namespace, name) = key.split_once('/').unwrap_or(("", &key));
        let alone: Vec<_> = objects.run(&KeyRange::object(namespace, name)).map(|(key, _)| key).collect();
        assert_eq!(alone, std::slice::from_ref(&key));
        read.push((key.to_string(), stored.revision(), text(&stored)));
        assert_eq!(objects.get(&key).map(|found| found.revision()), Some(stored.revision()));
        left -= 1;
        assert_eq!(run.left(), left);
    }
    assert_eq!(left, 0);
    read
}

fn expected(world: &World, namespace: Option<&str>) -> Vec<(String, u64, Json)> {
    let within = |key: &str| namespace.is_none_or(|namespace| key.starts_with(&format!("{namespace}/")));
    let selected = world.iter().filter(|(key, _)| within(key));
    selected.map(|(key, (revision, value))| (key.clone(), *revision, value.clone())).collect()
}

proptest! {
    /// For each available revision, the store must return the correct objects. Applying the later changes to these
    /// objects must result in the current objects.
    #[test]
    fn available_revisions_and_changes_match_the_model(steps in steps()) {
        let resources = resources();
        let now = Instant::now();
        let mut store = VersionedStore::new(1, History::default());
        let mut worlds: BTreeMap<u64, [World; 2]> = [(1, Default::default())].into();
        let mut compacted = 0;
        let mut snapshots = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            let mut world = worlds.last_key_value().unwrap().1.clone();
            match step {
                Step::Put { resource, key, stale } => {
                    let present = world[resource].get(KEYS[key]).map(|(revision, _)| *revision);
                    let expect = present.map_or(Expect::Absent, Expect::At);
                    let expect = if stale { Expect::At(u64::MAX) } else { expect };
                    let text = number.to_string();
                    match store.put(now, &resources[resource], KEYS[key], expect, object(&text)) {
                        Ok(change) => {
                            prop_assert!(!stale);
                            prop_assert_eq!(change.old.is_some(), present.is_some());
                            world[resource].insert(KEYS[key].into(), (change.revision(), text.into()));
                            worlds.insert(change.revision(), world);
                        }
                        Err(Refused::Mismatch(found)) => {
                            prop_assert!(stale);
                            prop_assert_eq!(found.map(|found| found.revision()), present);
                        }
                        Err(other) => prop_assert!(false, "the drafts have no claims: {other:?}"),
                    }
                }
                Step::Remove { resource, key } => {
                    let present = world[resource].remove(KEYS[key]);
                    let at = present.as_ref().map_or(0, |(revision, _)| *revision);
                    let removed = store.remove(now, &resources[resource], KEYS[key], at);
                    prop_assert_eq!(removed.is_ok(), present.is_some());
                    if let Ok(change) = removed {
                        prop_assert_eq!(change.kind, ChangeKind::Deleted);
                        worlds.insert(change.revision(), world);
                    }
                }
                Step::Compact { back } => {
                    let to = store.revision().saturating_sub(back);
                    store.compact(to);
                    compacted = compacted.max(to);
                }
            }
            prop_assert_eq!(store.revision(), *worlds.last_key_value().unwrap().0);
            if number % 3 == 0 {
                for resource in &resources {
                    store.keep(resource, store.revision(), &store.objects(resource));
                }
            }
            snapshots.push((store.revision(), resources.clone().map(|resource| store.objects(&resource))));
        }
        for (revision, snapshot) in &snapshots {
            for (objects, world) in snapshot.iter().zip(&worlds[revision]) {
                prop_assert_eq!(read(objects, None), expected(world, None));
            }
        }
        for (index, resource) in resources.iter().enumerate() {
            for (&revision, world) in &worlds {
                for namespace in [None, Some("a"), Some("b")] {
                    match store.past(resource, revision) {
                        Ok(past) => {
                            prop_assert!(revision >= compacted);
                            prop_assert_eq!(read(&past.objects(), namespace), expected(&world[index], namespace));
                        }
                        Err(error) => prop_assert!(revision < compacted && error.oldest == compacted),
                    }
                }
                let Ok(changes) = store.changes_since(resource, revision) else { continue };
                let mut replayed = world[index].clone();
                let mut last = revision;
                for change in changes {
                    prop_assert!(change.revision() > last);
                    last = change.revision();
                    match change.kind {
                        ChangeKind::Deleted => prop_assert!(replayed.remove(&*change.key).is_some()),
                        _ => { replayed.insert(change.key.to_string(), (change.revision(), text(&change.new))); }
                    }
                }
                prop_assert_eq!(&replayed, &worlds.last_key_value().unwrap().1[index]);
            }
        }
    }
}

#[test]
fn deletion_has_the_last_content_and_its_own_revision() {
    let (mut store, [resource, _]) = (VersionedStore::new(1, History::default()), resources());
    let created = store.put(Instant::now(), &resource, "a/x", Expect::Absent, object("1")).unwrap();
    let deleted = store.remove(Instant::now(), &resource, "a/x", created.revision()).unwrap();
    assert_eq!(deleted.revision(), created.revision() + 1);
    let decoded = deleted.new.decode();
    assert_eq!(decoded["data"], json!({"k": "1"}));
    assert_eq!(decoded["metadata"]["resourceVersion"], json!(deleted.revision().to_string()));
}

#[test]
fn stored_object_has_revision_but_no_type() {
    let (mut store, [resource, _]) = (VersionedStore::new(1, History::default()), resources());
    let change = store.put(Instant::now(), &resource, "a/x", Expect::Absent, object("1")).unwrap();
    assert_eq!(change.new.decode(), json!({"metadata": {"name": "a", "resourceVersion": "2"}, "data": {"k": "1"}}));
    let mut json = Vec::new();
    change.new.write(&mut json);
    assert_eq!(String::from_utf8(json).unwrap(), r#"{"metadata":{"name":"a","resourceVersion":"2"},"data":{"k":"1"}}"#);
}

#[test]
fn object_keeps_its_written_version_until_removed() {
    let [configmaps, _] = resources();
    let mut store = VersionedStore::new(1, History::default());
    let now = Instant::now();
    let put = store.put(now, &configmaps, "a", Expect::Absent, object("x")).unwrap();
    assert_eq!(put.new.version(), "v1");
    let removed = store.remove(now, &configmaps, "a", put.revision()).unwrap();
    assert_eq!(removed.new.version(), "v1");
}

#[test]
fn history_is_bounded_by_number_and_by_age() {
    let (start, [resource, other]) = (Instant::now(), resources());
    let mut store =
        VersionedStore::new(1, History { max_changes: 3, max_age: Duration::from_secs(10), ..History::default() });
    for number in 0..5 {
        store.put(start, &resource, &format!("a/{number}"), Expect::Absent, object("1")).unwrap();
    }
    assert_eq!(store.oldest(&resource), 3);
    assert_eq!(store.changes_since(&resource, 2).err(), Some(Compacted { oldest: 3 }));
    assert_eq!(store.changes_since(&resource, 3).unwrap().count(), 3);
    assert_eq!(store.changes_since(&other, 0).unwrap().count(), 0);
    let change = store.put(start + Duration::from_secs(11), &resource, "a/9", Expect::Absent, object("1")).unwrap();
    assert_eq!(store.oldest(&resource), change.revision() - 1);
}

#[test]
fn expired_changes_are_dropped_by_writes_to_any_resource() {
    let (start, [resource, other]) = (Instant::now(), resources());
    let mut store = VersionedStore::new(1, History { max_age: Duration::from_secs(10), ..History::default() });
    let put = |store: &mut VersionedStore, at, resource, key| {
        store.put(at, resource, key, Expect::Absent, object("1")).unwrap().revision()
    };
    let revisions = ["a/1", "a/2", "a/3"].map(|key| put(&mut store, start, &other, key));
    assert_eq!(store.oldest(&other), 0);
    put(&mut store, start + Duration::from_secs(11), &resource, "a/1");
    assert_eq!(store.oldest(&other), revisions[1], "the last change is always kept");
}

#[test]
fn one_write_drops_a_bounded_number_of_expired_changes() {
    let (start, [resource, other]) = (Instant::now(), resources());
    for written in [&resource, &other] {
        let mut store = VersionedStore::new(1, History { max_age: Duration::from_secs(10), ..History::default() });
        let mut put = |at, resource, number: usize| {
            store.put(at, resource, &format!("a/{number}"), Expect::Absent, object("1")).unwrap();
            store.changes_since(&other, store.oldest(&other)).unwrap().count()
        };
        for number in 0..2_500 {
            put(start, &other, number);
        }
        let late = start + Duration::from_secs(11);
        // The log must contain only the new changes and each resource's last change.
        let own = usize::from(*written == other);
        let left = [2_500, 2_501, 2_502].map(|number| put(late, written, number));
        assert_eq!(left, [1_500 + own, 500 + 2 * own, 1 + 2 * own]);
    }
}

#[test]
fn forgetting_the_past_affects_only_one_resource() {
    let (mut store, [resource, other]) = (VersionedStore::new(1, History::default()), resources());
    let first = store.put(Instant::now(), &resource, "a/x", Expect::Absent, object("1")).unwrap();
    store.put(Instant::now(), &other, "a/x", Expect::Absent, object("1")).unwrap();
    let kept = [&resource, &other].map(|of| store.keep(of, store.revision(), &store.objects(of)));
    let past = store.forget_past(&resource);
    assert_eq!((past.followed(1).map(Iterator::count), past.bytes()), (Some(1), first.new.weight()));
    assert_eq!(kept.map(|snapshot| snapshot.upgrade().is_some()), [false, true]);
    drop(past);
    assert!(store.changes_since(&resource, first.revision()).is_err());
    assert_eq!(store.changes_since(&resource, store.revision()).unwrap().count(), 0);
    assert_eq!(store.changes_since(&other, first.revision()).unwrap().count(), 1);
    assert_eq!(Arc::strong_count(store.get(&resource, "a/x").unwrap()), 2, "the object itself is kept");
}

#[test]
fn forgotten_log_keeps_snapshots_with_readers() {
    let (mut store, [resource, _]) = (VersionedStore::new(1, History::default()), resources());
    let keep = |store: &mut VersionedStore| store.keep(&resource, store.revision(), &store.objects(&resource));
    let first = store.put(Instant::now(), &resource, "a/x", Expect::Absent, object("1")).unwrap();
    let read = keep(&mut store);
    let second = store.put(Instant::now(), &resource, "a/y", Expect::Absent, object("1")).unwrap();
    for (key, at) in [("a/x", first), ("a/y", second)] {
        store.remove(Instant::now(), &resource, key, at.revision()).unwrap();
    }
    let past = store.forget_past(&resource);
    assert!(read.upgrade().is_some_and(|objects| objects.get("a/x").is_some()));
    drop(past);
    assert!(read.upgrade().is_none());
}

#[test]
fn retained_bytes_count_each_object_once() {
    let (mut store, [resource, _], now) = (VersionedStore::new(1, History::default()), resources(), Instant::now());
    let large = |size: usize| object(&"x".repeat(size));
    // The snapshot keeps one object that no change contains, and one object that the first change replaces.
    store.set(now, &resource, "a", 2, Some(large(100_000)));
    store.set(now, &resource, "b", 3, Some(large(200_000)));
    let keep = |store: &mut VersionedStore| store.keep(&resource, store.revision(), &store.objects(&resource));
    let _read = keep(&mut store);
    let second = store.put(now, &resource, "b", Expect::At(3), large(400_000)).unwrap();
    let _read = keep(&mut store);
    store.remove(now, &resource, "b", second.revision()).unwrap();
    let retained = |store: &VersionedStore| store.log(&resource).unwrap().retained_bytes();
    assert!((700_000..702_000).contains(&retained(&store)), "{}", retained(&store));
    assert!((800_000..802_000).contains(&store.log(&resource).unwrap().bytes()), "only the new objects count");
}

#[test]
fn only_one_object_can_hold_a_claim() {
    let [maps, pods] = resources();
    let now = Instant::now();
    let mut store = VersionedStore::new(1, History::default());
    let first = || claiming("x", &["first"]);
    let a = store.put(now, &pods, "a", Expect::Absent, first()).expect("the claim is free");
    assert_eq!(store.holder("first").map(|key| &**key), Some("a"));
    assert!(matches!(store.put(now, &pods, "b", Expect::Absent, first()), Err(Refused::Taken)));
    assert_eq!(store.revision(), a.revision(), "a refused write has no revision");
    assert!(matches!(store.put(now, &maps, "a", Expect::Absent, first()), Err(Refused::Taken)));
    store.put(now, &maps, "a", Expect::Absent, object("x")).expect("the object has no claim");
    // An update keeps the claims that the new version still has, and releases all other claims.
    let a = store.put(now, &pods, "a", Expect::At(a.revision()), first()).expect("the object holds the claim");
    let a =
        store.put(now, &pods, "a", Expect::At(a.revision()), claiming("x", &["second"])).expect("the claim is free");
    let b = store.put(now, &pods, "b", Expect::Absent, first()).expect("the claim was released");
    let both = || claiming("x", &["first", "second"]);
    assert!(matches!(store.put(now, &pods, "b", Expect::At(b.revision()), both()), Err(Refused::Taken)));
    store.remove(now, &pods, "a", a.revision()).expect("the object exists");
    assert_eq!(store.holder("second"), None);
    store.put(now, &pods, "b", Expect::At(b.revision()), both()).expect("the claim was released");
}

#[test]
fn history_is_bounded_by_bytes_across_resources() {
    let (now, [maps, pods]) = (Instant::now(), resources());
    let mut store = VersionedStore::new(1, History { max_bytes: 100_000, ..History::default() });
    let filler = "x".repeat(10_000);
    for number in 0..20 {
        store.put(now, &maps, &format!("a/{number}"), Expect::Absent, object(&filler)).expect("the key is free");
    }
    let kept = store.changes_since(&maps, store.oldest(&maps)).expect("the revision is available").count();
    assert!((7..10).contains(&kept), "{kept}");
    for number in 0..20 {
        store.put(now, &pods, &format!("a/{number}"), Expect::Absent, object(&filler)).expect("the key is free");
    }
    let kept = store.changes_since(&maps, store.oldest(&maps)).expect("the revision is available").count();
    assert_eq!(kept, 1, "the oldest changes are dropped first, and the last one of each resource is kept");
    // The totals of the store must be the sums over the logs of its resources.
    assert_eq!(store.log_bytes, store.tables.values().map(ChangeLog::bytes).sum::<usize>());
    let by_oldest_change = store.tables.iter().filter_map(|(of, table)| Some((table.oldest_past()?, of.clone())));
    assert_eq!(store.by_oldest_change, by_oldest_change.collect::<BTreeMap<_, _>>());
    assert_eq!(store.objects(&maps).run(&KeyRange::namespace(None)).count(), 20, "the objects themselves are kept");
}

#[test]
fn past_state_is_based_on_the_next_later_snapshot() {
    let (now, [resource, _]) = (Instant::now(), resources());
    let mut store = VersionedStore::new(1, History { max_changes: 100, ..History::default() });
    for number in 0..100 {
        store.put(now, &resource, &format!("a/{number:03}"), Expect::Absent, object("1")).expect("the key is free");
    }
    let undone = |store: &VersionedStore, revision| {
        store.past(&resource, revision).expect("the revision is available").since.len()
    };
    for (revision, changes) in [(90, 11), (40, 50), (40, 0), (95, 6), (39, 1)] {
        assert_eq!(undone(&store, revision), changes, "{revision}");
        let objects = store.past(&resource, revision).expect("the revision is available").objects();
        assert_eq!(objects.run(&KeyRange::namespace(None)).count() as u64, revision - 1);
        store.keep(&resource, revision, &objects);
    }
    // The store drops the oldest snapshots first, but keeps snapshots with readers.
    let objects = store.objects(&resource);
    let held = store.keep(&resource, 39, &objects);
    for revision in 60..=60 + resource_table::MAX_UNUSED_SNAPSHOTS as u64 {
        store.keep(&resource, revision, &objects);
    }
    assert!(held.upgrade().is_some() && undone(&store, 39) == 0);
    assert!(undone(&store, 40) > 0);
    // The store drops a snapshot together with the first later change.
    for number in 100..150 {
        store.put(now, &resource, &format!("a/{number:03}"), Expect::Absent, object("1")).expect("the key is free");
    }
    assert!(held.upgrade().is_none());
    assert!(store.keep(&resource, 39, &objects).upgrade().is_none());
}

#[test]
fn follower_continues_after_compaction() {
    let (now, [resource, _]) = (Instant::now(), resources());
    let mut store = VersionedStore::new(1, History { max_changes: 0, followed: 3, ..History::default() });
    let first = store.put(now, &resource, "a/0", Expect::Absent, object("1")).expect("the key is free").revision();
    for number in 1..4 {
        store.put(now, &resource, &format!("a/{number}"), Expect::Absent, object("1")).expect("the key is free");
    }
    store.compact(store.revision());
    assert!(store.changes_since(&resource, first).is_err());
    let log = store.log(&resource).expect("the resource was written");
    assert_eq!(log.followed(first).map(Iterator::count), Some(3));
    assert!(log.followed(first - 1).is_none(), "the change was dropped");
    assert_eq!(log.change(first + 1).map(|change| change.revision()), Some(first + 1));
    assert!(log.change(first).is_none(), "the change was dropped");
}

#[test]
fn cached_encodings_are_bounded_including_past_objects() {
    let (now, [pods, _]) = (Instant::now(), resources());
    let mut store = VersionedStore::new(1, History { max_bytes: 2000, max_changes: 1, ..History::default() });
    let put = |store: &mut VersionedStore, key: &str| {
        let expect = store.get(&pods, key).map_or(Expect::Absent, |there| Expect::At(there.revision()));
        store.put(now, &pods, key, expect, object("x")).expect("as expected").new.clone()
    };
    let made = |stored: &Stored| {
        let mut made = 0;
        for _ in 0..2 {
            let message = stored.encode(Encoding::Message, || {
                made += 1;
                Ok::<_, ()>(vec![7; 600])
            });
            assert_eq!(&*message.expect("`make` succeeds"), &[7; 600]);
        }
        made
    };
    let (first, second) = (put(&mut store, "a"), put(&mut store, "b"));
    assert_eq!([made(&first), made(&first), made(&second)], [1, 0, 2], "the limit allows one, and the first is in use");
    assert_eq!(made(&second), 0, "the first was not used meanwhile");
    drop(second);
    drop(put(&mut store, "b"));
    drop(put(&mut store, "c"));
    assert_eq!([made(&first), made(&first)], [1, 0], "dropped objects release their share");
    // Table cells for a different second replace the cached cells.
    let cells = |at| {
        let make = || Ok::<_, ()>(vec![at as u8; 200]);
        let twice = [(); 2].map(|()| first.encode(Encoding::Cells("v1".into(), SAME, at), make).expect("made"));
        (Arc::ptr_eq(&twice[0], &twice[1]), twice[0][0])
    };
    assert_eq!([1, 2, 1].map(cells), [1, 2, 1].map(|at| (true, at)));
}

#[test]
fn neighbours_are_encoded_once_until_one_changes() {
    let (now, [pods, _]) = (Instant::now(), resources());
    let mut store = VersionedStore::new(1, History::default());
    let put = |store: &mut VersionedStore, key: &str| {
        let expect = store.get(&pods, key).map_or(Expect::Absent, |there| Expect::At(there.revision()));
        store.put(now, &pods, key, expect, object("x")).expect("as expected").revision()
    };
    for key in ["a", "b", "c", "d", "e"] {
        put(&mut store, key);
    }
    // Returns the sizes of the groups of adjacent objects, with `true` if this call created the encoding of the group.
    let encoded_groups = |store: &VersionedStore| {
        let mut run = store.objects(&pods).run(&KeyRange::namespace(None));
        let mut encoded_groups = Vec::new();
        while let Some(neighbours) = run.neighbours() {
            let revisions: Vec<_> = neighbours.iter().map(|object| object.revision()).collect();
            let mut made = false;
            let encoded = neighbours.encode(Encoding::Zipped("v1".into(), false), || {
                made = true;
                Ok::<_, ()>(revisions.iter().map(|revision| *revision as u8).collect())
            });
            assert_eq!(encoded.expect("made").iter().map(|byte| u64::from(*byte)).collect::<Vec<_>>(), revisions);
            encoded_groups.push((revisions.len(), made));
            run.pass_neighbours();
        }
        assert_eq!(run.left(), 0);
        encoded_groups
    };
    let kept = store.objects(&pods);
    assert_eq!([encoded_groups(&store), encoded_groups(&store)], [[(4, true), (1, true)], [(4, false), (1, false)]]);
    put(&mut store, "b");
    assert_eq!([encoded_groups(&store), encoded_groups(&store)], [[(4, true), (1, false)], [(4, false), (1, false)]]);
    // Repeat the check after all snapshots that share tree nodes have been dropped.
    drop(kept);
    let at = put(&mut store, "e");
    store.remove(now, &pods, "e", at).expect("the object exists");
    put(&mut store, "e");
    put(&mut store, "a");
    assert_eq!(encoded_groups(&store), [(4, true), (1, true)]);
    // If a range starts inside a group, its first object does not start a group.
    let part = store.objects(&pods).run(&KeyRange::namespace(None).starting_at("b"));
    assert!(part.neighbours().is_none());
}

#[test]
fn iterator_over_all_objects_is_a_snapshot() {
    let (mut store, now) = (VersionedStore::new(1, History::default()), Instant::now());
    for (at, resource) in resources().iter().enumerate() {
        for key in KEYS {
            store.put(now, resource, key, Expect::Absent, object(&at.to_string())).expect("absent");
        }
    }
    let mut everything = store.now().everything();
    let first = everything.next().expect("the store is not empty");
    for resource in resources() {
        let at = store.get(&resource, "a").expect("the object exists").revision();
        store.remove(now, &resource, "a", at).expect("as expected");
        store.put(now, &resource, "new", Expect::Absent, object("new")).expect("absent");
    }
    let mut seen: Vec<_> = [first].into_iter().chain(everything).map(|(resource, key, _)| (resource, key)).collect();
    seen.sort();
    let expected = resources().into_iter().flat_map(|resource| KEYS.map(|key| (resource.clone(), Key::from(key))));
    assert_eq!(seen, expected.collect::<Vec<_>>());
}

#[test]
fn debug_output_does_not_contain_object_content() {
    let (mut store, [resource, _]) = (VersionedStore::new(1, History::default()), resources());
    let draft = object("confidential");
    let before = format!("{draft:?}");
    let change = store.put(Instant::now(), &resource, "a/x", Expect::Absent, draft).unwrap();
    for text in [before, format!("{:?}", change.new), format!("{change:?}"), format!("{store:?}")] {
        let bytes = format!("{:?}", b"confidential");
        assert!(!text.contains("confidential") && !text.contains(bytes.trim_matches(['[', ']'])), "{text}");
    }
}
