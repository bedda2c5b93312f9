//! Requests that wait for others before they are sent.

use std::time::Duration;

use super::{LeaderElectionRecord, LockRequest, Machine, Now, Phase, Purpose, Sent};

impl Machine {
    /// Stamps the request of the last [`Instruction::Send`](super::Instruction::Send) as sent now. Returns the request to send, and the
    /// time that it may take.
    ///
    /// This is for an owner that had to keep the request back, such as behind those of other machines. Call it right before the request
    /// leaves: the deadline of a term counts from `now`. An owner that sends at once need not call it.
    ///
    /// Returns `None` if there is nothing left to send, such as when the term has ended meanwhile. Then call [`Machine::step`] with a
    /// tick.
    pub fn depart(&mut self, now: Now) -> Option<(LockRequest, Duration)> {
        let Sent { request, purpose, at, overtaken } = self.sent.take()?;
        if !self.is_wanted(purpose, now) {
            if matches!(self.phase, Phase::Following) && self.stopping {
                self.release_rest(now);
            }
            return None;
        }
        let request = if at == now { request } else { self.renewed_request(request, purpose, now) };
        let timeout = self.timeout(now);
        self.sent = Some(Sent { request: request.clone(), purpose, at: now, overtaken });
        Some((request, timeout))
    }

    /// By when the request should leave, on the monotonic clock. A candidate has no deadline. It counts as if it had the time of a leader,
    /// so that it waits for leaders no longer than for other candidates.
    pub fn leave_by(&self, now: Now) -> Duration {
        match &self.phase {
            Phase::Leading(leading) => now.monotonic.saturating_add(leading.deadline.remaining(now)),
            Phase::Releasing(releasing) => releasing.until,
            _ => now.monotonic.saturating_add(self.config.renew_deadline),
        }
    }

    /// Whether that which was asked for is still of use.
    fn is_wanted(&self, purpose: Purpose, now: Now) -> bool {
        match (&self.phase, purpose) {
            (Phase::Leading(leading), Purpose::Renew) => !leading.deadline.has_passed(now),
            (Phase::Releasing(releasing), Purpose::Release) => now.monotonic < releasing.until,
            (Phase::Following, Purpose::Contend) => !self.stopping,
            _ => false,
        }
    }

    /// The same request with the time at which it is sent.
    fn renewed_request(&mut self, request: LockRequest, purpose: Purpose, now: Now) -> LockRequest {
        match (request, purpose) {
            // Made anew, since the watch may have told meanwhile that it has to look first.
            (LockRequest::Update { .. }, Purpose::Renew) => self.next_renewal(now),
            (LockRequest::Update { base, record }, Purpose::Contend) => {
                let is_newest = self.observed.as_ref().is_some_and(|observed| observed.state.version == base);
                match is_newest {
                    true => LockRequest::Update { base, record: self.restamped(record, now) },
                    false => LockRequest::Read,
                }
            }
            (LockRequest::Create(record), _) => LockRequest::Create(self.restamped(record, now)),
            (LockRequest::Read, Purpose::Renew) => {
                if let Phase::Leading(leading) = &mut self.phase {
                    leading.last_sent = now.monotonic;
                }
                LockRequest::Read
            }
            (request, _) => request,
        }
    }

    fn restamped(&mut self, record: LeaderElectionRecord, now: Now) -> LeaderElectionRecord {
        let time = Some(self.precision.cut(self.fresh_time(now)));
        // Which a coordinated election has set before.
        let acquire_time = if record.acquire_time == record.renew_time { time } else { record.acquire_time };
        LeaderElectionRecord { acquire_time, renew_time: time, ..record }
    }

    /// How long a request that is sent now may take.
    pub(super) fn timeout(&self, now: Now) -> Duration {
        let left = match &self.phase {
            Phase::Leading(leading) => leading.deadline.remaining(now),
            Phase::Releasing(releasing) => releasing.until.saturating_sub(now.monotonic),
            _ => Duration::MAX,
        };
        self.config.request_timeout().min(left)
    }
}
