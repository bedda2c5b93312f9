//! Services that run on the leader.

use std::future::{pending, ready};
use std::sync::Arc;

use pintle_controller::{Action, Controller as Engine, Feed, ReconcileRequest, Requests, Source};
use pintle_meta::ObjectKey;
use tokio_util::sync::CancellationToken;

use crate::Result;
use crate::reconciler::BoxFuture;

pub(crate) type LeaderService = Arc<dyn Fn(CancellationToken) -> BoxFuture<'static, ()> + Send + Sync>;

/// Returns a controller with a single key. Reconciling this key runs the service. The controller therefore drops the
/// service when the leadership term ends. After an error, the controller starts the service again after a growing
/// delay.
pub(crate) fn controller(name: &str, service: LeaderService, stop: &CancellationToken) -> Engine {
    let stop = stop.clone();
    Engine::named(name).source(EachTerm).reconciler(move |_: ReconcileRequest| {
        let run = service(stop.clone());
        async move {
            run.await?;
            Result::Ok(Action::await_change())
        }
    })
}

/// Adds a single key at the start of each leadership term.
struct EachTerm;

impl Source for EachTerm {
    fn name(&self) -> &str {
        "term"
    }

    fn start(&self, requests: Requests) -> Feed {
        let run = async move {
            requests.add(ObjectKey::cluster("service"));
            pending().await
        };
        Feed { synced: Box::pin(ready(true)), run: Box::pin(run) }
    }
}
