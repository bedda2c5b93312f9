//! Tests of key types other than `ObjectKey`.

use std::future::pending;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use pintle_controller::{
    Action, Builder, CauseReason, Controller, ControllerConfig, ControllerError, EnqueueMapped, EventChange, Manager,
    QueueSetup, ReconcileError, ReconcileRequest, Reconciler, Trigger, WorkState,
};
use pintle_leaderelect::Lease;
use pintle_meta::{Object, ObjectKey, ObjectMeta};
use pintle_testing::Collection;
use pintle_workqueue::Fair;
use tokio_util::sync::CancellationToken;

use crate::blocking::until;
use crate::recorder::{Recorder, TestMetrics, pass, run};
use crate::support::{Child, Site, elector, informer, key, sites_named, take_lease_over};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Tenant(String);

fn tenant(name: &str) -> Tenant {
    Tenant(name.into())
}

fn tenant_of<T: Object>(object: &T) -> Option<Tenant> {
    object.metadata().labels().get("tenant").map(|name| tenant(name))
}

fn of_tenant(name: &str, tenant: &str) -> ObjectMeta {
    let mut metadata = ObjectMeta::new("ns", name);
    metadata.labels.insert("tenant".into(), tenant.into());
    metadata
}

fn site(name: &str, tenant: &str) -> Site {
    Site { metadata: of_tenant(name, tenant) }
}

fn child(name: &str, tenant: &str) -> Child {
    Child { metadata: of_tenant(name, tenant) }
}

fn tenants(sites: &Collection<Site>, children: &Collection<Child>) -> Builder<Tenant> {
    Controller::named("tenants")
        .watches(&informer(sites), EnqueueMapped::new(tenant_of::<Site>))
        .watches(&informer(children), EnqueueMapped::new(tenant_of::<Child>))
}

/// Records the tenant and the number of failures of each request. Requests for the tenant `failing` fail, and requests
/// for the tenant `slow` never complete.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<Vec<(String, u32)>>>);

impl Calls {
    fn take(&self) -> Vec<(String, u32)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    fn take_sorted_names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.take().into_iter().map(|(name, _)| name).collect();
        names.sort();
        names
    }
}

