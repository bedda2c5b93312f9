//! How a run ends.

use std::time::Duration;

use pintle_controller::{Controller, ControllerConfig, ControllerError};

use crate::fake::{Collection, Site, Trouble};
use crate::recorder::{Recorder, pass, run};

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_what_is_in_flight_and_takes_nothing_more() {
    let sites = Collection::<Site>::of(&["a", "b", "c"]);
    let calls = Recorder::taking(10.0);
    let controller = Controller::of(&sites.informer()).reconciler(calls.clone());
    let running = run(&controller).await;
    pass(2.0).await;
    let start = tokio::time::Instant::now();
    running.stop().await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 7, "the call had eight seconds to go");
    assert_eq!((calls.take().len(), calls.dropped().len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_takes_too_long_drops_the_calls_and_names_their_keys() {
    let sites = Collection::<Site>::of(&["a"]);
    let calls = Recorder::taking(1_000.0);
    let controller = Controller::of(&sites.informer())
        .config(ControllerConfig { graceful_shutdown_timeout: Duration::from_secs(3), ..Default::default() })
        .reconciler(calls.clone());
    let running = run(&controller).await;
    let start = tokio::time::Instant::now();
    let error = running.stop().await.unwrap_err();
    assert_eq!(start.elapsed().as_secs(), 3);
    assert!(matches!(&error, ControllerError::StopTimedOut { in_flight, .. } if in_flight[0].as_str() == "ns/a"));
    assert!(error.to_string().contains("ns/a") && error.to_string().contains("3s"), "{error}");
    assert_eq!((calls.dropped().len(), calls.running()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_stop_before_the_caches_are_complete_ends_the_run() {
    let sites = Collection::<Site>::of(&["a"]);
    sites.trouble(Trouble::Silent);
    let controller = Controller::of(&sites.informer()).reconciler(Recorder::new());
    let running = run(&controller).await;
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn caches_that_never_fill_fail_a_run_that_has_a_limit() {
    let sites = Collection::<Site>::of(&["a"]);
    sites.trouble(Trouble::Forbidden);
    let controller = Controller::of(&sites.informer())
        .config(ControllerConfig { cache_sync_timeout: Some(Duration::from_secs(120)), ..Default::default() })
        .reconciler(Recorder::new());
    let error = run(&controller).await.task.await.unwrap().unwrap_err();
    let told = error.to_string();
    for part in ["\"site\"", "\"Site\"", "120s", "you may not list this"] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_ends_fails_the_run() {
    let sites = Collection::<Site>::of(&["a"]);
    let informer = sites.informer();
    let controller = Controller::of(&informer).reconciler(Recorder::new());
    let running = run(&controller).await;
    informer.shutdown().await;
    let error = running.task.await.unwrap().unwrap_err();
    assert!(matches!(error, ControllerError::SourceEnded { ref source_name, .. } if source_name == "Site"), "{error}");
    // And one that has ended before cannot be completed.
    let error = run(&controller).await.task.await.unwrap();
    assert!(error.is_err(), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_controller_runs_once_at_a_time_and_any_number_of_times() {
    let sites = Collection::<Site>::of(&["a", "b"]);
    let calls = Recorder::new();
    let controller = Controller::of(&sites.informer()).reconciler(calls.clone());
    for _ in 0..3 {
        let running = run(&controller).await;
        assert_eq!(calls.take_sorted(), ["a", "b"]);
        let second = run(&controller).await.task.await.unwrap();
        assert!(matches!(second, Err(ControllerError::AlreadyRunning { .. })), "{second:?}");
        running.stop().await.unwrap();
    }
    assert_eq!(controller.metrics().reconciles(), 6);
}

#[tokio::test(start_paused = true)]
async fn dropping_a_run_ends_everything_that_belongs_to_it() {
    let sites = Collection::<Site>::of(&["a"]);
    let calls = Recorder::taking(10.0);
    let controller = Controller::of(&sites.informer()).reconciler(calls.clone());
    let running = run(&controller).await;
    assert_eq!(calls.running(), 1);
    running.task.abort();
    pass(0.1).await;
    assert_eq!((calls.running(), calls.dropped().len()), (0, 1));
    calls.take();
    sites.touch("a");
    pass(60.0).await;
    assert!(calls.take().is_empty());
    assert_eq!(controller.metrics().active_workers, 0);
}
