//! Work that would hold its thread for long is done on another one, so that a runtime of a single thread goes on answering.

use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::num::NonZero;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio_util::sync::PollSemaphore;

/// What takes more bytes than these is worked on apart. Less takes a few milliseconds at most, and the way there and back some 20 us.
const LONG: usize = 16 << 10;

/// The weight of work that may be long whatever is sent.
pub(crate) const ALWAYS: usize = usize::MAX;

/// The steps that a server takes apart at once: as many as there are processors, since what is made on the way may take hundreds of times
/// as much memory as what is worked on. Each has a processor to itself, or about, and none waits for another.
#[derive(Clone, Debug)]
pub(crate) struct OffloadPermits(Arc<Semaphore>);

impl OffloadPermits {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(most())))
    }
}

fn most() -> usize {
    std::thread::available_parallelism().map_or(2, NonZero::get).max(2)
}

/// Says that what follows, up to where it next waits for something, works on so many bytes. If these are many, it is done on a thread for
/// such work once there is a turn for it, where it is part of something [`Offload`]; else where it is.
///
/// Dropping it has no effect.
pub(crate) async fn work_on(bytes: usize) {
    if !is_long(bytes) {
        return;
    }
    poll_fn(|_| match PLACE.get() {
        StepAt::Here => {
            LEAVES.set(true);
            Poll::Pending
        }
        StepAt::Offloaded | StepAt::Fixed => Poll::Ready(()),
    })
    .await;
}

/// Whether work on so many bytes is worth another thread.
pub(crate) fn is_long(bytes: usize) -> bool {
    bytes > LONG
}

thread_local! {
    /// Where the step is taken that this thread takes now.
    static PLACE: Cell<StepAt> = const { Cell::new(StepAt::Fixed) };
    /// Whether the next step is to be taken apart.
    static LEAVES: Cell<bool> = const { Cell::new(false) };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepAt {
    /// Of something that is not movable.
    Fixed,
    /// On a thread that others wait for.
    Here,
    Offloaded,
}

/// A future some steps of which may be taken on another thread: each that [`work_on`] says is long. For all else it stays where it is, so
/// that nothing that only waits takes a thread of its own; until such a step begins it is asked as any other, so that a deadline in it
/// holds while there is no turn and no thread for the step.
///
/// If it is dropped while such a step is taken, that is taken to its end, and what is left is dropped then; one that has not begun is not
/// taken.
pub(crate) struct Offload<T> {
    state: OffloadState<T>,
    turns: PollSemaphore,
    /// Whether it waits for one of them.
    in_line: bool,
}

impl<T> fmt::Debug for Offload<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offload").finish_non_exhaustive()
    }
}

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

enum OffloadState<T> {
    Here(Work<T>),
    /// The step is taken as soon as there is a thread for it, which takes the work out.
    Offloaded {
        work: Arc<Mutex<Option<Work<T>>>>,
        step: JoinHandle<Option<(Work<T>, Poll<T>)>>,
    },
    /// It is done.
    Over,
}

impl<T> Offload<T> {
    pub(crate) fn new(turns: &OffloadPermits, work: impl Future<Output = T> + Send + 'static) -> Self {
        Self { state: OffloadState::Here(Box::pin(work)), turns: PollSemaphore::new(turns.0.clone()), in_line: false }
    }

    /// Answers with a turn, if it wants one and has it. One that wants none any more is not given one later.
    fn turn(&mut self, wants: bool, context: &mut Context<'_>) -> Option<OwnedSemaphorePermit> {
        if wants {
            let turn = self.turns.poll_acquire(context);
            self.in_line = turn.is_pending();
            // None would come where the semaphore is closed, which nobody does.
            return match turn {
                Poll::Ready(turn) => turn,
                Poll::Pending => None,
            };
        }
        if std::mem::take(&mut self.in_line) {
            self.turns = PollSemaphore::new(self.turns.clone_inner());
        }
        None
    }
}

impl<T: Send + 'static> Future for Offload<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let this = &mut *self;
        loop {
            match std::mem::replace(&mut this.state, OffloadState::Over) {
                OffloadState::Here(mut work) => {
                    let (polled, leaves) = step(&mut work, StepAt::Here, context);
                    if polled.is_ready() {
                        return polled;
                    }
                    let Some(turn) = this.turn(leaves, context) else {
                        this.state = OffloadState::Here(work);
                        return Poll::Pending;
                    };
                    this.state = leave(work, turn, context);
                }
                OffloadState::Offloaded { work, step: mut taken } => {
                    let mut waiting = work.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some(mut queued) = waiting.take() {
                        let (polled, leaves) = step(&mut queued, StepAt::Here, context);
                        if polled.is_ready() {
                            return polled;
                        }
                        if !leaves {
                            this.state = OffloadState::Here(queued);
                            return Poll::Pending;
                        }
                        *waiting = Some(queued);
                    }
                    drop(waiting);
                    let Poll::Ready(end) = Pin::new(&mut taken).poll(context) else {
                        this.state = OffloadState::Offloaded { work, step: taken };
                        return Poll::Pending;
                    };
                    match end.map_err(tokio::task::JoinError::try_into_panic) {
                        Ok(Some((_, Poll::Ready(done)))) => return Poll::Ready(done),
                        // What it waits for is to wake who asks now, who may be another than he who asked when it left.
                        Ok(Some((work, Poll::Pending))) => this.state = OffloadState::Here(work),
                        Err(Ok(panic)) => std::panic::resume_unwind(panic),
                        // The runtime ends, and what it runs with it.
                        Ok(None) | Err(Err(_)) => return Poll::Pending,
                    }
                }
                OffloadState::Over => return Poll::Pending,
            }
        }
    }
}

