//! Tests of an operator that is killed, throttled, partitioned from the server, has conflicting writes, or panics.
//! docs/OPERATORS.md refers to these tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::ConfigMap;
use pintle::apiserver::RequestVerb;
use pintle::apiserver::faults::{Answer, Fault, Rule};
use pintle::leaderelect::Lease;
use pintle::operator::OperatorError;
use pintle::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;

use crate::support::{eventually, soon};

#[derive(Resource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[resource(group = "example.com", version = "v1")]
struct Page {
    metadata: ObjectMeta,
    spec: Spec,
    status: Option<Status>,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
struct Spec {
    text: String,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
struct Status {
    conditions: Conditions,
}

async fn publish(page: Arc<Page>, cx: Context<Page>) -> pintle::Result<Action> {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(page.name().into());
    map.data = Some([("text".into(), page.spec.text.clone())].into());
    cx.apply(map).await?;
    cx.apply_status(Status { conditions: cx.ready("Published") }).await?;
    Ok(Action::await_change())
}

fn operator(cluster: &Cluster) -> Manager {
    let controller = Controller::<Page>::new().owns::<ConfigMap>().reconcile(publish);
    Manager::new("page-controller", cluster.clone()).install::<Page>().controller(controller)
}

/// An operator with leader election and short lease durations.
fn candidate(cluster: &Cluster) -> Manager {
    operator(cluster).leader_election_with(LeaderElectionConfig {
        lease_duration: Duration::from_secs(2),
        renew_deadline: Duration::from_millis(1500),
        retry_period: Duration::from_millis(100),
        ..LeaderElectionConfig::default()
    })
}

struct Running {
    stop: CancellationToken,
    task: JoinHandle<Result<(), OperatorError>>,
}

impl Running {
    fn start(manager: Manager) -> Self {
        let stop = CancellationToken::new();
        let token = stop.clone();
        Self { stop, task: tokio::spawn(async move { manager.run(&token).await }) }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }
}

async fn create(cluster: &Cluster, name: &str) {
    let page = Page { metadata: ObjectMeta::new("default", name), spec: Spec { text: "hello".into() }, status: None };
    let pages = cluster.api::<Page>();
    eventually("the page is created", async || pages.create(&page, &WriteOptions::default()).await.ok()).await;
}

async fn until_published(cluster: &Cluster, name: &str) {
    let pages = cluster.namespaced::<Page>("default");
    soon(pages.wait_for_condition(name, &["Ready"])).await.unwrap();
    let map = cluster.namespaced::<ConfigMap>("default").get(name).await.unwrap();
    assert_eq!(map.data.unwrap()["text"], "hello");
}

fn leases(verb: RequestVerb, fault: Fault) -> Rule {
    Rule { verb: Some(verb), resource: Some("leases".into()), times: None, ..Rule::new(fault) }
}

#[tokio::test]
async fn standby_takes_over_from_a_killed_leader() {
    let cluster = Cluster::embedded().await.unwrap();
    let leader = Running::start(candidate(&cluster));
    create(&cluster, "first").await;
    until_published(&cluster, "first").await;
    let server = cluster.server().unwrap();
    let mut config = server.client_config();
    config.user_agent = Some("standby".into());
    let own = Cluster::connect(config).unwrap();
    let standby = candidate(&own);
    let status = standby.status();
    let standby = Running::start(standby);
    let has_synced = || status.controller("page").is_some_and(|controller| controller.unsynced().is_empty());
    eventually("the caches of the standby are filled", async || has_synced().then_some(())).await;
    let list = Rule { verb: Some(RequestVerb::List), times: None, ..Rule::new(Fault::Delay(Duration::ZERO)) };
    let list = server.faults().add(Rule { user_agent: Some("standby".into()), ..list });
    // Abort the operator's tasks without releasing its Lease, as if the process were killed.
    leader.task.abort();
    assert!(leader.task.await.unwrap_err().is_cancelled());
    let leases = cluster.namespaced::<Lease>("default");
    let killed = leases.get("page-controller").await.unwrap().spec;
    create(&cluster, "second").await;
    until_published(&cluster, "second").await;
    let taken = leases.get("page-controller").await.unwrap().spec;
    assert_ne!(taken.holder_identity, killed.holder_identity);
    let (renewed, acquired) = (killed.renew_time.unwrap().0, taken.acquire_time.unwrap().0);
    let waited = SystemTime::from(acquired).duration_since(renewed.into()).unwrap();
    assert!(waited >= Duration::from_secs(2), "the Lease had not expired: {waited:?}");
    assert_eq!(server.faults().hits_of(list), 0, "the standby has filled its caches again");
    standby.stop().await;
    own.shutdown().await;
    cluster.shutdown().await;
}

#[tokio::test]
async fn restarted_operator_finishes_the_work_of_a_killed_one() {
    let cluster = Cluster::embedded().await.unwrap();
    let faults = cluster.server().unwrap().faults();
    // Applies of the ConfigMap succeed, but applies of the status fail.
    let blocked = faults.add(Rule {
        subresource: Some("status".into()),
        times: None,
        ..Rule::new(Fault::Answer(Answer::new(500)))
    });
    let killed = Running::start(operator(&cluster));
    create(&cluster, "page").await;
    let maps = cluster.namespaced::<ConfigMap>("default");
    eventually("the map is applied", async || maps.get("page").await.ok()).await;
    killed.task.abort();
    assert!(killed.task.await.unwrap_err().is_cancelled());
    faults.remove(blocked);
    let restarted = Running::start(operator(&cluster));
    until_published(&cluster, "page").await;
    restarted.stop().await;
    cluster.shutdown().await;
}

#[tokio::test]
async fn throttled_operator_waits_and_converges() {
    let cluster = Cluster::embedded().await.unwrap();
    let running = Running::start(operator(&cluster));
    create(&cluster, "warm-up").await;
    until_published(&cluster, "warm-up").await;
    let busy = Answer { retry_after: Some(1), ..Answer::new(429) };
    let faults = cluster.server().unwrap().faults();
    faults.add(Rule { verb: Some(RequestVerb::Patch), times: Some(2), ..Rule::new(Fault::Answer(busy)) });
    let started = tokio::time::Instant::now();
    create(&cluster, "page").await;
    until_published(&cluster, "page").await;
    assert!(started.elapsed() >= Duration::from_secs(1), "it waits as long as the server asks");
    assert_eq!(faults.hits(), 2, "no request in between");
    running.stop().await;
    cluster.shutdown().await;
}

#[tokio::test]
async fn broken_watches_and_lost_answers_are_survived() {
    let cluster = Cluster::embedded().await.unwrap();
    let faults = cluster.server().unwrap().faults();
    for fault in [Fault::CutAfter(0), Fault::CutMidFrame(0), Fault::Expire] {
        faults.add(Rule { verb: Some(RequestVerb::Watch), times: Some(2), ..Rule::new(fault) });
    }
    let lost = Fault::LoseAnswer(Answer::new(500));
    faults.add(Rule { verb: Some(RequestVerb::Patch), resource: Some("configmaps".into()), ..Rule::new(lost) });
    let running = Running::start(operator(&cluster));
    create(&cluster, "page").await;
    until_published(&cluster, "page").await;
    assert!(faults.hits() >= 3);
    running.stop().await;
    cluster.shutdown().await;
}

#[tokio::test]
async fn leader_without_renewals_stops_writing_until_it_leads_again() {
    let cluster = Cluster::embedded().await.unwrap();
    let leader = Running::start(candidate(&cluster));
    create(&cluster, "page").await;
    until_published(&cluster, "page").await;
    let faults = cluster.server().unwrap().faults();
    faults.add(leases(RequestVerb::Update, Fault::Answer(Answer::new(500))));
    let leases = cluster.namespaced::<Lease>("default");
    eventually("the lease has expired", async || {
        let renewed = leases.get("page-controller").await.unwrap().spec.renew_time.unwrap().0;
        (SystemTime::from(renewed) + Duration::from_secs(2) < SystemTime::now()).then_some(())
    })
    .await;

    let maps = cluster.namespaced::<ConfigMap>("default");
    let edit = Patch::Merge(serde_json::json!({"data": {"text": "edited"}}));
    let edited = maps.patch("page", &edit, &WriteOptions::default()).await.unwrap();
    let hits = faults.hits();
    eventually("it contends again", async || (faults.hits() > hits + 3).then_some(())).await;
    let version = |map: ConfigMap| map.metadata.resource_version;
    assert_eq!(version(maps.get("page").await.unwrap()), version(edited), "it wrote without a lease");

    faults.clear();
    let is_undone =
        |map: Option<&ConfigMap>| map.and_then(|map| map.data.as_ref()).is_some_and(|data| data["text"] == "hello");
    soon(maps.wait_for("page", is_undone)).await.unwrap();
    leader.stop().await;
    cluster.shutdown().await;
}

#[tokio::test]
async fn foreign_edit_of_a_child_is_undone() {
    let cluster = Cluster::embedded().await.unwrap();
    let running = Running::start(operator(&cluster));
    create(&cluster, "page").await;
    until_published(&cluster, "page").await;
    let maps = cluster.namespaced::<ConfigMap>("default");
    let edit = Patch::Merge(serde_json::json!({"data": {"text": "edited", "other": "kept"}}));
    maps.patch("page", &edit, &WriteOptions::default()).await.unwrap();
    let is_undone =
        |map: Option<&ConfigMap>| map.and_then(|map| map.data.as_ref()).is_some_and(|data| data["text"] == "hello");
    let map = soon(maps.wait_for("page", is_undone)).await.unwrap().unwrap();
    assert_eq!(map.data.unwrap()["other"], "kept", "fields of others stay");
    running.stop().await;
    cluster.shutdown().await;
}

#[tokio::test]
async fn conflict_is_retried() {
    let cluster = Cluster::embedded().await.unwrap();
    let faults = cluster.server().unwrap().faults();
    let conflict = Rule { times: Some(2), ..Rule::new(Fault::Answer(Answer::new(409))) };
    faults.add(Rule { verb: Some(RequestVerb::Patch), subresource: Some("status".into()), ..conflict });
    let running = Running::start(operator(&cluster));
    create(&cluster, "page").await;
    until_published(&cluster, "page").await;
    assert_eq!(faults.hits(), 2);
    running.stop().await;
    cluster.shutdown().await;
}

#[tokio::test]
async fn panic_delays_only_its_own_key() {
    let cluster = Cluster::embedded().await.unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let reconcile = move |page: Arc<Page>, cx: Context<Page>| {
        let is_first = page.name() == "bad" && counter.fetch_add(1, Ordering::SeqCst) < 2;
        async move {
            assert!(!is_first, "the reconciler panics twice");
            publish(page, cx).await
        }
    };
    let controller = Controller::<Page>::new().owns::<ConfigMap>().reconcile(reconcile);
    let manager = Manager::new("page-controller", cluster.clone()).install::<Page>().controller(controller);
    let running = Running::start(manager);
    create(&cluster, "bad").await;
    create(&cluster, "good").await;
    until_published(&cluster, "good").await;
    until_published(&cluster, "bad").await;
    assert!(calls.load(Ordering::SeqCst) >= 3);
    running.stop().await;
    cluster.shutdown().await;
}
