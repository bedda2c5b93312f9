//! Whatever happens: the cache is what the source was at some revision, and who folds its events has what the cache has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pintle_informer::{InformerConfig, ReflectorConfig, ResourceEvent, SharedInformer, Subscription};
use pintle_meta::{Object, ObjectKey, Reason};
use pintle_testing::{Break, Collection, Outcome, Verb};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::{
    Pod, cut, empty, event, expired, failure, key, pod, pods, refused, settle, silent, state_at, too_large,
    too_many_requests,
};

#[derive(Clone, Debug)]
enum Operation {
    Put(usize),
    PutSilently(usize),
    Delete(usize),
    DeleteSilently(usize),
    Bookmark,
    Break(Break),
    Compact,
    FailWatch(Outcome),
    FailList(Outcome),
    Pass(u64),
    /// A subscriber takes some of what it has.
    Take(usize, usize),
    Subscribe,
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let key = || 0..5_usize;
    let breaks = prop_oneof![
        Just(Break::End),
        Just(Break::cut()),
        Just(Break::expired()),
        Just(Break::Fails(too_many_requests()))
    ];
    let fault = || {
        prop_oneof![
            Just(Outcome::Fails(expired())),
            Just(Outcome::Fails(too_large())),
            Just(Outcome::Fails(too_many_requests())),
            Just(Outcome::Fails(refused())),
            Just(Outcome::Fails(cut())),
            Just(Outcome::Fails(failure(500, Reason::InternalError))),
        ]
    };
    let watch_fault = prop_oneof![
        3 => fault(),
        1 => Just(empty()),
        1 => Just(silent()),
        1 => Just(Outcome::NoBookmark),
        1 => Just(event(expired())),
        1 => Just(event(too_many_requests())),
        1 => Just(event(failure(500, Reason::InternalError))),
    ];
    let broken = (0..4_usize).prop_map(|after| Outcome::Breaks { after, how: Break::cut() });
    let list_fault = prop_oneof![3 => fault(), 1 => broken];
    let operation = prop_oneof![
        8 => key().prop_map(Operation::Put),
        4 => key().prop_map(Operation::Delete),
        2 => key().prop_map(Operation::PutSilently),
        2 => key().prop_map(Operation::DeleteSilently),
        1 => Just(Operation::Bookmark),
        3 => breaks.prop_map(Operation::Break),
        1 => Just(Operation::Compact),
        2 => watch_fault.prop_map(Operation::FailWatch),
        1 => list_fault.prop_map(Operation::FailList),
        4 => (0..40_u64).prop_map(Operation::Pass),
        6 => (0..4_usize, 0..4_usize).prop_map(|(who, many)| Operation::Take(who, many)),
        1 => Just(Operation::Subscribe),
    ];
    vec(operation, 1..80)
}

/// A subscriber and what it makes of its events.
struct Folder {
    events: Subscription<Pod>,
    known: BTreeMap<ObjectKey, Arc<Pod>>,
}

impl Folder {
    fn take(&mut self, source: &Collection<Pod>, many: usize) -> Result<(), TestCaseError> {
        for _ in 0..many {
            let Some(event) = self.events.try_next() else { break };
            let key = event.key();
            match event {
                ResourceEvent::Added { object, .. } => {
                    prop_assert!(self.known.insert(key, object).is_none(), "added twice");
                }
                ResourceEvent::Updated { old, new } => {
                    prop_assert_eq!(old.uid(), new.uid(), "an update is of one object");
                    let before = self.known.insert(key, new);
                    prop_assert_eq!(before, Some(old), "it begins where the last one ended");
                }
                ResourceEvent::Deleted { object, final_state_known } => {
                    let before = self.known.remove(&key);
                    prop_assert!(before.is_some(), "deleted what was not told");
                    prop_assert_eq!(before.as_ref().map(|before| before.uid()), Some(object.uid()));
                    let revision: u64 = object.resource_version().parse().unwrap();
                    if final_state_known {
                        prop_assert!(!state_at(source, revision).contains_key(&key), "it is the state of its deletion");
                    } else {
                        prop_assert!(state_at(source, revision).contains_key(&key), "it is a state that there was");
                    }
                }
            }
        }
        prop_assert!(self.events.len() <= 10, "at most one event a key that is there or was told");
        Ok(())
    }
}

