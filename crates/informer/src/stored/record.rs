//! An object that is stored as its JSON and decoded at the first read.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::mem::{forget, replace};
use std::ops::Range;
use std::sync::{Arc, OnceLock, PoisonError};

use pintle_meta::{Metadata, ObjectKey, ObjectMeta, OwnerRef};

use super::data::{BAD, Fallback, Found, GOOD, Record, Slot, Source, Stored, UNCHECKED};
use crate::catch_drop::CatchDrop;
use crate::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use crate::sync::{Condvar, Mutex};
use crate::undecodable::Undecodable;
use crate::writer::LastWrite;

/// The identity and the JSON of an object, which are used to create a record.
pub(crate) struct Content<'a> {
    pub(crate) head: [HeadText; 4],
    pub(crate) generation: i64,
    pub(crate) is_terminating: bool,
    pub(crate) last_write: LastWrite,
    pub(crate) json: Vec<&'a [u8]>,
    pub(crate) metadata_at: Range<usize>,
}

pub(crate) enum HeadText {
    /// The position of the field's value in the joined JSON.
    InJson(Range<usize>),
    /// The value of the field, with escape sequences replaced by the characters they represent.
    Unescaped(String),
}

pub(super) enum ReadStart<T> {
    Ready(CatchDrop<T>),
    /// The object is not decoded, and the slot for the decoded object is reserved for this thread.
    Empty,
    Unreadable,
}

thread_local! {
    /// Whether this thread is decoding an object. If the object's `Deserialize` implementation reads the cache, this
    /// thread must not wait for another decoding thread, because that could cause a deadlock.
    static IS_DECODING: Cell<bool> = const { Cell::new(false) };
}

impl<T> Record<T> {
    /// Returns `None` if the object is too large for a record.
    pub(crate) fn new(source: &Arc<Source<T>>, content: &Content<'_>) -> Option<Self> {
        let json_len: usize = content.json.iter().map(|part| part.len()).sum();
        let more = |text: &HeadText| if let HeadText::Unescaped(text) = text { text.len() } else { 0 };
        let size = json_len + content.head.iter().map(more).sum::<usize>();
        u32::try_from(size).ok()?;
        let mut data = Vec::with_capacity(size);
        content.json.iter().for_each(|part| data.extend_from_slice(part));
        let head = content.head.each_ref().map(|text| match text {
            HeadText::InJson(at) => at.start as u32..at.end as u32,
            HeadText::Unescaped(text) => {
                let start = data.len() as u32;
                data.extend_from_slice(text.as_bytes());
                start..data.len() as u32
            }
        });
        let metadata_at = content.metadata_at.start as u32..content.metadata_at.end as u32;
        source.adds_unknown();
        Some(Self {
            source: source.clone(),
            data: data.into(),
            json_len: json_len as u32,
            head,
            metadata_at,
            generation: content.generation,
            last_write: content.last_write,
            is_terminating: content.is_terminating,
            quality: AtomicU8::new(UNCHECKED),
            is_unknown: AtomicBool::new(true),
            was_read: AtomicBool::new(false),
            was_unreadable: AtomicBool::new(false),
            slot: Mutex::new(Slot::Empty),
            decoded: Condvar::new(),
            fallback: Mutex::new(Fallback::None),
            more: OnceLock::new(),
        })
    }

    pub(super) fn object(self: &Arc<Self>) -> Option<CatchDrop<T>> {
        match self.begin_read() {
            ReadStart::Ready(object) => Some(object),
            ReadStart::Unreadable => None,
            ReadStart::Empty => {
                let object = self.fill(true)?;
                self.source.hot.admit(self, self.json().len());
                Some(object)
            }
        }
    }

    /// Drops the decoded object, unless it was read during the lease.
    pub(super) fn end_lease(self: &Arc<Self>) {
        let mut slot = self.slot.lock();
        let is_used = match &*slot {
            Slot::Ready(object) => self.was_read.load(Ordering::Relaxed) || Arc::strong_count(object) > 1,
            Slot::Empty | Slot::Busy => return,
        };
        if is_used {
            drop(slot);
            self.source.hot.admit(self, self.json().len());
        } else {
            let unread = replace(&mut *slot, Slot::Empty);
            drop(slot);
            drop(unread);
        }
    }

