//! Tests that a manager stops in the right order and in time, even after failures.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll};
use std::time::Duration;

use pintle_controller::{
    Action, Controller, Feed, Manager, ManagerConfig, ManagerError, ReconcileRequest, Requests, Source, Trigger,
};
use pintle_informer::{InformerConfig, InformerFactory};
use pintle_leaderelect::{LeaderElectionConfig, Lease};
use pintle_meta::ObjectKey;
use pintle_testing::Collection;
use tokio_util::sync::CancellationToken;

use super::{replica, replica_with, service};
use crate::log::Log;
use crate::recorder::{Recorder, TestMetrics, pass};
use crate::support::{elector, elector_of, holder, informer, sites_named, take_lease_over, touch};

#[tokio::test(start_paused = true)]
async fn stop_finishes_calls_then_releases_the_lease() {
    let (leases, sites) = (Collection::<Lease>::default(), sites_named(&["x"]));
    let a = replica("a", &leases, &sites, 21.0);
    pass(1.0).await;
    let b = replica("b", &leases, &sites, 0.0);
    pass(1.0).await;
    a.stop.cancel();
    pass(18.0).await;
    assert_eq!((holder(&leases).as_str(), a.calls.running()), ("a", 1));
    assert!(a.status.is_leader(), "the lease is renewed during the call");
    a.task.await.unwrap().unwrap();
    assert_eq!(a.calls.dropped().len(), 0);
    pass(5.0).await;
    assert_eq!(b.calls.take(), ["x"]);
}

#[tokio::test(start_paused = true)]
async fn failing_service_stops_the_manager_in_order() {
    let (leases, sites) = (Collection::<Lease>::default(), sites_named(&["x"]));
    let a = replica_with("a", &leases, &sites, 5.0, |manager| {
        manager.service("web", |_| async {
            pass(3.0).await;
            Err("port 80 is taken".into())
        })
    });
    let error = a.task.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "web: port 80 is taken");
    assert_eq!((holder(&leases).as_str(), a.calls.dropped().len()), ("", 0));
}

#[tokio::test(start_paused = true)]
async fn service_that_ignores_the_stop_is_dropped() {
    let (leases, sites) = (Collection::<Lease>::default(), sites_named(&["x"]));
    let a = replica_with("a", &leases, &sites, 0.0, |manager| {
        let manager = manager.service("deaf", |_| std::future::pending());
        manager.config(ManagerConfig { graceful_shutdown_timeout: Duration::from_secs(7), ..ManagerConfig::default() })
    });
    pass(1.0).await;
    let start = tokio::time::Instant::now();
    a.stop.cancel();
    let error = a.task.await.unwrap().unwrap_err();
    assert_eq!(start.elapsed().as_secs(), 7);
    assert!(error.to_string().contains("deaf"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn panic_in_service_error_display_stops_manager_in_order() {
    #[derive(Debug)]
    struct Unspeakable;
    impl std::fmt::Display for Unspeakable {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("the Display of the test panics")
        }
    }
    impl std::error::Error for Unspeakable {}
    let (leases, sites) = (Collection::<Lease>::default(), sites_named(&["x"]));
    let a = replica_with("a", &leases, &sites, 5.0, |manager| {
        manager.service("web", |_| async {
            pass(3.0).await;
            Err(Unspeakable.into())
        })
    });
    let error = a.task.await.unwrap().unwrap_err();
    assert!(matches!(&error, ManagerError::Runnable { name, cause } if name == "web" && cause.is::<Unspeakable>()));
    assert_eq!((holder(&leases).as_str(), a.calls.dropped().len()), ("", 0));
}

#[tokio::test(start_paused = true)]
async fn panic_dropping_a_further_error_does_not_block_stop() {
    #[derive(Debug)]
    struct Grenade;
    impl std::fmt::Display for Grenade {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("grenade")
        }
    }
    impl std::error::Error for Grenade {}
    impl Drop for Grenade {
        fn drop(&mut self) {
            panic!("the error of the test panics")
        }
    }
    let (log, _guard) = Log::here();
    let stopped = Arc::new(AtomicBool::new(false));
    let noted = stopped.clone();
    let manager = Manager::new()
        .service("web", |_| async { Err("port 80 is taken".into()) })
        .service("metrics", |stop| async move {
            stop.cancelled().await;
            Err(Grenade.into())
        })
        .service("slow", move |stop| async move {
            stop.cancelled().await;
            pass(1.0).await;
            noted.store(true, Ordering::Relaxed);
            Ok(())
        });
    let error = tokio::spawn(async move { manager.run(&CancellationToken::new()).await }).await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "web: port 80 is taken");
    assert!(stopped.load(Ordering::Relaxed), "the service was dropped");
    log.assert_tells(&["the error of the test panics"]);
}

