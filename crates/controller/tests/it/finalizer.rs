//! Tests of `Finalizer`, `add_finalizer` and `remove_finalizer`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pintle_controller::predicate::DesiredStateChanged;
use pintle_controller::{
    Action, Cleanup, Controller, Finalizer, Kind, ReconcileError, ReconcileRequest, add_finalizer, remove_finalizer,
};
use pintle_meta::{DeleteOptions, ObjectApi, Reason, Status, StatusCause, StatusDetails, WriteOptions};
use pintle_testing::{Collection, Outcome, SlimMetadata};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::recorder::{pass, run};
use crate::support::{Site, informer, key, sites_named};

const DNS: &str = "example.com/dns";
const OTHER: &str = "example.com/other";

#[derive(Default)]
struct Asked {
    applies: AtomicUsize,
    cleanups: AtomicUsize,
}

impl Asked {
    fn count(&self) -> (usize, usize) {
        (self.applies.load(Ordering::Relaxed), self.cleanups.load(Ordering::Relaxed))
    }

    async fn apply(&self, site: Arc<Site>) -> Result<Action, ReconcileError> {
        assert!(site.metadata.finalizers.iter().any(|name| name == DNS));
        self.applies.fetch_add(1, Ordering::Relaxed);
        Ok(Action::await_change())
    }

