//! What a flag or a revision stands for is there when it shows.

use std::sync::Arc;
use std::time::Duration;

use pintle_informer::{Cache, InformerState, Namespaces};
use pintle_meta::Reason;
use pintle_testing::{Break, Collection, Outcome};

use crate::namespaces::{held, informer, long, pod, set, synced_with_a_and_b, told};
use crate::support::{Pod, key, pod_at};

/// One that is taken out and put in again may be let go of after that, and is listed anew then: who waits finds it as it is from there on.
#[tokio::test(start_paused = true)]
async fn who_waits_for_one_that_left_and_came_again_finds_it_there_to_stay() {
    for moment in 0..30 {
        let (_source, namespaces, informer) = synced_with_a_and_b().await;
        let lister = informer.lister();
        let mut events = informer.subscribe();
        namespaces.set(set("b"));
        for _ in 0..moment {
            tokio::task::yield_now().await;
        }
        namespaces.set(set("ab"));
        match moment % 2 {
            0 => informer.wait_for_sync().await.unwrap(),
            _ => lister.wait_for("1").await.unwrap(),
        }
        let reached = lister.snapshot();
        assert_eq!(held(&informer), "ab", "after {moment} turns");
        told(&mut events).await;
        long().await;
        assert_eq!(lister.snapshot().diff(&reached).len(), 0, "after {moment} turns");
        assert!(told(&mut events).await.is_empty());
    }
}

/// That the informer is well says that nothing is there any more of one that was not.
#[tokio::test(start_paused = true)]
async fn one_that_made_it_unwell_is_gone_once_it_is_well() {
    let source: Collection<Pod> = (0..20_000).map(|number| pod("b", &number.to_string())).collect();
    let namespaces = Namespaces::new(set("ab"));
    let informer = informer(&source, &namespaces, false);
    informer.start();
    informer.wait_for_sync().await.unwrap();
    source.faults().when(|request| (request.client == "b").then(|| Outcome::refused(403, Reason::Forbidden)));
    source.break_watches(Break::expired());
    long().await;
    namespaces.set(set("a"));
    let mut states = informer.states();
    let well = async {
        states.wait_for(InformerState::is_synced).await.unwrap();
        assert_eq!(informer.lister().len(), 0);
    };
    // Another one tells how it is getting on meanwhile.
    let others = async {
        for _ in 0..20 {
            tokio::time::advance(Duration::from_secs(2)).await;
            source.break_watches(Break::End);
            for _ in 0..5 {
                tokio::task::yield_now().await;
            }
        }
    };
    tokio::join!(well, others);
}

/// Whoever has read a revision is told what has changed up to it, however soon it asks.
#[test]
fn what_has_changed_is_told_up_to_the_revision_that_shows() {
    const LAST: u64 = 20_000;
    let cache = Cache::new();
    cache.upsert(Arc::new(pod_at("a", 1))).unwrap();
    let _history = cache.remember(LAST as usize);
    std::thread::scope(|scope| {
        let writer =
            scope.spawn(|| (2..=LAST).for_each(|version| _ = cache.upsert(Arc::new(pod_at("a", version))).unwrap()));
        let mut since = 1;
        let mut is_over = false;
        while since < LAST && !is_over {
            // Before the look, so that the last one is at all there is.
            is_over = writer.is_finished();
            let reached: u64 = cache.resource_version().parse().unwrap();
            let changes = cache.changes_since(&since.to_string()).unwrap();
            assert!(changes.len() as u64 >= reached - since, "{} from {since} to {reached}", changes.len());
            since = reached;
        }
    });
}

/// An object that has been refused shows as soon as the revision does that it came with.
#[test]
fn what_is_refused_shows_with_its_revision() {
    const LAST: u64 = 20_000;
    let cache = Cache::new();
    cache
        .add_index("node", |pod: &Pod| if pod.node == "bad" { Err("wanted") } else { Ok(Some(pod.node.clone())) })
        .unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for version in 1..=LAST {
                let name = if version.is_multiple_of(2) { "good" } else { "bad" };
                cache.transaction(
                    vec![(key("a"), Some(Arc::new(Pod { node: name.into(), ..pod_at("a", version) })))],
                    &version.to_string(),
                );
            }
        });
        let (mut reached, mut is_over) = (0, false);
        while reached < LAST && !is_over {
            is_over = writer.is_finished();
            reached = cache.resource_version().parse().unwrap_or_default();
            let shown = cache.undecodable();
            let after: u64 = cache.resource_version().parse().unwrap_or_default();
            if reached == after {
                assert_eq!(shown.len() as u64, reached % 2, "at {reached}: {shown:?}");
            }
        }
    });
}