    /// Returns the decoded object. If the object is not decoded yet but may be decodable, this method reserves the slot
    /// for the decoded object. The caller must then call [`fill`](Self::fill).
    pub(super) fn begin_read(&self) -> ReadStart<T> {
        let mut slot = self.slot.lock();
        loop {
            match &*slot {
                Slot::Ready(object) => {
                    self.was_read.store(true, Ordering::Relaxed);
                    return ReadStart::Ready(object.clone());
                }
                Slot::Busy if IS_DECODING.get() => return ReadStart::Unreadable,
                Slot::Busy => slot = self.decoded.wait(slot).unwrap_or_else(PoisonError::into_inner),
                Slot::Empty if self.is_bad() => return ReadStart::Unreadable,
                Slot::Empty => {
                    *slot = Slot::Busy;
                    return ReadStart::Empty;
                }
            }
        }
    }

    pub(super) fn fill(self: &Arc<Self>, is_read: bool) -> Option<CatchDrop<T>> {
        let reservation = Reservation(self);
        let decoded = self.decode();
        match &decoded {
            Ok((object, _)) => reservation.fulfil(object.clone(), is_read),
            Err(_) => drop(reservation),
        }
        // Report the error or drop the replaced states only now, because both can run user code that reads this object.
        self.reported(decoded.map(|(object, _)| object))
    }

    /// Checks that the object can be decoded, and drops the decoded object. Does nothing if the
    /// object has already been decoded.
    pub(crate) fn check(self: &Arc<Self>) {
        if self.is_unchecked() {
            drop(self.reported(self.decode().map(|(object, _)| object)));
        }
    }

    /// Decodes the object, and returns the earlier states that are no longer needed. If the object cannot be decoded, the
    /// error contains the entry to [report](Self::reported), unless the object was already reported.
    fn decode(self: &Arc<Self>) -> Decoded<T> {
        match decoding(|| self.source.decode(self.json())) {
            Ok(object) => {
                let fallback = self.fallback();
                let decoded = match &fallback {
                    Fallback::Unproven(sequence, at) => sequence.record_decoded(*at, Stored::Lazy(self.clone())),
                    Fallback::None | Fallback::State(_) => None,
                };
                self.quality.store(GOOD, Ordering::Release);
                self.becomes_known();
                let own = replace(&mut *self.fallback.lock(), Fallback::None);
                Ok((CatchDrop::from(Arc::new(object)), Replaced { _fallbacks: [fallback, own], _decoded: decoded }))
            }
            Err(_) if self.quality.swap(BAD, Ordering::AcqRel) == BAD => Err(None),
            Err(error) => {
                let key = ObjectKey::new(self.namespace(), self.name());
                let (uid, resource_version) = (self.uid().to_owned(), self.resource_version().to_owned());
                let entry = Undecodable { key, uid, resource_version, error };
                Err(Some(Found { record: Arc::downgrade(self), entry }))
            }
        }
    }

    /// Reports an object that could not be decoded. No thread may wait for this call, because it runs the caller's
    /// `tracing` subscriber.
    fn reported(&self, decoded: Result<CatchDrop<T>, Option<Found<T>>>) -> Option<CatchDrop<T>> {
        match decoded {
            Ok(object) => return Some(object),
            Err(Some(found)) => self.source.report(found),
            Err(None) => {}
        }
        None
    }

    pub(crate) fn is_unchecked(&self) -> bool {
        self.quality.load(Ordering::Acquire) == UNCHECKED
    }

    /// Records that this record has a known decodable state and no longer counts as unknown.
    pub(super) fn becomes_known(&self) {
        if self.is_unknown.load(Ordering::Relaxed) && self.is_unknown.swap(false, Ordering::Relaxed) {
            self.source.removes_unknown();
        }
    }

    pub(super) fn is_good(&self) -> bool {
        self.quality.load(Ordering::Acquire) == GOOD
    }

    pub(super) fn is_bad(&self) -> bool {
        self.quality.load(Ordering::Acquire) == BAD
    }

    pub(super) fn fallback(&self) -> Fallback<T> {
        self.fallback.lock().clone()
    }

    /// Returns `true` if this state or an earlier state is known to be decodable.
    pub(super) fn is_readable(&self) -> bool {
        self.is_good() || self.fallback().is_readable()
    }

    /// Returns the earlier state that reads return because this state cannot be decoded. Once this method has returned a
    /// state, it always returns the same state.
    pub(super) fn earlier(&self) -> Option<Stored<T>> {
        let (sequence, position) = match self.fallback() {
            Fallback::None => return None,
            Fallback::State(state) => return Some(state),
            Fallback::Unproven(sequence, position) => (sequence, position),
        };
        let good = sequence.good_before(position);
        let mut fallback = self.fallback.lock();
        let before = match (&*fallback, &good) {
            (Fallback::State(state), _) => return Some(state.clone()),
            // Another thread has just decoded this state.
            (Fallback::None, _) => return good,
            (Fallback::Unproven(..), Some(good)) => replace(&mut *fallback, Fallback::State(good.clone())),
            (Fallback::Unproven(..), None) => {
                self.was_unreadable.store(true, Ordering::Relaxed);
                return None;
            }
        };
        drop(fallback);
        drop(before);
        self.becomes_known();
        good
    }

