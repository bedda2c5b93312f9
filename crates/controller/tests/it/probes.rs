//! Tests of an HTTP service that answers probes and metric scrapes from the manager's status.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::sync::{Arc, OnceLock};

use pintle_controller::{Controller, ControllerConfig, Health, Manager, ManagerStatus, Trigger};
use pintle_leaderelect::{LeaderElectionConfig, Lease};
use pintle_metrics::{Counter, Gauge, Histogram, InMemoryProvider, Metric, Provider, Pulled};
use pintle_testing::Collection;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::recorder::{Recorder, TestMetrics, pass};
use crate::support::{elector_of, forbid, informer, sites_named};

async fn serve(
    listener: TcpListener,
    status: ManagerStatus,
    registry: Registry,
    stop: CancellationToken,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let text = |health: Health| (if health.is_ok() { 200 } else { 500 }, health.to_string());
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        let mut stream = BufReader::new(accepted?.0);
        let mut request = String::new();
        stream.read_line(&mut request).await?;
        let (code, body) = match request.split(' ').nth(1) {
            Some("/healthz") => text(status.health()),
            Some("/readyz") => text(status.ready()),
            Some("/metrics") => {
                let mut text = String::new();
                encode(&mut text, &registry)?;
                (200, text)
            }
            _ => (404, String::new()),
        };
        stream.write_all(format!("HTTP/1.0 {code} -\r\n\r\n{body}").as_bytes()).await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn service_answers_probes_and_scrapes_from_the_status() {
    let (leases, sites) = (Collection::<Lease>::default(), sites_named(&["x"]));
    forbid(sites.faults());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let manager = Manager::new();
    let (status, metrics, mut registry) = (manager.status(), TestMetrics::default(), Registry::default());
    registry.register_collector(Box::new(metrics.0.clone()));
    let election = LeaderElectionConfig { metrics: metrics.provider(), ..LeaderElectionConfig::default() };
    let manager = manager
        .service("probes", move |stop| serve(listener, status, registry, stop))
        .controller(Controller::of(&informer(&sites)).config(metrics.config()).reconciler(Recorder::new()))
        .leader_election(elector_of(&leases.client("a"), election));
    let stop = CancellationToken::new();
    let token = stop.clone();
    let task = tokio::spawn(async move { manager.run(&token).await });
    let ask = async |path: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    pass(1.0).await;
    let answer = ask("/readyz").await;
    assert!(answer.starts_with("HTTP/1.0 500 ") && answer.contains("you may not list this"), "{answer}");
    sites.faults().heal();
    pass(60.0).await;
    assert!(ask("/readyz").await.ends_with("\r\n[+]site ok\n[+]leaderElection ok\ncheck passed\n"));
    assert!(ask("/healthz").await.contains("[+]leaderElection ok"));
    let metrics = ask("/metrics").await;
    for sample in ["leader_election_master_status{name=\"lock\"} 1", "controller=\"site\",result=\"success\"} 1"] {
        assert!(metrics.contains(sample), "{sample} is not in {metrics}");
    }
    stop.cancel();
    task.await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[test]
fn status_debug_calls_user_code_without_its_lock() {
    /// A metrics provider whose `Debug` implementation formats the manager's status once, although the status contains
    /// this provider.
    #[derive(Clone, Default)]
    struct Curious {
        status: Arc<OnceLock<ManagerStatus>>,
        seen: Arc<OnceLock<String>>,
    }
    impl fmt::Debug for Curious {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            static ASKED: OnceLock<()> = OnceLock::new();
            if let (Some(status), Ok(())) = (self.status.get(), ASKED.set(())) {
                self.seen.set(format!("{status:?}")).unwrap();
            }
            f.write_str("curious")
        }
    }
    impl Provider for Curious {
        fn counter(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Counter> {
            InMemoryProvider::default().counter(metric, labels)
        }

        fn gauge(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Gauge> {
            InMemoryProvider::default().gauge(metric, labels)
        }

        fn histogram(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Histogram> {
            InMemoryProvider::default().histogram(metric, labels)
        }

        fn pulled(&self, metric: &'static Metric, labels: &[&str], read: Pulled) -> Box<dyn Any + Send + Sync> {
            InMemoryProvider::default().pulled(metric, labels, read)
        }
    }
    let curious = Curious::default();
    let config = ControllerConfig { metrics: Some(Arc::new(curious.clone())), ..ControllerConfig::default() };
    let controller = Controller::named("hand").source(Trigger::new()).config(config).reconciler(Recorder::new());
    let status = Manager::new().controller(controller).status();
    curious.status.set(status.clone()).unwrap();
    let text = format!("{status:?}");
    let seen = curious.seen.get().unwrap();
    for text in [&text, seen] {
        assert!(text.contains("\"hand\"") && text.contains("curious") && !text.contains("<locked>"), "{text}");
    }
}
