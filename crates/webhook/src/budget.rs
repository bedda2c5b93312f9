//! The memory budget of request bodies. When the budget is exhausted, the server drops request bodies that arrive
//! slowly.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pintle_meta::__private::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep};

/// The maximum total memory of all request bodies. A request waits while its body would exceed this limit.
const BYTES: usize = 256 << 20;
/// The number of body bytes per semaphore permit.
const PERMIT: usize = 64 << 10;
/// The time after which a request body that is still arriving counts as slow. The server drops slow bodies if it needs
/// their memory. API servers send bodies without pauses.
const SLOW: Duration = Duration::from_secs(1);
/// The interval at which a waiting request checks for slow request bodies.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) struct Budget {
    permits: Arc<Semaphore>,
    arriving: Mutex<Arriving>,
}

/// The request bodies that are being received, oldest first.
#[derive(Default)]
struct Arriving {
    next: u64,
    bodies: BTreeMap<u64, (Instant, Arc<Notify>)>,
}

pub(crate) struct ArrivingBody<'a> {
    budget: &'a Budget,
    number: u64,
    give_way: Arc<Notify>,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self { permits: Arc::new(Semaphore::new(BYTES / PERMIT)), arriving: Mutex::default() }
    }

    /// Waits until the budget has enough memory for a request body, and meanwhile drops slow request bodies, oldest
    /// first. Returns `None` only if the budget is closed, which never happens.
    pub(crate) async fn reserve(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        // The number of permits fits into 32 bits, because no request body is larger than the budget.
        let mut permits = std::pin::pin!(self.permits.clone().acquire_many_owned(bytes.div_ceil(PERMIT).max(1) as u32));
        loop {
            tokio::select! {
                biased;
                permits = permits.as_mut() => return permits.ok(),
                () = sleep(LOOK) => self.drop_slowest(),
            }
        }
    }

    pub(crate) fn arriving(&self) -> ArrivingBody<'_> {
        let mut arriving = self.arriving.lock();
        let (number, give_way) = (arriving.next, Arc::<Notify>::default());
        arriving.next += 1;
        arriving.bodies.insert(number, (Instant::now(), give_way.clone()));
        drop(arriving);
        ArrivingBody { budget: self, number, give_way }
    }

    fn drop_slowest(&self) {
        let mut arriving = self.arriving.lock();
        let oldest = arriving.bodies.first_entry().filter(|oldest| oldest.get().0.elapsed() >= SLOW);
        if let Some(oldest) = oldest {
            let (_, give_way) = oldest.remove();
            give_way.notify_one();
        }
    }
}

impl ArrivingBody<'_> {
    /// Waits until the server must drop this request body to free memory for other bodies.
    pub(crate) async fn must_give_way(&self) {
        self.give_way.notified().await;
    }
}

impl Drop for ArrivingBody<'_> {
    fn drop(&mut self) {
        self.budget.arriving.lock().bodies.remove(&self.number);
    }
}
