//! Tests of the shared informer with a failing source.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pintle_informer::{InformerConfig, InformerState, ReflectorConfig, SharedInformer};
use pintle_meta::Reason;
use pintle_testing::{Break, Collection, CollectionConfig, Outcome, Verb};

use crate::support::{
    Pod, cut, drain, drain_sorted, empty, event, expired, failure, key, pod, pods, refused, requests, settle, silent,
    too_large, too_many_requests,
};

const LONG: Duration = Duration::from_secs(120);

async fn synced(source: &Collection<Pod>) -> SharedInformer<Pod> {
    let informer = SharedInformer::new(source.clone(), InformerConfig::default());
    informer.start();
    informer.wait_for_sync().await.unwrap();
    settle().await;
    requests(source);
    informer
}

#[tokio::test(start_paused = true)]
async fn missing_resource_degrades_until_it_exists() {
    let source = pods(&["a"]);
    source.faults().next_of(Verb::List, [Outcome::Fails(failure(404, Reason::NotFound))]);
    source.faults().next_of(Verb::List, [Outcome::Fails(failure(403, Reason::Forbidden))]);
    let errors = Arc::new(Mutex::new(Vec::new()));
    let log = errors.clone();
    let informer: SharedInformer<Pod> = SharedInformer::new(
        source.clone(),
        InformerConfig {
            on_error: Some(Box::new(move |error| log.lock().unwrap().push(error.to_string()))),
            ..InformerConfig::default()
        },
    );
    let mut states = informer.states();
    informer.start();
    let degraded = states.wait_for(|state| state.cause().is_some()).await.unwrap();
    assert!(degraded.cause().unwrap().to_string().contains("NotFound"), "{degraded:?}");
    assert!(!informer.has_synced());
    informer.wait_for_sync().await.unwrap();
    settle().await;
    assert!(informer.state().is_synced());
    let errors = errors.lock().unwrap();
    assert!(errors.len() == 2 && errors[1].contains("Forbidden"), "{errors:?}");
}

#[tokio::test(start_paused = true)]
async fn cache_converges_under_random_faults() {
    let faults: [fn(&Collection<Pod>); 12] = [
        |source| source.break_watches(Break::End),
        |source| source.break_watches(Break::cut()),
        |source| source.break_watches(Break::Fails(too_many_requests())),
        |source| {
            source.compact();
            source.break_watches(Break::expired());
        },
        |source| {
            source.faults().next_of(Verb::Watch, [Outcome::Fails(refused())]);
            source.break_watches(Break::End);
        },
        |source| {
            source.faults().next_of(Verb::Watch, [Outcome::Fails(too_many_requests())]);
            source.break_watches(Break::cut());
        },
        |source| {
            source.faults().next_of(Verb::Watch, [Outcome::Fails(failure(500, Reason::InternalError))]);
            source.faults().next_of(Verb::List, [Outcome::Fails(too_large())]);
            source.break_watches(Break::End);
        },
        |source| {
            source.faults().next_of(Verb::Watch, [event(expired())]);
            source.faults().next_of(Verb::List, [Outcome::Fails(expired())]);
            source.break_watches(Break::End);
        },
        |source| {
            source.faults().next_of(Verb::Watch, vec![empty(); 5]);
            source.break_watches(Break::End);
        },
        |source| {
            source.faults().next_of(Verb::Watch, [event(cut())]);
            source.break_watches(Break::End);
        },
        |source| {
            source.faults().next_of(Verb::Watch, [silent()]);
            source.break_watches(Break::End);
        },
        |source| {
            source.faults().next_of(Verb::Watch, [Outcome::Fails(cut())]);
            source.faults().next_of(Verb::List, [Outcome::Fails(cut())]);
            source.break_watches(Break::End);
        },
    ];
    for (number, fault) in faults.into_iter().enumerate() {
        let source = pods(&["a", "b"]);
        let informer = synced(&source).await;
        let mut events = informer.subscribe();
        drain(&mut events).await;
        source.break_watches(Break::Silent);
        source.remove(&key("a"));
        source.put(pod("c", ""));
        fault(&source);
        // A silent watch ends after its timeout of at most 600 s plus the grace period.
        tokio::time::sleep(Duration::from_secs(640)).await;
        let cached = informer.lister().snapshot().index_keys("namespace", "ns").unwrap();
        assert_eq!(cached, [key("b"), key("c")], "fault {number}");
        let received = drain_sorted(&mut events).await;
        let expected: [&[&str]; 2] = [&["A c@4", "D a@3"], &["A c@4", "D? a@1"]];
        assert!(
            expected.contains(&&received.iter().map(String::as_str).collect::<Vec<_>>()[..]),
            "fault {number}: {received:?}"
        );
        assert!(informer.state().is_synced(), "fault {number}: {:?}", informer.state());
    }
}

