//! A model test that a list followed by a watch always results in the state of the store.

use std::collections::BTreeMap;

use pintle_meta::{
    DeleteOptions, ListOptions, ListPart, ListWatch, Object, ObjectApi, ObjectKey, ResourceVersionMatch, WatchEvent,
    WatchOptions, WriteOptions,
};
use pintle_testing::{Collection, Events};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::{Website, by_key, key, labelled, now, poll, site};

type State = BTreeMap<ObjectKey, Website>;

#[derive(Clone, Debug)]
enum Operation {
    /// The test writes an object with a method of the collection. The boolean is `true` if the object has a label.
    Put(usize, bool),
    Remove(usize),
    Create(usize),
    Update(usize, u8),
    /// A client deletes the object. If the object has a finalizer, deleting it only sets the deletion timestamp.
    Delete(usize),
    Finalize(usize, bool),
    Compact,
    Bookmark,
    /// A client lists the current state in pages of this size.
    List(u32),
    /// A client watches all objects, or only labeled objects if the flag is `true`. The number is the start revision of
    /// the watch, as a percentage of all revisions.
    Watch(u64, bool),
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let key = || 0..4_usize;
    let operation = prop_oneof![
        4 => (key(), any::<bool>()).prop_map(|(key, label)| Operation::Put(key, label)),
        2 => key().prop_map(Operation::Remove),
        2 => key().prop_map(Operation::Create),
        3 => (key(), 0..3_u8).prop_map(|(key, theme)| Operation::Update(key, theme)),
        3 => key().prop_map(Operation::Delete),
        2 => (key(), any::<bool>()).prop_map(|(key, hold)| Operation::Finalize(key, hold)),
        1 => Just(Operation::Compact),
        1 => Just(Operation::Bookmark),
        2 => (0..4_u32).prop_map(Operation::List),
        3 => (0..=100_u64, any::<bool>()).prop_map(|(passed, labelled)| Operation::Watch(passed, labelled)),
    ];
    vec(operation, 1..60)
}

fn is_labelled(site: &Website) -> bool {
    site.metadata.labels.contains_key("on")
}

fn narrowed(state: &State, to_labelled: bool) -> State {
    state
        .iter()
        .filter(|(_, site)| !to_labelled || is_labelled(site))
        .map(|(key, site)| (key.clone(), site.clone()))
        .collect()
}

struct Folder {
    events: Events,
    known: State,
    revision: u64,
}

impl Folder {
    fn fold(&mut self) -> Result<(), TestCaseError> {
        while let std::task::Poll::Ready(Some(event)) = poll(self.events.next()) {
            let event = event.unwrap().decode::<Website>().unwrap();
            let what = event.event_type();
            let (was_known, object) = match event {
                WatchEvent::Added(site) => (self.known.insert(site.key(), site.clone()).is_some(), site),
                WatchEvent::Modified(site) => (self.known.insert(site.key(), site.clone()).is_some(), site),
                WatchEvent::Deleted(site) => (self.known.remove(&site.key()).is_some(), site),
                WatchEvent::Bookmark(mark) => {
                    let revision = mark.resource_version.parse::<u64>().unwrap();
                    prop_assert!(revision >= self.revision);
                    self.revision = revision;
                    continue;
                }
                WatchEvent::Error(status) => return Err(TestCaseError::fail(status.to_string())),
            };
            prop_assert_eq!(was_known, what != pintle_meta::WatchEventType::Added, "{} {:?}", what, object);
            let revision = object.resource_version().parse::<u64>().unwrap();
            prop_assert!(revision > self.revision, "events are in order");
            self.revision = revision;
        }
        Ok(())
    }
}

