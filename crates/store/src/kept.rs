//! What is kept of objects in other encodings, and how much of it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// So many who were asked for again are passed over for those that were not, by each who needs room.
const CHANCES: usize = 64;

/// What an object is shown as, beside its own JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// The object in protobuf.
    Message,
    /// Its metadata alone, as JSON of that `apiVersion`.
    Metadata(String),
    /// Its metadata alone in protobuf.
    MetadataMessage,
    /// Items of a list of that `apiVersion`, compressed; in protobuf, or in JSON.
    Zipped(String, bool),
    /// The cells of a table of that `apiVersion` and form, at that second: they tell ages.
    Cells(String, u64, i64),
}

impl Encoding {
    /// The second that it is of, if it is of no other.
    fn second(&self) -> Option<i64> {
        match self {
            Self::Cells(.., second) => Some(*second),
            _ => None,
        }
    }
}

/// How many bytes all objects of a store may take in other encodings, those of the past among them. Where more are wanted, what came
/// first and was not asked for since gives way, object by object.
#[derive(Debug, Default)]
pub(super) struct Room {
    most: usize,
    taken: AtomicUsize,
    /// Those who have some of it, those first who give way first. Those that are no more are among them until there are too many.
    turns: Mutex<Turns>,
    /// Who has something that is of one second alone, and which.
    passing: Mutex<(i64, Vec<Weak<Encodings>>)>,
}

#[derive(Debug, Default)]
struct Turns {
    next: VecDeque<Weak<Encodings>>,
    swept_at: usize,
}

/// An object in other encodings.
#[derive(Debug)]
pub(super) struct Encodings {
    room: Arc<Room>,
    kept: Mutex<Vec<(Encoding, Arc<[u8]>)>>,
    /// Whether it is among those who may have to give way.
    has_turn: AtomicBool,
    /// Whether one of them was asked for since it was last their turn to give way.
    is_used: AtomicBool,
}

impl Room {
    pub(super) fn new(bytes: usize) -> Self {
        Self { most: bytes, ..Self::default() }
    }

    /// Gives `newcomer` a turn, and makes room.
    fn settle(&self, newcomer: Option<Weak<Encodings>>) {
        let mut turns = lock(&self.turns);
        if let Some(newcomer) = newcomer {
            if turns.next.len() >= turns.swept_at {
                turns.next.retain(|of| of.strong_count() > 0);
                turns.swept_at = 64 + 2 * turns.next.len();
            }
            turns.next.push_back(newcomer);
        }
        let mut chances = CHANCES;
        while self.taken.load(Ordering::Relaxed) > self.most
            && let Some(next) = turns.next.pop_front()
        {
            let Some(of) = next.upgrade() else { continue };
            if of.is_used.swap(false, Ordering::Relaxed) && chances > 0 {
                chances -= 1;
                turns.next.push_back(next);
            } else {
                of.has_turn.store(false, Ordering::Relaxed);
                of.drop_if(|_| true);
            }
        }
    }

    /// Takes note of something that is of one second alone, and drops what was of those before.
    fn pass(&self, second: i64, of: Weak<Encodings>) {
        let mut passing = lock(&self.passing);
        let over = if passing.0 == second { Vec::new() } else { std::mem::take(&mut passing.1) };
        passing.0 = second;
        passing.1.push(of);
        drop(passing);
        let over = over.iter().filter_map(Weak::upgrade);
        over.for_each(|of| of.drop_if(|encoding| encoding.second().is_some_and(|kept| kept != second)));
    }
}

impl Encodings {
    pub(super) fn new(room: &Arc<Room>) -> Self {
        Self { room: room.clone(), kept: Mutex::default(), has_turn: false.into(), is_used: false.into() }
    }

