//! Work that would hold its thread for long is done on another one, so that a runtime of a single thread goes on answering.

use std::cell::Cell;
use std::future::poll_fn;
use std::num::NonZero;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll, ready};

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinHandle;

/// What takes more bytes than these is worked on apart. Less takes a few milliseconds at most, and the way there and back some 20 us.
const LONG: usize = 16 << 10;

/// As many steps are taken apart at once as there are processors: what is made on the way may take hundreds of times as much memory as what
/// is worked on. Each has a processor to itself, or about, and none waits for another.
static TURNS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(most()));

fn most() -> usize {
    std::thread::available_parallelism().map_or(2, NonZero::get).max(2)
}

/// Says that what follows, up to where it next waits for something, works on so many bytes. If these are many, it is done on a thread for
/// such work once there is a turn for it, where it is part of something [`Movable`]; else where it is.
///
/// Dropping it has no effect.
pub(crate) async fn work_on(bytes: usize) {
    if bytes <= LONG || PLACE.get() != StepAt::Here {
        return;
    }
    // It fails only where the semaphore is closed, which nobody does.
    let mut turn = TURNS.acquire().await.ok();
    poll_fn(|_| match turn.take() {
        Some(turn) => {
            LEAVES.set(Some(turn));
            Poll::Pending
        }
        None => Poll::Ready(()),
    })
    .await;
}

thread_local! {
    /// Where the step is taken that this thread takes now.
    static PLACE: Cell<StepAt> = const { Cell::new(StepAt::Fixed) };
    /// With this turn the next step is to be taken apart.
    static LEAVES: Cell<Option<Turn>> = const { Cell::new(None) };
}

type Turn = SemaphorePermit<'static>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepAt {
    /// Of something that is not movable.
    Fixed,
    /// On a thread that others wait for.
    Here,
    Apart,
}

/// A future some steps of which may be taken on another thread: each that [`work_on`] says is long. For all else it stays where it is, so
/// that nothing that only waits takes a thread of its own.
///
/// If it is dropped while such a step is taken, that is taken to its end, and what is left is dropped then.
pub(crate) struct Movable<T>(MovableState<T>);

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

enum MovableState<T> {
    Here(Work<T>),
    Apart(JoinHandle<(Work<T>, Poll<T>)>),
    /// It is done.
    Over,
}

impl<T> Movable<T> {
    pub(crate) fn new(work: impl Future<Output = T> + Send + 'static) -> Self {
        Self(MovableState::Here(Box::pin(work)))
    }
}

impl<T: Send + 'static> Future for Movable<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        loop {
            match &mut self.0 {
                MovableState::Here(work) => {
                    let (polled, leaves) = step(work, StepAt::Here, context);
                    let turn = match leaves {
                        None if polled.is_pending() => return polled,
                        leaves => leaves,
                    };
                    let MovableState::Here(mut work) = std::mem::replace(&mut self.0, MovableState::Over) else {
                        return polled;
                    };
                    if polled.is_ready() {
                        return polled;
                    }
                    let waker = context.waker().clone();
                    self.0 = MovableState::Apart(tokio::task::spawn_blocking(move || {
                        let _turn = turn;
                        let (polled, _) = step(&mut work, StepAt::Apart, &mut Context::from_waker(&waker));
                        (work, polled)
                    }));
                }
                MovableState::Apart(taken) => match ready!(Pin::new(taken).poll(context)) {
                    Ok((_, Poll::Ready(done))) => {
                        self.0 = MovableState::Over;
                        return Poll::Ready(done);
                    }
                    // What it waits for is to wake who asks now, who may be another than he who asked when it left.
                    Ok((work, Poll::Pending)) => self.0 = MovableState::Here(work),
                    Err(error) => match error.try_into_panic() {
                        Ok(panic) => std::panic::resume_unwind(panic),
                        // The runtime ends, and what it runs with it.
                        Err(_) => return Poll::Pending,
                    },
                },
                MovableState::Over => return Poll::Pending,
            }
        }
    }
}