    async fn cleanup(&self) -> Result<Cleanup, ReconcileError> {
        match self.cleanups.fetch_add(1, Ordering::Relaxed) {
            0..2 => Ok(Cleanup::NotYet(Duration::from_secs(10))),
            _ => Ok(Cleanup::Done),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn object_stays_until_cleanup_and_keeps_writes_of_others() {
    let sites = sites_named(&["a"]);
    sites.change(&key("a"), |site| {
        site.metadata.finalizers.push(OTHER.into());
        site.metadata.annotations.insert("kubectl.kubernetes.io/last-applied-configuration".into(), "{}".into());
    });
    let informer = informer(&sites);
    let (lister, asked) = (informer.lister(), Arc::<Asked>::default());
    let finalizer = Arc::new(Finalizer::new(sites.client("dns"), DNS));
    let counted = asked.clone();
    let controller =
        Controller::of(Kind::of(&informer).when(DesiredStateChanged)).reconciler(move |request: ReconcileRequest| {
            let (site, finalizer, asked) = (lister.get(&request.key), finalizer.clone(), asked.clone());
            async move {
                let Some(site) = site else { return Ok(Action::await_change()) };
                finalizer.reconcile(&request, site, |site| asked.apply(site), |_| asked.cleanup()).await
            }
        });
    let _running = run(&controller).await;
    pass(1.0).await;
    let site = sites.object(&key("a")).unwrap();
    assert_eq!((site.metadata.finalizers, site.metadata.annotations.len()), (vec![OTHER.into(), DNS.into()], 1));
    // The first reconciliation receives the object with the new finalizer. The second reconciliation is caused by
    // the write that added the finalizer.
    assert_eq!(counted.count(), (2, 0));
    sites.delete(&key("a"), &DeleteOptions::default()).await.unwrap();
    pass(5.0).await;
    assert_eq!(counted.count(), (2, 1));
    pass(30.0).await;
    assert_eq!((counted.count(), sites.object(&key("a")).unwrap().metadata.finalizers), ((2, 3), vec![OTHER.into()]));
    sites.change(&key("a"), |site| site.metadata.finalizers.clear());
    pass(1.0).await;
    assert_eq!(counted.count(), (2, 3));
}

#[tokio::test(start_paused = true)]
async fn adding_a_finalizer_passes_desired_state_changed() {
    let sites = sites_named(&["a"]);
    sites.change(&key("a"), |site| site.metadata.generation = 1);
    let informer = informer(&sites);
    let (lister, api, worked) = (informer.lister(), sites.client("dns"), Arc::<AtomicUsize>::default());
    let counted = worked.clone();
    let controller =
        Controller::of(Kind::of(&informer).when(DesiredStateChanged)).reconciler(move |request: ReconcileRequest| {
            let (site, api, worked) = (lister.get(&request.key), api.clone(), worked.clone());
            async move {
                let Some(site) = site else { return Ok(Action::await_change()) };
                if add_finalizer(&api, &*site, DNS, &WriteOptions::default()).await?.is_none() {
                    worked.fetch_add(1, Ordering::Relaxed);
                }
                Ok(Action::await_change())
            }
        });
    let _running = run(&controller).await;
    pass(1.0).await;
    assert_eq!(counted.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn finalizer_write_conflicts_if_the_object_changed() {
    let (sites, options) = (sites_named(&["a"]), WriteOptions::default());
    let read = sites.get(&key("a")).await.unwrap();
    sites.change(&key("a"), |site| site.metadata.finalizers.push(OTHER.into()));
    assert!(add_finalizer(&sites, &read, DNS, &options).await.unwrap_err().is_conflict());
    let read = sites.get(&key("a")).await.unwrap();
    let stored = add_finalizer(&sites, &read, DNS, &options).await.unwrap().unwrap();
    assert_eq!(stored.metadata.finalizers, [OTHER, DNS]);
    assert!(
        remove_finalizer(&sites, &read, DNS, &options).await.unwrap().is_none(),
        "the read object has no finalizer"
    );
    let stored = remove_finalizer(&sites, &stored, OTHER, &options).await.unwrap().unwrap();
    assert_eq!(stored.metadata.finalizers, [DNS]);
    sites.delete(&key("a"), &DeleteOptions::default()).await.unwrap();
    let going = sites.get(&key("a")).await.unwrap();
    assert!(add_finalizer(&sites, &going, OTHER, &options).await.unwrap().is_none(), "the object is being deleted");
    remove_finalizer(&sites, &going, DNS, &options).await.unwrap();
    assert!(sites.object(&key("a")).is_none());
    assert!(remove_finalizer(&sites, &going, DNS, &options).await.unwrap().is_none(), "the object is gone");
    assert!(
        add_finalizer(&sites, &Site::named("a"), DNS, &options).await.is_err(),
        "the object has no resourceVersion"
    );
}

/// A 404 response without a `Status` object comes from a proxy and not from the API server.
#[tokio::test(start_paused = true)]
async fn page_of_a_proxy_removes_no_finalizer() {
    let (sites, options) = (sites_named(&["a"]), WriteOptions::default());
    let object = add_finalizer(&sites, &sites.get(&key("a")).await.unwrap(), DNS, &options).await.unwrap().unwrap();
    let cause = StatusCause { reason: "UnexpectedServerResponse".into(), ..StatusCause::default() };
    let details = Some(StatusDetails { causes: vec![cause], ..StatusDetails::default() });
    let page = Status { details, ..Status::failure(404, Reason::NotFound, "no backend") };
    let client = sites.client("dns");
    client.faults().next([Outcome::Fails(page.into())]);
    assert!(remove_finalizer(&client, &object, DNS, &options).await.unwrap_err().is_not_found());
    assert!(remove_finalizer(&client, &object, DNS, &options).await.unwrap().is_some());
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct SlimSite {
    metadata: SlimMetadata,
}
pintle_meta::resource!(SlimSite, "example.com/v1", "Site", "sites", Namespaced);

#[tokio::test]
async fn finalizers_that_the_type_lacks_are_not_replaced() {
    let (sites, options) = (Collection::<SlimSite>::default(), WriteOptions::default());
    sites.put_raw(json!({"metadata": {"name": "a", "namespace": "ns", "finalizers": [OTHER]}}));
    let site = Arc::new(sites.get(&key("a")).await.unwrap());
    let before = sites.requests().len();
    let finalizer = Finalizer::new(sites.clone(), DNS);
    let apply = async |_| Ok(Action::await_change());
    let request = ReconcileRequest::new(key("a"));
    let reconciled = finalizer.reconcile(&request, site.clone(), apply, async |_| Ok(Cleanup::Done)).await;
    let reconciled = reconciled.unwrap_err();
    assert!(reconciled.is_terminal(), "{reconciled}");
    let added = add_finalizer(&sites, &*site, DNS, &options).await.unwrap_err();
    let removed = remove_finalizer(&sites, &*site, DNS, &options).await.unwrap_err();
    for error in [reconciled.to_string(), added.to_string(), removed.to_string()] {
        assert!(error.contains("`Metadata::supports_finalizers`"), "{error}");
    }
    assert_eq!(sites.requests().len(), before);
}
