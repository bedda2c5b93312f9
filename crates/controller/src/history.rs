//! The recent history of keys, which explains why a key is queued, delayed or in flight.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::mem::replace;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use pintle_informer::Writer;
use pintle_meta::__private::Mutex;
use pintle_meta::ObjectKey;

use crate::key::RequestKey;

/// The number of causes that are stored for each key.
const CAUSES: usize = 8;
/// The number of recently active keys whose histories the controller keeps. The controller keeps at most twice as many
/// histories.
const KEYS: usize = 5_000;
/// The maximum length of a stored error text, in bytes. Without this limit, thousands of failing keys with long error
/// texts would use too much memory.
const ERROR: usize = 512;

/// An event or a reconciliation that caused the controller to add a key to the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyCause {
    /// The time when the key was added, or when its reconciliation failed.
    pub at: SystemTime,
    /// The reason why the key was added.
    pub reason: CauseReason,
}

/// The reason why a key was added to the queue, as part of a [`KeyCause`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CauseReason {
    /// An informer delivered an event for an object.
    Event {
        /// The name of the informer.
        source: Arc<str>,
        /// The kind of change that the event reports.
        change: EventChange,
        /// The object of the event. The event's object can be a dependent of the reconciled object.
        object: ObjectKey,
        /// The resourceVersion of the object.
        resource_version: String,
        /// The field manager that made the change: see [`ResourceEvent::writer`](pintle_informer::ResourceEvent::writer).
        writer: Option<Arc<Writer>>,
    },
    /// The program added the key, either through a [`Trigger`](crate::Trigger) or through a custom source.
    Program,
    /// The interval of an [`Every`](crate::Every) has elapsed.
    Timer,
    /// The last reconciliation requested a requeue.
    Requeue {
        /// The requested delay.
        after: Duration,
    },
    /// The last reconciliation of the key failed.
    Retry {
        /// The text of the error, panic or timeout, truncated to 512 bytes.
        error: String,
    },
    /// An earlier run of the controller left the key unfinished.
    Unfinished,
}

/// The kind of change that an event reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventChange {
    /// The object was part of the initial list.
    Listed,
    /// The object was created.
    Added,
    /// The object was changed.
    Updated,
    /// The event comes from a resync, and the object has not changed.
    Resynced,
    /// The object was deleted.
    Deleted,
}

/// The last reconciliation of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastCall {
    /// The time at which the reconciliation began.
    pub at: SystemTime,
    /// The duration of the reconciliation.
    pub took: Duration,
    /// The error of the reconciliation, truncated to 512 bytes, or `None` if the reconciliation succeeded.
    pub error: Option<String>,
    /// The number of consecutive failures of the key.
    pub failures: u32,
}

/// The history of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyHistory {
    /// The newest causes, sorted from oldest to newest.
    pub causes: VecDeque<KeyCause>,
    /// The total number of causes, including those that `causes` no longer contains.
    pub total: u64,
    /// The last finished reconciliation of the key.
    pub last_call: Option<LastCall>,
}

/// The histories of a controller's keys. Clones share these histories. If the key's `Eq`, `Hash`, `Ord` or `Clone`
/// implementation panics, the maps stay consistent.
#[derive(Clone)]
pub(crate) struct Histories<K>(Arc<Mutex<State<K>>>);

/// The histories in two generations. When the newer generation is full, it replaces the older generation.
struct State<K> {
    newer: HashMap<K, KeyHistory>,
    older: HashMap<K, KeyHistory>,
}

impl<K> Default for Histories<K> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State { newer: HashMap::new(), older: HashMap::new() })))
    }
}

impl<K: RequestKey> Histories<K> {
    pub(crate) fn cause(&self, key: &K, mut reason: CauseReason) {
        if let CauseReason::Retry { error } = &mut reason {
            shorten(error);
        }
        let cause = KeyCause { at: SystemTime::now(), reason };
        self.with(key, |history| {
            history.total += 1;
            if history.causes.len() == CAUSES {
                history.causes.pop_front();
            }
            if history.causes.is_empty() {
                // Allocate space for one cause, because most keys of an initial list have only one, but a `VecDeque`
                // would allocate space for four.
                history.causes.reserve_exact(1);
            }
            history.causes.push_back(cause);
        });
    }

    pub(crate) fn called(&self, key: &K, mut call: LastCall) {
        call.error.as_mut().map(shorten);
        self.with(key, |history| history.last_call = Some(call));
    }

    fn with(&self, key: &K, change: impl FnOnce(&mut KeyHistory)) {
        let mut state = self.0.lock();
        if let Some(history) = state.newer.get_mut(key) {
            return change(history);
        }
        let mut history = state.older.remove(key).unwrap_or_default();
        change(&mut history);
        let replaced = if state.newer.len() >= KEYS {
            let full = replace(&mut state.newer, HashMap::with_capacity(KEYS));
            replace(&mut state.older, full)
        } else {
            HashMap::new()
        };
        state.newer.insert(key.clone(), history);
        drop(state);
        // Release the lock before freeing the histories, because freeing thousands of histories takes time.
        drop(replaced);
    }

    pub(crate) fn get(&self, key: &K) -> Option<KeyHistory> {
        let state = self.0.lock();
        state.newer.get(key).or_else(|| state.older.get(key)).cloned()
    }

    /// Returns `true` if a field manager other than `own` made the key's newest change.
    pub(crate) fn newest_writer_differs(&self, key: &K, own: &str) -> bool {
        let state = self.0.lock();
        let newest = state.newer.get(key).or_else(|| state.older.get(key)).and_then(|history| history.causes.back());
        matches!(
            newest.map(|cause| &cause.reason),
            Some(CauseReason::Event { writer: Some(writer), .. }) if writer.manager != own
        )
    }

