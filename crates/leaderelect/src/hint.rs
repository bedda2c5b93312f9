//! A watch of the lock, as a hint to look sooner.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;

use futures_core::Stream;
use pintle_meta::{ApiError, FieldSelector, ListWatch, Object, ObjectKey, RawObject, WatchEvent, WatchOptions};
use pintle_ratelimit::Backoff;
use tokio::sync::mpsc;

use crate::Lease;
use crate::lock::state_of;
use crate::machine::Hint;

/// A watch of the [`Lease`] that a lock is kept in, so that an elector notices at once when it is released or taken by another one.
///
/// While the watch works, a candidate reads only when the lease would expire. While it fails, the elector polls.
///
/// # Examples
///
/// ```
/// use pintle_leaderelect::{Lease, LeaseLock, LeaseWatch};
/// use pintle_testing::Collection;
///
/// let leases = Collection::<Lease>::default();
/// let watch = Some(LeaseWatch::new(leases.clone()));
/// let lock = LeaseLock { watch, ..LeaseLock::new(leases, "kube-system", "website-controller") };
/// ```
#[derive(Clone)]
pub struct LeaseWatch(Arc<dyn Fn(ObjectKey, Backoff, mpsc::Sender<Hint>) -> Watching + Send + Sync>);

type Watching = Pin<Box<dyn Future<Output = ()> + Send>>;

impl LeaseWatch {
    /// A watch of one of the leases that `leases` watches.
    pub fn new(leases: impl ListWatch<Object = Lease>) -> Self {
        let leases = Arc::new(leases);
        Self(Arc::new(move |key, pauses, hints| {
            let leases = leases.clone();
            Box::pin(async move { watch_lease(&*leases, &key, pauses, hints).await })
        }))
    }

    /// Watches the lease of that key, with these pauses after failures, and tells hints until it is dropped.
    pub(crate) fn start(&self, key: ObjectKey, pauses: Backoff, hints: mpsc::Sender<Hint>) -> Watching {
        (self.0)(key, pauses, hints)
    }
}

impl fmt::Debug for LeaseWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseWatch").finish_non_exhaustive()
    }
}

/// Watches the one lease of `key`, again and again, until the receiver is gone.
async fn watch_lease<W: ListWatch<Object = Lease>>(
    watch: &W,
    key: &ObjectKey,
    mut pauses: Backoff,
    hints: mpsc::Sender<Hint>,
) {
    let field_selector = FieldSelector::everything().equals("metadata.name", key.name());
    // Without a resourceVersion each watch begins with the present state, so nothing is missed in between.
    let options = WatchOptions { field_selector, allow_bookmarks: true, ..WatchOptions::default() };
    loop {
        let asked = match watch.watch(&options).await {
            Ok(events) => {
                if hints.send(Hint::Up).await.is_err() {
                    return;
                }
                if follow(events, key, &hints).await {
                    pauses.reset();
                }
                if hints.send(Hint::Down).await.is_err() {
                    return;
                }
                None
            }
            Err(error) => {
                tracing::debug!(lease = %key, %error, "cannot watch the lock; polling instead");
                error.retry_after
            }
        };
        tokio::time::sleep(pauses.next(asked)).await;
    }
}

/// Sends a hint for each event of one stream until it ends. Returns whether there was any.
async fn follow<S>(mut events: S, key: &ObjectKey, hints: &mpsc::Sender<Hint>) -> bool
where
    S: Stream<Item = Result<WatchEvent<RawObject>, ApiError>> + Unpin,
{
    let mut any = false;
    while let Some(Ok(event)) = poll_fn(|context| Pin::new(&mut events).poll_next(context)).await {
        // One that cannot be decoded is no hint; the elector reads the lease itself before long, and says what is wrong.
        let Ok(event) = event.decode::<Lease>() else { continue };
        let hint = match event {
            WatchEvent::Added(lease) | WatchEvent::Modified(lease) if lease.key() == *key => {
                Hint::Changed(state_of(&lease))
            }
            WatchEvent::Deleted(lease) if lease.key() == *key => Hint::Deleted { uid: lease.uid().into() },
            WatchEvent::Error(_) => break,
            _ => continue,
        };
        any = true;
        if hints.send(hint).await.is_err() {
            break;
        }
    }
    any
}
