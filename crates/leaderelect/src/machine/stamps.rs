//! The times in the records of an elector.
//!
//! The time in each record is later than in the elector's previous record. Therefore, an elector recognizes its record
//! after a write with an unknown result, and candidates notice every renewal, even after a partition.
//!
//! A coordinated election is an exception, because the control plane compares the times with its own wall clock. The
//! times in the records go back if the wall clock was set back far enough.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use pintle_meta::MicroTime;

use super::{Machine, TimePrecision};
use crate::clocks::Now;
use crate::record::LeaderElectionRecord;

/// A time in a record, and a reading of the clocks at the time of its choice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    time: MicroTime,
    made: Now,
}

impl Stamp {
    /// Returns `true` if the time of day has been set back by at least `limit` since this stamp was made. A leader
    /// creates a new stamp at least once per `limit`, so a stopped clock never counts as set back.
    fn is_set_back(&self, now: Now, limit: Duration) -> bool {
        let signed = |span: Duration| SignedDuration::try_from(span).unwrap_or(SignedDuration::MAX);
        let passed = signed(now.monotonic.saturating_sub(self.made.monotonic));
        passed.saturating_sub(now.wall.duration_since(self.made.wall)) >= signed(limit)
    }
}

impl Machine {
    /// Returns a time for a new record: the current time, but at least one unit of the lock's precision after the time
    /// in the previous record.
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

    /// Returns the time to write in a renewal. If `second_passed` is `true`, the result is in a later second than the
    /// time in `last`, so that the renewal extends the term. The result is later than `last` even if the time of day
    /// does not advance or was set back slightly.
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

    /// Returns `true` if the server has stored a record with this time, or may have stored one.
    fn is_in_use(&self, time: MicroTime) -> bool {
        let seen = self.observed.as_ref().map(|observed| &observed.state.record);
        let mut records = seen.into_iter().chain(self.in_doubt.iter().map(|doubt| &doubt.record));
        records.any(|record| record.renew_time == Some(time))
    }
}

/// Returns the renew time of a record in whole seconds, which is the precision that client-go's candidates compare.
pub(super) fn whole_second(record: &LeaderElectionRecord) -> i64 {
    record.renew_time.map_or(i64::MIN, |time| time.0.as_second())
}
