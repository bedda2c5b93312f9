//! Many short times of many threads, and what share of them stays below what.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Takes times. Each thread has a clone; what it took joins the others when that is dropped.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch {
    mine: Vec<u64>,
    all: Arc<Mutex<Vec<u64>>>,
}

impl Stopwatch {
    /// How long `call` takes, on the wall.
    pub(crate) fn time<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = call();
        self.note(start.elapsed());
        result
    }

    pub(crate) fn note(&mut self, time: Duration) {
        self.mine.push(time.as_nanos() as u64);
    }

    /// The time that the share `q` of all those taken does not exceed, in microseconds. All other clones have to be gone. Not a
    /// number if no time was taken.
    pub(crate) fn quantile_us(&self, q: f64) -> f64 {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let rank = (q * all.len() as f64).ceil() as usize;
        match rank.clamp(1, all.len().max(1)) - 1 {
            index if index < all.len() => *all.select_nth_unstable(index).1 as f64 / 1e3,
            _ => f64::NAN,
        }
    }
}

/// Another watch for the same times.
impl Clone for Stopwatch {
    fn clone(&self) -> Self {
        Self { mine: Vec::with_capacity(1 << 16), all: Arc::clone(&self.all) }
    }
}

impl Drop for Stopwatch {
    fn drop(&mut self) {
        let mine = mem::take(&mut self.mine);
        self.all.lock().unwrap_or_else(PoisonError::into_inner).extend(mine);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_of_all_that_were_taken() {
        let all = Stopwatch::default();
        for half in [0..50, 50..100] {
            let mut watch = all.clone();
            half.for_each(|i| watch.note(Duration::from_micros(100 - i)));
        }
        assert_eq!([0.5, 0.99, 1.0].map(|q| all.quantile_us(q)), [50.0, 99.0, 100.0]);
        assert!(Stopwatch::default().quantile_us(0.5).is_nan());
    }
}
