//! Requests that wait in a queue before the owner of the `Machine` sends them.

use std::time::Duration;

use super::{LeaderElectionRecord, LockRequest, Machine, Now, Phase, Purpose, Sent};

impl Machine {
    /// Records that the request of the last [`Instruction::Send`](super::Instruction::Send) is sent now. Returns the
    /// request to send and its timeout.
    ///
    /// The owner of the `Machine` calls this method if the request had to wait in a queue, for example behind the
    /// requests of other `Machine`s. The owner must call this method right before it sends the request, because the
    /// deadline of a leadership term is computed from `now`. An owner that sends each request immediately does not need
    /// this method.
    ///
    /// Returns `None` if sending the request is no longer useful, for example because the leadership term has ended. If
    /// the result is `None`, call [`Machine::step`] with a tick.
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

    /// Returns the time on the monotonic clock by which the queued request should be sent. A candidate has no deadline.
    /// For a candidate's request, the method returns the deadline of a leader whose term starts now. As a result, the
    /// requests of leaders can delay the request of a candidate only for a limited time.
    pub fn leave_by(&self, now: Now) -> Duration {
        match &self.phase {
            Phase::Leading(leading) => now.monotonic.saturating_add(leading.deadline.remaining(now)),
            Phase::Releasing(releasing) => releasing.until,
            _ => now.monotonic.saturating_add(self.config.renew_deadline),
        }
    }

    /// Returns whether it is still useful to send the queued request.
    fn is_wanted(&self, purpose: Purpose, now: Now) -> bool {
        match (&self.phase, purpose) {
            (Phase::Leading(leading), Purpose::Renew) => !leading.deadline.has_passed(now),
            (Phase::Releasing(releasing), Purpose::Release) => now.monotonic < releasing.until,
            (Phase::Following, Purpose::Contend) => !self.stopping,
            _ => false,
        }
    }

    /// Returns the queued request with its times set to the current time.
    fn renewed_request(&mut self, request: LockRequest, purpose: Purpose, now: Now) -> LockRequest {
        match (request, purpose) {
            // Create the renewal request again. A watch event that arrived while the request was in the queue may
            // require a read before the renewal.
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
        // If the acquire time differs from the renew time, the control plane has set the acquire time. Do not change
        // it.
        let acquire_time = if record.acquire_time == record.renew_time { time } else { record.acquire_time };
        LeaderElectionRecord { acquire_time, renew_time: time, ..record }
    }

    /// Returns the timeout for a request that is sent now.
    pub(super) fn timeout(&self, now: Now) -> Duration {
        let left = match &self.phase {
            Phase::Leading(leading) => leading.deadline.remaining(now),
            Phase::Releasing(releasing) => releasing.until.saturating_sub(now.monotonic),
            _ => Duration::MAX,
        };
        self.config.request_timeout().min(left)
    }
}
