//! Support for requests that wait in a queue before they are sent.

use std::time::Duration;

use super::{LeaderElectionRecord, LockRequest, Machine, Now, Phase, Purpose, Sent};

impl Machine {
    /// Records that the request of the last [`Instruction::Send`](super::Instruction::Send) is sent now. Returns the
    /// request to send and its timeout.
    ///
    /// The owner must call this method right before it sends a queued request, because the term's deadline is computed
    /// from `now`. For example, requests may be queued behind the requests of other `Machine`s. An owner that sends
    /// each request immediately does not need to call this method.
    ///
    /// Returns `None` if the request is no longer worth sending, for example because the term has ended. After `None`,
    /// the owner must call [`Machine::step`] with [`Signal::Tick`](super::Signal::Tick).
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

    /// Returns the latest time for sending the queued request, on the monotonic clock. For a candidate, this time is
    /// one `renew_deadline` from now, like the deadline of a new term. With this limit, the requests of leaders cannot
    /// delay a candidate's request indefinitely.
    pub fn leave_by(&self, now: Now) -> Duration {
        match &self.phase {
            Phase::Leading(leading) => now.monotonic.saturating_add(leading.deadline.remaining(now)),
            Phase::Releasing(releasing) => releasing.until,
            _ => now.monotonic.saturating_add(self.config.renew_deadline),
        }
    }

    fn is_wanted(&self, purpose: Purpose, now: Now) -> bool {
        match (&self.phase, purpose) {
            (Phase::Leading(leading), Purpose::Renew) => !leading.deadline.has_passed(now),
            (Phase::Releasing(releasing), Purpose::Release) => now.monotonic < releasing.until,
            (Phase::Following, Purpose::Contend) => !self.stopping,
            _ => false,
        }
    }

    fn renewed_request(&mut self, request: LockRequest, purpose: Purpose, now: Now) -> LockRequest {
        match (request, purpose) {
            // Create the renewal again, because a watch event may require a read first if it arrived while the renewal
            // was queued.
            (LockRequest::Update { .. }, Purpose::Renew) => self.next_renewal(now),
            (LockRequest::Update { base, record }, Purpose::Contend) => {
                let is_newest = self.observed.as_ref().is_some_and(|observed| observed.state.version == base);
                if is_newest {
                    LockRequest::Update { base, record: self.restamped(record, now) }
                } else {
                    LockRequest::Read
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
        // An acquire time that differs from the renew time was set by the control plane, so keep it.
        let acquire_time = if record.acquire_time == record.renew_time { time } else { record.acquire_time };
        LeaderElectionRecord { acquire_time, renew_time: time, ..record }
    }

    pub(super) fn timeout(&self, now: Now) -> Duration {
        let left = match &self.phase {
            Phase::Leading(leading) => leading.deadline.remaining(now),
            Phase::Releasing(releasing) => releasing.until.saturating_sub(now.monotonic),
            _ => Duration::MAX,
        };
        self.config.request_timeout().min(left)
    }
}
