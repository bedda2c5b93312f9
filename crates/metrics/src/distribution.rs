//! The distribution of values that a histogram has recorded.

use std::fmt;
use std::iter::zip;

/// A snapshot of the values that a histogram has recorded.
///
/// # Examples
///
/// ```
/// use pintle_metrics::{InMemoryProvider, Metric, MetricKind, Provider};
///
/// static WAIT: Metric =
///     Metric { name: "door_wait_seconds", help: "Waits", kind: MetricKind::Histogram(&[1.0, 10.0]), labels: &[] };
///
/// let memory = InMemoryProvider::new();
/// let wait = memory.histogram(&WAIT, &[]);
/// [0.5, 2.0, 4.0].iter().for_each(|seconds| wait.observe(*seconds));
/// let waits = memory.distribution("door_wait_seconds", &[]).expect("the histogram is alive");
/// assert_eq!(waits.buckets().collect::<Vec<_>>(), [(1.0, 1), (10.0, 2), (f64::INFINITY, 0)]);
/// assert!(waits.quantile(0.5).is_some_and(|median| (2.0..=2.125).contains(&median)));
/// ```
#[derive(Clone, PartialEq)]
pub struct Distribution {
    bounds: &'static [f64],
    /// The number of values in each bucket of the metric. The last bucket counts the values above the highest bound.
    buckets: Vec<u64>,
    sum: f64,
    /// The number of values in each fine bucket, up to the bucket of the largest value. The width of a fine bucket is
    /// at most one sixteenth of the values in it. The distribution needs them, because the buckets of the metric are
    /// too wide for computing quantiles.
    fine: Vec<u64>,
}

/// The number of bits by which an `f64` is shifted to the right to get the index of its fine bucket. This shift leaves
/// the exponent and the first four bits of the mantissa. Therefore, the bounds of a fine bucket differ by at most one
/// sixteenth.
const FINE_SHIFT: u32 = 48;
/// The index of the fine bucket that contains 10⁻⁹, which also counts all smaller values.
const FINE_FIRST: usize = (1e-9f64.to_bits() >> FINE_SHIFT) as usize;

impl Distribution {
    pub(crate) fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, buckets: vec![0; bounds.len() + 1], sum: 0.0, fine: Vec::new() }
    }

    /// Returns the number of recorded values.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the sum of all recorded values.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// Returns an upper bound for the quantile `q`, such as 0.5 for the median, or `None` if no values were recorded.
    /// At least a fraction `q` of the values is less than or equal to this bound. The bound exceeds the exact quantile
    /// by at most one sixteenth, or by at most 10⁻⁹ for very small values.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let rank = ((q.clamp(0.0, 1.0) * self.count() as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let at = self.fine.iter().position(|count| {
            seen += *count;
            seen >= rank
        })?;
        Some(f64::from_bits(((FINE_FIRST + at + 1) as u64) << FINE_SHIFT))
    }

    /// Returns an iterator over the buckets of the metric, as pairs of the upper bound and the number of values. The
    /// upper bound of the last bucket is infinite.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        self.bounds.iter().copied().chain([f64::INFINITY]).zip(self.buckets.iter().copied())
    }

    pub(crate) fn observe(&mut self, value: f64) {
        // Record NaN as 0, because every comparison of NaN with a bound is false.
        let value = if value > 0.0 { value.min(f64::MAX) } else { 0.0 };
        // A linear search is faster than a binary search here, because most values are in one of the first buckets.
        let bucket = self.bounds.iter().position(|bound| value <= *bound);
        self.buckets[bucket.unwrap_or(self.bounds.len())] += 1;
        self.sum += value;
        let at = ((value.to_bits() >> FINE_SHIFT) as usize).saturating_sub(FINE_FIRST);
        if self.fine.len() <= at {
            self.fine.resize(at + 1, 0);
        }
        self.fine[at] += 1;
    }

    /// Adds another distribution's values. The two distributions should have the same bounds.
    pub fn merge(&mut self, other: &Self) {
        let add = |mine: &mut [u64], theirs: &[u64]| zip(mine, theirs).for_each(|(mine, theirs)| *mine += theirs);
        add(&mut self.buckets, &other.buckets);
        self.fine.resize(self.fine.len().max(other.fine.len()), 0);
        add(&mut self.fine, &other.fine);
        self.sum += other.sum;
    }
}

impl fmt::Debug for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Distribution")
            .field("count", &self.count())
            .field("sum", &self.sum)
            .field("median", &self.quantile(0.5))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bounds: &'static [f64], values: impl IntoIterator<Item = f64>) -> Distribution {
        let mut distribution = Distribution::new(bounds);
        values.into_iter().for_each(|value| distribution.observe(value));
        distribution
    }

    #[test]
    fn bucket_includes_its_upper_bound() {
        let found: Vec<_> =
            of(&[1.0, 2.0], [-1.0, f64::NAN, 0.5, 1.0, 1.5, 2.0, 2.1, f64::INFINITY]).buckets().collect();
        assert_eq!(found, [(1.0, 4), (2.0, 2), (f64::INFINITY, 2)]);
    }

    #[test]
    fn nan_values_leave_sum_and_quantiles_valid() {
        let distribution = of(&[], [f64::NAN, -0.0, f64::NEG_INFINITY, f64::INFINITY]);
        assert_eq!(distribution.sum(), f64::MAX);
        assert!(distribution.quantile(0.75).unwrap() <= 1.1e-9);
        assert_eq!(distribution.quantile(1.0), Some(f64::INFINITY));
    }

    #[test]
    fn quantiles_are_accurate_for_any_bounds() {
        assert_eq!(of(&[], []).quantile(0.5), None);
        for scale in [1e-9, 1e-3, 1.0, 1e6] {
            let distribution = of(&[1.0], (1..=1_000).map(|value| f64::from(value) * scale));
            for (q, expected) in [(0.0, 1.0), (0.5, 500.0), (0.99, 990.0), (1.0, 1_000.0)] {
                let found = distribution.quantile(q).unwrap() / scale;
                assert!((expected..=expected * 17.0 / 16.0).contains(&found), "{q} at {scale}: {found} for {expected}");
            }
            assert_eq!(distribution.count(), 1_000);
            assert!((distribution.sum() / scale - 500_500.0).abs() < 1e-3);
        }
    }

    #[test]
    fn merge_equals_recording_all_values() {
        let mut both = of(&[1.0, 2.0], [0.5, 1.5]);
        both.merge(&of(&[1.0, 2.0], [1.5, 2.5]));
        assert_eq!(both, of(&[1.0, 2.0], [0.5, 1.5, 1.5, 2.5]));
    }
}
