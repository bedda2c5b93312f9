//! Collects short durations on several threads and computes their quantiles. The kube-rs programs, which do not depend
//! on Pintle, also compile this file.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A collection of durations. Each thread has a separate clone, which adds its durations to the shared list when it
/// is dropped.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch {
    local: Vec<u64>,
    all: Arc<Mutex<Vec<u64>>>,
}

impl Stopwatch {
    pub(crate) fn time<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = call();
        self.note(start.elapsed());
        result
    }

    pub(crate) fn note(&mut self, time: Duration) {
        self.local.push(time.as_nanos() as u64);
    }

    /// Returns the quantile `q` of all durations in microseconds, or NaN if there are no durations. Call this method
    /// after dropping all other clones, because their durations are only added on drop.
    pub(crate) fn quantile_us(&self, q: f64) -> f64 {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        quantile(&mut all, q).map_or(f64::NAN, |nanos| nanos as f64 / 1e3)
    }
}

impl Clone for Stopwatch {
    fn clone(&self) -> Self {
        Self { local: Vec::with_capacity(1 << 16), all: Arc::clone(&self.all) }
    }
}

impl Drop for Stopwatch {
    fn drop(&mut self) {
        let local = mem::take(&mut self.local);
        self.all.lock().unwrap_or_else(PoisonError::into_inner).extend(local);
    }
}

/// Returns the quantile `q` in milliseconds, or NaN if there are no durations.
pub(crate) fn quantile_ms(durations: &mut [Duration], q: f64) -> f64 {
    quantile(durations, q).map_or(f64::NAN, |duration| duration.as_secs_f64() * 1e3)
}

fn quantile<T: Ord + Copy>(values: &mut [T], q: f64) -> Option<T> {
    let rank = (values.len() as f64 * q).ceil() as usize;
    let index = rank.max(1) - 1;
    (index < values.len()).then(|| *values.select_nth_unstable(index).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantile_covers_the_durations_of_all_clones() {
        let all = Stopwatch::default();
        for half in [0..50, 50..100] {
            let mut watch = all.clone();
            half.for_each(|i| watch.note(Duration::from_micros(100 - i)));
        }
        assert_eq!([0.5, 0.99, 1.0].map(|q| all.quantile_us(q)), [50.0, 99.0, 100.0]);
        assert!(Stopwatch::default().quantile_us(0.5).is_nan());
    }
}
