//! Tests of informers against the embedded server, with injected faults.

use pintle::apiserver::RequestVerb;
use pintle::apiserver::faults::{Answer, Fault, Rule};
use pintle::informer::{InformerConfig, ReflectorConfig, SharedInformer};
use pintle::meta::{DeleteOptions, Object, ObjectKey, WriteOptions};
use pintle::restreq::Api;

use crate::support::{ConfigMap, client, create, eventually, server};

/// Checks that the cache eventually equals the server's state despite `faults`. The number in each tuple is how often
/// the fault occurs.
async fn converges_despite(faults: Vec<(u32, RequestVerb, Fault)>) {
    let server = server().await;
    let maps: Api<ConfigMap> = Api::namespaced(client(server.client_config()), "default");
    create(&maps, "before").await;
    for (times, verb, fault) in faults {
        let (verb, resource) = (Some(verb), Some("configmaps".into()));
        server.faults().add(Rule { verb, resource, times: Some(times), ..Rule::new(fault) });
    }
    let informer: SharedInformer<ConfigMap> = SharedInformer::new(maps.clone(), InformerConfig::default());
    informer.start();
    informer.wait_for_sync().await.unwrap();
    for number in 0..20 {
        create(&maps, &format!("map-{number}")).await;
    }
    maps.delete("before", &DeleteOptions::default()).await.unwrap();
    let lister = informer.lister();
    eventually("the cache matches the server", async || {
        let gone = lister.get(&ObjectKey::new("default", "before")).is_none();
        (gone && lister.list().iter().filter(|map| map.name().starts_with("map-")).count() == 20).then_some(())
    })
    .await;
    informer.shutdown().await;
    server.shutdown().await;
}

#[tokio::test]
async fn cache_converges_when_watches_expire() {
    converges_despite(vec![(1, RequestVerb::Watch, Fault::CutAfter(3)), (2, RequestVerb::Watch, Fault::Expire)]).await;
}

#[tokio::test]
async fn cache_converges_when_watches_are_cut_mid_frame() {
    converges_despite(vec![(3, RequestVerb::Watch, Fault::CutMidFrame(2))]).await;
}

#[tokio::test]
async fn cache_converges_when_lists_and_watches_are_rejected() {
    let busy = Fault::Answer(Answer { retry_after: Some(0), ..Answer::new(429) });
    converges_despite(vec![(1, RequestVerb::List, Fault::Answer(Answer::new(500))), (2, RequestVerb::Watch, busy)])
        .await;
}

#[tokio::test]
async fn wait_for_version_makes_own_write_visible() {
    let server = server().await;
    let maps: Api<ConfigMap> = Api::namespaced(client(server.client_config()), "default");
    let informer: SharedInformer<ConfigMap> = SharedInformer::new(maps.clone(), InformerConfig::default());
    informer.start();
    informer.wait_for_sync().await.unwrap();
    let lister = informer.lister();
    for number in 0..10 {
        let created = create(&maps, &format!("map-{number}")).await;
        lister.wait_for(created.resource_version()).await.unwrap();
        assert!(lister.get(&created.key()).is_some(), "{}", created.key());
    }
    informer.shutdown().await;
    server.shutdown().await;
}

#[tokio::test]
async fn oversized_object_is_reported_and_others_stay_current() {
    for streaming_list in [false, true] {
        let server = server().await;
        let mut config = server.client_config();
        config.max_object = Some(2000);
        let maps: Api<ConfigMap> = Api::namespaced(client(config), "default");
        let put = async |name: &str, size: usize| {
            let mut map = maps.get(name).await.unwrap();
            map.data.insert("text".into(), "x".repeat(size));
            maps.update(&map, &WriteOptions::default()).await.unwrap();
        };
        for name in ["large", "shrinking", "small"] {
            create(&maps, name).await;
        }
        put("large", 5000).await;
        put("shrinking", 5000).await;
        let reflector = ReflectorConfig { streaming_list, ..ReflectorConfig::default() };
        let config = InformerConfig { reflector, ..InformerConfig::default() };
        let informer: SharedInformer<ConfigMap> = SharedInformer::new(maps.clone(), config);
        informer.start();
        informer.wait_for_sync().await.unwrap();
        let lister = informer.lister();
        let shown = || -> Vec<String> {
            let entries = lister.undecodable();
            assert!(entries.iter().all(|entry| entry.error.contains("exceeds the limit of 2000")), "{entries:?}");
            entries.iter().map(|entry| entry.key.name().to_owned()).collect()
        };
        let size =
            |name: &str| Some(lister.get(&ObjectKey::new("default", name))?.data.get("text").map_or(0, String::len));
        assert_eq!((shown(), size("small"), size("large")), (vec!["large".into(), "shrinking".into()], Some(0), None));

        // A watch event with an oversized object causes the same error as a list with such an object.
        put("shrinking", 1).await;
        create(&maps, "growing").await;
        put("growing", 10).await;
        eventually("one object is small enough again", async || {
            (shown() == ["large"] && size("growing") == Some(10)).then_some(())
        })
        .await;
        put("growing", 5000).await;
        eventually("another object is too large", async || (shown() == ["growing", "large"]).then_some(())).await;
        assert_eq!((size("growing"), size("shrinking")), (Some(10), Some(1)), "the last good state stays");
        maps.delete("growing", &DeleteOptions::default()).await.unwrap();
        maps.delete("large", &DeleteOptions::default()).await.unwrap();
        eventually("the objects are deleted", async || (shown().is_empty() && size("growing").is_none()).then_some(()))
            .await;
        assert!(informer.state().is_synced(), "{:?}", informer.state());
        informer.shutdown().await;
        server.shutdown().await;
    }
}
