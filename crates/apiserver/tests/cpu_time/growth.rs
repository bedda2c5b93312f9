//! A test that the processing time of large bodies grows linearly.

use std::time::Duration;

use rustix::time::ClockId;

use crate::bodies::{Heavy, begin, bodies};
use crate::{TURN, cpu_time};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: the step `slow` of `cargo xtask ci --full` runs it"]
async fn work_for_a_heavy_body_grows_linearly() {
    // For four times as much input, a linear algorithm takes four times as long, and a quadratic algorithm takes
    // sixteen times as long. Compare the shortest run times for both sizes.
    const MOST: u32 = 8;
    const TRIES: usize = 8;
    let _turn = TURN.lock().await;
    let effort = async |heavy: &Heavy| {
        let (_server, work) = begin(heavy, false).await;
        let before = cpu_time(ClockId::ProcessCPUTime);
        work.await;
        cpu_time(ClockId::ProcessCPUTime).saturating_sub(before)
    };
    for (part, whole) in bodies(100).iter().zip(bodies(400)) {
        let (mut parts, mut wholes) = (Vec::new(), Vec::new());
        loop {
            parts.push(effort(part).await);
            wholes.push(effort(&whole).await);
            let least = |efforts: &[Duration]| efforts.iter().copied().min().unwrap_or_default();
            if least(&wholes) <= least(&parts) * MOST {
                break;
            }
            assert!(parts.len() < TRIES, "{}: {parts:?}, and {wholes:?}", whole.name);
        }
    }
}