#[tokio::test(start_paused = true)]
async fn panicking_service_stops_the_manager_in_order() {
    let (leases, sites) = (Collection::<Lease>::default(), sites_named(&["x"]));
    let log: Arc<Mutex<Vec<_>>> = Arc::default();
    let noted = log.clone();
    let a = replica_with("a", &leases, &sites, 5.0, |manager| {
        service(&noted)(manager).service("metrics", |_| async {
            pass(3.0).await;
            panic!("no such port")
        })
    });
    let error = a.task.await.unwrap().unwrap_err();
    assert!(error.to_string().starts_with("metrics: ") && error.to_string().contains("no such port"), "{error}");
    assert_eq!((holder(&leases).as_str(), a.calls.dropped().len()), ("", 0));
    assert_eq!(*log.lock().unwrap(), ["service starts", "service stops"]);
}

#[tokio::test(start_paused = true)]
async fn default_stop_fits_pod_grace_period_and_names_leftovers() {
    let (leases, sites) = (Collection::<Lease>::default(), sites_named(&["x"]));
    let log = Arc::default();
    let factory = InformerFactory::new();
    let informer = factory.informer(sites.clone(), InformerConfig::default());
    let a = replica_with("a", &leases, &sites, 1_000.0, |manager| {
        service(&log)(manager).service("deaf", |_| std::future::pending()).informers(factory)
    });
    pass(1.0).await;
    let start = tokio::time::Instant::now();
    a.stop.cancel();
    let error = a.task.await.unwrap().unwrap_err().to_string();
    assert_eq!(start.elapsed().as_secs(), 25);
    assert!(["\"site\"", "ns/x", "\"deaf\""].iter().all(|left| error.contains(left)), "{error}");
    assert!(!error.contains("web"), "{error}");
    pass(0.001).await;
    assert!(matches!(informer.state(), pintle_informer::InformerState::Stopped { .. }), "informers are shut down last");
    assert_eq!((holder(&leases).as_str(), a.calls.dropped().len()), ("", 1), "the lease was released after the drop");
    assert_eq!(*log.lock().unwrap(), ["service starts", "service stops"]);
}

