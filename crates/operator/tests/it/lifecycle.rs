//! Tests of finalizers, deletions and conditions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pintle_controller::{EnqueueMapped, ReconcileRequest};
use pintle_meta::{DeleteOptions, ObjectKey};
use pintle_operator::{Action, Cleanup, Context, Controller, Reconciler, Result};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::support::{ConfigMap, Running, Status, Website, World, eventually, publish, soon};

struct Publisher {
    cleanups: AtomicUsize,
    gone: UnboundedSender<ObjectKey>,
}

impl Reconciler<Website> for Publisher {
    async fn reconcile(&self, site: Arc<Website>, _cx: Context<Website>) -> Result<Action> {
        assert_eq!(site.metadata.finalizers, ["example.com/dns"], "the finalizer comes before the first call");
        Ok(Action::await_change())
    }

    async fn cleanup(&self, _site: Arc<Website>, _cx: Context<Website>) -> Result<Cleanup> {
        match self.cleanups.fetch_add(1, Ordering::SeqCst) {
            0 => Ok(Cleanup::NotYet(Duration::from_millis(1))),
            _ => Ok(Cleanup::Done),
        }
    }

    async fn gone(&self, key: ObjectKey, cx: Context<Website>) -> Result<()> {
        assert_eq!((&key, cx.owner_reference()), (cx.key(), None));
        self.gone.send(key).unwrap();
        Ok(())
    }
}

#[tokio::test]
async fn cleanup_repeats_until_done_and_gone_follows() {
    let world = World::with_site("blog").await;
    let (sender, mut gone) = unbounded_channel();
    let publisher = Publisher { cleanups: AtomicUsize::new(0), gone: sender };
    let controller = Controller::<Website>::new().finalizer("example.com/dns").reconcile(publisher);
    let running = Running::start(world.manager().controller(controller));
    let has_finalizer = async || (!world.site("blog").await.metadata.finalizers.is_empty()).then_some(());
    eventually("the finalizer is stored", has_finalizer).await;
    world.cluster.namespaced::<Website>("default").delete("blog", &DeleteOptions::default()).await.unwrap();
    assert_eq!(soon(gone.recv()).await.unwrap(), ObjectKey::new("default", "blog"));
    running.stop().await.unwrap();
}

#[tokio::test]
async fn condition_keeps_its_transition_time() {
    let world = World::with_site("blog").await;
    let (sender, mut seen) = unbounded_channel();
    let reconcile = move |site: Arc<Website>, cx: Context<Website>| {
        let sender = sender.clone();
        async move {
            let conditions = match site.metadata.annotations.get("test").map(String::as_str) {
                Some("broken") => cx.not_ready("Broken", "the DNS does not answer"),
                _ => cx.ready("Published"),
            };
            let stored = cx.apply_status(Status { url: String::new(), conditions }).await?;
            sender.send(stored.status.clone().unwrap().conditions).unwrap();
            Ok(Action::await_change())
        }
    };
    let controller = Controller::<Website>::new().reconcile(reconcile);
    let running = Running::start(world.manager().controller(controller));
    let mut next = async || soon(seen.recv()).await.unwrap().find("Ready").unwrap().clone();
    let first = next().await;
    assert_eq!((first.reason.as_str(), first.observed_generation), ("Published", Some(1)));
    world.annotate("blog", "again").await;
    assert_eq!(next().await, first);
    world.annotate("blog", "broken").await;
    let broken = next().await;
    assert_eq!(broken.message, "the DNS does not answer");
    assert!(broken.last_transition_time >= first.last_transition_time);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn two_controllers_of_one_name_are_an_error() {
    let world = World::with_site("blog").await;
    let controller = || Controller::<Website>::new().owns::<ConfigMap>().reconcile(publish);
    let running = Running::start(world.manager().controller(controller()).controller(controller()));
    let error = running.ended().await.unwrap_err().to_string();
    assert!(error.contains("two controllers are named \"website\""), "{error}");
}

#[tokio::test]
async fn leader_service_runs_in_a_term_and_is_retried() {
    let world = World::start().await;
    let (sender, mut starts) = unbounded_channel();
    let runs = Arc::new(AtomicUsize::new(0));
    let manager = world.manager().leader_election().leader_service("report", move |stop| {
        let (sender, run) = (sender.clone(), runs.fetch_add(1, Ordering::SeqCst));
        async move {
            sender.send(run).unwrap();
            if run == 0 {
                return Err("the first run fails".into());
            }
            stop.cancelled().await;
            Ok(())
        }
    });
    let running = Running::start(manager);
    assert_eq!(soon(starts.recv()).await, Some(0));
    assert_eq!(soon(starts.recv()).await, Some(1));
    running.stop().await.unwrap();
}

#[tokio::test]
async fn plain_controller_with_own_keys_runs_in_the_manager() {
    let world = World::with_site("blog").await;
    let (calls, mut called) = unbounded_channel();
    let sites = world.cluster.informer::<Website>();
    let by_domain = EnqueueMapped::new(|site: &Website| [site.spec.domain.clone()]);
    let domains = pintle_controller::Controller::named("domains").watches(&sites, by_domain).reconciler(
        move |request: ReconcileRequest<String>| {
            let sent = calls.send(request.key);
            async { Ok(sent.map(|()| Action::await_change())?) }
        },
    );
    let running = Running::start(
        world
            .manager()
            .controller(Controller::<Website>::new().owns::<ConfigMap>().reconcile(publish))
            .plain_controller(domains),
    );
    assert_eq!(soon(called.recv()).await.as_deref(), Some("blog.example.com"));
    eventually("the other controller works, too", async || world.child("blog").await.ok()).await;
    running.stop().await.unwrap();
}
