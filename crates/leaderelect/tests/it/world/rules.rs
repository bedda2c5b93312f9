//! The invariants of each simulated cluster. `tests/ROWS.md` lists these invariants (rules) by number, such as S1.

use std::time::Duration;

use pintle_leaderelect::{EndReason, LeaderElectionRecord, Leadership, LockEvent, LockState, Version};
use pintle_meta::ApiError;
use tokio::time::Instant;

use super::network::{Request, Sender};
use super::node::is_same_term;
use super::{Holds, State, World};

impl State {
    fn rule(&mut self, holds: bool, broken: impl FnOnce() -> String) {
        if !holds && self.broken.is_none() {
            self.broken = Some(broken());
        }
    }

    /// Checks that at most one node leads, and that its write was stored before it led. If this node uses both halves,
    /// both halves must have stored its write (rules S1, S2, S3 and S17).
    pub(crate) fn exclusion(&mut self, world: &World) {
        if !world.chaos.tampering && self.nodes.iter().filter(|node| node.leads()).nth(1).is_some() {
            let leaders = self.nodes.iter().filter(|node| node.leads()).map(|node| &node.identity);
            let broken = format!("S1: {:?} lead at {:?}", leaders.collect::<Vec<_>>(), world.start.elapsed());
            self.rule(false, || broken);
        }
        self.outlive();
        let baseless = self.nodes.iter().find(|node| {
            let guard = node.guard.as_ref().filter(|guard| guard.check().is_ok());
            guard.is_some_and(|guard| {
                let counted = guard.deadline().monotonic.saturating_sub(node.renew_deadline);
                !node.has_stored(counted)
            })
        });
        let baseless = baseless.map(|node| node.identity.clone());
        self.rule(baseless.is_none(), || {
            format!("S2, S17: the deadline of {baseless:?} does not start when a stored write was sent")
        });
    }

    /// Counts actions that were in progress during a suspend and that resume while another node is the leader. Counts
    /// each of these actions only once.
    fn outlive(&mut self) {
        for index in 0..self.nodes.len() {
            let node = &self.nodes[index];
            let goes_on = !node.slept.is_empty() && !node.clock.is_halted();
            if goes_on && self.nodes.iter().enumerate().any(|(other, node)| other != index && node.leads()) {
                let now = self.nodes[index].clock.monotonic();
                self.outlived += self.nodes[index].slept.drain(..).filter(|end| now < *end).count();
            }
        }
    }

    /// Reports processes that ended unexpectedly because they violated one of their own invariants.
    pub(crate) fn see_panics(&mut self) {
        let fallen = self.nodes.iter().find(|node| node.has_ended() && !node.stop.is_cancelled());
        let fallen = fallen.map(|node| node.identity.clone());
        self.rule(fallen.is_none(), || format!("the process of {fallen:?} has ended by itself"));
    }

    /// Checks a node's request. A node must not send requests after its election has ended (rule S14). A node must not
    /// create the lock in a coordinated election (rule S18), and must not release the lock while its work may still be
    /// running (rule S4).
    pub(crate) fn sending(&mut self, node: usize, incarnation: u64, request: &Request) {
        let sender = &self.nodes[node];
        if sender.incarnation != incarnation {
            return;
        }
        let identity = sender.identity.clone();
        let guarded = sender.guard.as_ref().is_some_and(|guard| guard.check().is_ok());
        let works = sender.works || guarded || sender.has_effects();
        let ended = sender.has_ended();
        self.rule(!ended, || format!("S14: {identity} sends {request:?} after its end"));
        let creates = matches!(request, Request::Create(_));
        self.rule(!(creates && self.coordinated), || format!("S18: {identity} creates the lock"));
        if let Request::Update(_, record) = request {
            let releases = record.holder_identity.is_empty();
            self.rule(!(releases && works), || format!("S4: {identity} releases the lock while its work may continue"));
        }
    }

    pub(crate) fn answering(&mut self, node: usize, incarnation: u64, answer: &Result<Option<LockState>, ApiError>) {
        let node = &mut self.nodes[node];
        if let (true, Ok(Some(state))) = (node.incarnation == incarnation, answer) {
            node.observe(&state.version);
        }
        // Skip nodes that use both halves, because such a node evaluates a half only after reading both.
        if node.incarnation == incarnation
            && node.holds != Holds::Both
            && let Ok(Some(state)) = answer
        {
            node.knows = state.version.uid.parse().ok();
            // A record with the node's name counts as another holder's record if it does not belong to one of the
            // node's terms (rule S13).
            let term = node.guard.as_ref().filter(|_| node.works).map(|guard| &guard.term().record);
            let is_foreign = |term| !is_same_term(term, &state.record);
            if state.record.holder_identity != node.identity || term.is_some_and(is_foreign) {
                node.usurped = Some(Instant::now());
            }
        }
    }

    pub(crate) fn telling(&mut self, node: usize, incarnation: u64, event: &LockEvent<LockState>) {
        let node = &mut self.nodes[node];
        if let (true, LockEvent::Changed(locked)) = (node.incarnation == incarnation, event) {
            node.knows = locked.state.version.uid.parse().ok();
            node.observe(&locked.state.version);
        }
    }

