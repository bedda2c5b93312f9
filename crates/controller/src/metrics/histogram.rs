use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Each power of two of nanoseconds is cut into this many buckets, so a quantile is off by less than a sixteenth.
const STEPS: usize = 16;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// 2^42 ns is over an hour; what takes longer counts as that.
const POWERS: usize = 42;
const BUCKETS: usize = (POWERS - STEP_BITS as usize + 1) * STEPS;

/// Counts durations. Recording is one atomic addition a counter, from any number of threads.
#[derive(Debug)]
pub(crate) struct Histogram {
    buckets: Box<[AtomicU64]>,
    sum_nanos: AtomicU64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        let buckets = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Self { buckets, sum_nanos: AtomicU64::new(0) }
    }

    pub(crate) fn record(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket_of(nanos)].fetch_add(1, Ordering::Relaxed);
        self.sum_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> Distribution {
        let buckets = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        Distribution { buckets, sum: Duration::from_nanos(self.sum_nanos.load(Ordering::Relaxed)) }
    }
}

/// How durations are distributed, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    buckets: Vec<u64>,
    sum: Duration,
}

impl Default for Distribution {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS], sum: Duration::ZERO }
    }
}

impl Distribution {
    /// How many durations there are.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Their sum.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// A duration that the share `q` of all does not exceed, and that is at most a sixteenth too long: `0.5` is the median.
    /// None if there are no durations.
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let count = self.count();
        let rank = ((q.clamp(0.0, 1.0) * count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let at = self.buckets.iter().position(|bucket| {
            seen += bucket;
            seen >= rank
        })?;
        Some(Duration::from_nanos(upper_bound(at)))
    }

    /// Both together.
    #[must_use]
    pub fn merge(mut self, other: &Self) -> Self {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(mine, theirs)| *mine += theirs);
        self.sum += other.sum;
        self
    }

    /// How many durations do not exceed each power of two of nanoseconds, from 2^10 (about a microsecond) up.
    pub(crate) fn cumulative(&self) -> impl Iterator<Item = (Duration, u64)> {
        (10..=POWERS as u32).map(|power| {
            let below = bucket_of(1 << power);
            (Duration::from_nanos(1 << power), self.buckets[..below].iter().sum())
        })
    }
}

/// Values below `STEPS` have a bucket each; above, the first bits of a value say which bucket is its own.
fn bucket_of(nanos: u64) -> usize {
    if nanos < STEPS as u64 {
        return nanos as usize;
    }
    let power = nanos.ilog2();
    let step = (nanos >> (power - STEP_BITS)) as usize - STEPS;
    (((power - STEP_BITS) as usize + 1) * STEPS + step).min(BUCKETS - 1)
}

/// The greatest value of a bucket.
fn upper_bound(bucket: usize) -> u64 {
    let (row, step) = (bucket / STEPS, bucket % STEPS);
    match row {
        0 => step as u64,
        _ => (((STEPS + step + 1) as u64) << (row - 1)) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_lies_in_its_bucket_and_the_bucket_is_narrow() {
        for nanos in (0..5_000).chain((12..41).flat_map(|power| [(1_u64 << power) - 1, 1 << power, (1 << power) + 1])) {
            let bucket = bucket_of(nanos);
            let upper = upper_bound(bucket);
            assert!(nanos <= upper && upper <= nanos + nanos / 16, "{nanos} in {bucket}, up to {upper}");
            assert!(bucket == 0 || upper_bound(bucket - 1) < nanos, "{nanos}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_those_of_the_values() {
        let histogram = Histogram::new();
        assert_eq!(histogram.snapshot().quantile(0.5), None);
        (1..=1_000).for_each(|millis| histogram.record(Duration::from_millis(millis)));
        let distribution = histogram.snapshot();
        for (q, millis) in [(0.0, 1.0), (0.5, 500.0), (0.99, 990.0), (1.0, 1_000.0)] {
            let found = distribution.quantile(q).unwrap().as_secs_f64() * 1_000.0;
            assert!((millis..=millis * 17.0 / 16.0).contains(&found), "{q}: {found} for {millis}");
        }
        assert_eq!((distribution.count(), distribution.sum()), (1_000, Duration::from_millis(500_500)));
        assert_eq!(distribution.clone().merge(&distribution).count(), 2_000);
    }

    #[test]
    fn cumulative_counts_end_with_all() {
        let histogram = Histogram::new();
        [1, 1_023, 1_024, 1_025, 5_000_000].map(Duration::from_nanos).iter().for_each(|nanos| histogram.record(*nanos));
        let distribution = histogram.snapshot();
        let counts: Vec<_> = distribution.cumulative().map(|(_, count)| count).collect();
        assert_eq!((counts[0], counts[1], *counts.last().unwrap()), (2, 4, 5));
        assert!(counts.is_sorted());
    }
}
