//! A memory budget for request bodies.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// The maximum size of a request body, in bytes.
pub const LARGEST_BODY: usize = 3 << 20;
/// The maximum number of bytes to read from a body that is too large. If the server stopped reading earlier, the client
/// might not receive the error response.
const DRAIN_LIMIT: usize = 16 << 20;
/// The maximum size in bytes of a small body, which includes most bodies.
const SMALL: usize = 64 << 10;
/// The maximum total size in bytes of the large bodies that are processed concurrently. Processing a body can use
/// hundreds of times as much memory as the body itself. A body does not count towards this limit while its request
/// waits for a webhook.
const PROCESSING_LIMIT: usize = 4 << 20;

/// The memory budget for incomplete bodies and for bodies that are being processed. Only the received bytes count, even
/// if the request announces a longer body.
///
/// Uploads do not wait for free space in the budget, because they could then wait for each other. When the budget is
/// exhausted, it evicts incomplete bodies instead. Large bodies are evicted before small bodies, and the oldest large
/// body is evicted first, because its client has had the most time to send it. As a result, slow clients do not block
/// other clients, and large bodies do not block small bodies.
#[derive(Debug)]
pub struct BodyBudget {
    state: Mutex<BudgetState>,
    processing: Arc<Semaphore>,
}

/// The reason why the server could not read a request body.
#[derive(Debug)]
pub enum Unread {
    /// The connection broke during the upload, or the client sent an invalid body.
    Broken(String),
    /// The request body is longer than [`LARGEST_BODY`].
    TooLarge,
    /// The request body was evicted, or it did not fit into the budget.
    OutOfBudget,
}

#[derive(Debug)]
struct BudgetState {
    left: usize,
    small_reserve: usize,
    /// The incomplete bodies in the order of eviction: large before small, and then old before new.
    uploads: BTreeMap<EvictionKey, Upload>,
    next: u64,
}

/// Whether the incomplete body is small, and the sequence number of its upload.
type EvictionKey = (bool, u64);

#[derive(Debug)]
struct Upload {
    bytes: Vec<u8>,
    /// Dropping this sender, when the body is evicted, ends the task that reads the body.
    _evicted: oneshot::Sender<()>,
}

impl BodyBudget {
    /// Creates a budget of `bytes` bytes, plus an eighth of `bytes` that is reserved for small bodies.
    pub fn new(bytes: usize) -> Self {
        let small_reserve = bytes / 8;
        let state =
            BudgetState { left: bytes.saturating_add(small_reserve), small_reserve, uploads: BTreeMap::new(), next: 0 };
        Self { state: Mutex::new(state), processing: Arc::new(Semaphore::new(PROCESSING_LIMIT)) }
    }

    /// Reads a request body to its end. The body counts towards the budget until the last clone of the returned bytes
    /// is dropped.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future discards the received bytes and returns their memory to the budget.
    pub async fn read<B>(self: &Arc<Self>, mut body: B) -> Result<Bytes, Unread>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        let (mut upload, mut size) = (None::<UploadGuard>, 0);
        loop {
            let frame = match &mut upload {
                None => body.frame().await,
                Some(UploadGuard { evicted, .. }) => tokio::select! {
                    biased;
                    _ = evicted => return Err(Unread::OutOfBudget),
                    frame = body.frame() => frame,
                },
            };
            let Some(frame) = frame else { break };
            let frame = frame.map_err(|error| Unread::Broken(error.to_string()))?;
            let Ok(data) = frame.into_data() else { continue };
            size += data.len();
            if size > DRAIN_LIMIT {
                break;
            }
            if size > LARGEST_BODY {
                upload = None;
            } else if !data.is_empty() && !upload.get_or_insert_with(|| self.begin()).add(&data) {
                return Err(Unread::OutOfBudget);
            }
        }
        match upload {
            _ if size > LARGEST_BODY => Err(Unread::TooLarge),
            Some(upload) => upload.end(),
            None => Ok(Bytes::new()),
        }
    }

    /// Waits for a permit to process a body of `bytes` bytes. Small bodies need no permit. Permits for large bodies are
    /// granted in the order of the calls.
    pub async fn turn(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        if bytes <= SMALL {
            return None;
        }
        let size = u32::try_from(bytes.min(PROCESSING_LIMIT)).unwrap_or(u32::MAX);
        // This cannot fail, because the semaphore is never closed.
        self.processing.clone().acquire_many_owned(size).await.ok()
    }

    fn begin(self: &Arc<Self>) -> UploadGuard {
        let (evict, evicted) = oneshot::channel();
        let mut state = self.lock();
        let key = (true, state.next);
        state.next += 1;
        state.uploads.insert(key, Upload { bytes: Vec::new(), _evicted: evict });
        UploadGuard { budget: self.clone(), key, evicted }
    }

    fn lock(&self) -> MutexGuard<'_, BudgetState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BudgetState {
    /// Returns the upload's new key, or `None` if the upload was evicted.
    fn add(&mut self, key: EvictionKey, data: &[u8]) -> Option<EvictionKey> {
        let mut upload = self.uploads.remove(&key)?;
        let is_small = upload.bytes.len() + data.len() <= SMALL;
        let key = (is_small, key.1);
        let needed = data.len() + if is_small { 0 } else { self.small_reserve };
        while self.left < needed {
            let first = self.uploads.first_entry().filter(|first| *first.key() < key);
            let Some(first) = first else {
                self.left += upload.bytes.len();
                return None;
            };
            self.left += first.remove().bytes.len();
        }
        self.left -= data.len();
        upload.bytes.extend_from_slice(data);
        self.uploads.insert(key, upload);
        Some(key)
    }
}

