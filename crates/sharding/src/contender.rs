//! Contends for a single shard, and works on the shard while this replica leads it.

use std::time::Duration;

use pintle_leaderelect::{
    Deadline, EndReason, LeaderCallbacks, LeaderElectionConfig, LeaderElector, Leadership, Lease, LeaseLock, TermEnd,
};
use pintle_meta::{ListWatch, ObjectApi};
use pintle_ratelimit::Jitter;
use tokio_util::sync::CancellationToken;

use crate::rivals::Rivals;
use crate::shard::{Shard, fnv1a};

/// One replica's attempts to lead one shard.
pub(crate) struct Contender<'a, A> {
    pub(crate) shard: Shard,
    pub(crate) rivals: &'a Rivals<'a, A>,
    pub(crate) stop: &'a CancellationToken,
}

impl<A: ObjectApi<Lease> + ListWatch<Object = Lease>> Contender<'_, A> {
    /// Contends for the shard until `stop` has been cancelled or the work has ended by itself. Returns the end of the
    /// last term if the work has ended by itself.
    pub(crate) async fn run<W, Fut>(
        self,
        elector: &mut LeaderElector<LeaseLock<A>>,
        work: &W,
    ) -> Option<(Shard, TermEnd<Fut::Output>)>
    where
        W: Fn(Shard, Leadership) -> Fut,
        Fut: Future,
    {
        let LeaderElectionConfig { lease_duration, retry_period, identity, .. } = self.rivals.election;
        let seed = self.rivals.election.seed() ^ fnv1a(format!("{} {identity}", self.shard).as_bytes());
        let (mut pause, mut jitter) = (Duration::ZERO, Jitter::new(seed));
        let TermEnd { reason, work } = loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return None,
                () = self.wait_until_free(pause) => {}
            }
            let callbacks = LeaderCallbacks::new(|leadership| self.work_without_rivals(leadership, work));
            // After a lost leadership term, contend again without a list request. The list request after each
            // acquisition finds rivals.
            match elector.run(self.stop, callbacks).await {
                // The work has not started, because a rival leads a shard. Wait for a random time, so that one of the
                // two conflicting replicas tries again first.
                Some(TermEnd { reason: EndReason::Completed, work: Some(Ok(None)) }) => {
                    pause = jitter.up_to(*retry_period);
                }
                // The leader's work has given up the shard, so let another replica acquire the shard first.
                Some(TermEnd { reason: EndReason::Completed, work: Some(Ok(Some((_, true)))) }) => {
                    pause = *lease_duration;
                }
                end => break end,
            }
        }?;
        let work = match work {
            Some(Ok(output)) => output.map(|(output, _)| Ok(output)),
            Some(Err(panic)) => Some(Err(panic)),
            None => None,
        };
        let has_ended = matches!(reason, EndReason::Completed | EndReason::Panicked);
        has_ended.then_some((self.shard, TermEnd { reason, work }))
    }

    /// Waits for `pause`, and until no rival leads a shard.
    async fn wait_until_free(&self, pause: Duration) {
        let clocks = &self.rivals.election.clocks;
        self.rivals.wait_until_gone().await;
        clocks.sleep_until(Deadline::after(clocks.now(), pause)).await;
        while self.rivals.any_leads().await {
            self.rivals.wait_until_gone().await;
        }
    }

    /// Runs the work if no rival leads a shard, and releases the shard otherwise. Returns the output of the work, and
    /// whether the work has given up the shard. Returns `None` if the work has not started.
    async fn work_without_rivals<W, Fut>(&self, leadership: Leadership, work: &W) -> Option<(Fut::Output, bool)>
    where
        W: Fn(Shard, Leadership) -> Fut,
        Fut: Future,
    {
        let LeaderElectionConfig { clocks, lease_duration, .. } = self.rivals.election;
        // If list requests fail for too long, release the shard, because another replica may be able to list.
        let late = Deadline::after(clocks.now(), *lease_duration);
        let any_leads = tokio::select! {
            biased;
            () = leadership.cancelled() => return None,
            leads = self.rivals.any_leads() => leads,
            () = clocks.sleep_until(late) => true,
        };
        if any_leads {
            leadership.give_up();
            return None;
        }
        let output = work(self.shard, leadership.clone()).await;
        Some((output, leadership.gives_up()))
    }
}
