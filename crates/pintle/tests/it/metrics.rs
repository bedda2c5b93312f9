//! Tests that all components of a cluster report to the same metrics provider.

use std::any::Any;
use std::sync::{Arc, Mutex};
use std::thread;

use pintle::leaderelect::LeaderElector;
use pintle::metrics::{Counter, Gauge, Histogram, InMemoryProvider, Metric, Pulled};
use pintle::prelude::*;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::support::{ConfigMap, create, eventually, server, soon};

fn provider(memory: &InMemoryProvider) -> Option<Arc<dyn Provider>> {
    Some(Arc::new(memory.clone()))
}

fn reporting_components(memory: &InMemoryProvider) -> Vec<&'static str> {
    let parts = ["event_broadcaster", "informer", "leader_election", "reflector", "rest_client"];
    let samples = memory.samples();
    let reports = |part: &&str| samples.iter().any(|sample| sample.metric.name.starts_with(part));
    parts.into_iter().filter(reports).collect()
}

#[tokio::test]
async fn provider_gets_all_series_until_their_components_end() {
    let (server, memory) = (server().await, InMemoryProvider::new());
    let config =
        ClusterConfig { client: Some(server.client_config()), metrics: provider(&memory), ..ClusterConfig::default() };
    let cluster = Cluster::connect(config).unwrap();
    assert!(memory.samples().is_empty(), "nothing has been reported yet");
    let map = create(&cluster.api(), "a").await;
    assert_eq!(memory.value("rest_client_requests_total", &[("code", "201"), ("method", "POST")]), Some(1.0));

    let maps = cluster.informer::<ConfigMap>();
    soon(maps.wait_for_sync()).await.unwrap();
    let labels = [("name", "ConfigMap"), ("group", ""), ("version", "v1"), ("resource", "configmaps")];
    assert_eq!(memory.value("reflector_lists_total", &labels), Some(1.0));
    let version = memory.value("informer_store_resource_version", &labels).unwrap();
    assert!(version >= map.metadata.resource_version.parse().unwrap(), "{version}");

    cluster.recorder("probe").event(&map, EventType::Normal, "Probed", "all is well");
    assert_eq!(memory.value("event_broadcaster_recorded_total", &[]), Some(1.0));

    let looking = memory.clone();
    let (status, stop) = ("leader_election_master_status", CancellationToken::new());
    let work = LeaderCallbacks::new(async |_| {
        assert_eq!(looking.value(status, &[("name", "probe")]), Some(1.0));
        // The elector has sent a GET request for the Lease with its own client.
        let missed = looking.value("rest_client_requests_total", &[("code", "404"), ("method", "GET")]);
        assert_eq!(missed, Some(1.0));
    });
    let ended = cluster.run_or_die("probe", LeaderElectionConfig::default(), &stop, work);
    assert_eq!(soon(ended).await.unwrap().unwrap().reason, EndReason::Completed);
    assert_eq!(memory.value(status, &[]), None, "the elector is gone");
    assert_eq!(reporting_components(&memory), ["event_broadcaster", "informer", "reflector", "rest_client"]);

    soon(cluster.shutdown()).await;
    eventually("all series gone", async || memory.samples().is_empty().then_some(())).await;
    assert_eq!(maps.lister().len(), 1, "though a handle is left");
}

#[tokio::test]
async fn component_keeps_its_own_provider() {
    let (server, ours, theirs) = (server().await, InMemoryProvider::new(), InMemoryProvider::new());
    let config =
        ClusterConfig { client: Some(server.client_config()), metrics: provider(&ours), ..ClusterConfig::default() };
    let cluster = Cluster::connect(config).unwrap();
    let election = LeaderElectionConfig { metrics: provider(&theirs), ..LeaderElectionConfig::default() };
    let _elector = cluster.elector("probe", election).unwrap();
    let informer = InformerConfig { metrics: provider(&theirs), ..InformerConfig::default() };
    let _informer = cluster.informers().informer(cluster.api::<ConfigMap>(), informer);
    assert_eq!(reporting_components(&theirs), ["informer", "leader_election", "reflector"]);
    assert_eq!(reporting_components(&ours), ["event_broadcaster"], "which writes for all");
    soon(cluster.shutdown()).await;
}

