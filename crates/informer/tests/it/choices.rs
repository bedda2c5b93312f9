//! Tests that the cache converges to each namespace's selected objects after any changes of selectors and namespaces.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pintle_informer::{InformerConfig, Namespaces, ReflectorConfig, ResourceEvent, SharedInformer, Subscription};
use pintle_meta::{FieldSelector, Object, ObjectKey, ObjectMeta, Reason};
use pintle_testing::{Break, Collection, Outcome, Verb};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::{Pod, cut, expired, failure, settle};

const NAMESPACES: [&str; 3] = ["a", "b", "c"];
const APPS: [&str; 2] = ["web", "db"];

#[derive(Clone, Debug)]
enum Operation {
    Put(usize, usize),
    Delete(usize),
    Bookmark,
    Break(Break),
    Compact,
    Fail(Verb, Outcome),
    Pass(u64),
    Select(usize),
    Follow(usize),
    Take(usize),
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let breaks = prop_oneof![Just(Break::End), Just(Break::cut()), Just(Break::expired())];
    let fault = prop_oneof![
        Just(Outcome::Fails(expired())),
        Just(Outcome::Fails(cut())),
        Just(Outcome::Fails(failure(500, Reason::InternalError))),
    ];
    let verb = prop_oneof![Just(Verb::List), Just(Verb::Watch)];
    let operation = prop_oneof![
        8 => (0..3_usize, 0..2_usize).prop_map(|(namespace, app)| Operation::Put(namespace, app)),
        3 => (0..3_usize).prop_map(Operation::Delete),
        2 => Just(Operation::Bookmark),
        2 => breaks.prop_map(Operation::Break),
        1 => Just(Operation::Compact),
        2 => (verb, fault).prop_map(|(verb, fault)| Operation::Fail(verb, fault)),
        5 => (0..20_u64).prop_map(Operation::Pass),
        3 => (0..3_usize).prop_map(Operation::Select),
        3 => (0..9_usize).prop_map(Operation::Follow),
        4 => (0..4_usize).prop_map(Operation::Take),
    ];
    vec(operation, 1..60)
}

type State = BTreeMap<ObjectKey, Pod>;

struct Choice {
    app: Option<&'static str>,
    namespaces: Namespaces,
}

impl Choice {
    fn has(&self, pod: &Pod) -> bool {
        let is_followed = self.namespaces.names().is_none_or(|names| names.contains(&pod.metadata.namespace));
        is_followed && self.app.is_none_or(|app| pod.metadata.labels["app"] == app)
    }

    fn follow(&self, set: usize) {
        match set {
            8 => self.namespaces.set_all(),
            bits => self
                .namespaces
                .set(NAMESPACES.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1).map(|(_, name)| *name)),
        }
    }
}

fn chosen(source: &Collection<Pod>, choice: &Choice, revision: u64) -> State {
    let pods = source.objects_at(revision).into_iter().filter(|pod| choice.has(pod));
    pods.map(|pod| (pod.key(), pod)).collect()
}

fn held(informer: &SharedInformer<Pod>) -> State {
    informer.lister().list().iter().map(|pod| (pod.key(), (*pod).clone())).collect()
}

/// Checks that the cached objects of each namespace equal the source's objects at some revision. The revision of the
/// objects in a namespace must not be older than the cache's revision.
fn check(source: &Collection<Pod>, choice: &Choice, informer: &SharedInformer<Pod>) -> Result<(), TestCaseError> {
    let held = held(informer);
    let floor: u64 = informer.lister().resource_version().parse().unwrap_or(0);
    for namespace in NAMESPACES {
        let within = |state: &State| -> Vec<Pod> {
            state.values().filter(|pod| pod.metadata.namespace == namespace).cloned().collect()
        };
        let held = within(&held);
        let is_state = |revision| within(&chosen(source, choice, revision)) == held;
        prop_assert!((floor..=source.revision()).any(is_state), "{} at {} or later: {:?}", namespace, floor, held);
    }
    Ok(())
}

