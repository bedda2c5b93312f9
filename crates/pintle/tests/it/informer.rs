//! Informers against the embedded server, with faults.

use pintle::apiserver::faults::{Answer, Fault, Rule};
use pintle::informer::{InformerConfig, SharedInformer};
use pintle::meta::{DeleteOptions, Object, ObjectKey};
use pintle::restreq::Api;

use crate::support::{ConfigMap, client, create, eventually, server};

/// Whatever happens to lists and watches, each so many times, the cache comes to say what the server says.
async fn converges_despite(faults: Vec<(u32, &str, Fault)>) {
    let server = server().await;
    let maps: Api<ConfigMap> = Api::namespaced(client(server.client_config()), "default");
    create(&maps, "before").await;
    for (times, verb, fault) in faults {
        let (verb, resource) = (Some(verb.into()), Some("configmaps".into()));
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
    eventually("the cache is as the server", async || {
        let gone = lister.get(&ObjectKey::new("default", "before")).is_none();
        (gone && lister.list().iter().filter(|map| map.name().starts_with("map-")).count() == 20).then_some(())
    })
    .await;
    informer.shutdown().await;
    server.shutdown().await;
}

#[tokio::test]
async fn the_cache_converges_though_watches_expire() {
    converges_despite(vec![(1, "watch", Fault::CutAfter(3)), (2, "watch", Fault::Expire)]).await;
}

#[tokio::test]
async fn the_cache_converges_though_watches_are_cut_within_a_frame() {
    converges_despite(vec![(3, "watch", Fault::CutMidFrame(2))]).await;
}

#[tokio::test]
async fn the_cache_converges_though_lists_and_watches_are_refused() {
    let busy = Fault::Answer(Answer { retry_after: Some(0), ..Answer::new(429) });
    converges_despite(vec![(1, "list", Fault::Answer(Answer::new(500))), (2, "watch", busy)]).await;
}

#[tokio::test]
async fn a_reader_sees_its_own_write_once_it_waits_for_the_version() {
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
