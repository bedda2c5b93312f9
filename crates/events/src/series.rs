//! Series of repeated events.

use std::time::{Duration, Instant};

use pintle_meta::MicroTime;

use crate::event::{EventSeries, ObjectReference};
use crate::lru::Lru;
use crate::series_event::SeriesEvent;

/// The limits for event series in the `events.k8s.io` API. The default values match client-go.
#[derive(Clone, Debug)]
pub struct SeriesConfig {
    /// The interval at which the sink writes an ongoing series. Each write updates the count on the server and keeps
    /// the server from deleting the event. The default interval is 30 minutes.
    pub refresh: Duration,
    /// The time from the last repetition of an event to the end of its series. The sink also forgets an event that is
    /// not repeated during this time. The default time is 6 minutes.
    pub finish: Duration,
    /// The maximum number of events that the sink keeps in memory, by default 4096. 0 is treated as 1. At this limit, a
    /// new event evicts the least recently repeated event, and the sink writes the count of the evicted event.
    pub cache_size: usize,
}

impl Default for SeriesConfig {
    fn default() -> Self {
        Self { refresh: Duration::from_secs(30 * 60), finish: Duration::from_secs(6 * 60), cache_size: 4096 }
    }
}

/// The recent events and how often each was repeated. `Series` performs no I/O and does not read the clock.
#[derive(Debug)]
pub(crate) struct Series {
    config: SeriesConfig,
    entries: Lru<SeriesKey, Entry>,
}

/// The fields that identify an event. The key does not contain the note, the times and the `resourceVersion` of the
/// object, which change between repetitions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SeriesKey {
    texts: [String; 5],
    regarding: ObjectReference,
    related: Option<ObjectReference>,
}

#[derive(Debug)]
struct Entry {
    event: SeriesEvent,
    observed: Instant,
    /// The time at which this event was last written to the server, or at which the sink received it if it was never
    /// written.
    written: Instant,
    /// Whether the server lacks some repetitions of the event.
    is_unwritten: bool,
}

impl Entry {
    fn is_finished(&self, config: &SeriesConfig, now: Instant) -> bool {
        now.saturating_duration_since(self.observed) >= config.finish
    }
}

#[derive(Debug)]
pub(crate) struct SeriesUpdate {
    /// The event to write, if it is new or if its first repetition starts a series.
    pub(crate) write: Option<SeriesEvent>,
    /// The evicted series, whose final count the caller must write.
    pub(crate) evicted: Option<SeriesEvent>,
}

impl Series {
    pub(crate) fn new(config: SeriesConfig) -> Self {
        let entries = Lru::new(config.cache_size);
        Self { config, entries }
    }

    /// Returns the interval at which the caller should check for [due](Self::due) series.
    pub(crate) fn period(&self) -> Duration {
        self.config.finish.min(self.config.refresh).max(Duration::from_millis(1))
    }

    pub(crate) fn observe(&mut self, event: SeriesEvent, now: Instant) -> SeriesUpdate {
        let key = key_of(&event);
        let evicted = self.entries.make_room(&key).filter(|entry| entry.is_unwritten).map(|entry| entry.event);
        let happened = event.event_time;
        let mut is_new = false;
        let entry = self.entries.entry(key, || {
            is_new = true;
            Entry { event, observed: now, written: now, is_unwritten: false }
        });
        let write = if is_new { Some(entry.event.clone()) } else { entry.repeat(happened, now) };
        SeriesUpdate { write, evicted }
    }

    /// Returns the series that must be written now, because they have ended or their refresh interval has passed.
    pub(crate) fn due(&self, now: Instant) -> Vec<SeriesEvent> {
        let is_old = |entry: &Entry| now.saturating_duration_since(entry.written) >= self.config.refresh;
        self.unwritten_where(|entry| is_old(entry) || entry.is_finished(&self.config, now))
    }

    pub(crate) fn unwritten(&self) -> Vec<SeriesEvent> {
        self.unwritten_where(|_| true)
    }

    fn unwritten_where(&self, wanted: impl Fn(&Entry) -> bool) -> Vec<SeriesEvent> {
        let unwritten = self.entries.values().filter(|entry| entry.is_unwritten && wanted(entry));
        unwritten.map(|entry| entry.event.clone()).collect()
    }

    pub(crate) fn mark_written(&mut self, event: &SeriesEvent, now: Instant) {
        if let Some(entry) = self.entries.find(&key_of(event)) {
            (entry.written, entry.is_unwritten) = (now, false);
        }
    }

    /// Forgets events whose series have ended, unless they have unwritten repetitions.
    pub(crate) fn forget(&mut self, now: Instant) {
        let config = &self.config;
        self.entries.retain(|entry| entry.is_unwritten || !entry.is_finished(config, now));
    }
}

