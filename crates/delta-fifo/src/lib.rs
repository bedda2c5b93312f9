//! A queue of keyed changes, and the store contracts around it.

mod coalescing;

pub use coalescing::{Change, CoalescingFifo};
