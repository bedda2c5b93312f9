//! Tests of the informers, recorders and other components that all users of a cluster share.

use pintle::events::Event;
use pintle::informer::Namespaces;
use pintle::prelude::*;

use crate::support::{ConfigMap, soon};

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(serde_json::json!({"metadata": {"name": name, "namespace": "default"}})).unwrap()
}

#[tokio::test]
async fn same_settings_return_the_shared_informer() {
    let cluster = Cluster::embedded().await.unwrap();
    let all = cluster.informer::<ConfigMap>();
    let again = cluster.clone().informer::<ConfigMap>();
    let labelled = ReflectorConfig { label_selector: "a=b".parse().unwrap(), ..ReflectorConfig::default() };
    let selected = cluster
        .informer_with(cluster.api::<ConfigMap>(), InformerConfig { reflector: labelled, ..InformerConfig::default() });
    let one = || cluster.informer_with(cluster.namespaced::<ConfigMap>("default"), InformerConfig::default());
    all.add_index("probe", |_| Vec::new()).unwrap();
    again.add_index("probe", |_| Vec::new()).unwrap_err();
    selected.add_index("probe", |_| Vec::new()).unwrap();
    let (held, shared) = (one(), one());
    held.add_index("probe", |_| Vec::new()).unwrap();
    shared.add_index("probe", |_| Vec::new()).unwrap_err();
    drop((held, shared));
    one().add_index("probe", |_| Vec::new()).expect("a new informer after the last user of the old one");

    cluster.api().create(&map("a"), &WriteOptions::default()).await.unwrap();
    soon(again.wait_for_sync()).await.unwrap();
    soon(selected.wait_for_sync()).await.unwrap();
    let mut events = again.subscribe();
    while soon(events.next()).await.expect("the informer is running").object().metadata.name != "a" {}
    assert!(selected.lister().is_empty());
    let other = cluster.clone();
    soon(cluster.shutdown()).await;
    while soon(events.next()).await.is_some() {}
    // Informers and recorders that are created after the shutdown do nothing.
    soon(other.informer::<ConfigMap>().wait_for_sync()).await.unwrap_err();
    other.recorder("late").event(&map("a"), EventType::Normal, "Late", "never written");
}

#[tokio::test]
async fn informer_of_namespaces_follows_changes_of_the_set() {
    let cluster = Cluster::embedded().await.unwrap();
    cluster.api().create(&map("a"), &WriteOptions::default()).await.unwrap();
    let namespaces = Namespaces::new(["kube-system"]);
    let maps = cluster.informer_of_namespaces::<ConfigMap>(&namespaces, InformerConfig::default());
    let again = cluster.informer_of_namespaces::<ConfigMap>(&namespaces.clone(), InformerConfig::default());
    soon(maps.wait_for_sync()).await.unwrap();
    assert!(maps.lister().namespace("default").is_empty());
    namespaces.set(["default"]);
    soon(again.wait_for_sync()).await.unwrap();
    assert!(maps.lister().namespace("default").get("a").is_some());
    soon(cluster.shutdown()).await;
}

#[tokio::test]
async fn shutdown_writes_pending_events() {
    let cluster = Cluster::embedded().await.unwrap();
    let maps = cluster.api::<ConfigMap>();
    let stored = maps.create(&map("a"), &WriteOptions::default()).await.unwrap();
    cluster.recorder("probe").event(&stored, EventType::Normal, "Probed", "all is well");
    let other = cluster.clone();
    soon(cluster.shutdown()).await;
    let written: Api<Event> = other.namespaced("");
    let written = written.list(&ListOptions::default()).await.unwrap().items;
    assert_eq!(written.iter().map(|event| event.source.component.as_str()).collect::<Vec<_>>(), ["probe"]);
}

#[tokio::test]
async fn run_or_die_releases_the_lease_after_the_work() {
    let cluster = Cluster::embedded().await.unwrap();
    let stop = CancellationToken::new();
    for candidate in ["first", "second"] {
        let callbacks = LeaderCallbacks::new(|leadership: Leadership| async move { leadership.check().unwrap() });
        let ended = cluster.run_or_die(
            "kube-system/probe",
            LeaderElectionConfig { identity: candidate.into(), ..LeaderElectionConfig::default() },
            &stop,
            callbacks,
        );
        assert_eq!(soon(ended).await.unwrap().unwrap().reason, EndReason::Completed, "{candidate}");
    }
    let leases: Api<pintle::leaderelect::Lease> = cluster.api();
    assert_eq!(leases.get("kube-system/probe").await.unwrap().spec.record().holder_identity, "");

    let stop = CancellationToken::new();
    stop.cancel();
    let callbacks = LeaderCallbacks::new(|_| async {});
    let never = cluster.run_or_die(
        "kube-system/probe",
        LeaderElectionConfig { identity: "late".into(), ..LeaderElectionConfig::default() },
        &stop,
        callbacks,
    );
    assert!(soon(never).await.unwrap().is_none());
}

#[tokio::test]
async fn other_requests_do_not_delay_an_election() {
    let server = Cluster::embedded().await.unwrap();
    let mut config = server.config().clone();
    (config.qps, config.burst) = (Some(1e-6), Some(1));
    let cluster = Cluster::connect(config).unwrap();
    cluster.api::<ConfigMap>().list(&ListOptions::default()).await.unwrap();
    // The election must use its own client, because the rate limiter of the cluster's client would delay its next
    // request for days.
    let stop = CancellationToken::new();
    let callbacks = LeaderCallbacks::new(|_| async {});
    let ended = cluster.run_or_die("probe", LeaderElectionConfig::default(), &stop, callbacks);
    assert_eq!(soon(ended).await.unwrap().unwrap().reason, EndReason::Completed);
}

#[tokio::test]
async fn invalid_configuration_fails_before_any_request() {
    let error = Cluster::connect(ClientConfig::new("ftp://host")).unwrap_err().to_string();
    assert!(error.contains("ftp://host"), "{error}");
    let cluster = Cluster::connect(ClientConfig::new("http://127.0.0.1:1")).unwrap();
    let error = cluster.elector("kube-system/lock/1", LeaderElectionConfig::default()).unwrap_err().to_string();
    assert!(error.contains("\"kube-system/lock/1\""), "{error}");
    let error = cluster
        .elector("lock", LeaderElectionConfig { identity: "".into(), ..LeaderElectionConfig::default() })
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("leader election: "), "{error}");
}
