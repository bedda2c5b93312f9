//! The state machine of the auditor. The state machine takes observations of the lock and returns findings, without I/O
//! and without reading a clock.

use std::collections::VecDeque;
use std::time::Duration;

use pintle_leaderelect::{LeaderElectionRecord, LockState, Now, UNKNOWN_LEADER, Version};
use pintle_meta::MicroTime;

use crate::finding::{AuditedEnd, Finding};

/// Follows the writes of all contenders to a lock, and reports leadership terms and unsafe events.
///
/// Pass the results of all [reads](Audit::read) of the lock and all events of a [watch](Audit::record_event) to the audit. The
/// audit uses only its own clock, so wrong clocks of contenders have no effect. The audit computes a lower and an upper
/// bound for the time of each write. The lower bound is the time at which the auditor sent the last read that did not
/// return the written record. The upper bound is the time at which the auditor first observed the record. Without a
/// watch, the audit misses changes between two reads, and cannot decide whether a takeover was early, because the
/// holder may have released the lock between two reads. A [`LockAuditor`](crate::LockAuditor) performs the reads and
/// the watch.
#[derive(Debug, Default)]
pub struct Audit {
    seen: Option<Observation>,
    /// Whether the watch is expected to report each version of the lock.
    is_watched: bool,
    /// Whether the last read returned a version that the watch has not reported.
    is_behind: bool,
    last_read: Option<Read>,
    /// The sending time of the last read that returned an older version than `last_read`.
    read_before: Option<Duration>,
    term: Option<AuditedTerm>,
    /// The last record with a holder, and the earliest time at which it was written, if known.
    held: Option<(LeaderElectionRecord, Option<Duration>)>,
    /// The time at which the lock became free, or `None` while the lock is held.
    vacant_since: Option<Duration>,
    last_end: Option<AuditedEnd>,
    /// The last records of up to `PAST` terms that ended because another holder acquired the lock.
    past: VecDeque<LeaderElectionRecord>,
    /// The last version of a `MultiLock` whose halves have different holders, and whether a finding has reported it.
    disagrees: Option<(Version, bool)>,
    summary: AuditSummary,
}

/// A summary of an audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditSummary {
    /// The number of leadership terms that the audit has observed.
    pub terms: usize,
    /// The longest gap between two consecutive leadership terms.
    pub longest_gap: Duration,
    /// A lower bound for the longest time between two renewals.
    pub slowest_renewal: Duration,
    /// The number of [unsafe](Finding::is_unsafe) findings.
    pub unsafe_findings: usize,
}

/// A state of the lock that the auditor has observed.
#[derive(Debug)]
struct Observation {
    state: Option<LockState>,
    /// The latest time at which this state was written.
    by: Duration,
}

#[derive(Debug)]
struct Read {
    version: Option<Version>,
    sent: Duration,
}

#[derive(Debug, Default)]
struct AuditedTerm {
    began: Duration,
    /// Whether a finding has already reported a wrong clock in this leadership term.
    skew_reported: bool,
    invisible_reported: bool,
}

/// The number of past terms that the audit remembers, to detect a former leader that resumes its term.
const PAST: usize = 8;

/// The tolerated difference between two clocks, in seconds.
const SKEW: i64 = 5;

impl Audit {
    /// Creates an audit without any observations.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a summary of all observations so far.
    pub fn summary(&self) -> AuditSummary {
        self.summary.clone()
    }

    /// Records that the watch has ended or may have missed a version of the lock. The audit then relies only on reads.
    pub fn watch_is_down(&mut self) {
        self.is_watched = false;
    }

    /// Records the result of a read of the lock. `sent` is the time on the monotonic clock at which the auditor sent
    /// the read. `found` is `None` if the lock does not exist.
    pub fn read(&mut self, found: Option<&LockState>, sent: Duration, now: Now) -> Vec<Finding> {
        let version = found.map(|state| state.version.clone());
        if let Some(last) = self.last_read.take()
            && last.version != version
        {
            self.read_before = Some(last.sent);
        }
        let after = self.read_before;
        let seen = self.seen.as_ref().and_then(|seen| seen.state.as_ref()).map(|state| &state.version);
        let is_behind = seen != version.as_ref();
        if std::mem::replace(&mut self.is_behind, is_behind) && is_behind {
            // The lock has changed between two reads without a watch event, so the watch is not working.
            self.is_watched = false;
        }
        self.last_read = Some(Read { version, sent });
        if self.is_watched { Vec::new() } else { self.observe(found, after, now) }
    }