#[tokio::test(start_paused = true)]
async fn expired_watch_relists_and_cut_watch_does_not() {
    let source = pods(&["a"]);
    let _informer = synced(&source).await;
    source.break_watches(Break::cut());
    tokio::time::sleep(LONG).await;
    let watches = requests(&source);
    assert!(watches.iter().all(|request| request == "WATCH rv=1"), "{watches:?}");
    source.break_watches(Break::expired());
    tokio::time::sleep(LONG).await;
    assert_eq!(requests(&source), ["LIST rv=1 limit=0", "WATCH rv=1"]);
}

#[tokio::test(start_paused = true)]
async fn source_that_rejects_lists_gets_few_requests() {
    let source = pods(&["a"]);
    source.faults().next_of(Verb::List, vec![Outcome::Fails(refused()); 1000]);
    let informer: SharedInformer<Pod> = SharedInformer::new(source.clone(), InformerConfig::default());
    informer.start();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let requests = requests(&source).len();
    assert!((60..=130).contains(&requests), "{requests} lists in an hour, with delays of 30 to 60 s");
}

#[tokio::test(start_paused = true)]
async fn source_that_ends_watches_gets_few_requests() {
    let source = pods(&["a"]);
    let informer = synced(&source).await;
    source.faults().next_of(Verb::Watch, vec![empty(); 1000]);
    source.break_watches(Break::End);
    tokio::time::sleep(Duration::from_secs(600)).await;
    let requests = requests(&source).len();
    assert!((10..=40).contains(&requests), "{requests} requests in 10 minutes");
    assert!(matches!(informer.state(), InformerState::Degraded { .. }));
}

#[tokio::test(start_paused = true)]
async fn unfinished_streaming_list_is_replaced_by_a_list() {
    let source = pods(&["a"]);
    source.faults().next_of(Verb::Watch, [Outcome::NoBookmark]);
    let config = ReflectorConfig { streaming_list: true, ..ReflectorConfig::default() };
    let informer: SharedInformer<Pod> =
        SharedInformer::new(source.clone(), InformerConfig { reflector: config, ..InformerConfig::default() });
    informer.start();
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert!(!informer.has_synced() && matches!(informer.state(), InformerState::Streaming { .. }));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(informer.has_synced());
    assert_eq!(requests(&source), ["WATCH rv= initial", "LIST rv=0 limit=500", "WATCH rv=1"]);
}

#[tokio::test(start_paused = true)]
async fn streaming_list_needs_one_request() {
    let source = pods(&["a", "b"]);
    let informer: SharedInformer<Pod> = SharedInformer::new(
        source.clone(),
        InformerConfig {
            reflector: ReflectorConfig { streaming_list: true, ..ReflectorConfig::default() },
            ..InformerConfig::default()
        },
    );
    let mut events = informer.subscribe();
    informer.start();
    informer.wait_for_sync().await.unwrap();
    source.put(pod("c", ""));
    assert_eq!(drain_sorted(&mut events).await, ["A c@3", "A! a@1", "A! b@2"]);
    assert_eq!(requests(&source), ["WATCH rv= initial"]);
}

#[tokio::test(start_paused = true)]
async fn all_pages_are_listed() {
    let names: Vec<String> = (0..1234).map(|number| format!("p{number:04}")).collect();
    let source = Collection::new(CollectionConfig { watch_cache: false, ..CollectionConfig::default() });
    names.iter().for_each(|name| _ = source.put(pod(name, "")));
    let informer = SharedInformer::<Pod>::new(source.clone(), InformerConfig::default());
    informer.start();
    informer.wait_for_sync().await.unwrap();
    settle().await;
    assert_eq!(informer.lister().len(), 1234);
    let next = "LIST rv= limit=500 next";
    assert_eq!(requests(&source), ["LIST rv=0 limit=500", next, next, "WATCH rv=1234"]);
}

#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_a_response() {
    let hung: [fn(&Collection<Pod>); 4] = [
        |source| source.faults().next_of(Verb::List, [Outcome::Lost]),
        |source| source.faults().next_of(Verb::Watch, [Outcome::Lost]),
        |source| source.faults().next_of(Verb::Watch, [silent()]),
        |source| source.faults().next_of(Verb::List, [Outcome::Fails(refused())]),
    ];
    for hang in hung {
        let source = pods(&["a"]);
        hang(&source);
        let informer: SharedInformer<Pod> = SharedInformer::new(source.clone(), InformerConfig::default());
        informer.start();
        settle().await;
        let before = tokio::time::Instant::now();
        informer.shutdown().await;
        assert_eq!(tokio::time::Instant::now(), before, "time has passed");
        assert_eq!(source.open_watches(), 0);
    }
}