    pub(super) fn was_unreadable(&self) -> bool {
        let _fallback = self.fallback.lock();
        self.was_unreadable.load(Ordering::Relaxed)
    }

    /// Sets the state that reads return if this state cannot be decoded: the previous state `known` or an even earlier
    /// state.
    pub(super) fn follows(&self, known: &Stored<T>) {
        let fallback = match known {
            Stored::Lazy(record) if !record.is_good() => match record.fallback() {
                Fallback::None if record.is_bad() => return,
                Fallback::None => Fallback::start(known.clone()),
                Fallback::State(state) => Fallback::State(state),
                Fallback::Unproven(sequence, position) => Fallback::Unproven(sequence, position + 1),
            },
            Stored::Eager(..) | Stored::Lazy(_) => Fallback::State(known.clone()),
        };
        let is_readable = fallback.is_readable();
        let before = replace(&mut *self.fallback.lock(), fallback);
        drop(before);
        if is_readable {
            self.becomes_known();
        }
    }

    fn json(&self) -> &[u8] {
        &self.data[..self.json_len as usize]
    }

    fn head(&self, n: usize) -> &str {
        let at = &self.head[n];
        // The scanner has validated the UTF-8 of the identity fields.
        str::from_utf8(&self.data[at.start as usize..at.end as usize]).unwrap_or_default()
    }

    fn more(&self) -> &ObjectMeta {
        self.more.get_or_init(|| {
            let at = self.metadata_at.start as usize..self.metadata_at.end as usize;
            Box::new(self.json().get(at).map(parse_metadata).unwrap_or_default())
        })
    }
}

/// Returns empty metadata if it cannot be parsed, because decoding the object then also fails and reports the reason.
fn parse_metadata(json: &[u8]) -> ObjectMeta {
    serde_json::from_slice(json).unwrap_or_default()
}

type Decoded<T> = Result<(CatchDrop<T>, Replaced<T>), Option<Found<T>>>;

/// Earlier states that a decoded state has replaced. Dropping them can run user-defined `Drop` code, so no thread may
/// wait for it.
struct Replaced<T> {
    _fallbacks: [Fallback<T>; 2],
    _decoded: Option<Stored<T>>,
}

/// A reservation of the slot for the decoded object, which keeps all other readers of the record waiting. If decoding
/// fails or panics, dropping the reservation empties the slot.
struct Reservation<'a, T>(&'a Record<T>);

impl<T> Reservation<'_, T> {
    /// Stores the decoded object.
    fn fulfil(self, object: CatchDrop<T>, is_read: bool) {
        let record = self.0;
        // From now on, another thread may reserve the slot, and this reservation must not empty it.
        forget(self);
        let mut slot = record.slot.lock();
        record.was_read.store(is_read, Ordering::Relaxed);
        *slot = Slot::Ready(object);
        drop(slot);
        record.decoded.notify_all();
    }
}

impl<T> Drop for Reservation<'_, T> {
    fn drop(&mut self) {
        *self.0.slot.lock() = Slot::Empty;
        self.0.decoded.notify_all();
    }
}

/// Runs `decode`, and meanwhile records in [`IS_DECODING`] that this thread is decoding an object.
fn decoding<R>(decode: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            IS_DECODING.set(self.0);
        }
    }
    let _restore = Restore(IS_DECODING.replace(true));
    decode()
}

impl<T> Drop for Record<T> {
    fn drop(&mut self) {
        self.becomes_known();
    }
}

impl<T> Metadata for Record<T> {
    fn name(&self) -> &str {
        self.head(0)
    }

    fn namespace(&self) -> &str {
        self.head(1)
    }

    fn uid(&self) -> &str {
        self.head(2)
    }

    fn resource_version(&self) -> &str {
        self.head(3)
    }

    fn generation(&self) -> i64 {
        self.generation
    }

    fn is_terminating(&self) -> bool {
        self.is_terminating
    }

    fn labels(&self) -> &BTreeMap<String, String> {
        &self.more().labels
    }

    fn annotations(&self) -> &BTreeMap<String, String> {
        &self.more().annotations
    }

    fn finalizers(&self) -> &[String] {
        &self.more().finalizers
    }

