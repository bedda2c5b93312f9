//! The room for the bodies of requests: how much of them is kept at once, and who gives way where there is no more.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// The largest body of a request.
pub(crate) const LARGEST_BODY: usize = 3 << 20;
/// How much of a body that is too large is read, so that the client gets to see why it is refused.
const READ_ON: usize = 16 << 20;
/// A body is small up to here. Of all that are, most are.
const SMALL: usize = 64 << 10;
/// So many bytes of large bodies are worked on at once: what is made of one on the way may take hundreds of times as much.
const WORKED_ON: usize = 4 << 20;

/// What is kept of bodies that are still coming and of those that are served. It counts what has really come.
///
/// Where there is no more room, nobody waits for it, since those who have sent half of theirs would wait for each other: of the large
/// bodies that are still coming, that which began first gives way, as its client has had the most time and not made use of it. So those
/// who send slowly, or stop half-way, keep nobody out, and a burst of large ones keeps no small one out.
#[derive(Debug)]
pub(crate) struct BodyBudget {
    kept: Mutex<BudgetLeft>,
    turns: Arc<Semaphore>,
}

/// Why a body was not read.
#[derive(Debug)]
pub(crate) enum Unread {
    /// Its client went, or said nonsense.
    Broken(String),
    TooLarge,
    /// It gave way to others.
    NoRoom,
}

#[derive(Debug)]
struct BudgetLeft {
    left: usize,
    /// What large bodies leave of that.
    for_small: usize,
    /// The bodies that are still coming, in the order in which they give way: the large ones first, and of these the oldest.
    coming: BTreeMap<Precedence, Coming>,
    next: u64,
}

/// In the line of those who give way: whether it is small, and which of them it is.
type Precedence = (bool, u64);

#[derive(Debug)]
struct Coming {
    bytes: Vec<u8>,
    /// Dropped where it gives way.
    _stays: oneshot::Sender<()>,
}

impl BodyBudget {
    /// Room for so many bytes, and for an eighth more of small bodies.
    pub(crate) fn new(bytes: usize) -> Self {
        let for_small = bytes / 8;
        let kept = BudgetLeft { left: bytes.saturating_add(for_small), for_small, coming: BTreeMap::new(), next: 0 };
        Self { kept: Mutex::new(kept), turns: Arc::new(Semaphore::new(WORKED_ON)) }
    }

    /// Reads a body to its end. It has its room until the last clone of it is dropped. Dropping the future gives the room back.
    pub(crate) async fn read<B>(self: &Arc<Self>, mut body: B) -> Result<Bytes, Unread>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        let (mut arriving, mut size) = (None::<Arriving>, 0);
        loop {
            let frame = match &mut arriving {
                None => body.frame().await,
                Some(Arriving { gives_way, .. }) => tokio::select! {
                    biased;
                    _ = gives_way => return Err(Unread::NoRoom),
                    frame = body.frame() => frame,
                },
            };
            let Some(frame) = frame else { break };
            let frame = frame.map_err(|error| Unread::Broken(error.to_string()))?;
            let Ok(data) = frame.into_data() else { continue };
            size += data.len();
            if size > READ_ON {
                break;
            }
            if size > LARGEST_BODY {
                arriving = None;
            } else if !data.is_empty() && !arriving.get_or_insert_with(|| self.begin()).add(&data) {
                return Err(Unread::NoRoom);
            }
        }
        match arriving {
            _ if size > LARGEST_BODY => Err(Unread::TooLarge),
            Some(arriving) => arriving.end(),
            None => Ok(Bytes::new()),
        }
    }

    /// Waits until a body can be worked on beside those that are; it has its turn until the last clone is dropped. Small ones wait for
    /// nobody, others for those who came before them.
    pub(crate) async fn turn(&self, bytes: Bytes) -> Bytes {
        if bytes.len() <= SMALL {
            return bytes;
        }
        let size = u32::try_from(bytes.len().min(WORKED_ON)).unwrap_or(u32::MAX);
        // It fails only where the semaphore is closed, which nobody does.
        let turn = self.turns.clone().acquire_many_owned(size).await.ok();
        Bytes::from_owner(InTurn { bytes, _turn: turn })
    }

    fn begin(self: &Arc<Self>) -> Arriving {
        let (stays, gives_way) = oneshot::channel();
        let mut kept = self.lock();
        let target = (true, kept.next);
        kept.next += 1;
        kept.coming.insert(target, Coming { bytes: Vec::new(), _stays: stays });
        Arriving { room: self.clone(), target, gives_way }
    }

    fn lock(&self) -> MutexGuard<'_, BudgetLeft> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BudgetLeft {
    /// Adds to a body that is coming; none if it gives way. Answers its new place.
    fn add(&mut self, target: Precedence, data: &[u8]) -> Option<Precedence> {
        let mut coming = self.coming.remove(&target)?;
        let is_small = coming.bytes.len() + data.len() <= SMALL;
        let target = (is_small, target.1);
        let needed = data.len() + if is_small { 0 } else { self.for_small };
        while self.left < needed {
            let first = self.coming.first_entry().filter(|first| *first.key() < target);
            let Some(first) = first else {
                self.left += coming.bytes.len();
                return None;
            };
            self.left += first.remove().bytes.len();
        }
        self.left -= data.len();
        coming.bytes.extend_from_slice(data);
        self.coming.insert(target, coming);
        Some(target)
    }
}

