//! Tests that a flag or a revision becomes visible only after the data to which it refers.

use std::sync::Arc;
use std::time::Duration;

use pintle_informer::{Cache, InformerState, Namespaces};
use pintle_meta::Reason;
use pintle_testing::{Break, Collection, Outcome};

use crate::namespaces::{held, informer, long, pod, received, set, synced_with_a_and_b};
use crate::support::{Pod, key, pod_at};

/// If a namespace is removed and added again, its objects may be deleted and listed again. The wait ends only after the
/// new list.
#[tokio::test(start_paused = true)]
async fn wait_for_a_readded_namespace_sees_its_objects() {
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
        received(&mut events).await;
        long().await;
        assert_eq!(lister.snapshot().diff(&reached).len(), 0, "after {moment} turns");
        assert!(received(&mut events).await.is_empty());
    }
}

/// When the state is healthy, the objects of the removed failing namespace are no longer in the cache.
#[tokio::test(start_paused = true)]
async fn healthy_state_implies_removed_namespace_is_gone() {
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
    // Another namespace reports its state at the same time.
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

/// When a caller has read a revision, `changes_since` returns all changes up to it without delay.
#[test]
fn changes_since_covers_the_visible_revision() {
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
            // Check the flag before the read, so that the last read happens after the last write.
            is_over = writer.is_finished();
            let reached: u64 = cache.resource_version().parse().unwrap();
            let changes = cache.changes_since(&since.to_string()).unwrap();
            assert!(changes.len() as u64 >= reached - since, "{} from {since} to {reached}", changes.len());
            since = reached;
        }
    });
}

/// An object that the cache refuses is listed as undecodable as soon as its revision is visible.
#[test]
fn rejected_object_is_listed_with_its_revision() {
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

/// A caller that has read the revision may not have seen the change yet.
#[tokio::test(start_paused = true)]
async fn change_at_a_known_revision_counts_as_later() {
    let at = |node: &str| Pod { node: node.into(), ..pod_at("a", 5) };
    let received = |cache: &Cache<Pod>, since: &str| -> Vec<String> {
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
    assert_eq!(received(&cache, "5"), [""; 0]);
    cache.upsert(Arc::new(at("y"))).unwrap();
    assert_eq!(received(&cache, "5"), ["y"]);
    cache.bookmark("7");
    cache.transaction(vec![(key("a"), None)], "7");
    assert_eq!((received(&cache, "5"), received(&cache, "6")), (vec!["y".into(), "-".into()], vec!["-".into()]));
    assert_eq!(received(&cache, "7"), ["-"]);
    cache.replace(vec![Arc::new(at("z"))], "7");
    assert_eq!(received(&cache, "7"), ["-", "z"]);
    cache.upsert(Arc::new(Pod { node: "w".into(), ..pod_at("a", 8) })).unwrap();
    assert_eq!((received(&cache, "7"), received(&cache, "8")), (vec!["-".into(), "z".into(), "w".into()], vec![]));
}

/// If the history has dropped a change at the requested revision, the result would be incomplete.
#[test]
fn forgotten_change_at_a_known_revision_ends_history() {
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

/// After a restore of the server, revisions from before the restore are unknown.
#[test]
fn changes_since_a_future_revision_are_unknown() {
    let cache = Cache::new();
    cache.upsert(Arc::new(pod_at("a", 10))).unwrap();
    let _history = cache.remember(10);
    cache.bookmark("12");
    assert_eq!((cache.changes_since("12").unwrap().len(), cache.changes_since("13").is_none()), (0, true));
    cache.replace(vec![Arc::new(pod_at("b", 4))], "5");
    assert!(cache.changes_since("10").is_none() && cache.changes_since("12").is_none());
    assert_eq!(cache.changes_since("5").unwrap().len(), 0);
}

/// A caller that has read the revision may not have seen the deletion yet.
#[test]
fn deletion_without_revision_is_remembered() {
    let cache = Cache::new();
    cache.upsert(Arc::new(pod_at("a", 5))).unwrap();
    let _history = cache.remember(10);
    cache.delete(&key("a"), "");
    let received = cache.changes_since("5").unwrap();
    assert_eq!((received.len(), received[0].new.is_none(), &*received[0].resource_version), (1, true, "5"));
    assert!(cache.changes_since("4").is_none());
}
