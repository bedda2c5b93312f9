//! Tests that the cache always equals the source at some revision. The tests also check that a subscriber that applies
//! all events ends up with the objects in the cache.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pintle_informer::{
    DecodePolicy, InformerConfig, NewestSubscription, ReflectorConfig, ResourceEvent, SharedInformer, Subscription,
    SubscriptionStatus,
};
use pintle_meta::{Object, ObjectKey, Reason};
use pintle_testing::{Break, Collection, Outcome, Verb};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use crate::support::reshaping::{Reshaping, Shapes};
use crate::support::{
    Pod, cut, empty, event, expired, failure, key, pod, refused, settle, silent, too_large, too_many_requests,
};

#[derive(Clone, Debug)]
enum Operation {
    Put(usize),
    PutSilently(usize),
    PutBroken(usize),
    /// Changes an object's `node` field without changing its version. Lists return the new shape.
    Reshape(usize),
    /// Makes the watch send the next change twice: with the same version, but with different content.
    Echo,
    Delete(usize),
    DeleteSilently(usize),
    Bookmark,
    Break(Break),
    Compact,
    FailWatch(Outcome),
    FailList(Outcome),
    Pass(u64),
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
    let slow = (1..20_u64).prop_map(|seconds| Outcome::AnswerSlow(Duration::from_secs(seconds)));
    let list_fault = prop_oneof![3 => fault(), 1 => broken, 1 => slow, 1 => Just(Outcome::Pass)];
    let operation = prop_oneof![
        8 => key().prop_map(Operation::Put),
        4 => key().prop_map(Operation::Delete),
        2 => key().prop_map(Operation::PutSilently),
        2 => key().prop_map(Operation::PutBroken),
        2 => key().prop_map(Operation::Reshape),
        3 => Just(Operation::Echo),
        2 => key().prop_map(Operation::DeleteSilently),
        1 => Just(Operation::Bookmark),
        3 => breaks.prop_map(Operation::Break),
        1 => Just(Operation::Compact),
        2 => watch_fault.prop_map(Operation::FailWatch),
        1 => list_fault.prop_map(Operation::FailList),
        4 => (0..40_u64).prop_map(Operation::Pass),
        6 => (0..7_usize, 0..4_usize).prop_map(|(folder, many)| Operation::Take(folder, many)),
        1 => Just(Operation::Subscribe),
    ];
    vec(operation, 1..80)
}

struct Recorded {
    source: Collection<Pod>,
    shapes: Shapes,
    states: BTreeMap<u64, State>,
    decode: DecodePolicy,
}

type State = BTreeMap<ObjectKey, Option<Pod>>;

impl Recorded {
    /// Returns a source with two pods, and a wrapper that changes objects without changing their versions.
    fn new(decode: DecodePolicy) -> (Self, Reshaping) {
        let source = Collection::default();
        let (reshaping, shapes) = Reshaping::new(source.clone());
        let mut recorded = Self { source, shapes, states: BTreeMap::from([(0, State::new())]), decode };
        ["a", "b"].iter().for_each(|name| recorded.put(name, ""));
        (recorded, reshaping)
    }

    fn put(&mut self, name: &str, node: &str) {
        let stored = self.source.put(pod(name, node));
        self.record(name, Some(Some(stored)));
    }

    fn put_broken(&mut self, name: &str) {
        self.source.put_raw(json!({"metadata": {"namespace": "ns", "name": name}, "node": 7}));
        self.record(name, Some(None));
    }

    fn reshape(&self, name: &str) {
        if let Some(Some(pod)) = self.state_at(u64::MAX).get(&key(name)) {
            self.shapes.reshape(pod);
        }
    }

    fn remove(&mut self, name: &str) {
        if self.source.remove(&key(name)) {
            self.record(name, None);
        }
    }

    fn record(&mut self, name: &str, became: Option<Option<Pod>>) {
        let mut state = self.state_at(u64::MAX).clone();
        match became {
            Some(entry) => _ = state.insert(key(name), entry),
            None => _ = state.remove(&key(name)),
        }
        self.states.insert(self.source.revision(), state);
    }

    fn state_at(&self, revision: u64) -> &State {
        self.states.range(..=revision).next_back().expect("there is a state at revision 0").1
    }

    /// Returns the states of an undecodable object that the cache may contain: all states since the object's creation.
    fn was(&self, key: &ObjectKey, revision: u64) -> impl Iterator<Item = &Pod> {
        let states = self.states.range(..=revision).rev().map(|(_, state)| state.get(key));
        states.take_while(Option::is_some).flatten().flatten()
    }