    fn supports_finalizers(&self) -> bool {
        true
    }

    fn owners(&self) -> Vec<OwnerRef<'_>> {
        self.more().owners()
    }
}

/// Prints the identity and the size of the object, but not its content, which may be secret.
impl<T> fmt::Debug for Record<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, {} bytes", self.namespace(), self.name(), self.json().len())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Weak;

    use pintle_meta::PartialObject;
    use tracing::span::{Attributes, Id, Record as Values};
    use tracing::{Event, Metadata as Callsite, Subscriber};

    use super::*;
    use crate::projection::Projection;
    use crate::scan::Scanner;

    struct PanickingSubscriber;

    impl Subscriber for PanickingSubscriber {
        fn enabled(&self, _: &Callsite<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Values<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, _: &Event<'_>) {
            panic!("a panic in the subscriber")
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    fn record<T>(json: &str, source: &Arc<Source<T>>) -> Arc<Record<T>> {
        let outline = Scanner::new(&Projection::whole()).scan(json.as_bytes()).expect("valid JSON");
        Arc::new(outline.record(json.as_bytes(), source).expect("the object has metadata"))
    }

    /// Undecodable objects are reported without a reservation of the slot, so the panic cannot block other readers.
    #[test]
    fn later_reads_continue_after_a_panic_of_the_subscriber() {
        let json = r#"{"metadata":{"namespace":"ns","name":"a","uid":"u","resourceVersion":"1","labels":["x"]}}"#;
        let source = Arc::new(Source::<PartialObject>::new(String::new(), usize::MAX));
        let record = record(json, &source);
        let read = || tracing::subscriber::with_default(PanickingSubscriber, || record.object().is_some());
        assert!(catch_unwind(AssertUnwindSafe(read)).is_err());
        assert!(matches!(*record.slot.lock(), Slot::Empty) && !IS_DECODING.get());
        assert!(record.object().is_none() && source.found().len() == 1, "the object is reported once");
    }

    /// An object that records in its `Drop` whether a read of another record would wait.
    #[derive(Default, serde::Deserialize)]
    struct Reader {
        metadata: ObjectMeta,
    }
    pintle_meta::resource!(Reader, "v1", "Pod", "pods", Namespaced);

    thread_local! {
        static OTHER: RefCell<Weak<Record<Reader>>> = const { RefCell::new(Weak::new()) };
        static WAITS: Cell<Option<bool>> = const { Cell::new(None) };
    }

    impl Drop for Reader {
        fn drop(&mut self) {
            let other = OTHER.with_borrow(Weak::upgrade);
            WAITS.set(other.map(|other| matches!(*other.slot.lock(), Slot::Busy)).or(WAITS.get()));
        }
    }

    fn versions<const N: usize>() -> [Arc<Record<Reader>>; N] {
        let source = Arc::new(Source::new(String::new(), 0));
        std::array::from_fn(|version| {
            let json =
                format!(r#"{{"metadata":{{"namespace":"ns","name":"a","uid":"u","resourceVersion":"{version}"}}}}"#);
            record(&json, &source)
        })
    }

    /// The `Drop` of an object is user code, which may read the same key.
    #[test]
    fn fallback_is_dropped_after_the_read() {
        let [newest] = versions();
        newest.follows(&Stored::Eager(CatchDrop::from(Arc::new(Reader::default())), LastWrite::default()));
        OTHER.set(Arc::downgrade(&newest));
        assert!(newest.object().is_some());
        assert_eq!(WAITS.get(), Some(false));
    }

    #[test]
    fn earlier_decoded_state_is_dropped_after_the_read() {
        let [oldest, middle, newest] = versions();
        middle.follows(&Stored::Lazy(oldest));
        newest.follows(&Stored::Lazy(middle.clone()));
        assert!(newest.fill(true).is_some());
        drop(newest);
        OTHER.set(Arc::downgrade(&middle));
        assert!(middle.object().is_some());
        assert_eq!(WAITS.get(), Some(false));
    }

    #[test]
    fn panic_while_decoding_leaves_the_slot_empty() {
        let json = r#"{"metadata":{"namespace":"ns","name":"a","uid":"u","resourceVersion":"1"}}"#;
        let mut source = Source::<PartialObject>::new(String::new(), usize::MAX);
        source.replace_decode(|_| panic!("a panic while decoding"));
        let record = record(json, &Arc::new(source));
        assert!(catch_unwind(AssertUnwindSafe(|| record.object().is_some())).is_err());
        assert!(matches!(*record.slot.lock(), Slot::Empty) && !IS_DECODING.get());
    }
}