#[tokio::test(start_paused = true)]
async fn hanging_release_leaves_time_for_services() {
    let (leases, sites) = (Collection::<Lease>::default(), sites_named(&["x"]));
    let log = Arc::default();
    let a = replica_with("a", &leases, &sites, 0.0, |manager| {
        service(&log)(manager)
            .config(ManagerConfig { graceful_shutdown_timeout: Duration::from_secs(5), ..ManagerConfig::default() })
    });
    pass(1.0).await;
    a.client.faults().cut_off();
    let start = tokio::time::Instant::now();
    a.stop.cancel();
    let error = a.task.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("leader election"), "{error}");
    assert!(start.elapsed().as_secs_f64() < 5.0, "{:?}", start.elapsed());
    assert_eq!(*log.lock().unwrap(), ["service starts", "service stops"]);
    assert_eq!(holder(&leases), "a");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn lease_is_kept_while_a_call_blocks_its_thread() {
    let (begun, begins) = mpsc::channel();
    let (end, ends) = mpsc::channel::<()>();
    let ends = Mutex::new(ends);
    let leases = Collection::<Lease>::default();
    let trigger = Trigger::new();
    let controller = Controller::named("hand").source(trigger.clone()).reconciler(move |_: ReconcileRequest| {
        begun.send(()).unwrap();
        tokio::task::block_in_place(|| ends.lock().unwrap().recv().unwrap());
        async { Ok(Action::await_change()) }
    });
    let manager = Manager::new().controller(controller).leader_election(elector(&leases.client("a"), "a"));
    let manager = manager.config(ManagerConfig { graceful_shutdown_timeout: Duration::ZERO, exit_if_blocked: false });
    let stop = CancellationToken::new();
    let token = stop.clone();
    let task = tokio::spawn(async move { manager.run(&token).await });
    trigger.trigger(ObjectKey::new("ns", "x"));
    tokio::task::block_in_place(|| begins.recv().unwrap());
    stop.cancel();
    let error = task.await.unwrap().unwrap_err().to_string();
    assert!(["\"hand\"", "ns/x"].iter().all(|left| error.contains(left)), "{error}");
    assert_eq!(holder(&leases), "a");
    end.send(()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn panicking_election_stops_the_manager_in_order() {
    let log = Arc::default();
    let text = AtomicBool::new(false);
    let config = LeaderElectionConfig {
        events: Some(Arc::new(move |_| assert!(text.swap(true, Ordering::Relaxed), "no events here"))),
        ..LeaderElectionConfig::default()
    };
    let elector = elector_of(&Collection::default().client("a"), config);
    let manager = service(&log)(Manager::new()).leader_election(elector);
    let manager = manager.service("deaf", |_| std::future::pending());
    let error = tokio::spawn(async move { manager.run(&CancellationToken::new()).await }).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("leader election") && error.to_string().contains("no events here"), "{error}");
    assert_eq!(*log.lock().unwrap(), ["service starts", "service stops"]);
}

#[tokio::test(start_paused = true)]
async fn failing_controller_stops_the_manager_and_releases_the_lease() {
    let (leases, sites) = (Collection::<Lease>::default(), sites_named(&["x"]));
    let ending = informer(&sites);
    let calls = Recorder::new();
    let controller = Controller::of(&ending).reconciler(calls);
    let other = Controller::of(&informer(&sites)).name("other").reconciler(Recorder::new());
    let manager =
        Manager::new().controller(controller).controller(other).leader_election(elector(&leases.client("a"), "a"));
    let task = tokio::spawn(async move { manager.run(&CancellationToken::new()).await });
    pass(1.0).await;
    assert_eq!(holder(&leases), "a");
    ending.shutdown().await;
    let error = task.await.unwrap().unwrap_err();
    assert!(matches!(error, ManagerError::Controller(_)), "{error}");
    assert_eq!(holder(&leases), "");
}

#[tokio::test(start_paused = true)]
async fn stop_before_the_start_ends_services_in_order() {
    let (leases, sites) = (Collection::<Lease>::default(), sites_named(&["x"]));
    let log = Arc::default();
    let a = replica_with("a", &leases, &sites, 0.0, service(&log));
    a.stop.cancel();
    a.task.await.unwrap().unwrap();
    assert_eq!(*log.lock().unwrap(), ["service starts", "service stops"]);
    assert_eq!((holder(&leases).as_str(), a.calls.take().len()), ("(none)", 0));
}

#[tokio::test(start_paused = true)]
async fn lease_lost_during_a_stop_drops_calls_without_release() {
    let (leases, sites) = (Collection::<Lease>::default(), sites_named(&["x"]));
    let log = Arc::default();
    let a = replica_with("a", &leases, &sites, 15.0, service(&log));
    pass(1.0).await;
    a.stop.cancel();
    pass(1.0).await;
    take_lease_over(&leases, "stranger");
    a.task.await.unwrap().unwrap();
    assert_eq!((holder(&leases).as_str(), a.calls.running(), a.calls.dropped().len()), ("stranger", 0, 1));
    assert_eq!(*log.lock().unwrap(), ["service starts", "service stops"]);
}

#[tokio::test(start_paused = true)]
async fn failing_controller_stops_the_others_at_once() {
    let sites = sites_named(&["x"]);
    let (failing, slow) = (informer(&sites), Recorder::taking(5.0));
    let busy = Recorder::taking(10.0);
    let manager = Manager::new()
        .controller(Controller::of(&failing).reconciler(busy.clone()))
        .controller(Controller::of(&informer(&sites)).name("slow").reconciler(slow.clone()));
    let task = tokio::spawn(async move { manager.run(&CancellationToken::new()).await });
    pass(1.0).await;
    failing.shutdown().await;
    touch(&sites, "x");
    let error = task.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("\"Site\" has ended"), "{error}");
    assert_eq!((busy.take().len(), slow.take().len()), (1, 1), "the other took a key after that");
    assert_eq!((busy.dropped().len(), slow.dropped().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn panic_in_warm_up_stops_the_manager() {
    struct Cold;
    impl Source for Cold {
        fn name(&self) -> &str {
            "cold"
        }

        fn warm_up(&self) {
            panic!("no fuel")
        }

        fn start(&self, _: Requests) -> Feed {
            Feed { synced: Box::pin(async { true }), run: Box::pin(std::future::pending()) }
        }
    }
    let log = Arc::default();
    let manager = service(&log)(Manager::new());
    let manager = manager.controller(Controller::named("oven").source(Cold).reconciler(Recorder::new()));
    let task = tokio::spawn(async move { manager.run(&CancellationToken::new()).await });
    let error = task.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("\"oven\"") && error.to_string().contains("no fuel"), "{error}");
    assert_eq!(*log.lock().unwrap(), ["service starts", "service stops"]);
}

/// Polls the inner future, but at most a fixed number of times. Completes with the inner future or
/// after the last of these polls.
struct Polls<F>(Pin<Box<F>>, usize);

impl<F: Future> Future for Polls<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.1 == 0 {
            return Poll::Ready(None);
        }
        self.1 -= 1;
        self.0.as_mut().poll(context).map(Some)
    }
}

