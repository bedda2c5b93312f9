//! Measures a queue whose many workers change the priorities of queued keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fastrand::Rng;
use pintle_workqueue::{AddOptions, DelayPolicy, MetricsStyle, Priority, QueueConfig, ShutdownMode, WorkQueue};

use super::Setting;
use super::crew::Crew;
use super::keys::{Key, keys};
use crate::meter::{Sample, Tally, measure};

const LEVELS: [i32; 5] = [-100, -10, 0, 10, 100];

/// The queue contains 100 k keys, each with one of five priorities. 1,000 workers process 200 k keys in total. While a
/// worker processes a key, it adds a random key, which is almost always queued. The new priority of this key is equally
/// likely to be higher or lower than before. The worker also adds its own key again, which keeps the length of the
/// queue constant. As in controller-runtime, the queue merges adds.
pub(super) fn priority<K: Key, C: Crew>(crew: &C, setting: Setting) -> Sample {
    let keys: Arc<[K]> = keys(setting.size(100_000)).into();
    let wanted = setting.size(200_000);
    let queue: WorkQueue<K, C::Clock> = WorkQueue::new(QueueConfig {
        order: Box::new(Priority::strict()),
        pending_retry: DelayPolicy::Absorb,
        pending_reminder: DelayPolicy::Absorb,
        metrics_style: MetricsStyle::ControllerRuntime,
        ..setting.config(C::Clock::default())
    });
    let mut random = Rng::with_seed(0);
    for key in &*keys {
        queue.add_with(key.clone(), any_priority(&mut random));
    }
    let taken = Arc::new(AtomicUsize::new(0));
    measure(|| {
        let worker = |seed| {
            let (adding, keys, taken, mut random) =
                (queue.clone(), Arc::clone(&keys), Arc::clone(&taken), Rng::with_seed(seed));
            crew.worker(&queue, move |item| {
                let other = random.usize(..keys.len());
                adding.add_with(keys[other].clone(), any_priority(&mut random));
                adding.add_with(item.key().clone(), any_priority(&mut random));
                drop(item);
                if taken.fetch_add(1, Ordering::Relaxed) + 1 == wanted {
                    let _ = adding.shut_down(ShutdownMode::Abandon);
                }
            })
        };
        let gets = crew.join_all((1..=1000).map(worker).collect());
        Tally { operations: gets, adds: 2 * gets, gets }
    })
}

fn any_priority(random: &mut Rng) -> AddOptions {
    AddOptions { priority: LEVELS[random.usize(..LEVELS.len())], ..AddOptions::default() }
}
