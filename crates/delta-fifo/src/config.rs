//! The configuration of the queues.

use std::fmt;

use crate::error::{BoxError, KeyError};
use crate::store::KeyListerGetter;

pub(crate) type KeyFunc<K, T> = Box<dyn Fn(&T) -> Result<K, KeyError> + Send + Sync>;
pub(crate) type KnownObjects<K, T> = Box<dyn KeyListerGetter<K, T> + Send + Sync>;
pub(crate) type Transformer<T> = Box<dyn Fn(T) -> Result<T, BoxError> + Send + Sync>;
pub(crate) type LookupErrorHandler<K> = Box<dyn Fn(&K, &BoxError) + Send + Sync>;

/// The configuration of a [`DeltaFifo`](crate::DeltaFifo), like client-go's `DeltaFIFOOptions`.
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
/// let mut types = std::iter::from_fn(|| fifo.pop()).map(|popped| (popped.key, popped.deltas.newest().delta_type()));
/// assert_eq!(types.next(), Some(("here", DeltaType::Replaced)));
/// assert_eq!(types.next(), Some(("gone", DeltaType::Deleted)));
/// # Ok::<(), pintle_delta_fifo::StoreError>(())
/// ```
pub struct DeltaFifoConfig<K, T> {
    /// The objects that the consumer knows. If this field is `None`, the queue cannot detect missed deletions of
    /// objects that are no longer queued.
    pub known_objects: Option<KnownObjects<K, T>>,
    /// Transforms each object once, when the object is queued. The queue computes the key before the transformation.
    /// Objects in tombstones and resyncs are already transformed, so they are not transformed again.
    pub transformer: Option<Transformer<T>>,
    /// A handler that the queue calls for each known object whose lookup fails. The queue then skips the object. See
    /// the methods of `DeltaFifo` for the effects of a failed lookup.
    pub on_lookup_error: Option<LookupErrorHandler<K>>,
    /// Whether `replace` delivers its objects as [`Delta::Replaced`](crate::Delta::Replaced) instead of
    /// [`Delta::Sync`](crate::Delta::Sync). The default is `false`, for compatibility with old consumers. New consumers
    /// should set this field to `true`.
    pub emit_replaced: bool,
}

/// The configuration of a [`RealFifo`](crate::RealFifo), like client-go's `RealFIFOOptions`.
pub struct RealFifoConfig<K, T> {
    /// The objects that the consumer knows. If this field is set, the queue delivers each object of a list as a
    /// separate item. The consumer must then apply each popped item to the known objects before it calls the queue
    /// again. If this field is `None`, the queue delivers a list as a single item, like client-go with `AtomicEvents`.
    pub known_objects: Option<KnownObjects<K, T>>,
    /// Transforms each object once, when the object is queued. Objects in tombstones and resyncs are already
    /// transformed, so they are not transformed again.
    pub transformer: Option<Transformer<T>>,
    /// A handler that the queue calls for each known object whose lookup fails. The queue then skips the object.
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
