//! Tracks the progress of the user's steps.

use std::pin::Pin;

use pintle_cluster::Cluster;
use tokio::sync::watch;

use crate::lab::Lab;
use crate::violation::Violation;
use crate::world::World;

pub(super) type Act = Pin<Box<dyn Future<Output = Result<(), Box<dyn std::error::Error + Send + Sync>>>>>;

pub(super) struct Step {
    pub(super) name: String,
    pub(super) act: Box<dyn Fn(Cluster) -> Act + Send + Sync>,
}

pub(super) struct Progress {
    allowed: watch::Sender<usize>,
    done: watch::Sender<usize>,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self { allowed: watch::Sender::new(0), done: watch::Sender::new(0) }
    }

    pub(super) fn allow(&self, steps: usize) {
        self.allowed.send_modify(|allowed| *allowed = steps.max(*allowed));
    }

    pub(super) async fn done(&self, steps: usize) {
        // Waiting cannot fail, because `self` owns the sender.
        let _ = self.done.subscribe().wait_for(|done| *done >= steps).await;
    }

    pub(super) async fn perform<W: World>(&self, lab: &Lab<W>, steps: &[Step]) -> Result<(), Violation> {
        let mut allowed = self.allowed.subscribe();
        for (index, step) in steps.iter().enumerate() {
            // Waiting cannot fail, because `self` owns the sender.
            let _ = allowed.wait_for(|allowed| *allowed > index).await;
            let what = format!("the user's step {:?}", step.name);
            lab.attempt(&what, async || (step.act)(lab.user().clone()).await).await?;
            lab.journal.touch();
            self.done.send_modify(|done| *done = index + 1);
        }
        Ok(())
    }
}
