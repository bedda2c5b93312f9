//! Setting the alarm of a queue, and the action when it rings.

use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use pintle_ratelimit::Clock;

use super::Shared;
use crate::alarm::Arm;
use crate::metrics::Depth;
use crate::panic::{Panic, catch};
use crate::section::Outside;
use crate::sync::Weak;

/// The waker of the alarm.
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

    /// Runs on the timer's thread. Catches panics of user code, which must not end that thread. The panic hook reports them.
    fn wake_by_ref(self: &Arc<Self>) {
        drop(catch(|| self.0.upgrade().map(|shared| shared.ring())));
    }
}

impl<K, C: Clock> Shared<K, C> {
    /// Queues due keys and notifies waiters.
    fn ring(&self) {
        let mut section = self.section();
        let (state, now) = section.parts();
        let old = state.waiters.alarm.unset();
        state.engine.fire_timers(now);
        drop(section);
        drop(old);
    }

    /// Handles an alarm that cannot be set: wakes all tasks, so that their next polls provide a timer that works.
    fn on_alarm_failure(&self, arm: &Arm) {
        let mut section = self.section();
        let old = section.waiters.alarm.fail(arm);
        section.waiters.on_alarm_failure();
        drop(section);
        drop(old);
    }
}

impl<K, C: Clock> Outside for Shared<K, C> {
    fn arm(&self, arm: Arm) -> Option<Panic> {
        let at = self.instant(arm.at);
        let armed = catch(|| {
            let mut sleep = match (&arm.source, self.sleep_until.get()) {
                (Some(timer), _) => timer.sleep_until(at),
                (None, Some(sleep_until)) => sleep_until(&self.clock, at),
                (None, None) => unreachable!("the alarm is set only after a task has waited"),
            };
            let has_ended = sleep.as_mut().poll(&mut Context::from_waker(&self.ring)).is_ready();
            let is_due = has_ended && self.clock.now() >= at;
            (sleep, has_ended, is_due)
        });
        match armed {
            Ok((sleep, false, _)) => {
                let unused = self.lock().waiters.alarm.install(&arm, sleep);
                drop(unused);
            }
            Ok((_, true, true)) => self.ring(),
            // The timer ended the sleep too early.
            Ok((_, true, false)) => self.on_alarm_failure(&arm),
            Err(panic) => {
                self.on_alarm_failure(&arm);
                return Some(panic);
            }
        }
        None
    }

    fn register(&self, depth: Depth) -> Option<Panic> {
        let gauges = self.gauges.as_ref()?;
        let unused = catch(|| (gauges.register)(depth)).map(|gauge| self.lock().engine.keep_gauge(depth, gauge));
        match unused {
            Ok(unused) => catch(|| drop(unused)).err(),
            Err(panic) => {
                let observer = self.lock().engine.take_observer();
                drop(catch(|| drop(observer)));
                Some(panic)
            }
        }
    }
}