    /// Records a watch event. `found` is `None` if the lock was deleted. Unless the event is older than the last observed
    /// version, the audit then assumes that the watch reports each version of the lock. The assumption ends with a call of
    /// [`watch_is_down`](Self::watch_is_down), or when two reads without a watch event between them return states that
    /// the watch has not reported.
    pub fn record_event(&mut self, found: Option<&LockState>, now: Now) -> Vec<Finding> {
        let after = match (&self.last_read, found) {
            (Some(read), Some(found)) if read.version.as_ref() == Some(&found.version) => self.read_before,
            (Some(Read { version: Some(version), sent }), Some(found)) => {
                (version.is_before(&found.version) == Some(true)).then_some(*sent)
            }
            (Some(Read { version: None, sent }), Some(_)) => Some(*sent),
            _ => None,
        };
        let known = self.seen.as_ref().and_then(|seen| seen.state.as_ref());
        let is_old = found.zip(known).is_some_and(|(found, known)| {
            found.version.uid == known.version.uid && found.version.is_before(&known.version) == Some(true)
        });
        if is_old {
            // Either the watch lags behind the reads, or the server was restored from a backup. After a restore, the
            // audit relies on reads until they have returned the current version.
            return Vec::new();
        }
        let findings = self.observe(found, after, now);
        // Set the flag only after processing the event, because the watch does not report changes before its first
        // event.
        (self.is_watched, self.is_behind) = (true, false);
        findings
    }

    /// Reports that the halves of a `MultiLock` have different holders. The first observation of different holders is
    /// not reported, because every write changes one half before the other.
    fn halves(&mut self, found: Option<&LockState>) -> Vec<Finding> {
        let Some(found) = found.filter(|found| found.record.holder_identity == UNKNOWN_LEADER) else {
            self.disagrees = None;
            return Vec::new();
        };
        match &mut self.disagrees {
            Some((version, reported)) if *version == found.version => {
                if std::mem::replace(reported, true) {
                    Vec::new()
                } else {
                    vec![Finding::Disagree]
                }
            }
            disagrees => {
                *disagrees = Some((found.version.clone(), false));
                Vec::new()
            }
        }
    }

    fn observe(&mut self, found: Option<&LockState>, after: Option<Duration>, now: Now) -> Vec<Finding> {
        if found.is_some_and(|found| found.record.holder_identity == UNKNOWN_LEADER) {
            return self.halves(found);
        }
        self.disagrees = None;
        let mut findings = Vec::new();
        let is_first = self.seen.is_none();
        let new = Observation { state: found.cloned(), by: now.monotonic };
        if let (Some(old), Some(found)) = (&mut self.seen, found)
            && let Some(state) = &mut old.state
            && found.repeats(state)
        {
            // This write is not a renewal: candidates do not notice it, because the record is unchanged.
            state.repeated_as(found);
            return findings;
        }
        let old = self.seen.replace(new);
        let old_state = old.as_ref().and_then(|seen| seen.state.as_ref());
        let was = old_state.filter(|state| !state.record.is_vacant());
        let is = found.filter(|state| !state.record.is_vacant());
        match (was, is) {
            (Some(was), Some(is)) if was.version.uid == is.version.uid && is.record.same_term(&was.record) => {
                let by = old.as_ref().map(|seen| seen.by);
                self.renewed(&was.record, &is.record, after.zip(by), now, &mut findings);
            }
            (Some(was), is) => {
                let end = match (found, is) {
                    (Some(found), _) if found.version.uid != was.version.uid => AuditedEnd::Deleted,
                    (None, _) => AuditedEnd::Deleted,
                    (_, None) => AuditedEnd::Released,
                    _ => AuditedEnd::TakenOver,
                };
                self.ended(&was.record, end, now, &mut findings);
                if let Some(is) = is {
                    self.began(&is.record, is_first, now, &mut findings);
                }
            }
            (None, Some(is)) => self.began(&is.record, is_first, now, &mut findings),
            (None, None) => {
                self.vacant_since.get_or_insert(now.monotonic);
            }
        }
        if let Some(is) = is {
            self.held = Some((is.record.clone(), after));
        }
        self.summary.unsafe_findings += findings.iter().filter(|finding| finding.is_unsafe()).count();
        findings
    }