    /// Checks the beginning of a node's term. The node's previous term must have ended (rule S11), and the fencing
    /// token must be greater than all earlier tokens (rule S8).
    pub(crate) fn started(&mut self, node: usize, leadership: &Leadership) {
        let began = leadership.term().version.clone();
        // If the lock consists of two halves, the fencing token is the secondary half's version.
        let began = match (began.uid.split_once('+'), began.resource_version.split_once('+')) {
            (Some((_, uid)), Some((_, version))) => Version { uid: uid.into(), resource_version: version.into() },
            _ => began,
        };
        let number = |version: &Version| version.resource_version.parse::<u64>().unwrap();
        let identity = self.nodes[node].identity.clone();
        let last = &self.nodes[node];
        let guarded = last.guard.as_ref().is_some_and(|guard| guard.check().is_ok());
        let overlaps = last.works || guarded || last.has_effects();
        self.rule(!overlaps, || format!("S11: a term of {identity} began before the last one ended"));
        let token = leadership.token().map(|token| (token.uid.clone(), token.revision));
        self.rule(token == Some((began.uid.clone(), number(&began))), || format!("S8: {identity} has token {token:?}"));
        if let Some(last) = self.last_term.take() {
            let ordered = last.uid != began.uid || number(&began) > number(&last) || self.tampering;
            self.rule(ordered, || format!("S8: a term with {began:?} began after a term with {last:?}"));
        }
        self.last_term = Some(began);
        self.terms += 1;
        let node = &mut self.nodes[node];
        (node.guard, node.works, node.usurped) = (Some(leadership.clone()), true, None);
    }

    /// Checks one step of the leader's work. The leadership must still be valid (rule S3), and the node must not have
    /// observed another holder (rule S7).
    pub(crate) fn at_work(&mut self, node: usize) {
        let node = &self.nodes[node];
        let identity = node.identity.clone();
        let guarded = node.guard.as_ref().is_some_and(|guard| guard.check().is_ok());
        let usurped = node.usurped.is_some_and(|at| at < Instant::now());
        self.rule(guarded, || format!("S3: {identity} works after its deadline"));
        self.rule(!usurped, || format!("S7: {identity} works after it saw another holder"));
    }

    /// Checks that the leader's work has ended before the end of its term is reported (rule S11).
    pub(crate) fn stopped(&mut self, node: usize, reason: &EndReason) {
        let node = &mut self.nodes[node];
        node.rested = Some(node.clock.monotonic());
        let (identity, works) = (node.identity.clone(), node.works || node.has_effects());
        let over = node.guard.as_ref().is_some_and(|guard| guard.check().is_err());
        self.rule(over && !works, || format!("S11: {identity} was notified of {reason} before its work had ended"));
    }

    /// Checks that no leader is reported twice in a row (rule S11).
    pub(crate) fn new_leader(&mut self, node: usize, leader: &str) {
        let last = self.nodes[node].last_leader.replace(leader.into());
        let identity = self.nodes[node].identity.clone();
        self.rule(last.as_deref() != Some(leader), || format!("S11: {leader:?} was reported twice to {identity}"));
    }

    /// Checks a write to an existing lock against the rules S4 (releases), S6 and S13 (takeovers), S9 (transition
    /// count), S10 (times in the record) and S18 (coordinated elections).
    pub(crate) fn check_write(&mut self, by: &Sender, new: &LeaderElectionRecord) {
        let Some(old) = self.halves[by.half].clone() else { return };
        let node = &self.nodes[by.node];
        if node.is_client_go || node.incarnation != by.incarnation {
            return;
        }
        let (identity, rate, was) = (node.identity.clone(), node.clock.rate(), &old.record);
        let term = node.guard.as_ref().filter(|_| node.works).map(|guard| guard.term().record.clone());
        let counted = new.leader_transitions - was.leader_transitions;
        let of_both = node.holds == Holds::Both;
        if new.holder_identity.is_empty() {
            self.rule(was.holder_identity == identity, || format!("S4: {identity} releases the lock of {was:?}"));
            return self
                .rule(of_both || counted == 0, || format!("S9: a release of {identity} changes the transitions"));
        }
        // A record with the node's name may have been written by another program. Such a record counts as another
        // holder's record (rule S13 in `tests/ROWS.md`).
        let foreign = was.holder_identity != identity || (!of_both && !node.has_written(was));
        if self.coordinated {
            let given = was.holder_identity == identity && was.preferred_holder.is_none();
            let lasts = term.is_some() || node.has_in_time(by.sent_locally, &old);
            self.rule(given, || format!("S18: {identity} takes or renews the lock of {was:?}"));
            self.rule(lasts, || format!("S18: {identity} takes an expired assignment"));
        } else if foreign && !was.holder_identity.is_empty() {
            // The new leader must have observed an unchanged record for the record's lease duration, even if clocks
            // were set (rules S6 and S15).
            let seen = by.sent.saturating_duration_since(old.committed).mul_f64(rate);
            let needed = was.lease_duration(Duration::from_secs(15));
            let enough = seen + Duration::from_micros(5) >= needed;
            self.rule(enough, || format!("S6: {identity} takes over after {seen:?}, but must wait {needed:?}"));
        }
        if was.holder_identity == new.holder_identity {
            self.rule(of_both || counted == 0, || {
                format!("S9: {identity} changes the transitions without a change of the holder")
            });
            let Some(term) = term else { return };
            self.rule(new.renew_time >= was.renew_time, || format!("S10: the renew time of {identity} goes back"));
            let same = new.acquire_time == term.acquire_time;
            return self.rule(same, || format!("S10: the acquire time of {identity} moves within a term"));
        }
        // Each half stores a separate transition count. A write computes both counts from the primary half's count.
        self.rule(of_both || counted == 1, || {
            format!("S9: a change to {identity} changes the transitions by {counted}")
        });
    }
}
