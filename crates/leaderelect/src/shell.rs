//! The [`Shell`], a task that drives one or more [`Machine`](crate::machine::Machine)s. The task owns the timers, the
//! requests and the watch of the `Machine`s, but does not decide elections.

mod contest;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, pending};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use pintle_meta::__private::Mutex;
use pintle_meta::ObjectKey;
use pintle_metrics::__private::{caught_payload, text};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

use crate::clocks::{Clocks, Deadline};
use crate::lock::{Lock, LockEvent};
use crate::machine::{Hint, Preference, Signal};
use crate::watching::WatchMessage;

use contest::{Answer, Stepped};
pub(crate) use contest::{Contest, Notice};

/// A watch event and the key of its lock, or no key if the event applies to all `Contest`s of the `Shell`.
pub(crate) type Seen<O> = (Option<ObjectKey>, LockEvent<O>);

/// A handle to the task that drives elections, which stops the task when dropped.
pub(crate) struct Shell<L: Lock> {
    /// The channel is unbounded, because each term sends only a few messages.
    orders: mpsc::UnboundedSender<Order<L>>,
    joined: AtomicU64,
    panic_message: watch::Receiver<Option<String>>,
    task: Mutex<Task>,
}

enum Task {
    /// The future of the task before its start.
    Prepared(Pin<Box<dyn Future<Output = ()> + Send>>),
    Started {
        _task: AbortOnDropHandle<()>,
    },
}

enum Order<L: Lock> {
    Join(u64, Box<Seat<L>>),
    WorkEnded(u64),
}

/// A `Contest` in a `Shell`, with its timers and the tokens that end it.
struct Seat<L: Lock> {
    contest: Contest<L>,
    /// The time at which the `Shell` must call `Contest::step` if no event arrives earlier.
    wake: Option<Deadline>,
    /// The latest time for sending the queued request, or `None` if no request is waiting in the queue.
    waits: Option<Duration>,
    needs_watch: bool,
    stop: CancellationToken,
    preference: Option<watch::Receiver<Preference>>,
    /// A token that is cancelled when the run of the elector ends or is dropped.
    gone: CancellationToken,
    ended: oneshot::Sender<thread::Result<()>>,
}

/// Keeps a `Contest` registered in a `Shell` until the `Place` is dropped. After the drop, the `Contest` sends no more
/// requests.
pub(crate) struct Place<'a, L: Lock> {
    shell: &'a Shell<L>,
    id: u64,
    _gone: DropGuard,
}

impl<L: Lock> Shell<L> {
    /// Prepares the task for `Contest`s that share `clocks`. The first call of [`start`](Self::start) or
    /// [`join`](Self::join) spawns this task on the caller's runtime. The maximum number of requests in flight is
    /// `in_flight` or half the number of `Contest`s, whichever is larger. `in_flight` is `None` for a single `Contest`.
    /// `watch` sends the watch events of the locks to the task. The watch may be closed while the second argument of
    /// `watch` is `false`.
    pub(crate) fn new<W, F>(clocks: Arc<dyn Clocks>, in_flight: Option<usize>, watch: W) -> Self
    where
        W: FnOnce(mpsc::Sender<WatchMessage<Seen<L::Object>>>, watch::Receiver<bool>) -> F,
        F: Future<Output = ()> + Send + 'static,
    {
        let (orders, of_us) = mpsc::unbounded_channel();
        let (to_us, hints) = mpsc::channel(8);
        let (needs_watch, is_needed) = watch::channel(false);
        let running = Running {
            clocks,
            in_flight: in_flight.unwrap_or(1).max(1),
            is_shared: in_flight.is_some(),
            seats: BTreeMap::new(),
            keys: BTreeSet::new(),
            timers: BTreeSet::new(),
            waiting: BTreeSet::new(),
            sent: 0,
            peak: 0,
            armed: None,
            events: FuturesUnordered::new(),
            watch_is_up: false,
            watchers: 0,
            needs_watch,
        };
        let run = running.run(of_us, hints, watch(to_us, is_needed));
        let (sender, panic_message) = watch::channel(None);
        let task = Task::Prepared(Box::pin(async move {
            // A panic in the clocks, which are user code, ends all `Contest`s of the `Shell`.
            if let Err(panic) = caught_payload(run).await {
                let message = text(&*panic).unwrap_or("the shell of the elections panicked");
                sender.send_replace(Some(message.into()));
            }
        }));
        Self { orders, joined: AtomicU64::new(0), panic_message, task: Mutex::new(task) }
    }