/// A body that is coming.
struct Arriving {
    room: Arc<BodyBudget>,
    target: Precedence,
    gives_way: oneshot::Receiver<()>,
}

impl Arriving {
    /// False if it gives way.
    fn add(&mut self, data: &[u8]) -> bool {
        let target = self.room.lock().add(self.target, data);
        self.target = target.unwrap_or(self.target);
        target.is_some()
    }

    /// It has come.
    fn end(self) -> Result<Bytes, Unread> {
        let coming = self.room.lock().coming.remove(&self.target).ok_or(Unread::NoRoom)?;
        Ok(Bytes::from_owner(Held { bytes: coming.bytes, room: self.room.clone() }))
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        let mut kept = self.room.lock();
        if let Some(coming) = kept.coming.remove(&self.target) {
            kept.left += coming.bytes.len();
        }
    }
}

/// A body that has come, and its room.
struct Held {
    bytes: Vec<u8>,
    room: Arc<BodyBudget>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.room.lock().left += self.bytes.len();
    }
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A body that is worked on.
struct InTurn {
    bytes: Bytes,
    _turn: Option<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for InTurn {
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

    /// A body that comes as it is sent, and what becomes of it.
    struct Sent {
        parts: mpsc::UnboundedSender<Bytes>,
        read: JoinHandle<Result<Bytes, Unread>>,
    }

    impl Sent {
        async fn begin(room: &Arc<BodyBudget>, bytes: usize) -> Self {
            let (parts, received) = mpsc::unbounded_channel::<Bytes>();
            let frames = stream::unfold(received, async |mut received| {
                let part = received.recv().await?;
                Some((Ok::<_, Infallible>(Frame::data(part)), received))
            });
            let room = room.clone();
            let read = tokio::spawn(async move { room.read(Box::pin(StreamBody::new(frames))).await });
            let sent = Self { parts, read };
            sent.send(bytes).await;
            sent
        }

        /// Sends so many bytes, and lets them be read.
        async fn send(&self, bytes: usize) {
            // Where nobody reads it, there is nothing to be done.
            let _ = self.parts.send(vec![0; bytes].into());
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        }

        fn gave_way(&self) -> bool {
            self.read.is_finished()
        }

        async fn end(self) -> Result<Bytes, Unread> {
            drop(self.parts);
            self.read.await.expect("no panic")
        }
    }

    fn left(room: &BodyBudget) -> usize {
        room.lock().left
    }

    const LARGE: usize = 2 * SMALL;

    #[tokio::test]
    async fn of_the_large_ones_that_are_coming_the_oldest_gives_way() {
        let room = Arc::new(BodyBudget::new(3 * LARGE));
        let all = left(&room);
        let small = Sent::begin(&room, 10).await;
        let oldest = Sent::begin(&room, LARGE).await;
        let second = Sent::begin(&room, LARGE).await;
        let served = Sent::begin(&room, LARGE - 20).await.end().await.expect("room");
        let newest = Sent::begin(&room, LARGE).await;
        assert!(oldest.gave_way() && !second.gave_way() && !newest.gave_way() && !small.gave_way());
        // A byte at a time saves nobody.
        second.send(LARGE).await;
        assert!(matches!(second.end().await, Err(Unread::NoRoom)));
        drop(served);
        newest.send(LARGE).await;
        assert_eq!(newest.end().await.expect("room").len(), 2 * LARGE);
        assert_eq!(small.end().await.expect("room").len(), 10);
        assert_eq!(left(&room), all, "all have given their room back");
    }

    #[tokio::test]
    async fn large_bodies_keep_no_small_one_out() {
        let room = Arc::new(BodyBudget::new(8 * LARGE));
        let mut served = Vec::new();
        while let Ok(body) = Sent::begin(&room, LARGE).await.end().await {
            served.push(body);
        }
        assert_eq!(served.len(), 8);
        let small = Sent::begin(&room, SMALL).await;
        assert!(matches!(Sent::begin(&room, LARGE).await.end().await, Err(Unread::NoRoom)));
        assert_eq!(small.end().await.expect("room").len(), SMALL);
    }

    #[tokio::test]
    async fn what_is_too_large_or_goes_half_way_leaves_its_room() {
        let room = Arc::new(BodyBudget::new(LARGEST_BODY));
        let all = left(&room);
        let too_large = Sent::begin(&room, LARGEST_BODY).await;
        assert_eq!(left(&room), all - LARGEST_BODY);
        too_large.send(1).await;
        assert_eq!(left(&room), all);
        assert!(matches!(too_large.end().await, Err(Unread::TooLarge)));
        let half = Sent::begin(&room, LARGE).await;
        half.read.abort();
        assert!(half.read.await.is_err());
        assert_eq!(left(&room), all);
    }

    #[tokio::test]
    async fn large_bodies_are_worked_on_a_few_at_a_time_in_the_order_of_their_coming() {
        let room = BodyBudget::new(0);
        let body = |bytes: usize| Bytes::from(vec![0; bytes]);
        let first = room.turn(body(WORKED_ON - LARGE)).await;
        let mut second = Box::pin(room.turn(body(2 * LARGE)));
        assert!(second.as_mut().now_or_never().is_none());
        let mut third = Box::pin(room.turn(body(LARGE)));
        assert!(third.as_mut().now_or_never().is_none(), "it fits, and is not before its turn");
        assert!(room.turn(body(SMALL)).now_or_never().is_some(), "small ones wait for nobody");
        drop(first);
        assert!(second.now_or_never().is_some() && third.now_or_never().is_some());
    }
}