    pub(crate) fn keys(&self) -> Vec<K> {
        let state = self.0.lock();
        state.newer.keys().chain(state.older.keys()).cloned().collect()
    }

    /// Returns up to `limit` keys, sorted by descending rank. Skips keys for which `rank` returns `None`.
    pub(crate) fn top<R: Ord>(&self, limit: usize, rank: impl Fn(&KeyHistory) -> Option<R>) -> Vec<(K, KeyHistory)> {
        let state = self.0.lock();
        let all = state.newer.iter().chain(&state.older);
        let mut ranked: Vec<_> = all.filter_map(|(key, history)| Some((rank(history)?, key, history))).collect();
        let order = |one: &(R, &K, _), other: &(R, &K, _)| other.0.cmp(&one.0).then_with(|| one.1.cmp(other.1));
        // Sort and clone only the keys in the result, because workers wait for this lock.
        if (1..ranked.len()).contains(&limit) {
            ranked.select_nth_unstable_by(limit - 1, order);
        }
        ranked.truncate(limit);
        ranked.sort_by(order);
        ranked.into_iter().map(|(_, key, history)| (key.clone(), history.clone())).collect()
    }
}

pintle_meta::debug_struct!(Histories<K> { .. });

fn shorten(text: &mut String) {
    if text.len() > ERROR {
        text.truncate(text.floor_char_boundary(ERROR - '…'.len_utf8()));
        text.push('…');
        text.shrink_to_fit();
    }
}

impl fmt::Display for CauseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event { source, change, object, resource_version, writer } => {
                match writer {
                    Some(writer) => write!(f, "{change} by {writer}: ")?,
                    None => write!(f, "{change} ")?,
                }
                write!(f, "{object} in {source} (resourceVersion {resource_version})")
            }
            Self::Program => f.write_str("added by the program"),
            Self::Timer => f.write_str("added by a timer"),
            Self::Requeue { after } => write!(f, "requeued after {after:?} by the reconciler"),
            Self::Retry { error } => write!(f, "retry after an error: {error}"),
            Self::Unfinished => f.write_str("not finished in an earlier run"),
        }
    }
}

impl fmt::Display for EventChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Listed => "listed",
            Self::Added => "added",
            Self::Updated => "updated",
            Self::Resynced => "resynced",
            Self::Deleted => "deleted",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> ObjectKey {
        ObjectKey::new("ns", &number.to_string())
    }

    #[test]
    fn causes_per_key_are_bounded() {
        let histories = Histories::default();
        for after in 0..20 {
            histories.cause(&key(1), CauseReason::Requeue { after: Duration::from_secs(after) });
        }
        let history = histories.get(&key(1)).unwrap();
        assert_eq!((history.causes.len(), history.total), (CAUSES, 20));
        assert_eq!(history.causes[0].reason, CauseReason::Requeue { after: Duration::from_secs(12) });
    }

    #[test]
    fn cause_names_the_writer() {
        let cause = |writer| CauseReason::Event {
            source: "Website".into(),
            change: EventChange::Updated,
            object: key(1),
            resource_version: "7".into(),
            writer,
        };
        assert_eq!(cause(None).to_string(), "updated ns/1 in Website (resourceVersion 7)");
        let (manager, operation) = ("kubectl-edit".into(), "Update".into());
        let writer = Writer { manager, operation, subresource: "status".into() };
        assert_eq!(
            cause(Some(writer.into())).to_string(),
            "updated by kubectl-edit (Update, status): ns/1 in Website (resourceVersion 7)"
        );
    }

    #[test]
    fn long_error_texts_are_shortened() {
        let (histories, error) = (Histories::default(), "ü".repeat(10_000));
        let call =
            LastCall { at: SystemTime::UNIX_EPOCH, took: Duration::ZERO, error: Some(error.clone()), failures: 1 };
        histories.called(&key(1), call);
        histories.cause(&key(1), CauseReason::Retry { error });
        let history = histories.get(&key(1)).unwrap();
        let CauseReason::Retry { error } = &history.causes[0].reason else { panic!("{:?}", history.causes) };
        for text in [error, &history.last_call.unwrap().error.unwrap()] {
            assert!(
                text.ends_with("ü…") && (ERROR - 3..=ERROR).contains(&text.len()) && text.capacity() <= ERROR,
                "{}",
                text.len()
            );
        }
    }

    #[test]
    fn oldest_keys_are_forgotten_and_used_ones_stay() {
        let histories = Histories::default();
        for number in 0..20 * KEYS {
            histories.cause(&key(number), CauseReason::Program);
            histories.cause(&key(0), CauseReason::Program);
        }
        let state = histories.0.lock();
        assert!(state.newer.len() + state.older.len() <= 2 * KEYS);
        drop(state);
        assert_eq!(histories.get(&key(0)).unwrap().total, 20 * KEYS as u64 + 1);
        assert!(histories.get(&key(1)).is_none());
        assert!((19 * KEYS + 2..20 * KEYS).all(|number| histories.get(&key(number)).is_some()));
    }

    #[test]
    fn top_ranks_keys_by_their_last_call() {
        let histories = Histories::default();
        for (number, took) in [(1, 5), (2, 9), (3, 7)] {
            let took = Duration::from_secs(took);
            histories.called(&key(number), LastCall { at: SystemTime::UNIX_EPOCH, took, error: None, failures: 0 });
        }
        histories.cause(&key(4), CauseReason::Program);
        let slowest = histories.top(2, |history| Some(history.last_call.as_ref()?.took));
        assert_eq!(slowest.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), [key(2), key(3)]);
    }
}