    /// Starts the task if it is not running yet.
    ///
    /// # Panics
    ///
    /// Panics if called outside the context of a tokio runtime.
    pub(crate) fn start(&self) {
        let mut task = self.task.lock();
        if let Task::Prepared(run) = &mut *task {
            // Panic before `run` is removed, so that a later call inside a runtime can start the task.
            let runtime = Handle::current();
            let run = std::mem::replace(run, Box::pin(pending()));
            *task = Task::Started { _task: AbortOnDropHandle::new(runtime.spawn(run)) };
        }
    }

    /// Adds a `Contest` to the `Shell`. The returned receiver gets a message when the `Contest` has finished. If the
    /// lock panics, the message is the panic.
    pub(crate) fn join(
        &self,
        mut contest: Contest<L>,
        stop: CancellationToken,
        preference: Option<watch::Receiver<Preference>>,
    ) -> (Place<'_, L>, oneshot::Receiver<thread::Result<()>>) {
        self.start();
        let id = self.joined.fetch_add(1, Ordering::Relaxed);
        // Distribute the first renewals over the retry period. The fractional parts of multiples of the golden ratio
        // are evenly distributed for any number of `Contest`s. The first renewal of the first `Contest` is sent after a
        // full retry period.
        contest.begin_renewals_at(1.0 - (id as f64 * 0.618_033_988_749_895).fract());
        let (ended, answer) = oneshot::channel();
        let gone = CancellationToken::new();
        let place = Place { shell: self, id, _gone: gone.clone().drop_guard() };
        let seat = Seat { contest, wake: None, waits: None, needs_watch: false, stop, preference, gone, ended };
        // Ignore the error: sending fails only if the task has ended, and the receiver then gets no message.
        let _ = self.orders.send(Order::Join(id, Box::new(seat)));
        (place, answer)
    }
}

impl<L: Lock> Place<'_, L> {
    /// Waits until the task of the `Shell` ends. Returns the panic message of the task, or `None` if the runtime of the
    /// task has shut down.
    pub(crate) async fn panic_message(&self) -> Option<String> {
        let mut message = self.shell.panic_message.clone();
        let message = message.wait_for(Option::is_some).await.ok()?;
        message.clone()
    }

    pub(crate) fn work_ended(&self) {
        let _ = self.shell.orders.send(Order::WorkEnded(self.id));
    }
}

struct Running<L: Lock> {
    clocks: Arc<dyn Clocks>,
    in_flight: usize,
    is_shared: bool,
    seats: BTreeMap<u64, Seat<L>>,
    keys: BTreeSet<(ObjectKey, u64)>,
    timers: BTreeSet<(Duration, u64)>,
    /// The `Contest`s with queued requests, ordered by the latest time for sending each request.
    waiting: BTreeSet<(Duration, u64)>,
    sent: usize,
    /// The highest number of `Contest`s since the queue was last empty.
    peak: usize,
    /// The current timer. The timer may fire before the first entry of `timers` is due, because `arm` does not replace
    /// an early timer.
    armed: Option<(Deadline, Timer)>,
    events: FuturesUnordered<Awaited<L::Object>>,
    watch_is_up: bool,
    /// The number of `Contest`s that need the watch.
    watchers: usize,
    needs_watch: watch::Sender<bool>,
}

type Timer = Pin<Box<dyn Future<Output = ()> + Send>>;

const EVENTS_A_TICK: u32 = 64;

type Awaited<O> = Pin<Box<dyn Future<Output = (u64, Event<O>)> + Send>>;

enum Event<O> {
    Stop,
    Gone,
    Prefer(watch::Receiver<Preference>),
    Answer(thread::Result<Answer<O>>),
}

impl<L: Lock> Running<L> {
    async fn run(
        mut self,
        mut orders: mpsc::UnboundedReceiver<Order<L>>,
        mut hints: mpsc::Receiver<WatchMessage<Seen<L::Object>>>,
        watch: impl Future<Output = ()>,
    ) {
        let mut watch = pin!(caught_payload(watch));
        let mut watched = true;
        let mut events = 0;
        loop {
            self.send();
            self.arm();
            if *self.needs_watch.borrow() != (self.watchers > 0) {
                self.needs_watch.send_replace(self.watchers > 0);
            }
            events += 1;
            if events > EVENTS_A_TICK {
                events = 0;
                self.tick();
            }
            tokio::select! {
                biased;
                order = orders.recv() => match order {
                    Some(order) => self.handle_order(order),
                    None => return,
                },
                Some((id, event)) = self.events.next(), if !self.events.is_empty() => self.handle_event(id, event),
                Some(message) = hints.recv() => self.handle_watch(message),
                ended = &mut watch, if watched => {
                    watched = false;
                    if let Err(panic) = ended {
                        tracing::error!("the watch of an election panicked; the elector polls from now on");
                        self.handle_watch(WatchMessage::Down);
                        // If there is only one `Contest`, its `run` resumes the panic. If several electors share the
                        // watch, no call of `run` resumes the panic.
                        if !self.is_shared && let Some(id) = self.seats.keys().next().copied() {
                            self.fall_over(id, panic);
                        }
                    }
                }
                () = fired(&mut self.armed) => {
                    (self.armed, events) = (None, 0);
                    self.tick();
                }
            }
        }
    }

