//! The clocks of a simulated machine, and the events that stop them.

use std::pin::Pin;
use std::sync::Mutex;
use std::time::Duration;

use jiff::Timestamp;
use pintle_leaderelect::{Clocks, Deadline, Now};
use tokio::time::Instant;

/// The wall-clock time at the start of each simulation, in seconds.
pub(super) const DAWN: i64 = 1_800_000_000;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Halt {
    /// The process is stopped, but its clocks run.
    Stopped,
    /// The machine is suspended, which stops only the monotonic clock.
    Suspended,
    /// The virtual machine is paused, and only its wall clock keeps running.
    VmPaused,
}

#[derive(Debug)]
pub(crate) struct NodeClock {
    born: Instant,
    rate: f64,
    state: Mutex<Halts>,
}

#[derive(Debug, Default)]
struct Halts {
    wall_offset: i64,
    present: Option<(Halt, Instant, Instant)>,
    /// The total time for which the boot clock was stopped.
    boot_lag: Duration,
    monotonic_lag: Duration,
}

impl NodeClock {
    pub(crate) fn new(rate: f64, wall_offset: i64) -> Self {
        let state = Mutex::new(Halts { wall_offset, ..Halts::default() });
        Self { born: Instant::now(), rate, state }
    }

    pub(crate) fn rate(&self) -> f64 {
        self.rate
    }

    pub(crate) fn monotonic(&self) -> Duration {
        let now = Instant::now();
        let (_, lag) = self.state.lock().unwrap().lags(now);
        self.on_clock(now - self.born - lag)
    }

    /// Converts a time to the rate of this clock, in whole microseconds like the times in a Lease.
    fn on_clock(&self, lived: Duration) -> Duration {
        // Use floating-point numbers, because 128-bit integers are ten times slower here.
        Duration::from_micros((lived.as_micros() as u64 as f64 * self.rate) as u64)
    }

    /// Returns `false` if the process has already been halted.
    pub(crate) fn halt(&self, how: Halt, until: Instant) -> bool {
        let runs = !self.is_halted();
        if runs {
            let mut state = self.state.lock().unwrap();
            state.settle();
            state.present = Some((how, Instant::now(), until));
        }
        runs
    }

    pub(crate) fn is_halted(&self) -> bool {
        self.state.lock().unwrap().present.is_some_and(|(_, _, until)| until > Instant::now())
    }

    pub(crate) async fn awake(&self) {
        loop {
            let until = self.state.lock().unwrap().present.map(|(_, _, until)| until);
            match until.filter(|until| *until > Instant::now()) {
                Some(until) => tokio::time::sleep_until(until).await,
                None => return,
            }
        }
    }

    pub(crate) fn jump_wall(&self, seconds: i64) {
        self.state.lock().unwrap().wall_offset += seconds;
    }

    pub(crate) async fn pass(&self, span: Duration) {
        let wake = self.monotonic() + span;
        self.sleep_until(Deadline::monotonic(wake)).await;
    }
}

impl Halts {
    /// Returns for how long the boot clock and the monotonic clock were stopped before `now`.
    fn lags(&self, now: Instant) -> (Duration, Duration) {
        let stood = self.present.map_or(Duration::ZERO, |(_, since, until)| until.min(now) - since);
        let how = self.present.map(|(how, _, _)| how);
        let boot = if how == Some(Halt::VmPaused) { stood } else { Duration::ZERO };
        let monotonic = if how == Some(Halt::Stopped) { Duration::ZERO } else { stood };
        (self.boot_lag + boot, self.monotonic_lag + monotonic)
    }

    fn settle(&mut self) {
        (self.boot_lag, self.monotonic_lag) = self.lags(Instant::now());
        self.present = None;
    }
}

impl Clocks for NodeClock {
    fn now(&self) -> Now {
        let now = Instant::now();
        let state = self.state.lock().unwrap();
        let (boot_lag, monotonic_lag) = state.lags(now);
        let on_clock = |lag| self.on_clock(now - self.born - lag);
        // The wall clock runs at the same rate as the node's other clocks, because no time server corrects
        // it.
        let wall = Timestamp::constant(DAWN + state.wall_offset, 0) + on_clock(Duration::ZERO);
        Now { boot: on_clock(boot_lag), monotonic: on_clock(monotonic_lag), wall }
    }

    fn sleep_until(&self, deadline: Deadline) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            // Timers may fire late, but not early. Timers do not depend on the wall clock.
            let is_monotonic = deadline.wall == Timestamp::MAX;
            let longest = if is_monotonic { Duration::MAX } else { Duration::from_secs(1) };
            loop {
                self.awake().await;
                match deadline.remaining(self.now()) {
                    Duration::ZERO => return,
                    left => tokio::time::sleep(left.div_f64(self.rate).min(longest)).await,
                }
            }
        })
    }
}
