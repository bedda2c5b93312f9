//! The number of dirty keys in each series of the metric `depth`.

use std::collections::BTreeMap;

use super::{Depth, MAX_PRIORITIES, MetricsStyle, Pull};

pub(super) struct Depths {
    style: MetricsStyle,
    series: BTreeMap<Depth, Series>,
    new: Vec<Depth>,
}

#[derive(Default)]
struct Series {
    count: usize,
    gauge: Option<Pull>,
}

impl Depths {
    pub(super) fn new(style: MetricsStyle) -> Self {
        let fixed = (style == MetricsStyle::ClientGo).then(|| (Depth(None), Series::default()));
        Self { style, series: fixed.into_iter().collect(), new: Vec::new() }
    }

    pub(super) fn add(&mut self, priority: i32) {
        let depth = self.of(priority);
        let series = self.series.entry(depth).or_insert_with(|| {
            self.new.push(depth);
            Series::default()
        });
        series.count += 1;
    }

    pub(super) fn remove(&mut self, priority: i32) {
        let depth = self.of(priority);
        if let Some(series) = self.series.get_mut(&depth) {
            series.count -= 1;
        }
    }

    pub(super) fn count(&self, depth: Depth) -> usize {
        self.series.get(&depth).map_or(0, |series| series.count)
    }

    pub(super) fn take_new(&mut self) -> Vec<Depth> {
        std::mem::take(&mut self.new)
    }

    pub(super) fn keep(&mut self, depth: Depth, gauge: Pull) -> Option<Pull> {
        match self.series.get_mut(&depth) {
            Some(series) => series.gauge.replace(gauge),
            None => Some(gauge),
        }
    }

    /// Returns the series of `priority`. A priority keeps its series forever, so that removing a key decrements the
    /// series that adding it incremented.
    fn of(&self, priority: i32) -> Depth {
        let own = Depth(Some(priority));
        let is_shared = self.style == MetricsStyle::ClientGo
            || !self.series.contains_key(&own)
                && self.series.keys().filter(|depth| depth.0.is_some()).count() >= MAX_PRIORITIES;
        if is_shared { Depth(None) } else { own }
    }
}