/// A guard for an incomplete body, which returns the body's memory to the budget when dropped.
struct UploadGuard {
    budget: Arc<BodyBudget>,
    key: EvictionKey,
    evicted: oneshot::Receiver<()>,
}

impl UploadGuard {
    fn add(&mut self, data: &[u8]) -> bool {
        let key = self.budget.lock().add(self.key, data);
        self.key = key.unwrap_or(self.key);
        key.is_some()
    }

    fn end(self) -> Result<Bytes, Unread> {
        let upload = self.budget.lock().uploads.remove(&self.key).ok_or(Unread::OutOfBudget)?;
        Ok(Bytes::from_owner(CompleteBody { bytes: upload.bytes, budget: self.budget.clone() }))
    }
}

impl Drop for UploadGuard {
    fn drop(&mut self) {
        let mut state = self.budget.lock();
        if let Some(upload) = state.uploads.remove(&self.key) {
            state.left += upload.bytes.len();
        }
    }
}

struct CompleteBody {
    bytes: Vec<u8>,
    budget: Arc<BodyBudget>,
}

impl Drop for CompleteBody {
    fn drop(&mut self) {
        self.budget.lock().left += self.bytes.len();
    }
}

impl AsRef<[u8]> for CompleteBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::FutureExt;
    use futures_util::stream;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use tokio::sync::mpsc;
    use tokio::task::JoinHandle;

    use super::*;

    struct Sent {
        parts: mpsc::UnboundedSender<Bytes>,
        read: JoinHandle<Result<Bytes, Unread>>,
    }

    impl Sent {
        async fn begin(budget: &Arc<BodyBudget>, bytes: usize) -> Self {
            let (parts, received) = mpsc::unbounded_channel::<Bytes>();
            let frames = stream::unfold(received, async |mut received| {
                let part = received.recv().await?;
                Some((Ok::<_, Infallible>(Frame::data(part)), received))
            });
            let budget = budget.clone();
            let read = tokio::spawn(async move { budget.read(Box::pin(StreamBody::new(frames))).await });
            let sent = Self { parts, read };
            sent.send(bytes).await;
            sent
        }

        async fn send(&self, bytes: usize) {
            // Ignore the error, because the reader may already have returned.
            let _ = self.parts.send(vec![0; bytes].into());
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        }

        fn is_evicted(&self) -> bool {
            self.read.is_finished()
        }

        async fn end(self) -> Result<Bytes, Unread> {
            drop(self.parts);
            self.read.await.expect("no panic")
        }
    }

    fn left(budget: &BodyBudget) -> usize {
        budget.lock().left
    }

    const LARGE: usize = 2 * SMALL;

    #[tokio::test]
    async fn eviction_takes_the_oldest_large_upload_first() {
        let budget = Arc::new(BodyBudget::new(3 * LARGE));
        let all = left(&budget);
        let small = Sent::begin(&budget, 10).await;
        let oldest = Sent::begin(&budget, LARGE).await;
        let second = Sent::begin(&budget, LARGE).await;
        let served = Sent::begin(&budget, LARGE - 20).await.end().await.expect("budget");
        let newest = Sent::begin(&budget, LARGE).await;
        assert!(oldest.is_evicted() && !second.is_evicted() && !newest.is_evicted() && !small.is_evicted());
        // More data must not change the order of eviction.
        second.send(LARGE).await;
        assert!(matches!(second.end().await, Err(Unread::OutOfBudget)));
        drop(served);
        newest.send(LARGE).await;
        assert_eq!(newest.end().await.expect("budget").len(), 2 * LARGE);
        assert_eq!(small.end().await.expect("budget").len(), 10);
        assert_eq!(left(&budget), all, "the budget is complete again");
    }

    #[tokio::test]
    async fn large_bodies_do_not_block_small_ones() {
        let budget = Arc::new(BodyBudget::new(8 * LARGE));
        let mut served = Vec::new();
        while let Ok(body) = Sent::begin(&budget, LARGE).await.end().await {
            served.push(body);
        }
        assert_eq!(served.len(), 8);
        let small = Sent::begin(&budget, SMALL).await;
        assert!(matches!(Sent::begin(&budget, LARGE).await.end().await, Err(Unread::OutOfBudget)));
        assert_eq!(small.end().await.expect("budget").len(), SMALL);
    }

    #[tokio::test]
    async fn rejected_and_aborted_uploads_return_their_budget() {
        let budget = Arc::new(BodyBudget::new(LARGEST_BODY));
        let all = left(&budget);
        let too_large = Sent::begin(&budget, LARGEST_BODY).await;
        assert_eq!(left(&budget), all - LARGEST_BODY);
        too_large.send(1).await;
        assert_eq!(left(&budget), all);
        assert!(matches!(too_large.end().await, Err(Unread::TooLarge)));
        let half = Sent::begin(&budget, LARGE).await;
        half.read.abort();
        assert!(half.read.await.is_err());
        assert_eq!(left(&budget), all);
    }

    #[tokio::test]
    async fn large_bodies_are_processed_in_order_within_a_limit() {
        let budget = BodyBudget::new(0);
        let first = budget.turn(PROCESSING_LIMIT - LARGE).await;
        let mut second = Box::pin(budget.turn(2 * LARGE));
        assert!(second.as_mut().now_or_never().is_none());
        let mut third = Box::pin(budget.turn(LARGE));
        assert!(third.as_mut().now_or_never().is_none(), "it would fit, but must wait for the second");
        assert!(budget.turn(SMALL).now_or_never().is_some(), "small bodies do not wait");
        drop(first);
        assert!(second.now_or_never().is_some() && third.now_or_never().is_some());
    }
}