#[tokio::test]
async fn cluster_without_a_provider_sets_none() {
    let (server, theirs) = (server().await, InMemoryProvider::new());
    let cluster = Cluster::connect(server.client_config()).unwrap();
    let maps = cluster.informer::<ConfigMap>();
    let election = LeaderElectionConfig { metrics: provider(&theirs), ..LeaderElectionConfig::default() };
    let _elector = cluster.elector("probe", election).unwrap();
    soon(maps.wait_for_sync()).await.unwrap();
    assert_eq!(reporting_components(&theirs), ["leader_election"]);
    soon(cluster.shutdown()).await;
}

#[tokio::test]
async fn provider_can_call_back_into_its_cluster() {
    /// A metrics provider that creates an Event recorder on its first call.
    #[derive(Debug, Default)]
    struct Recording(InMemoryProvider, Mutex<Option<Cluster>>);
    impl Provider for Recording {
        fn counter(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Counter> {
            let cluster = self.1.lock().unwrap().take();
            let _recorder = cluster.map(|cluster| cluster.recorder("provider"));
            self.0.counter(metric, labels)
        }
        fn gauge(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Gauge> {
            self.0.gauge(metric, labels)
        }
        fn histogram(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Histogram> {
            self.0.histogram(metric, labels)
        }
        fn pulled(&self, metric: &'static Metric, labels: &[&str], read: Pulled) -> Box<dyn Any + Send + Sync> {
            self.0.pulled(metric, labels, read)
        }
    }
    let server = server().await;
    let recording = Arc::new(Recording::default());
    let config = ClusterConfig {
        client: Some(server.client_config()),
        metrics: Some(recording.clone()),
        ..ClusterConfig::default()
    };
    let cluster = Cluster::connect(config).unwrap();
    *recording.1.lock().unwrap() = Some(cluster.clone());
    // Use a separate thread, so that a deadlock fails the test instead of hanging it.
    let ((sender, receiver), handle) = (oneshot::channel(), Handle::current());
    let recording_cluster = cluster.clone();
    thread::spawn(move || {
        let _runtime = handle.enter();
        sender.send(recording_cluster.recorder("probe"))
    });
    let recorder = soon(receiver).await.unwrap();
    recorder.event(&ConfigMap::new("a"), EventType::Normal, "Probed", "all is well");
    assert_eq!(recording.0.value("event_broadcaster_recorded_total", &[]), Some(1.0));
    soon(cluster.shutdown()).await;
}

#[tokio::test]
async fn every_lock_kind_records_events_and_metrics() {
    let (server, memory) = (server().await, InMemoryProvider::new());
    let config =
        ClusterConfig { client: Some(server.client_config()), metrics: provider(&memory), ..ClusterConfig::default() };
    let cluster = Cluster::connect(config).unwrap();
    let mut recorded = 0.0;
    for name in ["leases", "configmaps", "endpoints", "configmapsleases", "endpointsleases"] {
        let config = LeaderElectionConfig::default();
        let key = format!("default/{name}");
        let lock = cluster.lock(name.parse().unwrap(), key.as_str(), config.renew_deadline).unwrap();
        let mut elector = LeaderElector::new(lock, config).unwrap();
        let (stop, work) = (CancellationToken::new(), LeaderCallbacks::new(async |_: Leadership| ()));
        assert_eq!(soon(elector.run(&stop, work)).await.unwrap().reason, EndReason::Completed, "{name}");
        assert_eq!(memory.value("leader_election_terms_total", &[("name", name)]), Some(1.0), "{name}");
        // The elector has recorded two Events: one when it became the leader, and one when it stopped leading.
        recorded += 2.0;
        assert_eq!(memory.value("event_broadcaster_recorded_total", &[]), Some(recorded), "{name}");
    }
    soon(cluster.shutdown()).await;
}
