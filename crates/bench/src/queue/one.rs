//! One key at a time, with nobody else about.

use pintle_workqueue::WorkQueue;

use super::Setting;
use super::keys::{Key, keys};
use crate::Sample;
use crate::meter::{Tally, measure};

/// 1 M keys, one after the other: added, taken, done. Measured the second time round.
pub(super) fn cycle<K: Key>(how: Setting) -> Sample {
    let keys = keys::<K>(how.size(1_000_000));
    again(how, &keys, keys.len())
}

/// The same for one key, 3 M times.
pub(super) fn same<K: Key>(how: Setting) -> Sample {
    again(how, &keys::<K>(1), how.size(3_000_000))
}

fn again<K: Key>(how: Setting, keys: &[K], times: usize) -> Sample {
    let queue: WorkQueue<K> = how.queue();
    let round = || {
        for key in keys.iter().cycle().take(times) {
            queue.add(key.clone());
            drop(queue.blocking_get());
        }
        Tally::keys(times)
    };
    round();
    measure(round)
}

/// 100 keys are added, taken and done, on a new queue each time.
pub(super) fn fresh<K: Key>(how: Setting) -> Sample {
    let queues = how.size(10_000);
    let keys = keys::<K>(100);
    measure(|| {
        for _ in 0..queues {
            let queue: WorkQueue<K> = how.queue();
            for key in &keys {
                queue.add(key.clone());
            }
            keys.iter().for_each(|_| drop(queue.blocking_get()));
        }
        Tally::keys(queues * keys.len())
    })
}
