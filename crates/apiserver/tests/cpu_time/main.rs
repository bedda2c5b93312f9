//! Tests that measure CPU time. The tests measure the CPU time of all threads of a process, so they are a separate
//! program and run one at a time.

mod answers;
mod bodies;
mod growth;
mod offloading;
#[expect(dead_code, reason = "the tests in `it` use the other functions")]
#[path = "../it/support.rs"]
mod support;
mod timeouts;

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::Mutex;

static TURN: Mutex<()> = Mutex::const_new(());

fn cpu_time(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).expect("less than a second"))
}

fn cpu_time_of_other_threads() -> Duration {
    cpu_time(ClockId::ProcessCPUTime).saturating_sub(cpu_time(ClockId::ThreadCPUTime))
}
