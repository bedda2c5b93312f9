//! Replaces the system clock of a thread in tests.

use std::cell::RefCell;
use std::time::Duration;

use jiff::Timestamp;

type ReadClock = Box<dyn Fn() -> Duration>;

thread_local! {
    static CLOCK: RefCell<Option<ReadClock>> = const { RefCell::new(None) };
}

/// Returns the current time of the system clock, or of the thread's [`TestClock`].
pub(crate) fn now() -> Timestamp {
    let time = |read: &ReadClock| Timestamp::UNIX_EPOCH.checked_add(read()).unwrap_or(Timestamp::MAX);
    // When a thread ends, its clock may already be destroyed.
    let replaced = CLOCK.try_with(|clock| clock.borrow().as_ref().map(time));
    replaced.ok().flatten().unwrap_or_else(Timestamp::now)
}

/// Replaces the system clock of the current thread until the value is dropped. The replacement returns the time since the
/// Unix epoch.
#[must_use = "the system clock is used again after the value is dropped"]
pub struct TestClock {
    replaced: Option<ReadClock>,
}

impl TestClock {
    /// Replaces the clock of the current thread.
    pub fn set(read: impl Fn() -> Duration + 'static) -> Self {
        Self { replaced: CLOCK.replace(Some(Box::new(read))) }
    }
}

impl Drop for TestClock {
    fn drop(&mut self) {
        CLOCK.set(self.replaced.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{MicroTime, Time};

    #[test]
    fn clock_of_a_thread_is_replaced_until_dropped() {
        let first = TestClock::set(|| Duration::from_secs(1));
        let second = TestClock::set(|| Duration::from_secs(2));
        let [one, two] = [1, 2].map(|second| Timestamp::from_second(second).unwrap());
        assert_eq!((Time::now(), MicroTime::now()), (Time(two), MicroTime(two)));
        assert!(std::thread::spawn(Time::now).join().unwrap() > Time(two));
        drop(second);
        assert_eq!(Time::now(), Time(one));
        drop(first);
        assert!(Time::now() > Time(two));
    }
}