/// Has the next step of the work taken on a thread for such, if somebody still waits for it then.
fn leave<T: Send + 'static>(work: Work<T>, turn: OwnedSemaphorePermit, context: &Context<'_>) -> OffloadState<T> {
    let work = Arc::new(Mutex::new(Some(work)));
    let (waiting, waker) = (Arc::downgrade(&work), context.waker().clone());
    let step = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        let mut work = waiting.upgrade()?.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let (polled, _) = step(&mut work, StepAt::Offloaded, &mut Context::from_waker(&waker));
        Some((work, polled))
    });
    OffloadState::Offloaded { work, step }
}

/// Takes one step; answers what came of it, and whether the next is to be taken apart.
fn step<T>(work: &mut Work<T>, place: StepAt, context: &mut Context<'_>) -> (Poll<T>, bool) {
    /// One movable thing may be part of another, and of its steps each may panic.
    struct Outer(StepAt, bool);
    impl Drop for Outer {
        fn drop(&mut self) {
            PLACE.set(self.0);
            LEAVES.set(self.1);
        }
    }
    let _outer = Outer(PLACE.replace(place), LEAVES.replace(false));
    let polled = work.as_mut().poll(context);
    (polled, LEAVES.get())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
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
        let places = Offload::new(&OffloadPermits::new(), async {
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
        let panics = Offload::new(&OffloadPermits::new(), async { panic!("here") });
        assert!(tokio::spawn(panics).await.is_err_and(|error| error.is_panic()));
        assert!(work_on(LONG + 1).now_or_never().is_some(), "nor after a panic");
    }

    #[tokio::test]
    async fn a_panic_apart_is_one_of_who_waits() {
        let panics = Offload::new(&OffloadPermits::new(), async {
            work_on(LONG + 1).await;
            panic!("apart");
        });
        assert!(tokio::spawn(panics).await.is_err_and(|error| error.is_panic()));
    }

    #[tokio::test]
    async fn no_more_steps_are_taken_apart_at_once_than_there_are_processors() {
        let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
        let (mut go, mut steps) = (Vec::new(), Vec::new());
        let turns = OffloadPermits::new();
        for _ in 0..=most() {
            let (end, wait) = std::sync::mpsc::channel::<()>();
            let begun = begun.clone();
            go.push(end);
            steps.push(tokio::spawn(Offload::new(&turns, async move {
                work_on(LONG + 1).await;
                begun.send(here()).expect("somebody counts");
                wait.recv_timeout(Duration::from_secs(30)).is_err_and(|error| error == RecvTimeoutError::Disconnected)
            })));
        }
        for _ in 0..most() {
            assert!(begins.recv().await.is_some_and(|thread| thread != here()));
        }
        assert_eq!(turns.0.available_permits(), 0);
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
        let turns = OffloadPermits::new();
        let work = Offload::new(&turns, async move {
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
        assert_eq!(turns.0.available_permits(), most() - 1, "it keeps its turn");
        go.send(()).expect("it goes on");
        assert_eq!(ended.await, Ok("done"));
    }

    /// The only thread for blocking work waits for this very thing, which has a deadline of its own.
    #[test]
    fn a_step_that_finds_no_turn_or_no_thread_is_given_up_with_the_deadline_in_it_and_never_taken() {
        let runtime = || tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).enable_time().build();
        for no_turn in [false, true] {
            let runtime = runtime().expect("a runtime");
            let (turns, taken) = (OffloadPermits::new(), Arc::new(AtomicBool::new(false)));
            let of_others = turns.0.clone().try_acquire_many_owned(if no_turn { most() as u32 } else { 0 });
            let (free, wait) = std::sync::mpsc::channel::<()>();
            let busy = runtime.spawn_blocking(move || wait.recv().is_err());
            let noted = taken.clone();
            let limited = |limit: Duration| {
                let noted = noted.clone();
                Offload::new(&turns, async move {
                    let long = async {
                        work_on(LONG + 1).await;
                        noted.store(true, Ordering::Relaxed);
                    };
                    tokio::time::timeout(limit, long).await.is_ok()
                })
            };
            assert!(!runtime.block_on(limited(Duration::from_millis(1))), "no turn: {no_turn}");
            drop(free);
            assert!(runtime.block_on(busy).expect("no panic"));
            drop(of_others);
            assert!(!taken.load(Ordering::Relaxed), "nobody waits for it");
            assert!(runtime.block_on(limited(Duration::from_secs(30))), "the next one has its turn");
        }
    }
}