    /// Sets the timer for the `Contest` that is due first, unless the current timer fires early enough on all clocks.
    fn arm(&mut self) {
        let wake = self.timers.first().and_then(|(_, id)| self.seats.get(id)).and_then(|seat| seat.wake);
        let is_early = |armed: Deadline, wake: Deadline| armed.or(wake) == armed;
        match (wake, &self.armed) {
            (Some(wake), Some((armed, _))) if is_early(*armed, wake) => {}
            (Some(wake), _) => {
                let clocks = self.clocks.clone();
                self.armed = Some((wake, Box::pin(async move { clocks.sleep_until(wake).await })));
            }
            (None, _) => self.armed = None,
        }
    }

    fn handle_order(&mut self, order: Order<L>) {
        match order {
            Order::Join(id, seat) => {
                let stop = seat.stop.clone();
                self.listen(id, seat.gone.clone(), async move {
                    stop.cancelled().await;
                    Event::Stop
                });
                let mut seat = *seat;
                if self.is_shared {
                    seat.contest.gather_renewals();
                }
                let preference = seat.preference.take();
                self.keys.insert((seat.contest.key.clone(), id));
                self.seats.insert(id, seat);
                self.peak = self.peak.max(self.seats.len());
                if let Some(preference) = preference {
                    self.prefer(id, preference);
                }
                if self.watch_is_up {
                    self.step(id, Signal::Watch(Hint::Up));
                }
                self.step(id, Signal::Tick);
            }
            Order::WorkEnded(id) => self.step(id, Signal::WorkEnded),
        }
    }

    fn handle_event(&mut self, id: u64, event: Event<L::Object>) {
        match event {
            Event::Stop => {
                if let Some(seat) = self.seats.get(&id) {
                    self.listen(id, seat.gone.clone(), pending());
                    self.step(id, Signal::Stop);
                }
            }
            Event::Gone => drop(self.leave(id)),
            Event::Prefer(preference) => self.prefer(id, preference),
            Event::Answer(answer) => {
                self.sent -= 1;
                match (answer, self.seats.get_mut(&id)) {
                    (Ok(answer), Some(seat)) => {
                        let signal = seat.contest.answer(answer);
                        // Send a write after a read without queueing it, because the result of the read could become
                        // outdated in the queue.
                        let was_look = matches!(signal, Signal::Read(Ok(_)));
                        self.step_in(id, signal, was_look);
                    }
                    (Err(panic), Some(_)) => self.fall_over(id, panic),
                    (_, None) => {}
                }
            }
        }
    }

    fn listen(&self, id: u64, gone: CancellationToken, event: impl Future<Output = Event<L::Object>> + Send + 'static) {
        self.events.push(Box::pin(async move {
            tokio::select! {
                biased;
                () = gone.cancelled() => (id, Event::Gone),
                event = event => (id, event),
            }
        }));
    }

    fn prefer(&mut self, id: u64, mut preference: watch::Receiver<Preference>) {
        let now = preference.borrow_and_update().clone();
        self.step(id, Signal::Prefer(now));
        let Some(seat) = self.seats.get(&id) else { return };
        self.listen(id, seat.gone.clone(), async move {
            match preference.changed().await {
                Ok(()) => Event::Prefer(preference),
                // The preference no longer changes, because its sender was dropped.
                Err(_) => pending().await,
            }
        });
    }

    fn handle_watch(&mut self, message: WatchMessage<Seen<L::Object>>) {
        let all = || self.seats.keys().copied().collect::<Vec<_>>();
        match message {
            WatchMessage::Up | WatchMessage::Down => {
                self.watch_is_up = matches!(message, WatchMessage::Up);
                let hint = if self.watch_is_up { Hint::Up } else { Hint::Down };
                all().into_iter().for_each(|id| self.step(id, Signal::Watch(hint.clone())));
            }
            WatchMessage::Event((key, event)) => {
                let (hint, object) = contest::hint(event);
                let concerned = match key {
                    Some(key) => {
                        let of_key = self.keys.range((key.clone(), 0)..=(key, u64::MAX));
                        of_key.map(|(_, id)| *id).collect()
                    }
                    None => all(),
                };
                for id in concerned {
                    if let Some(seat) = self.seats.get_mut(&id) {
                        seat.contest.remember_hint(object.clone());
                    }
                    self.step(id, Signal::Watch(hint.clone()));
                }
            }
        }
    }

