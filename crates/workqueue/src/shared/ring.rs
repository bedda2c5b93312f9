//! Sets the alarm of a queue, and handles its wake-ups.

use std::cell::Cell;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use pintle_ratelimit::Clock;

use super::Shared;
use crate::alarm::{Arm, Installed};
use crate::metrics::Depth;
use crate::now::Now;
use crate::panic::{Panic, catch, discard, first, pass_on};
use crate::section::{Outside, Section};
use crate::sync::Weak;

pub(super) struct Ring<K, C>(Weak<Shared<K, C>>);

impl<K: Send + 'static, C: Clock> Ring<K, C> {
    pub(super) fn waker(shared: Weak<Shared<K, C>>) -> Waker {
        Waker::from(Arc::new(Self(shared)))
    }
}

impl<K: Send + 'static, C: Clock> Wake for Ring<K, C> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    /// Handles a wake-up on the timer's thread. Panics in user code are caught, because they must not end the timer's
    /// thread.
    fn wake_by_ref(self: &Arc<Self>) {
        discard(catch(|| self.0.upgrade().map(|shared| shared.ring())).err());
    }
}

/// The maximum number of polls of a new sleep. The alarm fails if the waker is called in each of these polls.
const POLLS: usize = 8;

enum Armed {
    /// This thread or another thread has set the alarm.
    Set,
    IsDue,
    /// The timer ended the sleep too early, or every poll of the sleep called its waker.
    Failed,
}

impl<K, C: Clock> Shared<K, C> {
    /// Queues keys whose delays have ended, and notifies waiters.
    fn ring(&self) {
        let mut state = self.lock();
        if state.waiters.alarm.defer_ring() {
            return;
        }
        pass_on(self.ring_in(self.enter(state)));
    }

    fn ring_in(&self, mut section: Section<'_, K>) -> Option<Panic> {
        let (state, now) = section.parts();
        let old = state.waiters.alarm.unset();
        state.engine.fire_timers(now);
        let panic = section.end();
        first(panic, catch(|| drop(old)).err())
    }

    /// Sets the alarm. If a poll of the new sleep calls the waker, polls it again, because the sleep is already due or
    /// the executor forces the task to yield.
    fn set_alarm(&self, arm: &Arm) -> Armed {
        let at = self.instant(arm.at);
        let mut sleep = match (&arm.source, self.sleep_until.get()) {
            (Some(timer), _) => timer.sleep_until(at),
            (None, Some(sleep_until)) => sleep_until(&self.clock, at),
            (None, None) => unreachable!("the alarm is set only after a task has waited"),
        };
        for _ in 0..POLLS {
            if sleep.as_mut().poll(&mut Context::from_waker(&self.ring)).is_ready() {
                return if self.clock.now() >= at { Armed::IsDue } else { Armed::Failed };
            }
            let installed = self.lock().waiters.alarm.install(arm, sleep);
            match installed {
                Installed::Done => return Armed::Set,
                Installed::Outdated(sleep) => {
                    drop(sleep);
                    return Armed::Set;
                }
                Installed::HasRung(again) => sleep = again,
            }
        }
        Armed::Failed
    }

    /// Wakes all waiting tasks after an attempt to set the alarm has failed. The next poll of a woken task provides a
    /// working timer.
    fn on_alarm_failure(&self, arm: &Arm, mut section: Section<'_, K>) -> Option<Panic> {
        let old = section.waiters.alarm.fail(arm);
        section.waiters.on_alarm_failure();
        let panic = section.end();
        first(panic, catch(|| drop(old)).err())
    }
}

impl<K, C: Clock> Outside for Shared<K, C> {
    /// Sets the alarm. If the alarm is already due, handles it and sets the next alarm. A loop instead of a recursion
    /// limits the stack depth.
    fn arm(&self, arm: Arm) -> Option<Panic> {
        let (mut next, mut panic) = (Some(arm), None);
        while let Some(arm) = next {
            let armed = catch(|| self.set_alarm(&arm));
            let later = ArmLater { shared: self, arm: Cell::new(None) };
            let section = || Section::new(self.lock(), &self.inbox, Now::new(&self.clock, self.epoch), &later);
            let of_alarm = match armed {
                Ok(Armed::Set) => None,
                Ok(Armed::IsDue) => self.ring_in(section()),
                Ok(Armed::Failed) => self.on_alarm_failure(&arm, section()),
                Err(panic) => first(Some(panic), self.on_alarm_failure(&arm, section())),
            };
            panic = first(panic, of_alarm);
            next = later.arm.take();
        }
        panic
    }

    fn register(&self, depth: Depth) -> Option<Panic> {
        let gauges = self.gauges.as_ref()?;
        let unused = catch(|| (gauges.register)(depth)).map(|gauge| self.lock().engine.keep_gauge(depth, gauge));
        match unused {
            Ok(unused) => catch(|| drop(unused)).err(),
            Err(panic) => {
                let observer = self.lock().engine.take_observer();
                first(Some(panic), catch(|| drop(observer)).err())
            }
        }
    }
}

struct ArmLater<'a, K, C> {
    shared: &'a Shared<K, C>,
    arm: Cell<Option<Arm>>,
}

impl<K, C: Clock> Outside for ArmLater<'_, K, C> {
    fn arm(&self, arm: Arm) -> Option<Panic> {
        self.arm.set(Some(arm));
        None
    }

    fn register(&self, depth: Depth) -> Option<Panic> {
        self.shared.register(depth)
    }
}
