//! Tests with the client and the server in the same process, without sockets.

use pintle::leaderelect::Lease;
use pintle::meta::ErrorKind;
use pintle::prelude::*;
use pintle::restreq::TransportLayer;

use crate::support::{ConfigMap, create, eventually, server, soon};

/// Connects to `server` without a socket. The host in the URL does not exist, so a client that opens a socket fails.
fn without_sockets(server: &pintle::apiserver::ApiServer) -> Cluster {
    let config = ClusterConfig {
        client: Some(ClientConfig::new("http://cluster.invalid")),
        transport: Some(TransportLayer::in_place(server.in_process())),
        ..ClusterConfig::default()
    };
    Cluster::connect(config).expect("a usable configuration")
}

#[tokio::test]
async fn informer_and_elector_work_without_a_socket() {
    let server = server().await;
    let cluster = without_sockets(&server);
    let maps = cluster.informer::<ConfigMap>();
    soon(maps.wait_for_sync()).await.expect("the informer syncs");
    let made = create(&cluster.api(), "settings").await;
    let lister = maps.lister();
    eventually("the informer sees the object", async || lister.get(&made.key())).await;

    let elector = LeaderElectionConfig { identity: "me".into(), ..LeaderElectionConfig::default() };
    let (api, stop) = (cluster.namespaced::<ConfigMap>("default"), CancellationToken::new());
    let leases: Api<Lease> = cluster.namespaced("default");
    let work = LeaderCallbacks::new(|_: Leadership| {
        let (api, leases) = (api.clone(), leases.clone());
        Box::pin(async move {
            let lease = leases.get("lock").await.expect("the lease exists");
            assert_eq!(lease.spec.holder_identity.as_deref(), Some("me"));
            create(&api, "by-the-leader").await
        })
    });
    let ended = soon(cluster.run_or_die("default/lock", elector, &stop, work)).await.expect("a usable configuration");
    let by_leader = ended.expect("a term").work.expect("the work finished").expect("it did not panic");
    eventually("the informer sees the leader's object", async || lister.get(&by_leader.key())).await;

    let audit = server.audit();
    assert_eq!(audit.clone().of("", "configmaps").writes().len(), 2);
    assert!(audit.of("coordination.k8s.io", "leases").writes().len() >= 2, "acquired and released");
    soon(cluster.shutdown()).await;
    soon(server.shutdown()).await;
}

#[tokio::test]
async fn stopped_server_returns_a_transport_error() {
    let server = server().await;
    let cluster = without_sockets(&server);
    let absent = cluster.namespaced::<ConfigMap>("default").get("nothing").await.expect_err("no such object");
    assert!(absent.is_not_found());
    server.shutdown().await;
    let error = soon(cluster.client().post().abs_path(["/api"]).send()).await.expect_err("the server has stopped");
    assert!(matches!(error.kind, ErrorKind::Transport(_)), "{error:?}");
    soon(cluster.shutdown()).await;
}
