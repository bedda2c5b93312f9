//! What was decoded a short while ago.

use std::any::Any;
use std::sync::Arc;

use crate::sync::Mutex;

/// Some decoded objects, by the place of what they were decoded from. Each place has a slot, which it shares with others: the one that
/// comes takes it from the one that is there.
#[derive(Default)]
pub(super) struct Recent(Mutex<Vec<Slot>>);

type Slot = Option<(usize, Decoded)>;
type Decoded = Arc<dyn Any + Send + Sync>;

/// Enough for what reads one object after the other. More would have left the processor's caches when it is dropped: with 127, to read
/// one pod in 100,000 took 50 us instead of 37. Prime, since allocators have a liking for some strides.
const SLOTS: usize = 17;

impl Recent {
    pub(super) fn find(&self, place: usize) -> Option<Decoded> {
        let slots = self.0.lock();
        let (of, decoded) = slots.get(slot(place))?.as_ref()?;
        (*of == place).then(|| decoded.clone())
    }

    pub(super) fn put(&self, place: usize, decoded: Decoded) {
        let mut slots = self.0.lock();
        slots.resize_with(SLOTS, || None);
        let before = slots[slot(place)].replace((place, decoded));
        drop(slots);
        // A user's code runs under no lock, not even to drop what is his.
        drop(before);
    }

    pub(super) fn forget(&self, place: usize) {
        let mut slots = self.0.lock();
        let forgotten = slots.get_mut(slot(place)).and_then(|slot| slot.take_if(|(of, _)| *of == place));
        drop(slots);
        drop(forgotten);
    }
}

fn slot(place: usize) -> usize {
    place / 16 % SLOTS
}