#[tokio::test(start_paused = true)]
async fn run_dropped_at_any_await_leaves_no_tasks() {
    let mut ended = 0;
    for polls in 0..60 {
        let (leases, sites) = (Collection::<Lease>::default(), sites_named(&["x", "y"]));
        let (calls, metrics) = (Recorder::taking(2.0), TestMetrics::default());
        let controller = Controller::of(&informer(&sites)).config(metrics.config()).reconciler(calls.clone());
        let serving = Arc::new(());
        let alive = Arc::downgrade(&serving);
        let manager = Manager::new().controller(controller.clone()).leader_election(elector(&leases.client("a"), "a"));
        let manager = manager.service("web", move |stop| async move {
            stop.cancelled().await;
            pass(1.0).await;
            drop(serving);
            Ok(())
        });
        let stop = CancellationToken::new();
        let token = stop.clone();
        let run = tokio::spawn(Polls(Box::pin(async move { manager.run(&token).await }), polls));
        pass(5.0).await;
        stop.cancel();
        match run.await.unwrap() {
            Some(outcome) => {
                outcome.unwrap();
                ended += 1;
            }
            None => pass(0.001).await,
        }
        assert_eq!((calls.running(), alive.strong_count()), (0, 0), "after {polls} polls");
        assert_eq!(metrics.numbers(["active_workers"]), [0.0]);
        calls.take();
        touch(&sites, "x");
        pass(60.0).await;
        assert!(calls.take().is_empty(), "after {polls} polls");
        let running = crate::recorder::run(&controller).await;
        running.stop().await.unwrap();
    }
    assert!((1..60).contains(&ended), "{ended} runs completed");
}
