//! Sharded controllers, whose keys are divided among replicas.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use pintle_leaderelect::{Leadership, Lease};
use pintle_meta::{ListWatch, ObjectApi};
use pintle_sharding::{Shard, Shards};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::any::AnyController;
use super::election::{Contest, failed, isolated};
use super::team::{SETTLED, Team};
use crate::error::ManagerError;
use crate::panic::caught;

const NAME: &str = "the election of the shards";

pub(super) trait Sharding: Send {
    /// Contends for the leases of the shards until a stop is requested, and sends each leadership term to `terms`.
    fn contend(self: Box<Self>, stop: CancellationToken, terms: mpsc::UnboundedSender<Term>) -> Contest;
}

impl<A: ObjectApi<Lease> + ListWatch<Object = Lease> + Clone> Sharding for Shards<A> {
    fn contend(mut self: Box<Self>, stop: CancellationToken, terms: mpsc::UnboundedSender<Term>) -> Contest {
        Box::pin(async move {
            let work = |shard: Shard, leadership: Leadership| {
                let (ended, done) = oneshot::channel();
                // Ignore the error: sending fails only if the manager and this future are being dropped.
                _ = terms.send(Term { shard, leadership, ended });
                async move { _ = done.await }
            };
            let ended = caught(self.run(&stop, work)).await;
            ended.map(drop).map_err(|panic| failed(NAME, format!("panicked: {panic}")))
        })
    }
}

/// A new leadership term of a shard. The shard's controller runs until the election drops the receiver of `ended`. If
/// the controller ends first, the manager sends a message to `ended`.
pub(super) struct Term {
    shard: Shard,
    leadership: Leadership,
    ended: oneshot::Sender<()>,
}

pub(super) struct ShardGroup {
    pub(super) sharding: Box<dyn Sharding>,
    pub(super) controllers: Vec<Arc<dyn AnyController>>,
}

/// A shard's controller, with a lock that each leadership term holds while it runs the controller.
struct Seat {
    controller: Arc<dyn AnyController>,
    turn: Mutex<()>,
}

impl ShardGroup {
    /// Runs the controllers of all shards that this replica leads, until a stop is requested. If a controller or an
    /// election fails, it requests a stop. On a multi-threaded runtime, the elections run on [a separate
    /// thread](isolated).
    pub(super) async fn run(self, team: &Team) -> Result<(), ManagerError> {
        let (terms, mut begun) = mpsc::unbounded_channel();
        let mut contest = isolated(NAME, self.sharding.contend(team.stop.token.clone(), terms)).fuse();
        let controllers = self.controllers.into_iter();
        let seats: Vec<_> = controllers.map(|controller| Seat { controller, turn: Mutex::default() }).collect();
        let mut running: FuturesUnordered<Pin<Box<dyn Future<Output = ()> + Send>>> = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                over = &mut contest => {
                    let is_stopping = team.stop.token.is_cancelled();
                    // Stop all other components, too, because they only stop after a stop request.
                    team.stop.request();
                    return match over {
                        Ok(()) if !is_stopping => Err(failed(NAME, "ended although no stop was requested")),
                        over => over,
                    };
                }
                Some(term) = begun.recv() => if let Some(seat) = seats.get(term.shard.index() as usize) {
                    running.push(Box::pin(seat.work(team, term)));
                },
                Some(()) = running.next(), if !running.is_empty() => {}
            }
        }
    }
}

impl Seat {
    /// Runs the controller until the leadership term ends. If the term was lost, it also waits for the controller's
    /// running reconciliations. The manager fails if reconciliations block their threads for longer than the shutdown
    /// timeout.
    async fn work(&self, team: &Team, term: Term) {
        let Term { shard, leadership, mut ended } = term;
        let work = async {
            let _turn = self.turn.lock().await;
            if timeout(SETTLED, self.controller.ended()).await.is_err() {
                let blocked = self.controller.blocked().unwrap_or_default();
                let (controller, shard) = (self.controller.name(), shard.index());
                tracing::error!(controller, shard, blocked, "calls of the last term run; giving this shard up");
                leadership.give_up();
                return;
            }
            team.run(&*self.controller, Some(&leadership)).await;
        };
        tokio::select! {
            biased;
            () = ended.closed() => {}
            () = work => {
                // Ignore the error, which means that the term has already ended.
                _ = ended.send(());
                return;
            }
        }
        team.settle(&*self.controller).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::ending::Ending;
    use super::*;
    use crate::stop::Stop;

    /// An election that ends immediately with the given result, or after a stop request if the result is `None`.
    struct Ends(Option<Result<(), ManagerError>>);

    impl Sharding for Ends {
        fn contend(self: Box<Self>, stop: CancellationToken, _: mpsc::UnboundedSender<Term>) -> Contest {
            Box::pin(async move {
                match self.0 {
                    Some(ended) => ended,
                    None => {
                        stop.cancelled().await;
                        Ok(())
                    }
                }
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn election_that_ends_early_fails_and_stops_the_manager() {
        for (ended, expected) in [
            (Some(Ok(())), "ended although no stop was requested"),
            (Some(Err(failed(NAME, "the clock is broken"))), "the clock is broken"),
            (None, ""),
        ] {
            let stop = Stop::new(CancellationToken::new(), Duration::from_secs(1));
            let team = Team::new(Vec::new(), stop.clone(), Arc::new(Ending::default()));
            let has_ended = ended.is_some();
            let group = ShardGroup { sharding: Box::new(Ends(ended)), controllers: Vec::new() };
            let mut run = std::pin::pin!(group.run(&team));
            let first = timeout(Duration::from_secs(10), &mut run).await;
            assert_eq!((first.is_ok(), stop.token.is_cancelled()), (has_ended, has_ended));
            stop.request();
            let ended = match first {
                Ok(ended) => ended,
                Err(_) => run.await,
            };
            let error = ended.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(expected) && error.is_empty() == expected.is_empty(), "{error}");
        }
    }
}