fn check_prefix(source: &Collection<Pod>, informer: &SharedInformer<Pod>) -> Result<(), TestCaseError> {
    let snapshot = informer.lister().snapshot();
    let Ok(revision) = snapshot.resource_version().parse() else {
        prop_assert!(snapshot.is_empty());
        return Ok(());
    };
    let cached: BTreeMap<ObjectKey, Pod> = snapshot.into_iter().map(|pod| (pod.key(), (*pod).clone())).collect();
    prop_assert_eq!(cached, state_at(source, revision), "the cache is at revision {}", revision);
    Ok(())
}

async fn run(operations: Vec<Operation>, streaming_list: bool, seed: u64) -> Result<(), TestCaseError> {
    let name = |at: usize| ["a", "b", "c", "d", "e"][at];
    let source = pods(&["a", "b"]);
    let config =
        ReflectorConfig { streaming_list, page_size: seed.is_multiple_of(3).then_some(2), ..Default::default() };
    let informer = SharedInformer::new(
        source.clone(),
        InformerConfig {
            reflector: config,
            seed: Some(seed),
            resync: Some(Duration::from_secs(seed % 50)),
            ..InformerConfig::default()
        },
    );
    let resync = seed.is_multiple_of(4).then_some(Duration::from_secs(60));
    let subscribe = || {
        let mut events = informer.subscribe();
        events.set_resync(resync);
        Folder { events, known: BTreeMap::new() }
    };
    let mut folders = vec![subscribe()];
    let mut told_of = 0;
    informer.start();
    for operation in operations {
        match operation {
            Operation::Put(at) => _ = source.put(pod(name(at), &told_of.to_string())),
            Operation::PutSilently(at) => {
                source.break_watches(Break::Silent);
                source.put(pod(name(at), ""));
            }
            Operation::Delete(at) => _ = source.remove(&key(name(at))),
            Operation::DeleteSilently(at) => {
                source.break_watches(Break::Silent);
                source.remove(&key(name(at)));
            }
            Operation::Bookmark => {
                source.advance();
                source.bookmark();
            }
            Operation::Break(how) => source.break_watches(how),
            Operation::Compact => source.compact(),
            Operation::FailWatch(fault) => source.faults().next_of(Verb::Watch, [fault]),
            Operation::FailList(fault) => source.faults().next_of(Verb::List, [fault]),
            Operation::Pass(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
            Operation::Take(who, many) => {
                let who = who % folders.len();
                folders[who].take(&source, many)?;
            }
            Operation::Subscribe if folders.len() < 4 => folders.push(subscribe()),
            Operation::Subscribe => {}
        }
        told_of += 1;
        if told_of % 3 == 0 {
            settle().await;
            check_prefix(&source, &informer)?;
        }
    }
    // Silent changes come to light with the next watch; a silent watch, at its timeout.
    source.break_watches(Break::End);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    check_prefix(&source, &informer)?;
    let cached: BTreeMap<ObjectKey, Arc<Pod>> =
        informer.lister().list().into_iter().map(|pod| (pod.key(), pod)).collect();
    let truth = state_at(&source, u64::MAX);
    prop_assert_eq!(cached.keys().collect::<Vec<_>>(), truth.keys().collect::<Vec<_>>());
    prop_assert!(cached.iter().all(|(key, pod)| truth[key] == **pod));
    for folder in &mut folders {
        folder.take(&source, usize::MAX)?;
        prop_assert_eq!(&folder.known, &cached);
        prop_assert!(folder.events.has_synced());
    }
    prop_assert!(informer.state().is_synced(), "{:?}", informer.state());
    informer.shutdown().await;
    prop_assert_eq!(source.open_watches(), 0);
    Ok(())
}

proptest! {
    #[test]
    fn the_cache_is_a_prefix_of_the_source_and_each_fold_equals_the_cache(
        operations in operations(),
        streaming_list in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(run(operations, streaming_list, seed))?;
    }
}