    /// The object in that encoding, made now unless it is kept. It is kept if there can be room for it.
    pub(super) fn find_or_make<E>(
        self: &Arc<Self>,
        encoding: Encoding,
        make: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Arc<[u8]>, E> {
        let known = lock(&self.kept).iter().find(|(of, _)| *of == encoding).map(|(_, bytes)| bytes.clone());
        if let Some(known) = known {
            self.is_used.store(true, Ordering::Relaxed);
            return Ok(known);
        }
        let made: Arc<[u8]> = make()?.into();
        if taken(&made) <= self.room.most {
            self.keep(encoding, made.clone());
        }
        Ok(made)
    }

    fn keep(self: &Arc<Self>, encoding: Encoding, made: Arc<[u8]>) {
        let second = encoding.second();
        let mut kept = lock(&self.kept);
        // What another has made meanwhile gives way, and so do cells of another second.
        self.drop_from(&mut kept, |of| *of == encoding || second.is_some() && of.second().is_some());
        self.room.taken.fetch_add(taken(&made), Ordering::Relaxed);
        // Most objects are shown in one or two ways.
        kept.reserve_exact(1);
        kept.push((encoding, made));
        drop(kept);
        let is_new = !self.has_turn.swap(true, Ordering::Relaxed);
        self.room.settle(is_new.then(|| Arc::downgrade(self)));
        if let Some(second) = second {
            self.room.pass(second, Arc::downgrade(self));
        }
    }

    fn drop_if(&self, is_over: impl Fn(&Encoding) -> bool) {
        self.drop_from(&mut lock(&self.kept), is_over);
    }

    fn drop_from(&self, kept: &mut Vec<(Encoding, Arc<[u8]>)>, is_over: impl Fn(&Encoding) -> bool) {
        let dropped: usize = kept.extract_if(.., |(of, _)| is_over(of)).map(|(_, bytes)| taken(&bytes)).sum();
        self.room.taken.fetch_sub(dropped, Ordering::Relaxed);
    }
}

impl Drop for Encodings {
    fn drop(&mut self) {
        self.drop_if(|_| true);
    }
}

/// What it takes to keep an object in another encoding, about.
fn taken(bytes: &[u8]) -> usize {
    size_of::<(Encoding, Arc<[u8]>)>() + bytes.len()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn shown(of: &Arc<Encodings>, encoding: Encoding, made: &AtomicUsize) {
        let Ok(bytes) = of.find_or_make(encoding, || {
            made.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(vec![0; 1000])
        });
        assert_eq!(bytes.len(), 1000);
    }

    fn is_kept(of: &Arc<Encodings>) -> bool {
        !lock(&of.kept).is_empty()
    }

    #[test]
    fn what_is_asked_for_again_and_again_outlasts_what_was_asked_for_once() {
        let (room, made) = (Arc::new(Room::new(10_500)), AtomicUsize::new(0));
        let hot = Arc::new(Encodings::new(&room));
        let cold: Vec<_> = (0..100).map(|_| Arc::new(Encodings::new(&room))).collect();
        for of in &cold {
            shown(&hot, Encoding::Message, &made);
            shown(of, Encoding::Message, &made);
            assert!(room.taken.load(Ordering::Relaxed) <= 10_500);
        }
        assert_eq!(made.into_inner(), 101, "the one that is hot is made once");
        let kept: Vec<_> = cold.iter().map(is_kept).collect();
        assert!(
            kept[..90].iter().all(|kept| !kept) && kept[92..].iter().all(|kept| *kept),
            "the latest stay: {kept:?}"
        );
        assert!(lock(&room.turns).next.len() <= 10);
        drop((hot, cold));
        assert_eq!(room.taken.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn where_all_are_asked_for_again_some_give_way_all_the_same() {
        let (room, made) = (Arc::new(Room::new(200_000)), AtomicUsize::new(0));
        let all: Vec<_> = (0..300).map(|_| Arc::new(Encodings::new(&room))).collect();
        for of in all.iter().chain(&all) {
            shown(of, Encoding::Message, &made);
            shown(of, Encoding::Message, &made);
            assert!(room.taken.load(Ordering::Relaxed) <= 200_000);
        }
    }

    #[test]
    fn what_could_never_have_room_is_not_kept_and_those_that_are_no_more_are_forgotten() {
        let (none, room, made) = (Arc::default(), Arc::new(Room::new(1 << 20)), AtomicUsize::new(0));
        let of = Arc::new(Encodings::new(&none));
        shown(&of, Encoding::Message, &made);
        assert!(!is_kept(&of));
        for _ in 0..10_000 {
            shown(&Arc::new(Encodings::new(&room)), Encoding::Message, &made);
        }
        assert!(lock(&room.turns).next.len() <= 64);
    }

    #[test]
    fn cells_are_kept_for_their_second_alone() {
        let (room, made) = (Arc::new(Room::new(1 << 20)), AtomicUsize::new(0));
        let [one, other] = [(); 2].map(|()| Arc::new(Encodings::new(&room)));
        let cells = |of, second| shown(of, Encoding::Cells("v1".into(), 0, second), &made);
        shown(&one, Encoding::Message, &made);
        [&one, &other, &one, &other].into_iter().for_each(|of| cells(of, 7));
        assert_eq!(made.load(Ordering::Relaxed), 3);
        cells(&other, 8);
        assert_eq!(*lock(&one.kept).iter().map(|(of, _)| of.clone()).collect::<Vec<_>>(), [Encoding::Message]);
        (9..100).for_each(|second| cells(&one, second));
        assert_eq!(room.taken.load(Ordering::Relaxed), 2 * taken(&[0; 1000]));
        assert_eq!(lock(&room.turns).next.len(), 2);
    }
}
