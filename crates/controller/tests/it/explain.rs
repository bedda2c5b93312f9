//! Tests of `Controller::explain`.

use std::time::Duration;

use pintle_controller::{
    Action, CauseReason, Controller, EventChange, ReconcileError, ReconcileRequest, Trigger, WorkState,
};
use serde_json::json;
use tokio::sync::mpsc::unbounded_channel;

use crate::recorder::{Recorder, pass, run};
use crate::support::{informer, key, sites_named, touch};

#[tokio::test(start_paused = true)]
async fn explanation_names_state_causes_and_last_call() {
    let sites = sites_named(&["failing", "fine", "later"]);
    let informer = informer(&sites);
    let (recorder, trigger) = (Recorder::new(), Trigger::new());
    recorder
        .plan("failing", |_| Err(ReconcileError::new("the DNS does not answer").retry_after(Duration::from_secs(90))));
    recorder.plan("later", |_| Ok(Action::requeue_after(Duration::from_secs(60))));
    let controller = Controller::of(&informer).source(trigger.clone()).reconciler(recorder.clone());
    assert_eq!(controller.explain(&key("fine")).state, WorkState::NotRunning);
    let running = run(&controller).await;
    pass(1.0).await;

    let failing = controller.explain(&key("failing"));
    assert!(matches!(failing.state, WorkState::RetryIn(left) if left > Duration::from_secs(80)), "{failing}");
    let text = failing.to_string();
    assert!(
        text.contains("failure 1 after ") && text.contains("retry after an error: the DNS does not answer"),
        "{text}"
    );
    let history = failing.history.unwrap();
    assert_eq!((history.total, history.last_call.unwrap().failures), (2, 1));
    let CauseReason::Event { source, change, object, .. } = &history.causes[0].reason else { panic!("{text}") };
    assert_eq!((&**source, change, object), (informer.name(), &EventChange::Listed, &key("failing")));

    let later = controller.explain(&key("later"));
    assert!(matches!(later.state, WorkState::RequeueIn(_)), "{later}");
    let fine = controller.explain(&key("fine"));
    assert!(fine.state == WorkState::Idle && fine.to_string().contains("the last call succeeded"), "{fine}");
    assert!(controller.explain(&key("unknown")).to_string().ends_with("no cause is known"));

    touch(&sites, "fine");
    trigger.trigger(key("fine"));
    pass(1.0).await;
    let causes = controller.explain(&key("fine")).history.unwrap().causes;
    let is_update = |reason: &CauseReason| matches!(reason, CauseReason::Event { change: EventChange::Updated, .. });
    assert!(causes.iter().any(|cause| is_update(&cause.reason)), "{causes:?}");
    assert!(causes.iter().any(|cause| cause.reason == CauseReason::Program), "{causes:?}");

    let names = |keys: Vec<(pintle_meta::ObjectKey, _)>| -> Vec<_> { keys.into_iter().map(|(key, _)| key).collect() };
    assert_eq!(names(controller.most_failing(9)), [key("failing")]);
    assert_eq!(names(controller.most_active(1)), [key("fine")]);
    assert_eq!(controller.slowest(9).len(), 3);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn key_in_flight_is_explained() {
    let sites = sites_named(&["slow"]);
    let recorder = Recorder::taking(100.0);
    let controller = Controller::of(&informer(&sites)).reconciler(recorder);
    let running = run(&controller).await;
    pass(1.0).await;
    assert_eq!(controller.explain(&key("slow")).state, WorkState::InFlight { queued_again: false });
    touch(&sites, "slow");
    pass(1.0).await;
    let explanation = controller.explain(&key("slow"));
    assert_eq!(explanation.state, WorkState::InFlight { queued_again: true });
    assert!(explanation.to_string().starts_with("ns/slow: in flight, and queued again"), "{explanation}");
    // The run fails, because the reconciliation outlasts the shutdown timeout.
    running.stop().await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn request_has_the_causes_of_its_key() {
    let sites = sites_named(&["fine"]);
    let (sender, mut causes) = unbounded_channel();
    let controller = Controller::of(&informer(&sites)).reconciler(move |request: ReconcileRequest| {
        let history = request.history().unwrap();
        sender.send(history.causes.back().unwrap().reason.to_string()).unwrap();
        async { Ok(Action::await_change()) }
    });
    let running = run(&controller).await;
    assert!(causes.recv().await.unwrap().starts_with("listed ns/fine in "));
    let uid = sites.object(&key("fine")).unwrap().metadata.uid;
    let entry = json!({"manager": "kubectl-edit", "operation": "Update", "time": "2026-01-01T00:00:00Z"});
    let metadata = json!({"namespace": "ns", "name": "fine", "uid": uid, "managedFields": [entry]});
    sites.put_raw(json!({"metadata": metadata}));
    let cause = causes.recv().await.unwrap();
    assert!(cause.starts_with("updated by kubectl-edit (Update): ns/fine in "), "{cause}");
    assert_eq!(ReconcileRequest::new(key("fine")).history(), None);
    running.stop().await.unwrap();
}

/// The call takes a minute on the paused clock. On the system clock, the call takes only a few
/// milliseconds.
#[tokio::test(start_paused = true)]
async fn call_begins_after_its_cause() {
    let sites = sites_named(&["slow"]);
    let informer = informer(&sites);
    let controller = Controller::of(&informer).reconciler(Recorder::taking(60.0));
    let running = run(&controller).await;
    pass(90.0).await;
    let history = controller.explain(&key("slow")).history.unwrap();
    let call = history.last_call.unwrap();
    assert_eq!(call.took, Duration::from_secs(60));
    assert!(call.at >= history.causes[0].at, "{call:?} {:?}", history.causes);
    running.stop().await.unwrap();
}
