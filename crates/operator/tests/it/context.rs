//! Tests of reads, errors and the leadership term of a context.

use std::sync::{Arc, Mutex};

use pintle_leaderelect::LeadershipLost;
use pintle_meta::{LabelSelector, ObjectMeta};
use pintle_operator::{Action, Context, Controller, ReconcileError};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::support::{ConfigMap, Running, Website, World, map, soon};

/// Runs a controller whose reconciler calls `probe`. Returns the result of the first call.
async fn probe<T, Fut>(
    world: &World,
    owns: bool,
    probe: impl Fn(Context<Website>) -> Fut + Clone + Send + Sync + 'static,
) -> T
where
    T: Send + 'static,
    Fut: Future<Output = T> + Send,
{
    let (sender, mut results): (_, UnboundedReceiver<T>) = unbounded_channel();
    let reconcile = move |_: Arc<Website>, cx: Context<Website>| {
        let (probe, sender) = (probe.clone(), sender.clone());
        async move {
            // The test may have received the first result already.
            _ = sender.send(probe(cx).await);
            Ok(Action::await_change())
        }
    };
    let builder = Controller::<Website>::new();
    let builder = if owns { builder.owns::<ConfigMap>() } else { builder };
    let running = Running::start(world.manager().controller(builder.reconcile(reconcile)));
    let result = soon(results.recv()).await.unwrap();
    running.stop().await.unwrap();
    result
}

fn assert_terminal(error: &ReconcileError, expected: &str) {
    assert!(error.is_terminal() && error.to_string().contains(expected), "{error}");
}

#[tokio::test]
async fn undeclared_kind_is_a_terminal_error_that_names_it() {
    let world = World::with_site("blog").await;
    let errors = probe(&world, false, async |cx| {
        let read = cx.get::<ConfigMap>("x").unwrap_err();
        (read, cx.apply(map("x", "a", "b")).await.unwrap_err())
    });
    let (read, write) = errors.await;
    assert_terminal(&read, "add `.owns::<ConfigMap>()` to the controller");
    assert_terminal(&write, "controller \"website\" does not cache ConfigMap");
}

#[tokio::test]
async fn child_in_another_namespace_needs_apply_unowned() {
    let world = World::with_site("blog").await;
    let (owned, unowned) = probe(&world, true, async |cx| {
        let child = || ConfigMap { metadata: ObjectMeta::new("kube-system", "x"), ..map("", "a", "b") };
        (cx.apply(child()).await.unwrap_err(), cx.apply_unowned(child()).await.unwrap())
    })
    .await;
    assert_terminal(&owned, "use `apply_unowned` and a finalizer");
    assert!(unowned.metadata.owner_references.is_empty());
}

#[tokio::test]
async fn reads_include_own_writes_at_once() {
    let world = World::with_site("blog").await;
    probe(&world, true, async |cx| {
        assert!(cx.get::<ConfigMap>("mine").unwrap().is_none());
        let applied = cx.apply(map("mine", "a", "b")).await.unwrap();
        let read = cx.get::<ConfigMap>("mine").unwrap().unwrap();
        assert_eq!(read.metadata.resource_version, applied.metadata.resource_version);
        assert_eq!(cx.owned::<ConfigMap>().unwrap().len(), 1);
        assert_eq!(cx.list::<ConfigMap>(&LabelSelector::everything()).unwrap().len(), 1);
        assert_eq!(cx.get_live::<ConfigMap>("mine").await.unwrap().unwrap().data["a"], "b");
        cx.delete(&applied).await.unwrap();
        assert!(cx.get::<ConfigMap>("mine").unwrap().is_none(), "the deletion is visible at once");
        cx.delete(&applied).await.unwrap();
        assert!(cx.get_live::<ConfigMap>("mine").await.unwrap().is_none());
        let created = cx.create(map("made", "a", "b")).await.unwrap();
        assert_eq!(created.metadata.owner_references[0].name, "blog");
        assert!(cx.create(map("made", "a", "b")).await.is_err());
    })
    .await;
}

/// A task may continue after the reconciliation that started it. Such a task must not write if the replica no longer
/// leads.
#[tokio::test]
async fn write_after_the_term_is_refused() {
    let world = World::with_site("blog").await;
    let kept = Arc::new(Mutex::new(None));
    let keeper = kept.clone();
    let (called, mut calls) = unbounded_channel();
    let reconcile = move |_: Arc<Website>, cx: Context<Website>| {
        *keeper.lock().unwrap() = Some(cx);
        called.send(()).unwrap();
        async { Ok(Action::await_change()) }
    };
    let controller = Controller::<Website>::new().owns::<ConfigMap>().reconcile(reconcile);
    let running = Running::start(world.manager().leader_election().controller(controller));
    soon(calls.recv()).await.unwrap();
    let cx = kept.lock().unwrap().take().unwrap();
    cx.apply(map("early", "a", "b")).await.unwrap();
    running.stop().await.unwrap();
    let error = cx.apply(map("late", "a", "b")).await.unwrap_err();
    assert!(error.cause().downcast_ref::<LeadershipLost>().is_some(), "{error}");
    assert!(world.child("late").await.unwrap_err().is_not_found());
    assert!(world.child("early").await.is_ok());
}
