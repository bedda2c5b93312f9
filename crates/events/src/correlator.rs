//! Limits how many events the sinks write to the server.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pintle_meta::{Object, ObjectKey, Time};
use pintle_ratelimit::TokenBucket;
use serde_json::{Value, json};

use crate::event::{Event, EventSource, ObjectReference};
use crate::lru::Lru;

/// The prefix of the message of an event that combines several similar events.
pub const COMBINED_PREFIX: &str = "(combined from similar events): ";

/// The limits of a [`Correlator`]. The default values match client-go.
#[derive(Clone)]
pub struct CorrelatorConfig {
    /// The number of different messages about the same subject at which the sink starts to combine messages. With the
    /// default of 10, the sink combines the tenth message and all later messages into one event.
    pub max_similar: usize,
    /// The maximum time between two similar messages that the sink combines into one event. The default interval is 10
    /// minutes.
    pub similar_interval: Duration,
    /// The burst size of the spam filter, which is the number of events of one flow that the sink may write without
    /// delay. [`spam_key`](Self::spam_key) determines an event's flow. The default burst size is 25.
    pub spam_burst: u32,
    /// How often the spam filter admits another event of a flow after the burst is exhausted. The default interval is 5
    /// minutes.
    pub spam_refill: Duration,
    /// The maximum number of flows that the sink keeps in memory, by default 4096. The same limit applies to the groups
    /// of similar events, and to the events. 0 is treated as 1.
    pub cache_size: usize,
    /// A function that returns the key of the event's flow. The spam filter limits the rate of each flow separately. By
    /// default, the key consists of the event's source, object and type, so events with different reasons share one limit.
    /// If the function panics, the event is counted as failed and is not written.
    pub spam_key: Arc<dyn Fn(&Event) -> String + Send + Sync>,
}

impl Default for CorrelatorConfig {
    fn default() -> Self {
        Self {
            max_similar: 10,
            similar_interval: Duration::from_secs(600),
            spam_burst: 25,
            spam_refill: Duration::from_secs(300),
            cache_size: 4096,
            spam_key: Arc::new(|event| key(&[&source_key(&event.source), &object_key(event), &event.event_type])),
        }
    }
}

pintle_meta::debug_struct!(CorrelatorConfig { max_similar, similar_interval, spam_burst, spam_refill, cache_size, .. });

/// Decides how recorded events are written to the server. A [`Correlator`] counts repetitions, combines similar events,
/// and limits the rate of events.
///
/// [`correlate`](Self::correlate) takes an event and the current time, and returns the action that the caller must take. The
/// correlator performs no I/O and does not read a clock.
///
/// # Examples
///
/// ```
/// use pintle_events::{Correlator, CorrelatorConfig, Event, Verdict};
/// use std::time::Instant;
///
/// let mut correlator = Correlator::new(CorrelatorConfig::default());
/// let event = Event { reason: "Pulled".into(), message: "done".into(), count: 1, ..Event::default() };
///
/// let Verdict::Create(correlated) = correlator.correlate(event.clone(), Instant::now()) else { panic!("a new event") };
/// let mut stored = correlated.event.clone();
/// stored.metadata.name = "web.1".into();
/// correlator.stored(&correlated, &stored);
///
/// let Verdict::Patch(correlated, key, _) = correlator.correlate(event, Instant::now()) else { panic!("a repeated event") };
/// assert_eq!((correlated.event.count, key.name()), (2, "web.1"));
/// ```
#[derive(Debug)]
pub struct Correlator {
    config: CorrelatorConfig,
    similar: Lru<String, Similar>,
    counts: Lru<String, Known>,
    buckets: Lru<String, TokenBucket>,
}

#[derive(Debug)]
struct Similar {
    messages: BTreeSet<String>,
    last: Instant,
}

/// The number of events with one key, and the identity of the stored event on the server.
#[derive(Debug, Default)]
struct Known {
    count: i32,
    first: Option<Time>,
    name: String,
    resource_version: String,
}

/// The action that the caller must take for an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Create the event.
    Create(Correlated),
    /// Update the stored event with this merge patch. If the stored event no longer exists on the server, create it again.
    Patch(Correlated, ObjectKey, Value),
    /// Do not write the event, because the spam filter has rejected it.
    Skip,
}

