//! Measures how long an informer blocks the thread of a current-thread runtime.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use tokio::runtime::Builder;

use super::Setting;
use super::informer::{Counter, Handling, Kept, informer};
use crate::meter::{Sample, Tally, measure, thread_cpu};

/// Runs an informer's first list on a single-threaded runtime until a handler has received all objects. Meanwhile,
/// another task yields in a loop and records its longest wait in wall time and in CPU time. Unlike wall time, CPU time
/// excludes periods in which the thread was not scheduled.
pub(super) fn stall(setting: &Setting) -> Sample {
    let runtime = Builder::new_current_thread().enable_all().build().expect("cannot create a runtime");
    let informer = informer::<Pod>(setting, Kept::All, false);
    let (mut longest, mut longest_cpu) = (Duration::ZERO, Duration::ZERO);
    let sample = measure(|| {
        runtime.block_on(async {
            let mut handler = Counter::add(informer.subscribe(), u64::MAX, 1, Handling::Metadata);
            informer.start();
            let synced = async {
                informer.wait_for_sync().await.expect("the informer runs");
                assert!(handler.guard.synced().await, "the informer runs");
            };
            let probe = async {
                let (mut wall, mut cpu) = (Instant::now(), thread_cpu());
                loop {
                    tokio::task::yield_now().await;
                    let (now, now_cpu) = (Instant::now(), thread_cpu());
                    longest = longest.max(now - wall);
                    longest_cpu = longest_cpu.max(now_cpu - cpu);
                    (wall, cpu) = (now, now_cpu);
                }
            };
            tokio::select! {
                () = synced => {}
                () = probe => {}
            }
            assert_eq!(handler.adds(), informer.lister().len());
        });
        Tally::operations(informer.lister().len())
    });
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    sample.with("ms, longest stall", millis(longest)).with("CPU ms, longest stall", millis(longest_cpu))
}
