//! Detects objects that this controller and another writer change in turns.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use pintle_controller::{CauseReason, EventChange, KeyCause};
use pintle_meta::ObjectKey;
use tokio::time::Instant;

use crate::contention::{Contention, WINDOW};

/// The maximum number of pairs of writers and objects whose changes are counted. Without a limit, a controller with
/// many frequently changed objects would use too much memory.
const MOST: usize = 1_000;

/// The minimum time between two checks of a controller, each of which sends two requests.
const BETWEEN_CHECKS: Duration = Duration::from_secs(1);

/// Another writer whose changes of an object repeatedly cause the reconciliation of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rival {
    key: ObjectKey,
    pub(crate) source: Arc<str>,
    /// The changed object, which is the reconciled object or another object.
    pub(crate) object: ObjectKey,
    pub(crate) manager: String,
}

/// The changes by other writers to objects that this controller also writes. Only changes that cause a reconciliation
/// count.
#[derive(Debug, Default)]
pub(crate) struct Rivals {
    turns: HashMap<Rival, Contention>,
    last_check: Option<Instant>,
}

impl Rivals {
    /// Counts a change if the newest of `causes` is a change by another writer, and the field manager `own` has changed
    /// the same object within the last minute. If a check is due, it returns this writer and the number of the writer's
    /// changes in the last minute. The caller must then check whether the controller and the writer change the same
    /// fields.
    pub(crate) fn turn(
        &mut self,
        key: &ObjectKey,
        causes: &VecDeque<KeyCause>,
        own: &str,
        now: Instant,
    ) -> Option<(Rival, usize)> {
        let newest = causes.back()?;
        let (source, object, manager) = change(newest)?;
        let is_own = |cause: &KeyCause| {
            change(cause) == Some((source, object, own))
                && newest.at.duration_since(cause.at).is_ok_and(|ago| ago <= WINDOW)
        };
        if manager == own || !causes.iter().any(is_own) {
            return None;
        }
        let rival = Rival { key: key.clone(), source: source.clone(), object: object.clone(), manager: manager.into() };
        if self.turns.len() >= MOST && !self.turns.contains_key(&rival) {
            self.turns.retain(|_, turns| turns.is_recent(now));
            if self.turns.len() >= MOST {
                return None;
            }
        }
        let turns = self.turns.entry(rival.clone()).or_default();
        turns.count(now);
        if self.last_check.is_some_and(|last| now.duration_since(last) < BETWEEN_CHECKS) {
            return None;
        }
        let count = turns.report(now)?;
        self.last_check = Some(now);
        Some((rival, count))
    }

    /// Records whether a check found fields that the controller and the writer both change. If the check found no such
    /// fields, the next check is delayed.
    pub(crate) fn checked(&mut self, rival: &Rival, is_contended: bool) {
        if let Some(turns) = self.turns.get_mut(rival) {
            turns.checked(is_contended);
        }
    }
}

/// Returns the informer, the object and the field manager of a change.
fn change(cause: &KeyCause) -> Option<(&Arc<str>, &ObjectKey, &str)> {
    match &cause.reason {
        CauseReason::Event {
            source,
            change: EventChange::Added | EventChange::Updated,
            object,
            writer: Some(writer),
            ..
        } => Some((source, object, &writer.manager)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use pintle_informer::Writer;

    use super::*;

    fn cause(at: u64, object: &str, manager: &str) -> KeyCause {
        let writer = Writer { manager: manager.into(), ..Writer::default() };
        let reason = CauseReason::Event {
            source: "ConfigMap".into(),
            change: EventChange::Updated,
            object: ObjectKey::new("ns", object),
            resource_version: String::new(),
            writer: Some(writer.into()),
        };
        KeyCause { at: SystemTime::UNIX_EPOCH + Duration::from_secs(at), reason }
    }

    fn turns(rivals: &mut Rivals, key: &str, start: Instant, seconds: std::ops::Range<u64>) -> Vec<(u64, usize)> {
        let key = ObjectKey::new("ns", key);
        let mut due = Vec::new();
        for at in seconds {
            let causes = [cause(at, "child", "own"), cause(at, "child", "other")].into();
            if let Some((rival, count)) = rivals.turn(&key, &causes, "own", start + Duration::from_secs(at)) {
                assert_eq!((rival.object.name(), &*rival.manager), ("child", "other"));
                due.push((at, count));
            }
        }
        due
    }

    #[test]
    fn fifth_turn_in_a_minute_is_checked_once() {
        let (mut rivals, start) = (Rivals::default(), Instant::now());
        assert_eq!(turns(&mut rivals, "site", start, 0..70), [(4, 5), (65, 61)]);
    }

    #[test]
    fn checks_without_a_result_become_rare() {
        let (mut rivals, start, mut due) = (Rivals::default(), Instant::now(), Vec::new());
        for at in 0..500 {
            for (at, _) in turns(&mut rivals, "site", start, at..at + 1) {
                let rivalry = rivals.turns.keys().next().unwrap().clone();
                rivals.checked(&rivalry, false);
                due.push(at);
            }
        }
        assert_eq!(due, [4, 5, 6, 127, 368]);
    }

    #[test]
    fn only_turns_of_two_writers_of_one_object_count() {
        let (mut rivals, now, key) = (Rivals::default(), Instant::now(), ObjectKey::new("ns", "site"));
        for causes in [
            vec![cause(0, "child", "other")],
            vec![cause(0, "child", "own"), cause(1, "sibling", "other")],
            vec![cause(0, "child", "other"), cause(1, "child", "own")],
            vec![cause(0, "child", "own"), cause(61, "child", "other")],
            vec![],
        ] {
            let causes = causes.into();
            assert!((0..9).all(|_| rivals.turn(&key, &causes, "own", now).is_none()), "{causes:?}");
            assert!(rivals.turns.is_empty(), "{causes:?}");
        }
    }

    #[test]
    fn two_checks_are_at_least_a_second_apart() {
        let (mut rivals, start) = (Rivals::default(), Instant::now());
        let first = turns(&mut rivals, "a", start, 0..5);
        let millis = start + Duration::from_millis(4_500);
        assert_eq!(first.len(), 1);
        for _ in 0..9 {
            assert!(turns(&mut rivals, "b", millis, 0..1).is_empty());
        }
        assert_eq!(turns(&mut rivals, "b", millis, 1..2), [(1, 10)]);
    }

    #[test]
    fn number_of_rivals_is_bounded() {
        let (mut rivals, start) = (Rivals::default(), Instant::now());
        for number in 0..2 * MOST {
            _ = turns(&mut rivals, &number.to_string(), start, 0..1);
        }
        assert_eq!(rivals.turns.len(), MOST);
        _ = turns(&mut rivals, "later", start, 61..62);
        assert_eq!(rivals.turns.len(), 1);
    }
}