    fn renewed(
        &mut self,
        was: &LeaderElectionRecord,
        is: &LeaderElectionRecord,
        between: Option<(Duration, Duration)>,
        now: Now,
        findings: &mut Vec<Finding>,
    ) {
        let holder = || is.holder_identity.clone();
        let of = was.lease_duration(Duration::ZERO);
        if let Some((after, by)) = between {
            let pause = after.saturating_sub(by);
            self.summary.slowest_renewal = self.summary.slowest_renewal.max(pause);
            match pause {
                // Skip a missing duration, which is reported at the beginning of each term.
                _ if of.is_zero() => {}
                after if after > of => findings.push(Finding::Lapsed { holder: holder(), after, of }),
                after if after * 3 > of * 2 => findings.push(Finding::Late { holder: holder(), after, of }),
                _ => {}
            }
        }
        let Some(term) = &mut self.term else { return };
        let second = |time: Option<MicroTime>| time.map(|time| time.0.as_second());
        let invisible = was.renew_time != is.renew_time && second(was.renew_time) == second(is.renew_time);
        if invisible && !std::mem::replace(&mut term.invisible_reported, true) {
            findings.push(Finding::Invisible { holder: holder() });
        }
        let seconds = second(is.renew_time).unwrap_or_else(|| now.wall.as_second()) - now.wall.as_second();
        if seconds.abs() > SKEW && !std::mem::replace(&mut term.skew_reported, true) {
            findings.push(Finding::Skewed { holder: holder(), seconds });
        }
    }

    fn ended(&mut self, was: &LeaderElectionRecord, end: AuditedEnd, now: Now, findings: &mut Vec<Finding>) {
        let began = self.term.take().map_or(now.monotonic, |term| term.began);
        let lasted = now.monotonic.saturating_sub(began);
        findings.push(Finding::Ended { holder: was.holder_identity.clone(), end, lasted });
        (self.last_end, self.vacant_since) = (Some(end), Some(now.monotonic));
        if end == AuditedEnd::TakenOver {
            self.past.truncate(PAST - 1);
            self.past.push_front(was.clone());
        }
    }

    fn began(&mut self, is: &LeaderElectionRecord, is_first: bool, now: Now, findings: &mut Vec<Finding>) {
        let holder = is.holder_identity.clone();
        let (last, end) = (self.held.take(), self.last_end.take());
        let gap = match (&last, end, self.vacant_since.take()) {
            // Use the time of the last renewal, which is the last known activity of the holder.
            (Some((_, after)), Some(AuditedEnd::TakenOver), Some(_)) => {
                after.map(|after| now.monotonic.saturating_sub(after))
            }
            (_, _, Some(since)) if !is_first => Some(now.monotonic.saturating_sub(since)),
            _ => None,
        };
        self.summary.terms += 1;
        self.summary.longest_gap = self.summary.longest_gap.max(gap.unwrap_or_default());
        findings.push(Finding::Began { holder: holder.clone(), transitions: is.leader_transitions, gap });
        if is.lease_duration_seconds <= 0 {
            findings.push(Finding::NoDuration { holder: holder.clone() });
        }
        self.term = Some(AuditedTerm { began: now.monotonic, ..AuditedTerm::default() });
        let Some((was, after)) = last.filter(|(was, _)| was.holder_identity != holder) else { return };
        // In a coordinated election, two terms of one holder can have the same record, because the control plane clears
        // the acquire time and counts no transitions.
        let is_unique = is.acquire_time.is_some() && is.strategy.is_none();
        if is_unique && self.past.iter().any(|past| is.same_term(past)) {
            findings.push(Finding::Resumed { holder: holder.clone(), after: was.holder_identity.clone() });
            return;
        }
        // Skip this check after the lock was deleted, because its transition count then starts over.
        if end != Some(AuditedEnd::Deleted) && is.leader_transitions != was.leader_transitions.saturating_add(1) {
            let (before, now) = (was.leader_transitions, is.leader_transitions);
            findings.push(Finding::Miscounted { holder: holder.clone(), before, now });
        }
        let of = was.lease_duration(Duration::ZERO);
        let kept = after.map(|after| now.monotonic.saturating_sub(after));
        if let (Some(AuditedEnd::TakenOver | AuditedEnd::Deleted), Some(kept), true) = (end, kept, self.is_watched)
            && kept < of
        {
            findings.push(Finding::TakenEarly { by: holder, from: was.holder_identity, after: kept, of });
        }
    }
}
