//! Tests with selectors that change while an informer runs.

use pintle_informer::{InformerConfig, InformerFactory, ReflectorConfig, SharedInformer};
use pintle_meta::{FieldSelector, LabelSelector};
use pintle_testing::{Collection, Outcome, Verb};

use crate::support::{Pod, cut, drain_sorted, pod, requests, settle};

fn labelled(app: char) -> Pod {
    let mut pod = pod(&app.to_string(), "");
    pod.metadata.labels.insert("app".into(), app.into());
    pod
}

fn labelled_all(apps: &str) -> Collection<Pod> {
    apps.chars().map(labelled).collect()
}

fn selector(text: &str) -> LabelSelector {
    text.parse().unwrap()
}

fn config(label_selector: &str, streaming_list: bool) -> InformerConfig<Pod> {
    let reflector =
        ReflectorConfig { label_selector: selector(label_selector), streaming_list, ..ReflectorConfig::default() };
    InformerConfig { reflector, ..InformerConfig::default() }
}

fn names(informer: &SharedInformer<Pod>) -> String {
    let mut names: Vec<String> = informer.lister().list().iter().map(|pod| pod.metadata.name.clone()).collect();
    names.sort();
    names.concat()
}

async fn round() {
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
}

#[tokio::test(start_paused = true)]
async fn changed_selectors_delete_and_add_objects() {
    for streaming_list in [false, true] {
        let source = labelled_all("abc");
        let informer = SharedInformer::new(source.clone(), config("app in (a,b)", streaming_list));
        let mut events = informer.subscribe();
        informer.start();
        informer.wait_for_sync().await.unwrap();
        assert_eq!(drain_sorted(&mut events).await, ["A! a@1", "A! b@2"]);
        informer.set_selectors(selector("app in (b,c)"), FieldSelector::everything()).unwrap();
        round().await;
        assert_eq!(drain_sorted(&mut events).await, ["A c@3", "D? a@1"]);
        assert!(informer.state().is_synced());

        requests(&source);
        informer.set_selectors(selector("app in (c,b)"), FieldSelector::everything()).unwrap();
        round().await;
        assert!(requests(&source).is_empty(), "the set is equal");
        source.put(labelled('b'));
        assert_eq!(drain_sorted(&mut events).await, ["U b@2..4"]);
    }
}

#[tokio::test(start_paused = true)]
async fn wait_after_a_selector_change_covers_the_change() {
    for streaming_list in [false, true] {
        let source = labelled_all("abc");
        let informer = SharedInformer::new(source.clone(), config("app=a", streaming_list));
        informer.start();
        informer.wait_for_sync().await.unwrap();
        for selected in ["b", "c", "a"] {
            informer.set_selectors(selector(&format!("app={selected}")), FieldSelector::everything()).unwrap();
            informer.wait_for_sync().await.unwrap();
            assert_eq!(names(&informer), selected);
        }
        for selected in ["b", "c", "a"] {
            informer.set_selectors(selector(&format!("app={selected}")), FieldSelector::everything()).unwrap();
            informer.lister().wait_for("1").await.unwrap();
            assert_eq!(names(&informer), selected);
        }
        source.faults().next_of(Verb::List, [Outcome::Fails(cut())]);
        informer.set_selectors(selector("app=b"), FieldSelector::everything()).unwrap();
        tokio::task::yield_now().await;
        informer.set_selectors(selector("app=c"), FieldSelector::everything()).unwrap();
        let waits = async { tokio::join!(informer.wait_for_sync(), informer.wait_for_sync()) };
        let (one, other) = waits.await;
        one.and(other).unwrap();
        assert_eq!(names(&informer), "c");
    }
}

#[tokio::test(start_paused = true)]
async fn selector_change_during_a_list_causes_another_list() {
    let source = labelled_all("abc");
    let mut config = config("app=a", false);
    config.reflector.page_size = Some(1);
    let informer = SharedInformer::new(source.clone(), config);
    informer.set_selectors(selector("app=b"), FieldSelector::everything()).unwrap();
    informer.start();
    informer.wait_for_sync().await.unwrap();
    assert_eq!(names(&informer), "b", "selected before the start");
    // The selectors change after a list and before its watch.
    source.faults().next_of(Verb::Watch, [Outcome::Fails(cut())]);
    informer.set_selectors(selector("app=a"), FieldSelector::everything()).unwrap();
    tokio::task::yield_now().await;
    informer.set_selectors(selector("app=c"), FieldSelector::everything()).unwrap();
    round().await;
    round().await;
    assert_eq!(names(&informer), "c");
    assert!(informer.state().is_synced());
}

/// Otherwise, a change of the selectors by one caller would cause deletion events for another caller's
/// objects.
#[tokio::test(start_paused = true)]
async fn shared_informer_rejects_selector_changes() {
    let source = labelled_all("ab");
    let factory = InformerFactory::new();
    let first = factory.informer(source.clone(), InformerConfig::default());
    let second = factory.informer(source.clone(), InformerConfig::default());
    factory.start();
    let mut events = first.subscribe();
    first.wait_for_sync().await.unwrap();
    settle().await;
    while events.try_next().is_some() {}

    let refused = second.set_selectors(selector("app=a"), FieldSelector::everything()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        r#"the informer "Pod" is shared by a factory, so its selectors cannot change: ask the factory for an informer with the new selectors, or make one with SharedInformer::new"#
    );
    settle().await;
    assert_eq!((events.len(), first.lister().len()), (0, 2));
    let narrow = factory.informer(source.clone(), config("app=a", false));
    factory.start();
    narrow.wait_for_sync().await.unwrap();
    assert_eq!((narrow.lister().len(), first.lister().len()), (1, 2), "as the error suggests");
    factory.shutdown().await;
}
