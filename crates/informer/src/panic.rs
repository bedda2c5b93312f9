//! Catches panics in user code.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

pub(crate) fn catch<T>(part: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(part)).map_err(message)
}

pub(crate) async fn caught<F: Future>(part: F) -> Result<F::Output, String> {
    let mut part = pin!(part);
    poll_fn(|context| match catch(|| part.as_mut().poll(context)) {
        Ok(output) => output.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

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

fn message(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "(no message)".into());
    // Dropping the payload may panic with another payload, whose drop may panic as well.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        forget(again);
    }
    text
}
