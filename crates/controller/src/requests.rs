//! The keys that wait to be reconciled.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use pintle_meta::ObjectKey;
use pintle_ratelimit::TokioClock;
use pintle_workqueue::{AddOptions, Added, WorkQueue};
use tokio::time::Instant;

use crate::LOW_PRIORITY;
use crate::attempts::{Answer, Attempts};
use crate::kept::{Kept, MOST_EVENTS};
use crate::panic::catch;

pub(crate) type Queue = WorkQueue<ObjectKey, TokioClock>;

/// The keys that wait to be reconciled, as sources see them. Clones belong to the same controller.
///
/// Keys that are added while the controller does not run are kept, each once, for its next run.
///
/// # Examples
///
/// ```
/// use std::{future, time::Duration};
///
/// use pintle_controller::{Action, Controller, Feed, LOW_PRIORITY, ReconcileRequest, Requests, Source};
/// use pintle_meta::ObjectKey;
/// use pintle_workqueue::AddOptions;
/// use tokio_util::sync::CancellationToken;
///
/// struct Startup;
///
/// impl Source for Startup {
///     fn name(&self) -> &str {
///         "startup"
///     }
///
///     fn start(&self, requests: Requests) -> Feed {
///         let run = async move {
///             requests.add(ObjectKey::new("team-a", "now"));
///             let low = AddOptions { priority: LOW_PRIORITY, ..AddOptions::default() };
///             requests.add_with(ObjectKey::new("team-a", "now-or-later"), low);
///             requests.add_after(ObjectKey::new("team-a", "later"), Duration::from_secs(60));
///             future::pending().await
///         };
///         Feed { synced: Box::pin(future::ready(true)), run: Box::pin(run) }
///     }
/// }
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let stop = CancellationToken::new();
///     let done = stop.clone();
///     let controller = Controller::named("sites").source(Startup).reconciler(move |request: ReconcileRequest| {
///         println!("{}", request.key);
///         done.cancel();
///         async { Ok(Action::await_change()) }
///     });
///     controller.run(&stop).await?;
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct Requests {
    shared: Arc<Shared>,
}

struct Shared {
    controller: String,
    state: Mutex<State>,
    /// Its own lock, which is taken before that of the queue.
    attempts: Mutex<Attempts>,
}

#[derive(Default)]
struct State {
    /// The queue of the present run.
    queue: Option<Queue>,
    /// Tells the queues of two runs apart.
    run: u64,
    /// Whether the present run takes no further keys.
    is_closing: bool,
    kept: Kept,
    has_dropped: bool,
}

impl Requests {
    pub(crate) fn new(controller: &str) -> Self {
        let (state, attempts) = (Mutex::default(), Mutex::default());
        Self { shared: Arc::new(Shared { controller: controller.into(), state, attempts }) }
    }

    /// Has `key` reconciled, as soon as a worker is free. Many adds before that are one; one during the reconciliation of the
    /// key has it reconciled once more.
    pub fn add(&self, key: ObjectKey) {
        self.add_with(key, AddOptions::default());
    }

    /// Has `key` reconciled after a time, or sooner if it is added in another way. If the controller does not run, the key is due
    /// when its next run begins.
    pub fn add_after(&self, key: ObjectKey, after: Duration) {
        self.add_with(key, AddOptions { after: Some(after), ..AddOptions::default() });
    }

    /// Has `key` reconciled as the options say: with a priority, say, for a queue whose order looks at it.
    pub fn add_with(&self, key: ObjectKey, options: AddOptions) {
        _ = self.attempts().change(&key, true, Instant::now());
        self.put(key, options);
    }

    /// Has `key` reconciled because of a change. A change that a failed call of this controller may have caused does not end the
    /// back-off of the key.
    pub(crate) fn change(&self, key: ObjectKey, priority: i32, is_urgent: bool) {
        let answer = self.attempts().change(&key, is_urgent, Instant::now());
        let rate_limited = answer == Answer::AddRateLimited;
        if answer != Answer::Wait {
            self.put(key, AddOptions { priority, rate_limited, after: None });
        }
    }

