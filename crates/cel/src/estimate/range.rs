//! Ranges of costs and sizes.

/// The bounds of an estimated cost or size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostRange {
    /// The lower bound.
    pub min: u64,
    /// The upper bound. `u64::MAX` means that there is no upper bound.
    pub max: u64,
}

impl CostRange {
    pub(super) const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    pub(super) const fn fixed(value: u64) -> Self {
        Self { min: value, max: value }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(super) fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// Multiplies both bounds of the range by a cost factor and rounds up.
    pub(super) fn scaled(self, factor: f64) -> Self {
        let scale = |value: u64| (value as f64 * factor).ceil() as u64;
        Self { min: scale(self.min), max: scale(self.max) }
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}
