//! An operator with an example of each problem that the debug page can show.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use pintle_controller::ControllerConfig;
use pintle_leaderelect::Leadership;
use pintle_meta::{ObjectKey, ObjectMeta};
use pintle_operator::{Action, Context, Controller, Result};
use pintle_sharding::{Shard, ShardsConfig};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::HOSTILE;
use crate::http::{get, listen};
use crate::support::{Running, Website, World, eventually};

/// A kind whose CustomResourceDefinition is not installed.
#[derive(Deserialize, Serialize)]
struct Certificate {
    metadata: ObjectMeta,
}
pintle_meta::resource!(Certificate, "example.com/v1", "Certificate", "certificates", Namespaced);

/// The operator with the problems. The site "broken" fails, the site "blocking" blocks its thread, and the site "blog"
/// succeeds. The second controller's CustomResourceDefinition is missing.
pub(super) struct Troubles {
    pub(super) address: SocketAddr,
    running: Running,
    /// Dropping the sender ends the reconciliation that blocks its thread.
    unblock: mpsc::Sender<()>,
}

impl Troubles {
    pub(super) async fn start() -> Self {
        let world = World::with_site("blog").await;
        world.create("broken").await;
        world.create("blocking").await;
        let (unblock, blocked) = mpsc::channel();
        let blocked = Mutex::new(blocked);
        let reconcile = move |site: Arc<Website>, _: Context<Website>| {
            let result: Result<Action> = match site.metadata.name.as_str() {
                "broken" => Err(HOSTILE.into()),
                "blocking" => {
                    // Returns when the test drops the sender.
                    blocked.lock().unwrap().recv().unwrap_err();
                    Ok(Action::await_change())
                }
                _ => Ok(Action::await_change()),
            };
            async { result }
        };
        let config = ControllerConfig {
            max_concurrent_reconciles: 2,
            blocked_after: Duration::from_millis(1),
            ..ControllerConfig::default()
        };
        let shards = ShardsConfig { shards: 2, ..ShardsConfig::default() };
        let mut shards = world.cluster.shards("default", "sites", shards).unwrap();
        let (listener, address) = listen().await;
        let manager = world
            .manager()
            .leader_election()
            .serve_on(listener)
            .debug_shards(shards.status())
            .service("shards", async move |stop| {
                shards.run(&stop, async |_: Shard, leadership: Leadership| leadership.cancelled().await).await;
                Ok(())
            })
            .controller(Controller::<Website>::new().name(HOSTILE).config(config).reconcile(reconcile))
            .controller(
                Controller::<Certificate>::new()
                    .watches(|site: &Website| [ObjectKey::new("default", &site.metadata.name)])
                    .reconcile(wait),
            );
        Self { address, running: Running::start(manager), unblock }
    }

    /// Waits until `check` returns `true` for the JSON, and returns this JSON.
    pub(super) async fn eventually(&self, what: &str, check: impl Fn(&Value) -> bool) -> Value {
        self.eventually_at("/debug.json", what, check).await
    }

    pub(super) async fn eventually_at(&self, path: &str, what: &str, check: impl Fn(&Value) -> bool) -> Value {
        eventually(what, async || {
            let (status, body) = get(self.address, path).await?;
            let json = (status == 200).then(|| serde_json::from_str(&body).unwrap());
            json.filter(|json| check(json))
        })
        .await
    }

    pub(super) async fn stop(self) {
        drop(self.unblock);
        self.running.stop().await.unwrap();
    }
}

async fn wait(_: Arc<Certificate>, _: Context<Certificate>) -> Result<Action> {
    Ok(Action::await_change())
}
