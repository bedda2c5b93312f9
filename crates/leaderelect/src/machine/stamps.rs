//! Chooses the times that an elector writes into its records.
//!
//! Each record that an elector writes has a later time than the elector's previous record. As a result, electors can
//! always distinguish a record that may have been stored from all other records. Candidates also observe each renewal
//! as a change. Candidates compare records. If two records had the same time, a candidate that was partitioned for a
//! while could observe an identical record again.
//!
//! Coordinated elections are an exception. In a coordinated election, candidates do not compare records, and the
//! control plane compares the times with its own time of day. If the time of day is set back by a large amount, the
//! times in the records are therefore also set back.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use pintle_meta::MicroTime;

use super::{Machine, TimePrecision};
use crate::clocks::Now;
use crate::record::LeaderElectionRecord;

/// The time in a record, and the values of the clocks when this time was chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    time: MicroTime,
    made: Now,
}

impl Stamp {
    /// Returns whether the time of day was set back by at least `limit` since this stamp was created. If the time of
    /// day stands still, the method returns `false`, because a leader writes at least once per `limit`, and each write
    /// creates a new stamp.
    fn is_set_back(&self, now: Now, limit: Duration) -> bool {
        let signed = |span: Duration| SignedDuration::try_from(span).unwrap_or(SignedDuration::MAX);
        let passed = signed(now.monotonic.saturating_sub(self.made.monotonic));
        passed.saturating_sub(now.wall.duration_since(self.made.wall)) >= signed(limit)
    }
}

impl Machine {
    /// Returns the time to write. The result is the current time, or the time in the previous record plus one unit of
    /// the lock's precision, whichever is later.
    pub(super) fn fresh_time(&mut self, now: Now) -> Timestamp {
        let step = self.precision.step();
        let mut moment = now.wall;
        if let Some(last) = self.last_written {
            if !(self.config.coordinated && last.is_set_back(now, self.config.renew_deadline)) {
                moment = last.time.0.checked_add(step).map_or(moment, |later| later.max(moment));
            }
            while self.is_in_use(self.precision.cut(moment))
                && let Ok(later) = moment.checked_add(step)
            {
                moment = later;
            }
        }
        self.stamp(moment, now);
        if self.precision == TimePrecision::Seconds {
            self.write_not_before = now.monotonic.saturating_add(step);
        }
        moment
    }

    /// Returns the time that a renewal request writes. The last renewal that extended the leadership term may be at
    /// least a second ago. The returned time is then in a later second than that renewal. The returned time is also in
    /// a later second if the time of day does not advance or was set back slightly.
    pub(super) fn renewal_time(&mut self, last: &LeaderElectionRecord, second_passed: bool, now: Now) -> MicroTime {
        let mut moment = self.fresh_time(now);
        let shown = whole_second(last);
        let behind = shown.saturating_sub(moment.as_second());
        let most = i64::try_from(self.config.renew_deadline.as_secs()).unwrap_or(i64::MAX);
        if second_passed && (0..=most).contains(&behind) {
            moment = Timestamp::from_second(shown.saturating_add(1)).unwrap_or(moment);
            self.stamp(moment, now);
        }
        self.precision.cut(moment)
    }

    fn stamp(&mut self, moment: Timestamp, made: Now) {
        self.last_written = Some(Stamp { time: self.precision.cut(moment), made });
    }

    /// Returns whether a record with this time is stored or may be stored.
    fn is_in_use(&self, time: MicroTime) -> bool {
        let seen = self.observed.as_ref().map(|observed| &observed.state.record);
        let mut records = seen.into_iter().chain(self.in_doubt.iter().map(|doubt| &doubt.record));
        records.any(|record| record.renew_time == Some(time))
    }
}

/// Returns the time of a record, rounded down to the precision that client-go's candidates use.
pub(super) fn whole_second(record: &LeaderElectionRecord) -> i64 {
    record.renew_time.map_or(i64::MIN, |time| time.0.as_second())
}
