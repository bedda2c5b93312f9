//! The configuration of the queues.

use std::fmt;

use crate::{BoxError, KeyError, KeyListerGetter};

/// Gives the key of an object.
pub(crate) type KeyFunc<K, T> = Box<dyn Fn(&T) -> Result<K, KeyError> + Send + Sync>;
pub(crate) type KnownObjects<K, T> = Box<dyn KeyListerGetter<K, T> + Send + Sync>;
pub(crate) type Transformer<T> = Box<dyn Fn(T) -> Result<T, BoxError> + Send + Sync>;
pub(crate) type LookupErrorHandler<K> = Box<dyn Fn(&K, &BoxError) + Send + Sync>;

/// How a [`DeltaFifo`](crate::DeltaFifo) differs from the usual: client-go's `DeltaFIFOOptions`.
///
/// # Examples
///
/// ```
/// use pintle_delta_fifo::{DeltaFifo, DeltaFifoConfig, DeltaType, MemoryStore, Store};
///
/// fn name(&(name, _): &(&'static str, u32)) -> Result<&'static str, pintle_delta_fifo::KeyError> {
///     Ok(name)
/// }
///
/// let mut known = MemoryStore::new(name);
/// known.add(("gone", 1))?;
/// let config = DeltaFifoConfig { known_objects: Some(Box::new(known)), emit_replaced: true, ..DeltaFifoConfig::default() };
/// let mut fifo = DeltaFifo::new(name, config);
/// fifo.replace(vec![("here", 1)], "17")?;
///
/// let mut told = std::iter::from_fn(|| fifo.pop()).map(|popped| (popped.key, popped.deltas.newest().delta_type()));
/// assert_eq!(told.next(), Some(("here", DeltaType::Replaced)));
/// assert_eq!(told.next(), Some(("gone", DeltaType::Deleted)));
/// # Ok::<(), pintle_delta_fifo::StoreError>(())
/// ```
pub struct DeltaFifoConfig<K, T> {
    /// The objects that the consumer knows. None: the queue finds no deletions that nobody saw.
    pub known_objects: Option<KnownObjects<K, T>>,
    /// Changes each object once, on its way in. The key is taken from the object as it was before. The objects of tombstones and
    /// of a resync are not changed again.
    pub transformer: Option<Transformer<T>>,
    /// Is called for each known object that could not be looked up. The queue goes on without the object; each operation says
    /// what that means.
    pub on_lookup_error: Option<LookupErrorHandler<K>>,
    /// Whether a replacement delivers its objects as [`Delta::Replaced`](crate::Delta::Replaced) and not as
    /// [`Delta::Sync`](crate::Delta::Sync), which is the default for the sake of old consumers. New ones should set it.
    pub emit_replaced: bool,
}

/// How a [`RealFifo`](crate::RealFifo) differs from the usual: client-go's `RealFIFOOptions`.
pub struct RealFifoConfig<K, T> {
    /// The objects that the consumer knows: a list is delivered object by object. They have to be brought up to date with what is
    /// popped before anything else is done to the queue. None: a list is delivered in one piece, client-go's `AtomicEvents`.
    pub known_objects: Option<KnownObjects<K, T>>,
    /// Changes each object once, on its way in. The objects of tombstones and of a resync are not changed again.
    pub transformer: Option<Transformer<T>>,
    /// Is called for each known object that could not be looked up. The queue goes on without the object.
    pub on_lookup_error: Option<LookupErrorHandler<K>>,
}

impl<K, T> Default for DeltaFifoConfig<K, T> {
    fn default() -> Self {
        Self { known_objects: None, transformer: None, on_lookup_error: None, emit_replaced: false }
    }
}

impl<K, T> Default for RealFifoConfig<K, T> {
    fn default() -> Self {
        Self { known_objects: None, transformer: None, on_lookup_error: None }
    }
}

impl<K, T> fmt::Debug for DeltaFifoConfig<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaFifoConfig").field("emit_replaced", &self.emit_replaced).finish_non_exhaustive()
    }
}

impl<K, T> fmt::Debug for RealFifoConfig<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RealFifoConfig").field("atomic", &self.known_objects.is_none()).finish_non_exhaustive()
    }
}
