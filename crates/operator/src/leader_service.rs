//! Services that run only on the leader.

use std::sync::Arc;

use pintle_controller::{Action, Controller as Engine, ReconcileRequest, Singleton};
use tokio_util::sync::CancellationToken;

use crate::Result;
use crate::reconciler::BoxFuture;

pub(crate) type LeaderService = Arc<dyn Fn(CancellationToken) -> BoxFuture<'static, ()> + Send + Sync>;

/// Returns a controller with a single key, whose reconciliation runs the service. The controller drops the
/// service at the end of the leadership term. If the service fails, the controller restarts it with backoff.
pub(crate) fn controller(name: &str, service: LeaderService, stop: &CancellationToken) -> Engine<Singleton> {
    let stop = stop.clone();
    Engine::singleton(name).reconciler(move |_: ReconcileRequest<Singleton>| {
        let run = service(stop.clone());
        async move {
            run.await?;
            Result::Ok(Action::await_change())
        }
    })
}