/// An event that the caller must write to the server.
#[derive(Clone, Debug, PartialEq)]
pub struct Correlated {
    /// The event.
    pub event: Event,
    /// Whether the event combines several different messages.
    pub is_combined: bool,
    key: String,
}

impl Correlator {
    /// Creates an empty correlator.
    pub fn new(config: CorrelatorConfig) -> Self {
        let size = config.cache_size;
        Self { config, similar: Lru::new(size), counts: Lru::new(size), buckets: Lru::new(size) }
    }

    /// Counts an event, and returns the action that the caller must take.
    pub fn correlate(&mut self, event: Event, now: Instant) -> Verdict {
        let CorrelatorConfig { spam_burst, spam_refill, .. } = self.config;
        let spam_key = (self.config.spam_key)(&event);
        let (mut event, key, is_combined) = self.combine(event, now);
        let known = self.counts.entry(key.clone(), Known::default);
        known.count = known.count.saturating_add(1);
        event.count = known.count;
        known.first = known.first.or(event.first_timestamp);
        event.first_timestamp = known.first;
        let stored = (!known.name.is_empty()).then(|| known.name.clone());
        if let Some(name) = &stored {
            event.metadata.name.clone_from(name);
            event.metadata.resource_version.clone_from(&known.resource_version);
        }
        let rate = 1.0 / spam_refill.as_secs_f64();
        let bucket = self.buckets.entry(spam_key, || TokenBucket::new(rate, spam_burst, now));
        if !bucket.try_accept(now) {
            return Verdict::Skip;
        }
        match stored {
            None => Verdict::Create(Correlated { event, is_combined, key }),
            Some(name) => {
                let patch = json!({
                    "count": event.count,
                    "lastTimestamp": event.last_timestamp,
                    "message": event.message,
                });
                let object = ObjectKey::new(&event.metadata.namespace, &name);
                Verdict::Patch(Correlated { event, is_combined, key }, object, patch)
            }
        }
    }

    /// Records that the server has stored the event. The correlator counts later repetitions by updating the stored event.
    pub fn stored(&mut self, correlated: &Correlated, stored: &Event) {
        let known = self.counts.entry(correlated.key.clone(), Known::default);
        known.count = known.count.max(stored.count);
        known.name = stored.name().into();
        known.resource_version = stored.resource_version().into();
    }

    /// Returns the event to write, the key under which it counts, and whether it is a combined event. An event is combined
    /// if the number of similar messages has reached the limit.
    fn combine(&mut self, mut event: Event, now: Instant) -> (Event, String, bool) {
        let similar_key = similar_key(&event);
        let fresh = || Similar { messages: BTreeSet::new(), last: now };
        let similar = self.similar.entry(similar_key.clone(), fresh);
        if now.saturating_duration_since(similar.last) > self.config.similar_interval {
            similar.messages.clear();
        }
        similar.last = now;
        similar.messages.insert(event.message.clone());
        if similar.messages.len() < self.config.max_similar {
            let key = key(&[&similar_key, &event.involved_object.field_path, &event.message]);
            return (event, key, false);
        }
        // Remove one message, so that the next different message reaches the limit again.
        similar.messages.pop_first();
        event.message = format!("{COMBINED_PREFIX}{}", event.message);
        (event, similar_key, true)
    }
}

/// Returns a key shared by similar events: all fields except the message and the field path of the object.
fn similar_key(event: &Event) -> String {
    key(&[
        &source_key(&event.source),
        &object_key(event),
        &event.event_type,
        &event.reason,
        &event.reporting_component,
        &event.reporting_instance,
    ])
}

fn source_key(source: &EventSource) -> String {
    key(&[&source.component, &source.host])
}

fn object_key(event: &Event) -> String {
    let ObjectReference { api_version, kind, namespace, name, uid, .. } = &event.involved_object;
    key(&[kind, namespace, name, uid, api_version])
}

/// Joins strings with a separator that none of them contains.
fn key(parts: &[&str]) -> String {
    parts.join("\0")
}