/// Takes one step; answers what came of it, and the turn with which the next is to be taken apart, if it is.
fn step<T>(work: &mut Work<T>, place: StepAt, context: &mut Context<'_>) -> (Poll<T>, Option<Turn>) {
    /// One movable thing may be part of another, and of its steps each may panic.
    struct Outer(StepAt);
    impl Drop for Outer {
        fn drop(&mut self) {
            PLACE.set(self.0);
            LEAVES.take();
        }
    }
    let _outer = Outer(PLACE.replace(place));
    let polled = work.as_mut().poll(context);
    (polled, LEAVES.take())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::RecvTimeoutError;
    use std::thread::{self, ThreadId};
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;

    fn here() -> ThreadId {
        thread::current().id()
    }

    #[tokio::test]
    async fn a_long_step_is_taken_apart_and_the_next_one_is_not() {
        let places = Movable::new(async {
            let mut places = vec![here()];
            work_on(LONG).await;
            places.push(here());
            work_on(LONG + 1).await;
            places.push(here());
            // It is there already.
            work_on(LONG + 1).await;
            places.push(here());
            tokio::task::yield_now().await;
            places.push(here());
            work_on(LONG + 1).await;
            places.push(here());
            places
        });
        let places = places.await.into_iter().map(|place| place == here()).collect::<Vec<_>>();
        assert_eq!(places, [true, true, false, false, true, false]);
    }

    #[tokio::test]
    async fn what_is_not_movable_stays() {
        assert!(work_on(LONG + 1).now_or_never().is_some());
        let panics = Movable::new(async { panic!("here") });
        assert!(tokio::spawn(panics).await.is_err_and(|error| error.is_panic()));
        assert!(work_on(LONG + 1).now_or_never().is_some(), "nor after a panic");
    }

    #[tokio::test]
    async fn a_panic_apart_is_one_of_who_waits() {
        let panics = Movable::new(async {
            work_on(LONG + 1).await;
            panic!("apart");
        });
        assert!(tokio::spawn(panics).await.is_err_and(|error| error.is_panic()));
    }

    #[tokio::test]
    async fn no_more_steps_are_taken_apart_at_once_than_there_are_processors() {
        let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
        let (mut go, mut steps) = (Vec::new(), Vec::new());
        for _ in 0..=most() {
            let (end, wait) = std::sync::mpsc::channel::<()>();
            let begun = begun.clone();
            go.push(end);
            steps.push(tokio::spawn(Movable::new(async move {
                work_on(LONG + 1).await;
                begun.send(here()).expect("somebody counts");
                wait.recv_timeout(Duration::from_secs(30)).is_err_and(|error| error == RecvTimeoutError::Disconnected)
            })));
        }
        for _ in 0..most() {
            assert!(begins.recv().await.is_some_and(|thread| thread != here()));
        }
        assert_eq!(TURNS.available_permits(), 0);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(begins.try_recv().is_err(), "one waits");
        drop(go);
        for step in steps {
            assert!(step.await.expect("no panic"), "nobody waits for long");
        }
        assert!(begins.try_recv().is_ok_and(|thread| thread != here()));
    }

    #[tokio::test]
    async fn what_is_dropped_takes_the_step_that_it_is_at_to_its_end() {
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let (go, wait) = std::sync::mpsc::channel();
        let (end, ended) = tokio::sync::oneshot::channel();
        let work = Movable::new(async move {
            work_on(LONG + 1).await;
            begun.send(()).expect("somebody waits");
            wait.recv_timeout(Duration::from_secs(30)).expect("a word");
            let _end = end.send("done");
            tokio::task::yield_now().await;
            unreachable!("it is dropped");
        });
        let task = tokio::spawn(work);
        has_begun.await.expect("it begins");
        task.abort();
        assert!(task.await.is_err_and(|error| error.is_cancelled()));
        go.send(()).expect("it goes on");
        assert_eq!(ended.await, Ok("done"));
    }
}