    /// Checks that the idle informer has found all undecodable objects, although nobody has read them.
    fn check_found(&self, informer: &SharedInformer<Pod>) -> Result<(), TestCaseError> {
        let lister = informer.lister();
        let shown: Vec<ObjectKey> = lister.undecodable().into_iter().map(|entry| entry.key).collect();
        let broken = self.state_at(u64::MAX).iter().filter(|(_, entry)| entry.is_none());
        prop_assert_eq!(shown, broken.map(|(key, _)| key.clone()).collect::<Vec<_>>());
        prop_assert_eq!(lister.len(), lister.list().len(), "each cached object has a decodable state");
        Ok(())
    }

    fn check(&self, informer: &SharedInformer<Pod>, revision: u64) -> Result<(), TestCaseError> {
        let lister = informer.lister();
        let cached: BTreeMap<ObjectKey, Arc<Pod>> = lister.list().into_iter().map(|pod| (pod.key(), pod)).collect();
        let state = self.state_at(revision);
        prop_assert!(cached.keys().all(|key| state.contains_key(key)), "{:?} at {}: {:?}", cached, revision, state);
        for (key, entry) in state {
            let cached = cached.get(key).map(|cached| &**cached);
            match entry {
                Some(pod) => prop_assert!(
                    cached.is_some_and(|cached| self.shapes.is_one_of(cached, pod)),
                    "the cache has {cached:?}, but at revision {revision} the source has {pod:?}"
                ),
                None => {
                    // Reads of an undecodable object may return any of its earlier decodable states.
                    let is_one = |cached: &Pod, pod: &Pod| match self.decode {
                        DecodePolicy::OnRead => cached.metadata == pod.metadata,
                        _ => self.shapes.is_one_of(cached, pod),
                    };
                    let was = |cached| self.was(key, revision).any(|pod| is_one(cached, pod));
                    prop_assert!(cached.is_none_or(was));
                }
            }
        }
        let shown: Vec<ObjectKey> = lister.undecodable().into_iter().map(|entry| entry.key).collect();
        let broken = state.iter().filter(|(_, entry)| entry.is_none());
        prop_assert_eq!(shown, broken.map(|(key, _)| key.clone()).collect::<Vec<_>>());
        Ok(())
    }
}

struct Folder {
    events: Events,
    known: BTreeMap<ObjectKey, Arc<Pod>>,
    is_ordered: bool,
}

const BOUND: usize = 4;

enum Events {
    Each(Subscription<Pod>),
    Newest(NewestSubscription<Pod>),
}

impl Events {
    fn status(&self) -> SubscriptionStatus {
        match self {
            Self::Each(events) => events.status(),
            Self::Newest(newest) => newest.status(),
        }
    }
}

impl Folder {
    fn take(&mut self, source: &Recorded, many: usize) -> Result<(), TestCaseError> {
        for _ in 0..many {
            let events = match &mut self.events {
                Events::Each(events) => events,
                Events::Newest(newest) => {
                    let Some((key, object)) = newest.try_next() else { break };
                    match object {
                        Some(object) => _ = self.known.insert(key, object),
                        None => prop_assert!(self.known.remove(&key).is_some(), "deletion of an unknown object"),
                    }
                    continue;
                }
            };
            let Some(event) = events.try_next() else { break };
            let key = event.key();
            match event {
                ResourceEvent::Added { object, .. } => {
                    prop_assert!(self.known.insert(key, object.into_arc()).is_none(), "added twice");
                }
                ResourceEvent::Updated { old, new } => {
                    prop_assert_eq!(old.uid(), new.uid(), "an update keeps the uid");
                    let before = self.known.insert(key, new.into_arc());
                    prop_assert_eq!(before, Some(old.into_arc()), "starts from the last state");
                }
                ResourceEvent::Deleted { object, final_state_known } => {
                    let before = self.known.remove(&key);
                    prop_assert!(before.is_some(), "deletion of an unknown object");
                    prop_assert_eq!(before.as_ref().map(|before| before.uid()), Some(object.uid()));
                    let revision: u64 = object.resource_version().parse().unwrap();
                    if final_state_known {
                        prop_assert!(
                            !source.state_at(revision).contains_key(&key),
                            "the final state is not current any more"
                        );
                    } else {
                        prop_assert!(source.state_at(revision).contains_key(&key), "the state existed");
                    }
                }
            }
        }
        let most = 10 + if self.is_ordered { BOUND } else { 0 };
        prop_assert!(self.events.status().depth <= most, "at most one event for each key");
        Ok(())
    }
}