fn list(sites: &Collection<Website>, mut options: ListOptions) -> (State, u64) {
    let (mut state, mut revision) = (State::new(), 0);
    loop {
        let mut page = now(sites.list(&options)).unwrap();
        options.continue_token.clear();
        while let Some(part) = now(page.next()) {
            match part.unwrap() {
                ListPart::Item(object) => {
                    let site: Website = object.decode().unwrap();
                    assert!(state.insert(site.key(), site).is_none(), "the object was listed twice");
                }
                ListPart::Metadata(list) => {
                    revision = list.resource_version.parse().unwrap();
                    options.continue_token = list.continue_token;
                }
            }
        }
        if options.continue_token.is_empty() {
            return (state, revision);
        }
        options.resource_version.clear();
        options.resource_version_match = None;
    }
}

fn run(operations: Vec<Operation>) -> Result<(), TestCaseError> {
    let name = |key: usize| ["a", "b", "c", "d"][key];
    let sites = Collection::<Website>::default();
    // The expected objects at each revision, computed without the log of the collection.
    let mut history = vec![State::new()];
    let (mut compacted, mut folders) = (0, Vec::new());
    for operation in operations {
        match operation {
            Operation::Put(at, label) => {
                let labels = [("on", "yes")];
                sites.put(labelled(name(at), if label { &labels } else { &[] }));
            }
            Operation::Remove(at) => _ = sites.remove(&key(name(at))),
            Operation::Create(at) => _ = now(sites.create(&site(name(at)), &WriteOptions::default())),
            Operation::Update(at, theme) => {
                if let Ok(mut site) = now(sites.get(&key(name(at)))) {
                    site.spec.theme = theme.to_string();
                    now(sites.update(&site, &WriteOptions::default())).unwrap();
                }
            }
            Operation::Delete(at) => _ = now(sites.delete(&key(name(at)), &DeleteOptions::default())),
            Operation::Finalize(at, hold) => {
                if let Ok(mut site) = now(sites.get(&key(name(at)))) {
                    site.metadata.finalizers = if hold { vec!["x.io/y".into()] } else { vec![] };
                    let _ = now(sites.update(&site, &WriteOptions::default()));
                }
            }
            Operation::Compact => {
                sites.compact();
                compacted = sites.revision();
            }
            Operation::Bookmark => {
                sites.advance();
                sites.bookmark();
            }
            Operation::List(limit) => {
                let (state, revision) = list(&sites, ListOptions { limit, ..ListOptions::default() });
                prop_assert_eq!((&state, revision), (&by_key(sites.objects()), sites.revision()));
            }
            Operation::Watch(passed, labelled) => {
                let revision = compacted + (sites.revision() - compacted) * passed / 100;
                // Skip revision 0, because a read at 0 returns the current objects.
                if revision > 0 {
                    let exact = ListOptions {
                        resource_version: revision.to_string(),
                        resource_version_match: Some(ResourceVersionMatch::Exact),
                        label_selector: if labelled { "on=yes" } else { "" }.parse().unwrap(),
                        ..ListOptions::default()
                    };
                    let watch = WatchOptions {
                        resource_version: exact.resource_version.clone(),
                        label_selector: exact.label_selector.clone(),
                        allow_bookmarks: true,
                        ..WatchOptions::default()
                    };
                    let (known, _) = list(&sites, exact);
                    prop_assert_eq!(&known, &narrowed(&history[revision as usize], labelled), "at {}", revision);
                    folders.push((Folder { events: now(sites.watch(&watch)).unwrap(), known, revision }, labelled));
                }
            }
        }
        prop_assert!(sites.revision() as usize <= history.len(), "one revision per write");
        history.resize(sites.revision() as usize + 1, by_key(sites.objects()));
        if let Some((folder, _)) = folders.last_mut() {
            folder.fold()?;
        }
    }
    for (folder, labelled) in &mut folders {
        folder.fold()?;
        prop_assert_eq!(&folder.known, &narrowed(history.last().unwrap(), *labelled));
    }
    prop_assert_eq!(sites.open_watches(), folders.len());
    Ok(())
}

proptest! {
    #[test]
    fn list_and_watch_converge_to_the_store(operations in operations()) {
        run(operations)?;
    }
}
