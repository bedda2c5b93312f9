//! Catches panics in user code.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

pub(crate) use pintle_metrics::__private::{catch, caught};

/// Calls `wake`, and logs a panic, because wakers are user code.
pub(crate) fn wake(wake: impl FnOnce()) {
    if let Err(panic) = catch(wake) {
        tracing::error!(panic, "a waker panicked");
    }
}

/// Awaits `future` with a waker that catches panics of the caller's waker. An uncaught panic would end the informer's
/// task and prevent other waiting tasks from being woken.
pub(crate) async fn isolated<F: Future>(future: F) -> F::Output {
    struct Isolated(Waker);
    impl Wake for Isolated {
        fn wake(self: Arc<Self>) {
            wake(|| self.0.wake_by_ref());
        }
    }
    let mut future = pin!(future);
    let mut last: Option<(Waker, Waker)> = None;
    poll_fn(|context| {
        let waker = context.waker();
        let known = last.take().filter(|(known, _)| known.will_wake(waker));
        let (_, isolated) =
            last.insert(known.unwrap_or_else(|| (waker.clone(), Arc::new(Isolated(waker.clone())).into())));
        future.as_mut().poll(&mut Context::from_waker(isolated))
    })
    .await
}