impl Entry {
    /// Counts a repetition of the event. The first repetition starts a series, and this method then returns the event
    /// with the series.
    fn repeat(&mut self, happened: Option<MicroTime>, now: Instant) -> Option<SeriesEvent> {
        self.observed = now;
        self.is_unwritten = true;
        let is_second = self.event.series.is_none();
        let series = self.event.series.get_or_insert(EventSeries { count: 1, last_observed_time: None });
        series.count = series.count.saturating_add(1);
        series.last_observed_time = happened;
        is_second.then(|| self.event.clone())
    }
}

fn key_of(event: &SeriesEvent) -> SeriesKey {
    let plain = |about: &ObjectReference| ObjectReference { resource_version: String::new(), ..about.clone() };
    SeriesKey {
        texts: [
            &event.event_type,
            &event.action,
            &event.reason,
            &event.reporting_controller,
            &event.reporting_instance,
        ]
        .map(String::clone),
        regarding: plain(&event.regarding),
        related: event.related.as_ref().map(plain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(reason: &str) -> SeriesEvent {
        SeriesEvent { reason: reason.into(), ..SeriesEvent::default() }
    }

    fn counts(events: &[SeriesEvent]) -> Vec<(&str, i32)> {
        events.iter().map(|event| (&*event.reason, event.series.as_ref().map_or(1, |series| series.count))).collect()
    }

    #[test]
    fn series_is_due_at_refresh_and_at_its_end() {
        let mut series = Series::new(SeriesConfig::default());
        let start = Instant::now();
        let at = |minutes: u64| start + Duration::from_secs(60 * minutes);
        assert_eq!(counts(&series.observe(event("A"), at(0)).write.into_iter().collect::<Vec<_>>()), [("A", 1)]);
        let second = series.observe(event("A"), at(1)).write.unwrap();
        assert_eq!(counts(std::slice::from_ref(&second)), [("A", 2)]);
        series.mark_written(&second, at(1));
        for minute in 2..=30 {
            assert!(series.due(at(minute)).is_empty(), "minute {minute}");
            assert!(series.observe(event("A"), at(minute)).write.is_none());
        }
        assert_eq!(counts(&series.due(at(31))), [("A", 31)], "30 minutes after the last write");
        series.mark_written(&second, at(31));
        assert!(series.due(at(37)).is_empty(), "everything is written");
        series.observe(event("A"), at(38));
        assert!(series.due(at(43)).is_empty());
        assert_eq!(counts(&series.due(at(44))), [("A", 32)], "6 minutes after the last repetition");
        series.forget(at(44));
        assert_eq!(counts(&series.due(at(44))), [("A", 32)], "kept until it is written");
        series.mark_written(&second, at(44));
        series.forget(at(44));
        assert_eq!(counts(&series.observe(event("A"), at(44)).write.into_iter().collect::<Vec<_>>()), [("A", 1)]);
    }

    #[test]
    fn series_key_ignores_only_note_and_resource_version() {
        let mut series = Series::new(SeriesConfig::default());
        let now = Instant::now();
        let first = SeriesEvent { note: "one".into(), ..event("A") };
        series.observe(first.clone(), now);
        let mut same = SeriesEvent { note: "two".into(), ..first.clone() };
        same.regarding.resource_version = "2".into();
        assert_eq!(series.observe(same, now).write.unwrap().note, "one");
        let other: [fn(&mut SeriesEvent); 7] = [
            |event| event.event_type = "Warning".into(),
            |event| event.action = "Act".into(),
            |event| event.reason = "B".into(),
            |event| event.reporting_controller = "b".into(),
            |event| event.reporting_instance = "b".into(),
            |event| event.regarding.uid = "b".into(),
            |event| event.related = Some(ObjectReference::default()),
        ];
        for (index, change) in other.iter().enumerate() {
            let mut other = first.clone();
            change(&mut other);
            assert!(series.observe(other, now).write.is_some_and(|event| event.series.is_none()), "{index}");
        }
    }

    #[test]
    fn evicted_series_with_unwritten_repetitions_is_returned() {
        let mut series = Series::new(SeriesConfig { cache_size: 1, ..SeriesConfig::default() });
        let now = Instant::now();
        series.observe(event("A"), now);
        assert!(series.observe(event("B"), now).evicted.is_none(), "A is already written");
        (0..3).for_each(|_| drop(series.observe(event("B"), now)));
        let evicted = series.observe(event("C"), now).evicted;
        assert_eq!(counts(evicted.as_slice()), [("B", 4)]);
    }
}