impl Reconciler<Tenant> for Calls {
    async fn reconcile(&self, request: ReconcileRequest<Tenant>) -> Result<Action, ReconcileError> {
        let Tenant(name) = request.key;
        self.0.lock().unwrap().push((name.clone(), request.failures));
        match &*name {
            "failing" => Err(ReconcileError::new("the quota is used up")),
            "slow" => pending().await,
            _ => Ok(Action::await_change()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn objects_with_the_same_key_lead_to_one_call() {
    let sites: Collection<Site> = [site("a", "acme"), site("b", "acme"), site("c", "globex")].into_iter().collect();
    sites.put(Site::named("of-no-tenant"));
    let children = Collection::from([child("d", "acme"), child("e", "initech")]);
    let calls = Calls::default();
    let config = ControllerConfig { max_concurrent_reconciles: 4, ..ControllerConfig::default() };
    let running = run(&tenants(&sites, &children).config(config).reconciler(calls.clone())).await;
    pass(1.0).await;
    assert_eq!(calls.take_sorted_names(), ["acme", "globex", "initech"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn move_and_deletion_of_an_object_reconcile_its_tenants() {
    let sites = Collection::from([site("a", "acme"), site("b", "acme")]);
    let (children, calls) = (Collection::default(), Calls::default());
    let running = run(&tenants(&sites, &children).reconciler(calls.clone())).await;
    pass(1.0).await;
    calls.take();
    sites.put(site("a", "globex"));
    pass(1.0).await;
    assert_eq!(calls.take_sorted_names(), ["acme", "globex"]);
    assert!(sites.remove(&key("b")));
    pass(1.0).await;
    assert_eq!(calls.take_sorted_names(), ["acme"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn next_term_reconciles_tenants_of_deleted_objects() {
    let (leases, sites) = (Collection::<Lease>::default(), Collection::from([site("a", "acme"), site("b", "globex")]));
    let (children, calls) = (Collection::default(), Calls::default());
    let controller = tenants(&sites, &children).reconciler(calls.clone());
    let manager = Manager::new().controller(controller).leader_election(elector(&leases.client("a"), "a"));
    let stop = CancellationToken::new();
    let token = stop.clone();
    let run = tokio::spawn(async move { manager.run(&token).await });
    pass(1.0).await;
    assert_eq!(calls.take_sorted_names(), ["acme", "globex"]);
    take_lease_over(&leases, "stranger");
    pass(3.0).await;
    assert!(sites.remove(&key("a")));
    pass(60.0).await;
    assert_eq!(calls.take_sorted_names(), ["acme", "globex"]);
    stop.cancel();
    run.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn failing_tenant_backs_off_and_is_explained() {
    let sites = Collection::from([site("a", "failing"), site("b", "failing"), site("c", "acme")]);
    let (calls, metrics) = (Calls::default(), TestMetrics::default());
    let config = ControllerConfig { metrics: metrics.provider(), ..ControllerConfig::default() };
    let controller = tenants(&sites, &Collection::default()).config(config).reconciler(calls.clone());
    assert_eq!(controller.explain(&tenant("acme")).state, WorkState::NotRunning);
    let running = run(&controller).await;
    pass(100.0).await;
    let failures: Vec<_> = calls.take().into_iter().filter(|(name, _)| name == "failing").map(|call| call.1).collect();
    assert_eq!(failures, (0..15).collect::<Vec<_>>(), "the delays are 5 ms, 10 ms, and so on up to 82 s");
    assert_eq!(metrics.results(), [1.0, 0.0, 15.0]);

    let failing = controller.explain(&tenant("failing"));
    assert!(matches!(failing.state, WorkState::RetryIn(left) if left > Duration::from_secs(30)), "{failing}");
    let text = failing.to_string();
    assert!(text.starts_with("Tenant(\"failing\"): waits ") && text.contains("the quota is used up"), "{text}");
    let ranked: Vec<_> = controller.most_failing(9).into_iter().map(|(key, _)| key).collect();
    assert_eq!(ranked, [tenant("failing")]);

    let causes = controller.explain(&tenant("acme")).history.unwrap().causes;
    let CauseReason::Event { change, object, .. } = &causes[0].reason else { panic!("{causes:?}") };
    assert_eq!((change, object), (&EventChange::Listed, &key("c")), "the cause names the object, not the tenant");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stop_timeout_names_the_unfinished_tenants() {
    let (trigger, calls) = (Trigger::new(), Calls::default());
    let config = ControllerConfig { graceful_shutdown_timeout: Duration::from_secs(3), ..ControllerConfig::default() };
    let controller = Controller::named("tenants").source(trigger.clone()).config(config).reconciler(calls.clone());
    let running = run(&controller).await;
    trigger.trigger(tenant("slow"));
    pass(1.0).await;
    trigger.trigger(tenant("acme"));
    let error = running.stop().await.unwrap_err();
    let ControllerError::StopTimedOut { unfinished, .. } = &error else { panic!("{error}") };
    let (in_flight, queued) = ("Tenant(\"slow\")".to_owned(), "Tenant(\"acme\")".to_owned());
    assert_eq!((&unfinished.in_flight, &unfinished.queued), (&vec![in_flight], &vec![queued]));
    assert!(error.to_string().ends_with("in flight: Tenant(\"slow\"); queued: Tenant(\"acme\")"), "{error}");

    calls.take();
    let running = run(&controller).await;
    pass(1.0).await;
    assert_eq!(calls.take_sorted_names(), ["acme", "slow"]);
    running.stop().await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn log_names_the_tenant() {
    let (log, _guard) = crate::log::Log::here();
    let sites = Collection::from([site("a", "failing")]);
    let controller = tenants(&sites, &Collection::default()).reconciler(Calls::default());
    let running = run(&controller).await;
    running.stop().await.unwrap();
    log.assert_tells(&["reconciliation failed", "the quota is used up"]);
    log.assert_tells(&["stopped with unfinished keys", "delayed: Tenant(\"failing\")"]);
}

#[tokio::test(start_paused = true)]
async fn manager_runs_controllers_with_different_keys() {
    let (sites, children) = (Collection::from([site("a", "slow")]), Collection::from([child("b", "acme")]));
    let (names, calls) = (Recorder::new(), Calls::default());
    let manager = Manager::new()
        .controller(Controller::of(&informer(&sites_named(&["x"]))).reconciler(names.clone()))
        .controller(tenants(&sites, &children).concurrency(2).reconciler(calls.clone()));
    let (status, stop) = (manager.status(), CancellationToken::new());
    let token = stop.clone();
    let run = tokio::spawn(async move { manager.run(&token).await });
    pass(1.0).await;
    assert_eq!((names.take(), calls.take_sorted_names()), (vec!["x".into()], vec!["acme".into(), "slow".into()]));
    assert!(status.ready().is_ok(), "{}", status.ready());

    let [by_object, by_tenant] = &status.controllers()[..] else { panic!("{status:?}") };
    assert_eq!((by_object.name(), by_tenant.name()), ("site", "tenants"));
    let state = |key| by_tenant.explain(key).map(|explained| explained.state);
    assert_eq!(state("Tenant(\"slow\")"), Some(WorkState::InFlight { queued_again: false }));
    assert_eq!((state("Tenant(\"acme\")"), state("acme")), (Some(WorkState::Idle), None));
    assert!(by_object.explain("ns/x").unwrap().to_string().starts_with("ns/x: idle"));
    assert_eq!(by_object.explain("ns/unknown").unwrap().history, None);
    assert_eq!(by_object.explain("a/b/c"), None, "this is not an object key");
    let active: Vec<_> = by_tenant.most_active(9).into_iter().map(|explained| explained.key).collect();
    assert_eq!(active, ["Tenant(\"acme\")", "Tenant(\"slow\")"]);

    stop.cancel();
    let error = run.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("controller \"tenants\" (in flight: Tenant(\"slow\"))"), "{error}");
}

#[test]
fn blocking_call_is_named_by_its_key() {
    let ((open, door), trigger) = (mpsc::channel::<()>(), Trigger::new());
    let door = Mutex::new(door);
    let config = ControllerConfig { blocked_after: Duration::from_millis(20), ..ControllerConfig::default() };
    let controller = Controller::named("tenants").source(trigger.clone()).config(config).reconciler(
        move |_: ReconcileRequest<Tenant>| {
            _ = door.lock().unwrap().recv();
            async { Ok(Action::await_change()) }
        },
    );
    let manager = Manager::new().controller(controller.clone());
    let (status, stop) = (manager.status(), CancellationToken::new());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let token = stop.clone();
    let run = runtime.spawn(async move { manager.run(&token).await });
    trigger.trigger(tenant("slow"));
    until("the call is reported", || !status.ready().is_ok());
    let ready = status.ready().to_string();
    assert!(ready.contains("the call for Tenant(\"slow\") has blocked its thread"), "{ready}");
    assert_eq!(controller.blocked_calls()[0].0, tenant("slow"));
    assert_eq!(status.controllers()[0].blocked_calls()[0].0, "Tenant(\"slow\")");
    drop(open);
    until("the call has ended", || status.ready().is_ok());
    stop.cancel();
    runtime.block_on(run).unwrap().unwrap();
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Work {
    Report,
    Backup(&'static str, ObjectKey),
}

#[tokio::test(start_paused = true)]
async fn queue_setup_of_an_enum_sets_the_order() {
    let (trigger, called) = (Trigger::new(), Arc::<Mutex<Vec<_>>>::default());
    let fair: QueueSetup<Work> = Arc::new(|queue| {
        queue.order = Box::new(Fair::new(|key: &Work| matches!(key, Work::Report)));
    });
    let config = ControllerConfig { queue: Some(fair), ..ControllerConfig::default() };
    let calls = called.clone();
    let controller = Controller::named("work").source(trigger.clone()).config(config).reconciler(
        move |request: ReconcileRequest<Work>| {
            calls.lock().unwrap().push(request.key);
            async { Ok(Action::await_change()) }
        },
    );
    let running = run(&controller).await;
    let works = ["a", "b", "c"].map(|name| Work::Backup("eu", key(name)));
    works.iter().cloned().chain([Work::Report]).for_each(|work| trigger.trigger(work));
    pass(1.0).await;
    let [a, b, c] = works;
    assert_eq!(*called.lock().unwrap(), [a, Work::Report, b, c]);
    running.stop().await.unwrap();
}
