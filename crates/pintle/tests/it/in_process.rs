//! Our own client on a server of the same process, without a socket.

use pintle::leaderelect::Lease;
use pintle::prelude::*;
use pintle::restreq::{Error, TransportLayer};

use crate::support::{ConfigMap, create, eventually, server, soon};

/// A cluster whose clients have nothing to connect to: there is no such host.
fn without_sockets(server: &pintle::apiserver::ApiServer) -> Cluster {
    let config = ClusterConfig {
        client: Some(ClientConfig::new("http://cluster.invalid")),
        transport: Some(TransportLayer::in_place(server.in_process())),
        ..ClusterConfig::default()
    };
    Cluster::connect(config).expect("a usable configuration")
}

#[tokio::test]
async fn an_informer_follows_and_an_elector_leads_without_a_socket() {
    let server = server().await;
    let cluster = without_sockets(&server);
    let maps = cluster.informer::<ConfigMap>();
    soon(maps.wait_for_sync()).await.expect("it syncs");
    let made = create(&cluster.api(), "settings").await;
    let lister = maps.lister();
    eventually("the informer hears of it", async || lister.get(&made.key())).await;

    let elector = LeaderElectionConfig { identity: "me".into(), ..LeaderElectionConfig::default() };
    let (api, stop) = (cluster.namespaced::<ConfigMap>("default"), CancellationToken::new());
    let leases: Api<Lease> = cluster.namespaced("default");
    let work = LeaderCallbacks::new(|_: Leadership| {
        let (api, leases) = (api.clone(), leases.clone());
        Box::pin(async move {
            let lease = leases.get("lock").await.expect("it is led by");
            assert_eq!(lease.spec.holder_identity.as_deref(), Some("me"));
            create(&api, "by-the-leader").await
        })
    });
    let ended = soon(cluster.lead("default/lock", elector, &stop, work)).await.expect("a usable configuration");
    let by_leader = ended.expect("a term").work.expect("it was not dropped").expect("it did not panic");
    eventually("the informer hears of that, too", async || lister.get(&by_leader.key())).await;

    let audit = server.audit();
    assert_eq!(audit.clone().of("", "configmaps").writes().len(), 2);
    assert!(audit.of("coordination.k8s.io", "leases").writes().len() >= 2, "taken and released");
    soon(cluster.shutdown()).await;
    soon(server.shutdown()).await;
}

#[tokio::test]
async fn a_server_that_has_ended_is_told_of_as_a_failure_of_the_transport() {
    let server = server().await;
    let cluster = without_sockets(&server);
    let absent = cluster.namespaced::<ConfigMap>("default").get("nothing").await.expect_err("there is none");
    assert!(absent.is_not_found());
    server.shutdown().await;
    let error = soon(cluster.client().post().abs_path(["/api"]).send()).await.expect_err("nobody is there");
    assert!(matches!(error, Error::Transport { .. }), "{error:?}");
    soon(cluster.shutdown()).await;
}
