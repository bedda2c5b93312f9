//! The store against a model that keeps a full copy of the world for every revision.

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

/// Keys, revisions and texts of a namespace, as a snapshot shows them. From each place on, as many are left as still come.
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

/// The same as the model has it.
fn expected(world: &World, namespace: Option<&str>) -> Vec<(String, u64, Json)> {
    let within = |key: &str| namespace.is_none_or(|namespace| key.starts_with(&format!("{namespace}/")));
    let meant = world.iter().filter(|(key, _)| within(key));
    meant.map(|(key, (revision, value))| (key.clone(), *revision, value.clone())).collect()
}

proptest! {
    /// Every revision that is still kept reads as it was, and the changes since it lead from there to now.
    #[test]
    fn each_kept_revision_reads_as_it_was_and_its_changes_lead_to_now(steps in steps()) {
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
                        Err(other) => prop_assert!(false, "nothing is claimed here: {other:?}"),
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
        // What was taken at a revision reads as at that revision, whatever was written after.
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
fn a_deletion_carries_the_last_content_with_its_own_revision() {
    let (mut store, [resource, _]) = (VersionedStore::new(1, History::default()), resources());
    let created = store.put(Instant::now(), &resource, "a/x", Expect::Absent, object("1")).unwrap();
    let deleted = store.remove(Instant::now(), &resource, "a/x", created.revision()).unwrap();
    assert_eq!(deleted.revision(), created.revision() + 1);
    let shown = deleted.new.decode();
    assert_eq!(shown["data"], json!({"k": "1"}));
    assert_eq!(shown["metadata"]["resourceVersion"], json!(deleted.revision().to_string()));
}

#[test]
fn a_stored_object_names_its_revision_and_neither_version_nor_kind() {
    let (mut store, [resource, _]) = (VersionedStore::new(1, History::default()), resources());
    let change = store.put(Instant::now(), &resource, "a/x", Expect::Absent, object("1")).unwrap();
    assert_eq!(change.new.decode(), json!({"metadata": {"name": "a", "resourceVersion": "2"}, "data": {"k": "1"}}));
    let mut json = Vec::new();
    change.new.write(&mut json);
    assert_eq!(String::from_utf8(json).unwrap(), r#"{"metadata":{"name":"a","resourceVersion":"2"},"data":{"k":"1"}}"#);
}

#[test]
fn the_version_that_an_object_was_written_in_is_kept_to_its_end() {
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
fn what_is_too_old_goes_with_the_next_write_of_whatever_resource() {
    let (start, [resource, other]) = (Instant::now(), resources());
    let mut store = VersionedStore::new(1, History { max_age: Duration::from_secs(10), ..History::default() });
    let put = |store: &mut VersionedStore, at, resource, key| {
        store.put(at, resource, key, Expect::Absent, object("1")).unwrap().revision()
    };
    let revisions = ["a/1", "a/2", "a/3"].map(|key| put(&mut store, start, &other, key));
    assert_eq!(store.oldest(&other), 0);
    put(&mut store, start + Duration::from_secs(11), &resource, "a/1");
    assert_eq!(store.oldest(&other), revisions[1], "the last is kept in any case");
}

#[test]
fn one_write_drops_but_a_bounded_part_of_what_is_too_old() {
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
        // What they write themselves is kept; and the last of a resource is in any case.
        let own = usize::from(*written == other);
        let left = [2_500, 2_501, 2_502].map(|number| put(late, written, number));
        assert_eq!(left, [1_500 + own, 500 + 2 * own, 1 + 2 * own]);
    }
}

#[test]
fn a_resource_made_anew_has_no_past_and_the_others_keep_theirs() {
    let (mut store, [resource, other]) = (VersionedStore::new(1, History::default()), resources());
    let first = store.put(Instant::now(), &resource, "a/x", Expect::Absent, object("1")).unwrap();
    store.put(Instant::now(), &other, "a/x", Expect::Absent, object("1")).unwrap();
    store.forget_past(&resource);
    assert!(store.changes_since(&resource, first.revision()).is_err());
    assert_eq!(store.changes_since(&resource, store.revision()).unwrap().count(), 0);
    assert_eq!(store.changes_since(&other, first.revision()).unwrap().count(), 1);
    assert_eq!(Arc::strong_count(store.get(&resource, "a/x").unwrap()), 2, "the object itself stays");
}

#[test]
fn no_two_objects_have_what_one_of_them_claims() {
    let [maps, pods] = resources();
    let now = Instant::now();
    let mut store = VersionedStore::new(1, History::default());
    let first = || claiming("x", &["first"]);
    let a = store.put(now, &pods, "a", Expect::Absent, first()).expect("nobody has it");
    assert_eq!(store.holder("first").map(|key| &**key), Some("a"));
    assert!(matches!(store.put(now, &pods, "b", Expect::Absent, first()), Err(Refused::Taken)));
    assert_eq!(store.revision(), a.revision(), "what is refused is no revision");
    assert!(matches!(store.put(now, &maps, "a", Expect::Absent, first()), Err(Refused::Taken)));
    store.put(now, &maps, "a", Expect::Absent, object("x")).expect("it claims nothing");
    // Who has it keeps it, and gives it back with what it claims no longer.
    let a = store.put(now, &pods, "a", Expect::At(a.revision()), first()).expect("it is its own");
    let a = store.put(now, &pods, "a", Expect::At(a.revision()), claiming("x", &["second"])).expect("nobody has it");
    let b = store.put(now, &pods, "b", Expect::Absent, first()).expect("it was given back");
    let both = || claiming("x", &["first", "second"]);
    assert!(matches!(store.put(now, &pods, "b", Expect::At(b.revision()), both()), Err(Refused::Taken)));
    store.remove(now, &pods, "a", a.revision()).expect("it is there");
    assert_eq!(store.holder("second"), None);
    store.put(now, &pods, "b", Expect::At(b.revision()), both()).expect("it went with its object");
}

#[test]
fn history_is_bounded_by_bytes_across_resources() {
    let (now, [maps, pods]) = (Instant::now(), resources());
    let mut store = VersionedStore::new(1, History { max_bytes: 100_000, ..History::default() });
    let filler = "x".repeat(10_000);
    for number in 0..20 {
        store.put(now, &maps, &format!("a/{number}"), Expect::Absent, object(&filler)).expect("it is not there");
    }
    let kept = store.changes_since(&maps, store.oldest(&maps)).expect("they are kept").count();
    assert!((7..10).contains(&kept), "{kept}");
    for number in 0..20 {
        store.put(now, &pods, &format!("a/{number}"), Expect::Absent, object(&filler)).expect("it is not there");
    }
    let kept = store.changes_since(&maps, store.oldest(&maps)).expect("they are kept").count();
    assert_eq!(kept, 1, "the oldest go first, and the last of each resource stays");
    // What is known of all of them is what is to be found in each: a write need not look at all.
    assert_eq!(store.logged, store.tables.values().map(Table::logged).sum::<usize>());
    let with_past = store.tables.iter().filter_map(|(of, table)| Some((table.oldest_past()?, of.clone())));
    assert_eq!(store.with_past, with_past.collect::<BTreeMap<_, _>>());
    assert_eq!(store.objects(&maps).run(&KeyRange::namespace(None)).count(), 20, "the objects themselves stay");
}

#[test]
fn what_the_past_was_is_made_once_and_of_what_is_known_to_have_been_there_soonest_after() {
    let (now, [resource, _]) = (Instant::now(), resources());
    let mut store = VersionedStore::new(1, History { max_changes: 100, ..History::default() });
    for number in 0..100 {
        store.put(now, &resource, &format!("a/{number:03}"), Expect::Absent, object("1")).expect("it is not there");
    }
    let undone = |store: &VersionedStore, revision| store.past(&resource, revision).expect("it is kept").since.len();
    for (revision, changes) in [(90, 11), (40, 50), (40, 0), (95, 6), (39, 1)] {
        assert_eq!(undone(&store, revision), changes, "{revision}");
        let objects = store.past(&resource, revision).expect("it is kept").objects();
        assert_eq!(objects.run(&KeyRange::namespace(None)).count() as u64, revision - 1);
        store.keep(&resource, revision, &objects);
    }
    // The oldest go first, but not those that somebody holds.
    let objects = store.objects(&resource);
    let held = store.keep(&resource, 39, &objects);
    for revision in 60..=60 + resource_table::ROOTS as u64 {
        store.keep(&resource, revision, &objects);
    }
    assert!(held.upgrade().is_some() && undone(&store, 39) == 0);
    assert!(undone(&store, 40) > 0);
    // And none is older than what can be told of it.
    for number in 100..150 {
        store.put(now, &resource, &format!("a/{number:03}"), Expect::Absent, object("1")).expect("it is not there");
    }
    assert!(held.upgrade().is_none());
    assert!(store.keep(&resource, 39, &objects).upgrade().is_none());
}

#[test]
fn who_follows_a_resource_reads_on_though_nobody_may_ask_for_it_any_more() {
    let (now, [resource, _]) = (Instant::now(), resources());
    let mut store = VersionedStore::new(1, History { max_changes: 0, followed: 3, ..History::default() });
    let first = store.put(now, &resource, "a/0", Expect::Absent, object("1")).expect("it is not there").revision();
    for number in 1..4 {
        store.put(now, &resource, &format!("a/{number}"), Expect::Absent, object("1")).expect("it is not there");
    }
    store.compact(store.revision());
    assert!(store.changes_since(&resource, first).is_err());
    assert_eq!(store.followed(&resource, first).map(Iterator::count), Some(3));
    assert!(store.followed(&resource, first - 1).is_none(), "what was dropped cannot be read");
    assert_eq!(store.change(&resource, first + 1).map(|change| change.revision()), Some(first + 1));
    assert!(store.change(&resource, first).is_none(), "it was dropped");
}

#[test]
fn what_is_kept_in_other_encodings_is_bounded_with_that_of_the_past() {
    let (now, [pods, _]) = (Instant::now(), resources());
    let mut store = VersionedStore::new(1, History { max_bytes: 2000, max_changes: 1, ..History::default() });
    let put = |store: &mut VersionedStore, key: &str| {
        let expect = store.get(&pods, key).map_or(Expect::Absent, |there| Expect::At(there.revision()));
        store.put(now, &pods, key, expect, object("x")).expect("as expected").new.clone()
    };
    // How often it is made for two who ask.
    let made = |stored: &Stored| {
        let mut made = 0;
        for _ in 0..2 {
            let message = stored.encode(Encoding::Message, || {
                made += 1;
                Ok::<_, ()>(vec![7; 600])
            });
            assert_eq!(&*message.expect("it is made"), &[7; 600]);
        }
        made
    };
    let (first, second) = (put(&mut store, "a"), put(&mut store, "b"));
    assert_eq!(
        [made(&first), made(&first), made(&second)],
        [1, 0, 2],
        "there is room for one, and the first is in use"
    );
    assert_eq!(made(&second), 0, "nobody has asked for the first meanwhile");
    drop(second);
    drop(put(&mut store, "b"));
    drop(put(&mut store, "c"));
    assert_eq!([made(&first), made(&first)], [1, 0], "what is past frees its room");
    // Cells of another second take the place of those that are there.
    let cells = |at| {
        let make = || Ok::<_, ()>(vec![at as u8; 200]);
        let twice = [(); 2].map(|()| first.encode(Encoding::Cells("v1".into(), SAME, at), make).expect("made"));
        (Arc::ptr_eq(&twice[0], &twice[1]), twice[0][0])
    };
    assert_eq!([1, 2, 1].map(cells), [1, 2, 1].map(|at| (true, at)));
}

#[test]
fn what_neighbours_are_shown_as_is_made_once_until_one_of_them_changes() {
    let (now, [pods, _]) = (Instant::now(), resources());
    let mut store = VersionedStore::new(1, History::default());
    let put = |store: &mut VersionedStore, key: &str| {
        let expect = store.get(&pods, key).map_or(Expect::Absent, |there| Expect::At(there.revision()));
        store.put(now, &pods, key, expect, object("x")).expect("as expected").revision()
    };
    for key in ["a", "b", "c", "d", "e"] {
        put(&mut store, key);
    }
    // Which are neighbours, and whether they are shown as they were shown before.
    let shown = |store: &VersionedStore| {
        let mut run = store.objects(&pods).run(&KeyRange::namespace(None));
        let mut shown = Vec::new();
        while let Some(neighbours) = run.neighbours() {
            let revisions: Vec<_> = neighbours.iter().map(|object| object.revision()).collect();
            let mut made = false;
            let told = neighbours.encode(Encoding::Zipped("v1".into(), false), || {
                made = true;
                Ok::<_, ()>(revisions.iter().map(|revision| *revision as u8).collect())
            });
            assert_eq!(told.expect("made").iter().map(|told| u64::from(*told)).collect::<Vec<_>>(), revisions);
            shown.push((revisions.len(), made));
            run.pass_neighbours();
        }
        assert_eq!(run.left(), 0);
        shown
    };
    let kept = store.objects(&pods);
    assert_eq!([shown(&store), shown(&store)], [[(4, true), (1, true)], [(4, false), (1, false)]]);
    put(&mut store, "b");
    assert_eq!([shown(&store), shown(&store)], [[(4, true), (1, false)], [(4, false), (1, false)]]);
    // With a snapshot that shares them, and without.
    drop(kept);
    let at = put(&mut store, "e");
    store.remove(now, &pods, "e", at).expect("it is there");
    put(&mut store, "e");
    put(&mut store, "a");
    assert_eq!(shown(&store), [(4, true), (1, true)]);
    // None of a part are neighbours.
    let part = store.objects(&pods).run(&KeyRange::namespace(None).starting_at("b"));
    assert!(part.neighbours().is_none());
}

#[test]
fn all_there_is_is_told_as_it_was_whatever_is_written_meanwhile() {
    let (mut store, now) = (VersionedStore::new(1, History::default()), Instant::now());
    for (at, resource) in resources().iter().enumerate() {
        for key in KEYS {
            store.put(now, resource, key, Expect::Absent, object(&at.to_string())).expect("absent");
        }
    }
    let mut everything = store.now().everything();
    let first = everything.next().expect("there is something");
    for resource in resources() {
        let at = store.get(&resource, "a").expect("it is there").revision();
        store.remove(now, &resource, "a", at).expect("as expected");
        store.put(now, &resource, "new", Expect::Absent, object("new")).expect("absent");
    }
    let mut told: Vec<_> = [first].into_iter().chain(everything).map(|(resource, key, _)| (resource, key)).collect();
    told.sort();
    let expected = resources().into_iter().flat_map(|resource| KEYS.map(|key| (resource.clone(), Key::from(key))));
    assert_eq!(told, expected.collect::<Vec<_>>());
}

#[test]
fn an_object_is_not_printed_by_chance() {
    let (mut store, [resource, _]) = (VersionedStore::new(1, History::default()), resources());
    let draft = object("of nobodys business");
    let before = format!("{draft:?}");
    let change = store.put(Instant::now(), &resource, "a/x", Expect::Absent, draft).unwrap();
    for text in [before, format!("{:?}", change.new), format!("{change:?}"), format!("{store:?}")] {
        let bytes = format!("{:?}", b"nobody");
        assert!(!text.contains("nobody") && !text.contains(bytes.trim_matches(['[', ']'])), "{text}");
    }
}
