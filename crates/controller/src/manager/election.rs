use std::future::Future;
use std::pin::Pin;

use pintle_leaderelect::{ElectionStatus, LeaderCallbacks, LeaderElector, Leadership, Lock, LossReason};
use tokio_util::sync::CancellationToken;

pub(super) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A [`LeaderElector`] with whatever lock.
pub(super) trait Election: Send {
    fn run<'a>(
        &'a mut self,
        stop: &'a CancellationToken,
        work: Box<dyn FnMut(Leadership) -> Work + Send>,
    ) -> Pin<Box<dyn Future<Output = Option<LossReason>> + Send + 'a>>;

    fn status(&self) -> ElectionStatus;
}

impl<L: Lock> Election for LeaderElector<L> {
    fn run<'a>(
        &'a mut self,
        stop: &'a CancellationToken,
        work: Box<dyn FnMut(Leadership) -> Work + Send>,
    ) -> Pin<Box<dyn Future<Output = Option<LossReason>> + Send + 'a>> {
        Box::pin(LeaderElector::run(self, stop, LeaderCallbacks::new(work)))
    }

    fn status(&self) -> ElectionStatus {
        LeaderElector::status(self)
    }
}
