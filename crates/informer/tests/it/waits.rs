//! Tests that a flag or revision becomes visible only after the corresponding data.

use std::sync::Arc;
use std::time::Duration;

use pintle_informer::{Cache, InformerState, Namespaces};
use pintle_meta::Reason;
use pintle_testing::{Break, Collection, Outcome};

use crate::namespaces::{held, informer, long, pod, received, set, synced_with_a_and_b};
use crate::support::{Pod, key, pod_at};

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