/// Applies up to `many` events, and checks that each event continues from the last state of its object.
fn take(
    events: &mut Subscription<Pod>,
    known: &mut BTreeMap<ObjectKey, Arc<Pod>>,
    many: usize,
) -> Result<(), TestCaseError> {
    for _ in 0..many {
        let Some(event) = events.try_next() else { break };
        let key = event.key();
        match event {
            ResourceEvent::Added { object, .. } => {
                prop_assert!(known.insert(key, object.into_arc()).is_none(), "added twice")
            }
            ResourceEvent::Updated { old, new } => {
                prop_assert_eq!(known.insert(key, new.into_arc()), Some(old.into_arc()))
            }
            ResourceEvent::Deleted { .. } => {
                prop_assert!(known.remove(&key).is_some(), "deletion of an unknown object")
            }
        }
    }
    Ok(())
}

fn put(source: &Collection<Pod>, namespace: usize, app: usize, node: usize) {
    let mut metadata = ObjectMeta::new(NAMESPACES[namespace], "x");
    metadata.labels.insert("app".into(), APPS[app].into());
    source.put(Pod { metadata, node: node.to_string() });
}

async fn run(operations: Vec<Operation>, streaming_list: bool, seed: u64) -> Result<(), TestCaseError> {
    let source: Collection<Pod> = Collection::default();
    (0..3).for_each(|namespace| put(&source, namespace, namespace % 2, 0));
    let mut choice = Choice { app: None, namespaces: Namespaces::new(["a"]) };
    let clients = source.client("");
    let of = move |namespace: Option<&str>| match namespace {
        Some(namespace) => clients.in_namespace(namespace),
        None => clients.clone(),
    };
    let reflector = ReflectorConfig { streaming_list, ..ReflectorConfig::default() };
    let config = InformerConfig { reflector, seed: Some(seed), ..InformerConfig::default() };
    let informer = SharedInformer::of_namespaces(&choice.namespaces, of, config);
    let mut folders = [informer.subscribe(), informer.subscribe_ordered(4)].map(|events| (events, BTreeMap::new()));
    informer.start();
    for (at, operation) in operations.into_iter().enumerate() {
        match operation {
            Operation::Put(namespace, app) => put(&source, namespace, app, at),
            Operation::Delete(namespace) => _ = source.remove(&ObjectKey::new(NAMESPACES[namespace], "x")),
            Operation::Bookmark => source.bookmark(),
            Operation::Break(how) => source.break_watches(how),
            Operation::Compact => source.compact(),
            Operation::Fail(verb, fault) => source.faults().next_of(verb, [fault]),
            Operation::Pass(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
            Operation::Select(app) => {
                choice.app = APPS.get(app).copied();
                let labels = choice.app.map(|app| format!("app={app}")).unwrap_or_default();
                informer.set_selectors(labels.parse().unwrap(), FieldSelector::everything()).unwrap();
            }
            Operation::Follow(set) => choice.follow(set),
            Operation::Take(many) => {
                for (events, known) in &mut folders {
                    take(events, known, many)?;
                }
            }
        }
        if at % 3 == 0 {
            settle().await;
        }
        // If `wait_for_sync` completes immediately, the cache must contain the selected objects.
        if tokio::time::timeout(Duration::ZERO, informer.wait_for_sync()).await.is_ok() {
            check(&source, &choice, &informer)?;
        }
    }
    source.break_watches(Break::End);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    source.bookmark();
    informer.wait_for_sync().await.unwrap();
    settle().await;
    let held = held(&informer);
    prop_assert_eq!(&held, &chosen(&source, &choice, u64::MAX));
    for (events, known) in &mut folders {
        take(events, known, usize::MAX)?;
        let known: State = known.iter().map(|(key, pod)| (key.clone(), (**pod).clone())).collect();
        prop_assert_eq!(&known, &held);
    }
    prop_assert!(informer.state().is_synced(), "{:?}", informer.state());
    informer.shutdown().await;
    prop_assert_eq!(source.open_watches(), 0);
    Ok(())
}

proptest! {
    #[test]
    fn cache_holds_the_selection_at_some_revision(
        operations in operations(),
        streaming_list in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(run(operations, streaming_list, seed))?;
    }
}