    fn tick(&mut self) {
        let now = self.clocks.now();
        // Also check the first `Contest`, whose deadline may have passed on another clock than the monotonic clock.
        let is_due = |id: &u64| self.seats.get(id).and_then(|seat| seat.wake).is_some_and(|wake| wake.has_passed(now));
        let first = self.timers.first().map(|(_, id)| *id).filter(is_due);
        let due = self.timers.range(..=(now.monotonic, u64::MAX)).map(|(_, id)| *id);
        let due: BTreeSet<u64> = due.chain(first).collect();
        due.into_iter().for_each(|id| self.step(id, Signal::Tick));
    }

    fn step(&mut self, id: u64, signal: Signal) {
        self.step_in(id, signal, false);
    }

    /// Steps a `Contest`. If `has_place` is `true`, the `Contest` may send its next request without waiting in the
    /// queue.
    fn step_in(&mut self, id: u64, signal: Signal, has_place: bool) {
        let has_place = has_place || (self.waiting.is_empty() && self.has_room());
        let Some(seat) = self.seats.get_mut(&id) else { return };
        // Catch the panic, because the lock and the clocks are user code.
        let stepped = match catch_unwind(AssertUnwindSafe(|| seat.contest.step(signal))) {
            Ok(stepped) => stepped,
            Err(panic) => return self.fall_over(id, panic),
        };
        let wake = seat.contest.wake_at();
        if let Some(last) = std::mem::replace(&mut seat.wake, wake) {
            self.timers.remove(&(last.monotonic, id));
        }
        self.timers.extend(wake.map(|wake| (wake.monotonic, id)));
        let needs_watch = seat.contest.needs_watch();
        self.watchers -= usize::from(std::mem::replace(&mut seat.needs_watch, needs_watch));
        self.watchers += usize::from(needs_watch);
        match stepped {
            Stepped::Quiet => {}
            Stepped::Sends(_) if has_place => self.begin(id),
            Stepped::Sends(by) => {
                seat.waits = Some(by);
                self.waiting.insert((by, id));
            }
            Stepped::Finished => {
                if let Some(seat) = self.leave(id) {
                    let _ = seat.ended.send(Ok(()));
                }
            }
        }
    }

    /// Returns `true` if another request may be sent immediately. The limit is at least half of the `Contest`s, so a
    /// queued request waits for at most one request timeout. A term survives two consecutive request timeouts.
    fn has_room(&self) -> bool {
        self.sent < self.in_flight.max(self.peak.div_ceil(2))
    }

    /// Sends queued requests, most urgent first, until the limit of requests in flight is reached.
    fn send(&mut self) {
        while self.has_room()
            && let Some((_, id)) = self.waiting.pop_first()
        {
            let Some(seat) = self.seats.get_mut(&id) else { continue };
            seat.waits = None;
            if seat.contest.depart() { self.begin(id) } else { self.step(id, Signal::Tick) }
        }
        if self.waiting.is_empty() {
            self.peak = self.seats.len();
        }
    }

    fn begin(&mut self, id: u64) {
        let Some(seat) = self.seats.get_mut(&id) else { return };
        let Some(exchange) = seat.contest.exchange() else { return };
        let gone = seat.gone.clone();
        self.sent += 1;
        self.events.push(Box::pin(async move {
            let answer = async {
                tokio::select! {
                    biased;
                    () = gone.cancelled() => Answer::Unsent,
                    answer = exchange => answer,
                }
            };
            (id, Event::Answer(caught_payload(answer).await))
        }));
    }

    fn leave(&mut self, id: u64) -> Option<Seat<L>> {
        let seat = self.seats.remove(&id)?;
        self.keys.remove(&(seat.contest.key.clone(), id));
        self.watchers -= usize::from(seat.needs_watch);
        if let Some(wake) = seat.wake {
            self.timers.remove(&(wake.monotonic, id));
        }
        if let Some(by) = seat.waits {
            self.waiting.remove(&(by, id));
        }
        Some(seat)
    }

    /// Removes a `Contest` that has panicked, and sends the panic to its elector.
    fn fall_over(&mut self, id: u64, panic: Box<dyn Any + Send>) {
        if let Some(seat) = self.leave(id) {
            drop(seat.ended.send(Err(panic)));
        }
    }
}

async fn fired(armed: &mut Option<(Deadline, Timer)>) {
    match armed {
        Some((_, timer)) => timer.await,
        None => pending().await,
    }
}