    /// Adds to the queue of the present run, or keeps the key for the next run.
    fn put(&self, key: ObjectKey, options: AddOptions) {
        loop {
            let (queue, run) = {
                let mut state = self.lock();
                match &state.queue {
                    None => return state.kept.insert(key, options.priority),
                    Some(queue) => (queue.clone(), state.run),
                }
            };
            let added = queue.add_with(key.clone(), options);
            self.let_go(queue);
            if added != Added::ShutDown {
                return;
            }
            let mut state = self.lock();
            if state.run == run {
                return state.kept.insert(key, options.priority);
            }
        }
    }

    /// Keeps the key of an event for the next run.
    pub(crate) fn keep_event(&self, key: ObjectKey) {
        let mut state = self.lock();
        let has_dropped = state.kept.insert_event(key, LOW_PRIORITY, MOST_EVENTS);
        let is_first = has_dropped && !std::mem::replace(&mut state.has_dropped, true);
        drop(state);
        if is_first {
            let (controller, most) = (&self.shared.controller, MOST_EVENTS);
            tracing::info!(
                controller,
                most,
                "more objects were deleted than the standby remembers; it drops the oldest"
            );
        }
    }

    /// Keeps keys that a run left undone.
    pub(crate) fn keep(&self, keys: impl IntoIterator<Item = ObjectKey>) {
        let mut state = self.lock();
        keys.into_iter().for_each(|key| state.kept.insert(key, LOW_PRIORITY));
    }

    /// Takes the keys that were kept, with their priorities.
    pub(crate) fn take_kept(&self) -> Vec<(ObjectKey, i32)> {
        let mut state = self.lock();
        state.has_dropped = false;
        state.kept.take()
    }

    /// Whether there is a run that takes keys.
    pub(crate) fn is_open(&self) -> bool {
        let state = self.lock();
        state.queue.is_some() && !state.is_closing
    }

    /// The present run takes no further keys.
    pub(crate) fn wind_down(&self) {
        self.lock().is_closing = true;
    }

    /// A run begins.
    pub(crate) fn open(&self, queue: Queue) {
        self.attempts().clear();
        let mut state = self.lock();
        state.run += 1;
        state.is_closing = false;
        let before = state.queue.replace(queue);
        drop(state);
        drop(before);
    }

    /// A run has ended. Returns its queue.
    pub(crate) fn close(&self) -> Option<Queue> {
        let queue = self.lock().queue.take();
        self.attempts().clear();
        queue
    }

    /// The queue of the present run.
    pub(crate) fn queue(&self) -> Option<Queue> {
        self.lock().queue.clone()
    }

    pub(crate) fn begin(&self, key: &ObjectKey) {
        self.attempts().begin(key);
    }

    pub(crate) fn succeed(&self, key: &ObjectKey) {
        self.attempts().end(key);
    }

    /// A call failed. Takes back the adds since it began, if they may wait for the retry. Returns whether there was one.
    pub(crate) fn fail(&self, queue: &Queue, key: &ObjectKey, is_terminal: bool) -> bool {
        let mut attempts = self.attempts();
        // Under the lock, so that an urgent add comes either before or after both steps.
        attempts.fail(key, is_terminal, Instant::now()) && queue.remove(key)
    }

    /// A user's order and limiter may panic when the last handle of a queue is dropped.
    fn let_go(&self, queue: Queue) {
        if let Err(panic) = catch(|| drop(queue)) {
            tracing::error!(controller = self.shared.controller, panic, "the queue panicked when it was dropped");
        }
    }

    pub(crate) fn same_as(&self, other: &WeakRequests) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.shared), other.0.as_ptr())
    }

    pub(crate) fn downgrade(&self) -> WeakRequests {
        WeakRequests(Arc::downgrade(&self.shared))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No step under the lock can panic half-way.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attempts(&self) -> MutexGuard<'_, Attempts> {
        // A panic of the queue's metrics leaves a failure that is noted, which is true.
        self.shared.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Requests of a controller that may be gone.
#[derive(Clone)]
pub(crate) struct WeakRequests(Weak<Shared>);

impl WeakRequests {
    pub(crate) fn upgrade(&self) -> Option<Requests> {
        self.0.upgrade().map(|shared| Requests { shared })
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = self.queue();
        f.debug_struct("Requests").field("controller", &self.shared.controller).field("queue", &queue).finish()
    }
}

impl fmt::Debug for WeakRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.upgrade().fmt(f)
    }
}
