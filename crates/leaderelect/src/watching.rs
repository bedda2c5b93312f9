//! Watches of locks. With a watch, an elector reacts earlier than by polling the lock.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use pintle_meta::{ApiError, FieldSelector, ListWatch, Object, ObjectKey, RawObject, WatchEvent, WatchOptions};
use pintle_ratelimit::Backoff;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use crate::clocks::{Clocks, Deadline};

/// A message from [`follow`] to its receiver.
pub(crate) enum WatchMessage<E> {
    Up,
    Down,
    Event(E),
}

/// The events of a watch.
pub(crate) type Events<E> = Pin<Box<dyn Stream<Item = E> + Send>>;

/// The maximum time that an attempt to open a watch may take. After this timeout, the next attempt may use another
/// connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// Forwards the events of a watch to a receiver. When the watch ends, the function opens it again. `pauses` determines
/// how long the function pauses after each failure. The function returns if the lock has no watch or the receiver was
/// dropped.
pub(crate) async fn follow<E, F>(
    watched: impl fmt::Display,
    open: impl Fn() -> F,
    clocks: Arc<dyn Clocks>,
    mut pauses: Backoff,
    listener: mpsc::Sender<WatchMessage<E>>,
) where
    F: Future<Output = Result<Option<Events<E>>, ApiError>>,
{
    loop {
        let late = Deadline::after(clocks.now(), PATIENCE);
        let opened = tokio::select! {
            biased;
            opened = open() => opened,
            () = clocks.sleep_until(late) => Err(ApiError::timeout("no response before the timeout")),
        };
        let retry_after = match opened {
            Ok(None) => return,
            Ok(Some(mut events)) => {
                let mut sent = listener.send(WatchMessage::Up).await;
                while sent.is_ok()
                    && let Some(event) = poll_fn(|context| events.as_mut().poll_next(context)).await
                {
                    pauses.reset();
                    sent = listener.send(WatchMessage::Event(event)).await;
                }
                if sent.is_err() || listener.send(WatchMessage::Down).await.is_err() {
                    return;
                }
                None
            }
            Err(error) => {
                tracing::debug!(%watched, %error, "cannot watch; polling instead");
                error.retry_after
            }
        };
        clocks.sleep_until(Deadline::after(clocks.now(), pauses.next(retry_after))).await;
    }
}

/// Watches the object `key`. The function skips an event that cannot be decoded, because the next poll reads the object
/// and reports the error.
pub(crate) async fn watch_one<W, T, E>(
    api: &W,
    key: &ObjectKey,
    convert: impl Fn(WatchEvent<T>) -> Option<E> + Send + 'static,
) -> Result<Events<E>, ApiError>
where
    W: ListWatch<Object = T>,
    T: Object + DeserializeOwned,
    E: 'static,
{
    let mut field_selector = FieldSelector::everything().equals("metadata.name", key.name());
    // If the `Api` is for all namespaces, select this namespace, so that the server does not send objects of other
    // namespaces.
    if let (None, Some(namespace)) = (api.namespace(), key.namespace()) {
        field_selector = field_selector.equals("metadata.namespace", namespace);
    }
    let options = WatchOptions { field_selector, ..WatchOptions::default() };
    let key = key.clone();
    watch(api, options, move |event| match &event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object)
            if object.key() == key =>
        {
            convert(event)
        }
        _ => None,
    })
    .await
}

/// Watches the selected objects. Each watch starts with the current state, so no change between two watches is lost.
pub(crate) async fn watch<W, T, E>(
    api: &W,
    options: WatchOptions,
    convert: impl Fn(WatchEvent<T>) -> Option<E> + Send + 'static,
) -> Result<Events<E>, ApiError>
where
    W: ListWatch<Object = T>,
    T: Object + DeserializeOwned,
    E: 'static,
{
    let events = api.watch(&WatchOptions { allow_bookmarks: true, ..options }).await?;
    Ok(Box::pin(Decoded { events, convert: Box::new(convert) }))
}

struct Decoded<S, T, E> {
    events: S,
    convert: Box<dyn Fn(WatchEvent<T>) -> Option<E> + Send>,
}

impl<S, T, E> Stream for Decoded<S, T, E>
where
    S: Stream<Item = Result<WatchEvent<RawObject>, ApiError>> + Unpin,
    T: Object + DeserializeOwned,
{
    type Item = E;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<E>> {
        loop {
            match ready!(Pin::new(&mut self.events).poll_next(context)) {
                Some(Ok(WatchEvent::Error(_)) | Err(_)) | None => return Poll::Ready(None),
                Some(Ok(event)) => {
                    if let Some(converted) = event.decode::<T>().ok().and_then(&self.convert) {
                        return Poll::Ready(Some(converted));
                    }
                }
            }
        }
    }
}

/// Converts each event with `convert`. If `convert` returns `None`, the function drops the event.
pub(crate) fn map<A: 'static, B: 'static>(
    events: Events<A>,
    convert: impl Fn(A) -> Option<B> + Send + 'static,
) -> Events<B> {
    struct Mapped<A, F>(Events<A>, F);

    impl<A, B, F: Fn(A) -> Option<B> + Unpin> Stream for Mapped<A, F> {
        type Item = B;

        fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<B>> {
            loop {
                let Some(event) = ready!(self.0.as_mut().poll_next(context)) else { return Poll::Ready(None) };
                if let Some(converted) = (self.1)(event) {
                    return Poll::Ready(Some(converted));
                }
            }
        }
    }

    Box::pin(Mapped(events, Box::new(convert)))
}
