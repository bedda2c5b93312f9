//! Sharing informers.

use pintle_informer::{InformerFactory, InformerState, SharedInformer};
use pintle_meta::{ApiResource, Resource, Scope};

use crate::support::source::{Fault, Source};
use crate::support::{Pod, failure, settle};

#[tokio::test(start_paused = true)]
async fn the_same_resource_in_the_same_scope_is_one_informer() {
    let source = Source::with(&["a"]);
    let factory = InformerFactory::new();
    let list_watch = || source.clone();
    let all = factory.informer::<Pod, _>(None, list_watch);
    let again = factory.informer::<Pod, Source>(None, || panic!("it is there"));
    let one = factory.informer::<Pod, _>(Some("ns"), list_watch);
    let other = ApiResource::new("example.com/v1", "Pod", "pods", Scope::Namespaced);
    let other = factory.informer_of(&other, None, || SharedInformer::<Pod>::builder(source.clone()).name("other"));
    assert_ne!(Pod::api_resource().gvr().group, "example.com");

    factory.start();
    factory.start();
    factory.wait_for_sync().await.unwrap();
    for informer in [&all, &again, &one, &other] {
        assert_eq!(informer.lister().len(), 1);
    }
    settle().await;
    assert_eq!(source.open_watches(), 3);
    factory.shutdown().await;
    assert_eq!(source.open_watches(), 0);
    assert!(matches!(again.state(), InformerState::Stopped));
}

#[tokio::test(start_paused = true)]
async fn who_asks_later_is_started_by_the_next_start() {
    let (first, second) = (Source::with(&["a"]), Source::with(&["b"]));
    let factory = InformerFactory::new();
    factory.informer::<Pod, _>(Some("first"), || first.clone());
    factory.start();
    let late = factory.informer::<Pod, _>(Some("second"), || second.clone());
    settle().await;
    assert!(!late.has_synced());
    factory.start();
    factory.wait_for_sync().await.unwrap();
    assert_eq!(first.requests().len(), 2, "the first was not started again");

    factory.shutdown().await;
    let too_late = factory.informer::<Pod, _>(Some("third"), Source::default);
    factory.start();
    settle().await;
    assert!(!too_late.has_synced());
}

#[tokio::test(start_paused = true)]
async fn who_holds_up_the_others_is_named() {
    let (good, bad) = (Source::default(), Source::default());
    bad.fail_list(Fault::Fails(failure(403, pintle_meta::Reason::Forbidden)));
    let factory = InformerFactory::new();
    factory.informer_of(&Pod::api_resource(), Some("x"), || SharedInformer::<Pod>::builder(bad.clone()).name("bad"));
    factory.informer_of(&Pod::api_resource(), None, || SharedInformer::<Pod>::builder(good.clone()).name("good"));
    assert_eq!(factory.unsynced(), ["bad", "good"]);
    factory.start();
    settle().await;
    assert_eq!(factory.unsynced(), ["bad"]);
    factory.wait_for_sync().await.unwrap();
    assert!(factory.unsynced().is_empty());
}

#[tokio::test(start_paused = true)]
async fn dropping_the_factory_leaves_running_what_others_hold() {
    let source = Source::with(&["a"]);
    let factory = InformerFactory::new();
    let held = factory.informer::<Pod, _>(None, || source.clone());
    factory.informer::<Pod, _>(Some("ns"), || source.clone());
    factory.start();
    factory.wait_for_sync().await.unwrap();
    settle().await;
    assert_eq!(source.open_watches(), 2);
    drop(factory);
    settle().await;
    assert_eq!(source.open_watches(), 1);
    drop(held);
    settle().await;
    assert_eq!(source.open_watches(), 0);
}
