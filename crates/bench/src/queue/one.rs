//! Measures a queue on a single thread, with one key in flight at a time.

use pintle_workqueue::WorkQueue;

use super::Setting;
use super::keys::{Key, keys};
use crate::meter::{Sample, Tally, measure};

/// Adds, gets and finishes 1 M keys, one at a time. Runs two rounds and measures only the second
/// round.
pub(super) fn cycle<K: Key>(setting: Setting) -> Sample {
    let keys = keys::<K>(setting.size(1_000_000));
    again(setting, &keys, keys.len())
}

pub(super) fn same<K: Key>(setting: Setting) -> Sample {
    again(setting, &keys::<K>(1), setting.size(3_000_000))
}

fn again<K: Key>(setting: Setting, keys: &[K], times: usize) -> Sample {
    let queue: WorkQueue<K> = setting.queue();
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

/// Repeatedly creates a queue, and adds, gets and finishes 100 keys.
pub(super) fn fresh<K: Key>(setting: Setting) -> Sample {
    let queues = setting.size(10_000);
    let keys = keys::<K>(100);
    measure(|| {
        for _ in 0..queues {
            let queue: WorkQueue<K> = setting.queue();
            for key in &keys {
                queue.add(key.clone());
            }
            keys.iter().for_each(|_| drop(queue.blocking_get()));
        }
        Tally::keys(queues * keys.len())
    })
}
