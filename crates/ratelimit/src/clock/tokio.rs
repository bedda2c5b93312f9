//! tokio's clock and timer.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::task::coop::{poll_proceed, unconstrained};

use super::{Clock, Sleep, Timer};

/// tokio's clock. The clock uses the timer of the current tokio runtime, including the runtime's paused time in tests.
///
/// Like [`tokio::time::sleep`], [`Timer::sleep_until`] panics outside of a tokio runtime, or if the time driver of the
/// runtime is not enabled.
///
/// # Examples
///
/// ```
/// use pintle_ratelimit::{Throttle, TokioClock};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), pintle_ratelimit::ThrottleError> {
/// let throttle = Throttle::new(100.0, 1, TokioClock);
/// throttle.accept().await?; // immediately
/// throttle.accept().await?; // 10 ms later
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioClock;

impl Clock for TokioClock {
    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }
}

impl Timer for TokioClock {
    fn sleep_until(&self, deadline: Instant) -> Sleep {
        // A work queue polls its sleep in any task that adds a key to the queue. Without `unconstrained`, the sleep
        // would not register with the timer if this task has exhausted its cooperative budget.
        Box::pin(unconstrained(tokio::time::sleep_until(deadline.into())))
    }

    fn detached(&self) -> Option<Arc<dyn Timer>> {
        let runtime = Handle::try_current().ok()?;
        Some(Arc::new(RuntimeClock(runtime)))
    }

    fn poll_proceed(&self, cx: &mut Context<'_>) -> Option<Poll<()>> {
        Some(poll_proceed(cx).map(|granted| granted.made_progress()))
    }
}

/// A [`TokioClock`] of a specific tokio runtime. A `RuntimeClock` can be used on any thread, including threads outside
/// of the runtime.
#[derive(Debug)]
struct RuntimeClock(Handle);

impl Clock for RuntimeClock {
    fn now(&self) -> Instant {
        let _inside = self.0.enter();
        TokioClock.now()
    }
}

impl Timer for RuntimeClock {
    fn sleep_until(&self, deadline: Instant) -> Sleep {
        let _inside = self.0.enter();
        TokioClock.sleep_until(deadline)
    }

    fn executor_id(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.0.id().hash(&mut hasher);
        hasher.finish()
    }
}
