//! A model of the component of kube-apiserver that selects the leader in a coordinated election.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use pintle_leaderelect::{LeaderElectionRecord, OLDEST_EMULATION_VERSION};
use pintle_meta::MicroTime;
use tokio::time::Instant;

use super::clock::DAWN;
use super::node::Node;
use super::{State, World};

/// The lease duration, in seconds, of a lock assigned by the control plane.
const GIVEN: i32 = 5;

impl World {
    /// Selects a holder about once per second until the end of the simulation.
    pub(super) async fn choose(self: Arc<Self>) {
        loop {
            let pause = self.lock().rng.u64(500..1_500);
            tokio::time::sleep(Duration::from_millis(pause)).await;
            let time = Timestamp::constant(DAWN, 0) + self.start.elapsed();
            self.lock().choose(time);
        }
    }
}

impl State {
    /// If the lock has no valid holder, assigns it to the selected candidate. If the lock has another valid holder,
    /// sets the preferred holder.
    fn choose(&mut self, time: Timestamp) {
        // Sometimes add a candidate with a different version, and sometimes remove a candidate after its response to a
        // ping.
        let (luck, is_gone) = (self.rng.u8(..24), self.rng.u8(..8) == 0);
        // Whether the lease has expired after its holder was asked to yield. kube-apiserver does not write the lease if
        // it would select the same holder again (kubernetes 138066).
        let is_stuck = |record: &LeaderElectionRecord| record.preferred_holder.is_some() && has_expired(record, time);
        let is_stuck = self.halves[0].as_ref().is_some_and(|stored| is_stuck(&stored.record));
        if (luck == 0 && !self.calm) || (luck < 12 && is_stuck) {
            self.eldest = self.rng.usize(..self.nodes.len());
        }
        let any = is_gone && !self.calm;
        let by_age = (0..self.nodes.len()).map(|index| &self.nodes[(self.eldest + index) % self.nodes.len()]);
        let Some(electee) = by_age.into_iter().find(|node| any || answers(node)) else { return };
        let electee = electee.identity.clone();
        let given = |last: LeaderElectionRecord| LeaderElectionRecord {
            holder_identity: electee.clone(),
            lease_duration_seconds: GIVEN,
            acquire_time: None,
            renew_time: Some(MicroTime(time)),
            strategy: Some(OLDEST_EMULATION_VERSION.into()),
            preferred_holder: None,
            ..last
        };
        let record = match self.halves[0].as_ref().map(|stored| &stored.record) {
            None => {
                self.last_uid += 1;
                given(LeaderElectionRecord::default())
            }
            // The selected candidate already holds the lease, so leave the lease unchanged even if it has expired.
            Some(last) if last.holder_identity == electee => return,
            Some(last) if last.is_vacant() || has_expired(last, time) => given(last.clone()),
            Some(last) if last.preferred_holder.as_ref() == Some(&electee) => return,
            Some(last) => LeaderElectionRecord { preferred_holder: Some(electee), ..last.clone() },
        };
        self.put(0, &record);
    }
}

fn answers(node: &Node) -> bool {
    node.cut_off_until <= Instant::now() && !node.clock.is_halted() && !node.has_ended()
}

fn has_expired(record: &LeaderElectionRecord, time: Timestamp) -> bool {
    let lasts = record.lease_duration(Duration::ZERO);
    record.renew_time.is_none_or(|renewed| renewed.0 + lasts < time)
}
