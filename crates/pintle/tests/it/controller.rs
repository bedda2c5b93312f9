//! Tests of a controller against the embedded server, with injected faults.

use std::sync::{Arc, Mutex};

use pintle::apiserver::{ApiServer, ApiServerConfig};
use pintle::controller::{Action, Controller, ReconcileError, ReconcileRequest};
use pintle::informer::{InformerConfig, SharedInformer};
use pintle::meta::DeleteOptions;
use pintle::restreq::Api;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::{ConfigMap, client, create, eventually, server};

/// Records each reconciled key, with `true` if the object existed.
struct Notes {
    seen: Arc<Mutex<Vec<(String, bool)>>>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Notes {
    fn take(maps: &Api<ConfigMap>) -> Self {
        let informer: SharedInformer<ConfigMap> = SharedInformer::new(maps.clone(), InformerConfig::default());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (lister, notes) = (informer.lister(), seen.clone());
        let controller = Controller::of(&informer).reconciler(move |request: ReconcileRequest| {
            let found = lister.get(&request.key).is_some();
            notes.lock().unwrap().push((request.key.name().to_owned(), found));
            let panics = request.key.name() == "poison" && request.failures == 0;
            async move {
                assert!(!panics, "poisoned on purpose");
                Ok::<_, ReconcileError>(Action::await_change())
            }
        });
        let stop = CancellationToken::new();
        let token = stop.clone();
        let task = tokio::spawn(async move { controller.run(&token).await.unwrap() });
        Self { seen, stop, task }
    }

    async fn wait_for(&self, name: &str, found: bool, times: usize) {
        eventually((name, found, times), async || {
            let seen = self.seen.lock().unwrap();
            (seen.iter().filter(|note| note.0 == name && note.1 == found).count() >= times).then_some(())
        })
        .await;
    }

    async fn end(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

#[tokio::test]
async fn reconciler_runs_for_the_key_of_a_deleted_object() {
    let server = server().await;
    let maps: Api<ConfigMap> = Api::namespaced(client(server.client_config()), "default");
    create(&maps, "a").await;
    let notes = Notes::take(&maps);
    notes.wait_for("a", true, 1).await;
    maps.delete("a", &DeleteOptions::default()).await.unwrap();
    notes.wait_for("a", false, 1).await;
    notes.end().await;
    server.shutdown().await;
}

#[tokio::test]
async fn panic_fails_only_one_reconcile_of_one_key() {
    let server = server().await;
    let maps: Api<ConfigMap> = Api::namespaced(client(server.client_config()), "default");
    let notes = Notes::take(&maps);
    create(&maps, "poison").await;
    create(&maps, "sound").await;
    notes.wait_for("sound", true, 1).await;
    notes.wait_for("poison", true, 2).await;
    notes.end().await;
    server.shutdown().await;
}

#[tokio::test]
async fn controller_continues_after_the_server_restarts() {
    let first = server().await;
    let maps: Api<ConfigMap> = Api::namespaced(client(first.client_config()), "default");
    create(&maps, "before").await;
    let notes = Notes::take(&maps);
    notes.wait_for("before", true, 1).await;

    // After the restart, the server has no objects.
    let port = first.url().rsplit(':').next().unwrap().parse().unwrap();
    first.shutdown().await;
    let second = eventually("the port is free again", async || {
        ApiServer::start(ApiServerConfig { port, first_revision: 1_000, ..ApiServerConfig::default() }).await.ok()
    })
    .await;
    create(&maps, "after").await;
    notes.wait_for("after", true, 1).await;
    notes.wait_for("before", false, 1).await;
    notes.end().await;
    second.shutdown().await;
}