fn check_prefix(source: &Recorded, informer: &SharedInformer<Pod>) -> Result<(), TestCaseError> {
    match informer.lister().snapshot().resource_version().parse() {
        Ok(revision) => source.check(informer, revision),
        Err(_) => {
            prop_assert!(informer.lister().is_empty());
            Ok(())
        }
    }
}

async fn run(
    operations: Vec<Operation>,
    streaming_list: bool,
    decode: DecodePolicy,
    seed: u64,
) -> Result<(), TestCaseError> {
    let name = |at: usize| ["a", "b", "c", "d", "e"][at];
    let (mut source, reshaping) = Recorded::new(decode);
    let config =
        ReflectorConfig { streaming_list, page_size: seed.is_multiple_of(3).then_some(2), ..Default::default() };
    let informer = SharedInformer::new(
        reshaping,
        InformerConfig {
            reflector: config,
            decode,
            hot_bytes: 2 * (size_of::<Pod>() + 600),
            seed: Some(seed),
            resync: Some(Duration::from_secs(seed % 50)),
            ..InformerConfig::default()
        },
    );
    let resync = seed.is_multiple_of(4).then_some(Duration::from_secs(60));
    let subscribe = |number: usize| {
        let is_ordered = number % 3 == 1;
        let events = match number % 3 {
            2 => Events::Newest(informer.subscribe_newest()),
            _ => {
                let mut events = if is_ordered { informer.subscribe_ordered(BOUND) } else { informer.subscribe() };
                events.set_resync(resync);
                Events::Each(events)
            }
        };
        Folder { events, known: BTreeMap::new(), is_ordered }
    };
    let mut folders: Vec<Folder> = (0..3).map(subscribe).collect();
    let mut told_of = 0;
    informer.start();
    for operation in operations {
        match operation {
            Operation::Put(at) => source.put(name(at), &told_of.to_string()),
            Operation::PutSilently(at) => {
                source.source.break_watches(Break::Silent);
                source.put(name(at), "");
            }
            Operation::PutBroken(at) => source.put_broken(name(at)),
            Operation::Reshape(at) => source.reshape(name(at)),
            Operation::Echo => source.shapes.echo(),
            Operation::Delete(at) => source.remove(name(at)),
            Operation::DeleteSilently(at) => {
                source.source.break_watches(Break::Silent);
                source.remove(name(at));
            }
            Operation::Bookmark => {
                source.source.advance();
                source.source.bookmark();
            }
            Operation::Break(how) => source.source.break_watches(how),
            Operation::Compact => source.source.compact(),
            Operation::FailWatch(fault) => source.source.faults().next_of(Verb::Watch, [fault]),
            Operation::FailList(fault) => source.source.faults().next_of(Verb::List, [fault]),
            Operation::Pass(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
            Operation::Take(folder, many) => {
                let folder = folder % folders.len();
                folders[folder].take(&source, many)?;
            }
            Operation::Subscribe if folders.len() < 7 => folders.push(subscribe(folders.len())),
            Operation::Subscribe => {}
        }
        told_of += 1;
        if told_of % 3 == 0 {
            settle().await;
            check_prefix(&source, &informer)?;
        }
    }
    // A new watch delivers the changes that the old watch missed. A silent watch ends when its timeout expires.
    source.source.break_watches(Break::End);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    source.check_found(&informer)?;
    check_prefix(&source, &informer)?;
    let cached: BTreeMap<ObjectKey, Arc<Pod>> =
        informer.lister().list().into_iter().map(|pod| (pod.key(), pod)).collect();
    source.check(&informer, u64::MAX)?;
    for folder in &mut folders {
        folder.take(&source, usize::MAX)?;
        prop_assert_eq!(&folder.known, &cached);
        prop_assert!(folder.events.status().has_synced);
    }
    prop_assert!(informer.state().is_synced(), "{:?}", informer.state());
    informer.shutdown().await;
    prop_assert_eq!(source.source.open_watches(), 0);
    Ok(())
}

proptest! {
    #[test]
    fn cache_is_a_source_prefix_and_events_yield_it(
        operations in operations(),
        streaming_list in any::<bool>(),
        decode in prop_oneof![Just(DecodePolicy::OnArrival), Just(DecodePolicy::OnRead)],
        seed in any::<u64>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(run(operations, streaming_list, decode, seed))?;
    }
}