/// Who knew the revision cannot know the change.
#[tokio::test(start_paused = true)]
async fn a_change_at_the_revision_that_is_known_is_remembered_as_one_since_then() {
    let at = |node: &str| Pod { node: node.into(), ..pod_at("a", 5) };
    let told = |cache: &Cache<Pod>, since: &str| -> Vec<String> {
        cache
            .changes_since(since)
            .unwrap()
            .iter()
            .map(|change| change.new.as_ref().map_or("-".into(), |pod| pod.node.clone()))
            .collect()
    };
    let cache = Cache::new();
    cache.upsert(Arc::new(at("x"))).unwrap();
    let _history = cache.remember(10);
    assert_eq!(told(&cache, "5"), [""; 0]);
    cache.upsert(Arc::new(at("y"))).unwrap();
    assert_eq!(told(&cache, "5"), ["y"]);
    cache.bookmark("7");
    cache.transaction(vec![(key("a"), None)], "7");
    assert_eq!((told(&cache, "5"), told(&cache, "6")), (vec!["y".into(), "-".into()], vec!["-".into()]));
    assert_eq!(told(&cache, "7"), ["-"]);
    cache.replace(vec![Arc::new(at("z"))], "7");
    assert_eq!(told(&cache, "7"), ["-", "z"]);
    cache.upsert(Arc::new(Pod { node: "w".into(), ..pod_at("a", 8) })).unwrap();
    assert_eq!((told(&cache, "7"), told(&cache, "8")), (vec!["-".into(), "z".into(), "w".into()], vec![]));
}

/// One that was told of at the revision that is asked for, and is not remembered any more, is missed.
#[test]
fn what_is_forgotten_of_a_revision_that_had_come_before_is_not_passed_over() {
    let at = |node: &str, version: u64| Arc::new(Pod { node: node.into(), ..pod_at("a", version) });
    let cache = Cache::new();
    cache.upsert(at("x", 5)).unwrap();
    let _history = cache.remember(1);
    cache.upsert(at("y", 5)).unwrap();
    assert_eq!(cache.changes_since("5").unwrap().len(), 1);
    cache.upsert(at("z", 5)).unwrap();
    assert!(cache.changes_since("5").is_none(), "y is forgotten");
    cache.upsert(at("w", 6)).unwrap();
    assert!(cache.changes_since("5").is_none(), "and z");
    cache.upsert(at("v", 7)).unwrap();
    assert_eq!((cache.changes_since("5").is_none(), cache.changes_since("6").unwrap().len()), (true, 1));
}

/// The history of a server that began anew knows nothing of it.
#[test]
fn what_has_changed_since_a_revision_that_has_not_come_is_unknown() {
    let cache = Cache::new();
    cache.upsert(Arc::new(pod_at("a", 10))).unwrap();
    let _history = cache.remember(10);
    cache.bookmark("12");
    assert_eq!((cache.changes_since("12").unwrap().len(), cache.changes_since("13").is_none()), (0, true));
    cache.replace(vec![Arc::new(pod_at("b", 4))], "5");
    assert!(cache.changes_since("10").is_none() && cache.changes_since("12").is_none());
    assert_eq!(cache.changes_since("5").unwrap().len(), 0);
}

/// Who knew the revision may not know it.
#[test]
fn what_is_deleted_at_no_revision_is_told() {
    let cache = Cache::new();
    cache.upsert(Arc::new(pod_at("a", 5))).unwrap();
    let _history = cache.remember(10);
    cache.delete(&key("a"), "");
    let told = cache.changes_since("5").unwrap();
    assert_eq!((told.len(), told[0].new.is_none(), &*told[0].resource_version), (1, true, "5"));
    assert!(cache.changes_since("4").is_none());
}
