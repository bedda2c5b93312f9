//! Those who wait for a key, and who of them is woken.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::OnceLock;
use std::task::Waker;
use std::thread::available_parallelism;

use crate::alarm::{Alarm, Source};
use crate::wakers::{WaiterId, Wakers, Wakes};

/// Those who wait in `get`.
///
/// # How no wake-up is lost
///
/// A waiter is *listed* from the poll that found nothing until it is notified; then it is *notified* until its next poll, or its
/// drop. [`settle`](Waiters::settle) runs at the end of every locked section while anyone is listed, and restores three invariants:
///
/// 1. As many waiters are notified as there are keys to hand out, but no more than there are processors. Or nobody is listed.
/// 2. A notified task that does not come within [`PATIENCE`] counts for nothing. If there still is a key then, all who are listed are
///    notified: a single one could be held up as well.
/// 3. If somebody is listed and there is no key, the time until the next one is kept: by a listed thread, the *timekeeper*, which parks
///    until then, or by the queue's [`Alarm`] if only tasks are listed.
///
/// The section in which a notified waiter takes its key notifies the next, by 1. One that is dropped after being notified passes its
/// wake-up on, by 1 as well; and when the timekeeper leaves, another thread or the alarm takes over, by 3. The alarm also rings when
/// the time of 2 is over, so no other use of the queue is needed.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    wakers: Wakers,
    /// The listed threads.
    threads: BTreeSet<WaiterId>,
    /// Who was notified less than [`PATIENCE`] ago, and when; at most as many as there are processors.
    notified: Vec<Notified>,
    timekeeper: Option<(WaiterId, u64)>,
    /// The alarm failed, so each listed task has to come and bring its executor's timer.
    has_lost_time: bool,
    pub(crate) alarm: Alarm,
}

#[derive(Clone, Copy, Debug)]
struct Notified {
    id: WaiterId,
    at: u64,
    is_task: bool,
}

/// One that waits for a key.
pub(crate) enum Waiter {
    Thread(Waker),
    /// With what creates sleeps where it was polled.
    Task(Waker, Source),
}

/// How long a notified waiter is given to come, in nanoseconds.
const PATIENCE: u64 = 1_000_000;

/// What there is to hand out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Supply {
    /// How many keys can be handed out now.
    pub(crate) available: usize,
    /// When there may be more.
    pub(crate) next: Option<u64>,
}

impl Waiters {
    pub(crate) fn is_empty(&self) -> bool {
        self.wakers.is_empty()
    }

    /// A waiter is polled, or dropped: it is neither listed nor notified any more.
    pub(crate) fn leave(&mut self, id: WaiterId) -> Option<Waker> {
        self.forget(id);
        self.notified.retain(|notified| notified.id != id);
        self.wakers.leave(id)
    }

    /// Lists a task that found nothing: in its old place, if it has one.
    pub(crate) fn join_task(&mut self, id: Option<WaiterId>, waker: Waker) -> WaiterId {
        self.wakers.join(id, waker).0
    }

    /// Lists a thread that found nothing: in its old place, if it has one. If the answer is true the thread is the timekeeper and has to
    /// park until `next` at most.
    pub(crate) fn join_thread(&mut self, id: Option<WaiterId>, waker: Waker, next: Option<u64>) -> (WaiterId, bool) {
        let (id, _) = self.wakers.join(id, waker);
        self.threads.insert(id);
        match (self.timekeeper, next) {
            (None, Some(deadline)) => {
                self.timekeeper = Some((id, deadline));
                (id, true)
            }
            _ => (id, false),
        }
    }

    /// The alarm failed.
    pub(crate) fn lose_time(&mut self) {
        self.has_lost_time = true;
    }

    /// Restores the invariants, but for the alarm. Returns when that has to ring.
    ///
    /// An alarm that is set for a notified task stays when the task has come: another will soon be notified, and to set it anew for each
    /// key costs more than to let it ring once a millisecond.
    pub(crate) fn settle(&mut self, supply: Supply, now: u64, wakes: &mut Wakes) -> Option<u64> {
        let alarm = self.notify_for(supply, now, wakes);
        let set = self.alarm.rings_before(now.saturating_add(PATIENCE));
        alarm.or(set.filter(|_| !self.is_empty()))
    }

    fn notify_for(&mut self, supply: Supply, now: u64, wakes: &mut Wakes) -> Option<u64> {
        let is_due = supply.next.is_some_and(|next| next <= now);
        let wanted = (supply.available + usize::from(is_due)).min(processors());
        let is_held_up = self.drop_late(now) && wanted > 0;
        if is_held_up || std::mem::take(&mut self.has_lost_time) {
            self.notify_all(wakes);
        }
        while self.notified.len() < wanted && self.notify_first(now, wakes) {}
        if self.is_empty() {
            return None;
        }
        if wanted > 0 {
            let tasks = self.notified.iter().filter(|notified| notified.is_task);
            return tasks.map(|notified| notified.at.saturating_add(PATIENCE)).min();
        }
        self.keep_time(supply.next?, now, wakes)
    }

    pub(crate) fn notify_all(&mut self, wakes: &mut Wakes) {
        self.wakers.notify_all(wakes);
        self.threads.clear();
        self.timekeeper = None;
    }

    /// Sees to it that somebody looks at `next`. Returns when that has to be the alarm.
    fn keep_time(&mut self, next: u64, now: u64, wakes: &mut Wakes) -> Option<u64> {
        let Some(thread) = self.timekeeper.map(|(id, _)| id).or(self.threads.first().copied()) else {
            return Some(next);
        };
        let is_kept = self.timekeeper.is_some_and(|(_, deadline)| deadline <= next);
        // A notified thread parks anew when it has found nothing.
        let is_coming = self.notified.iter().any(|notified| !notified.is_task);
        if !is_kept && !is_coming {
            self.notify(thread, now, wakes);
        }
        None
    }

    /// Forgets the notified waiters whose time is over. Returns whether a task was among them.
    fn drop_late(&mut self, now: u64) -> bool {
        let is_late = |notified: &Notified| now.saturating_sub(notified.at) >= PATIENCE;
        let any = self.notified.iter().any(|notified| notified.is_task && is_late(notified));
        self.notified.retain(|notified| !is_late(notified));
        any
    }

    fn notify(&mut self, id: WaiterId, now: u64, wakes: &mut Wakes) {
        if let Some(waker) = self.wakers.leave(id) {
            self.has_notified(id, waker, now, wakes);
        }
    }

    fn notify_first(&mut self, now: u64, wakes: &mut Wakes) -> bool {
        match self.wakers.pop_first() {
            Some((id, waker)) => self.has_notified(id, waker, now, wakes),
            None => return false,
        }
        true
    }

    fn has_notified(&mut self, id: WaiterId, waker: Waker, at: u64, wakes: &mut Wakes) {
        let is_task = !self.threads.contains(&id);
        self.forget(id);
        self.notified.push(Notified { id, at, is_task });
        wakes.push(waker);
    }

    /// A waiter is not listed any more.
    fn forget(&mut self, id: WaiterId) {
        self.threads.remove(&id);
        if self.timekeeper.is_some_and(|(keeper, _)| keeper == id) {
            self.timekeeper = None;
        }
    }
}

/// How many waiters are notified at a time: more could not run at once.
fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    match cfg!(any(pintle_loom, pintle_shuttle)) {
        true => 2,
        false => *PROCESSORS.get_or_init(|| available_parallelism().map_or(1, NonZeroUsize::get)),
    }
}
