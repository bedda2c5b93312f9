//! Watches of a lock, as hints to act sooner.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use pintle_meta::{ApiError, FieldSelector, ListWatch, Object, ObjectKey, RawObject, WatchEvent, WatchOptions};
use pintle_ratelimit::Backoff;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use crate::lock::{Lock, LockEvent, LockEvents, Locked};
use crate::{Clocks, Deadline};

/// What one who watches tells the driver.
pub(crate) enum Told<O> {
    Up,
    Down,
    Event(LockEvent<O>),
}

/// Watches the lock again and again, with these pauses, until there is nothing to watch or nobody to tell.
pub(crate) async fn follow<L: Lock>(
    lock: Arc<L>,
    clocks: Arc<dyn Clocks>,
    mut pauses: Backoff,
    driver: mpsc::Sender<Told<L::Object>>,
) {
    loop {
        let asked = match lock.watch().await {
            Ok(None) => return,
            Ok(Some(mut events)) => {
                let mut told = driver.send(Told::Up).await;
                while told.is_ok()
                    && let Some(event) = poll_fn(|context| events.as_mut().poll_next(context)).await
                {
                    pauses.reset();
                    told = driver.send(Told::Event(event)).await;
                }
                if told.is_err() || driver.send(Told::Down).await.is_err() {
                    return;
                }
                None
            }
            Err(error) => {
                tracing::debug!(lock = %lock.key(), %error, "cannot watch the lock; polling instead");
                error.retry_after
            }
        };
        clocks.sleep_until(Deadline::after(clocks.now(), pauses.next(asked))).await;
    }
}

/// Watches the one object of `key`.
pub(crate) async fn watch_one<W, T>(
    api: &W,
    key: &ObjectKey,
    locked: impl Fn(T) -> Result<Locked<T>, ApiError> + Send + 'static,
) -> Result<LockEvents<T>, ApiError>
where
    W: ListWatch<Object = T>,
    T: Object + DeserializeOwned,
{
    let mut field_selector = FieldSelector::everything().equals("metadata.name", key.name());
    // An API of all namespaces would have the server send what is in the others.
    if let (None, Some(namespace)) = (api.namespace(), key.namespace()) {
        field_selector = field_selector.equals("metadata.namespace", namespace);
    }
    // Without a resourceVersion each watch begins with the present state, so nothing is missed in between.
    let options = WatchOptions { field_selector, allow_bookmarks: true, ..WatchOptions::default() };
    let events = api.watch(&options).await?;
    Ok(Box::pin(OfOne { events, key: key.clone(), locked: Box::new(locked) }))
}

struct OfOne<S, T> {
    events: S,
    key: ObjectKey,
    locked: Box<dyn Fn(T) -> Result<Locked<T>, ApiError> + Send>,
}

impl<S, T: Object + DeserializeOwned> OfOne<S, T> {
    /// What an event says of the one object. What cannot be read says nothing: the elector reads the lock itself before long, and
    /// tells what is wrong.
    fn event(&self, event: WatchEvent<RawObject>) -> Option<LockEvent<T>> {
        match event.decode::<T>().ok()? {
            WatchEvent::Added(object) | WatchEvent::Modified(object) if object.key() == self.key => {
                (self.locked)(object).ok().map(LockEvent::Changed)
            }
            WatchEvent::Deleted(object) if object.key() == self.key => {
                Some(LockEvent::Deleted { uid: object.uid().into() })
            }
            _ => None,
        }
    }
}

impl<S, T> Stream for OfOne<S, T>
where
    S: Stream<Item = Result<WatchEvent<RawObject>, ApiError>> + Unpin,
    T: Object + DeserializeOwned,
{
    type Item = LockEvent<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<LockEvent<T>>> {
        loop {
            match ready!(Pin::new(&mut self.events).poll_next(context)) {
                Some(Ok(WatchEvent::Error(_)) | Err(_)) | None => return Poll::Ready(None),
                Some(Ok(event)) => {
                    if let Some(event) = self.event(event) {
                        return Poll::Ready(Some(event));
                    }
                }
            }
        }
    }
}
