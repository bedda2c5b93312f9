//! Watches of locks, which let an elector react faster than with polling alone.

use std::fmt;
use std::future::{pending, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream;
use futures_util::{StreamExt, stream};
use pintle_meta::{ApiError, FieldSelector, ListWatch, Object, ObjectKey, RawObject, WatchEvent, WatchOptions};
use pintle_ratelimit::Backoff;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::clocks::{Clocks, Deadline};

/// A message that [`follow`] sends to its receiver.
#[derive(Debug)]
pub enum WatchMessage<E> {
    /// The watch is open.
    Up,
    /// The watch has ended.
    Down,
    /// An event of the watch.
    Event(E),
}

/// A watch's events.
pub type Events<E> = Pin<Box<dyn Stream<Item = E> + Send>>;

/// The time limit for opening a watch.
const PATIENCE: Duration = Duration::from_secs(10);

/// The time without an event or a bookmark after which a watch is reopened. kube-apiserver sends bookmarks about every
/// minute.
pub(crate) const SILENCE: Duration = Duration::from_secs(90);

/// Forwards watch events to `listener`. Opens the watch again after it ends, and waits for one of the `pauses` after a
/// failure. Returns if the lock does not support watches or if the receiver was dropped.
pub async fn follow<E, F>(
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
                    && let Some(event) = events.next().await
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

/// Runs `follow` while `is_needed` is `true`. When `is_needed` has been `false` for `linger`, this function drops `follow`,
/// which closes its watch, and sends [`WatchMessage::Down`]. The function returns when `follow` returns.
pub(crate) async fn follow_while_needed<E, F: Future<Output = ()>>(
    mut is_needed: watch::Receiver<bool>,
    linger: Duration,
    clocks: Arc<dyn Clocks>,
    follow: impl Fn(mpsc::Sender<WatchMessage<E>>) -> F,
    listener: mpsc::Sender<WatchMessage<E>>,
) {
    while is_needed.wait_for(|needed| *needed).await.is_ok() {
        tokio::select! {
            biased;
            () = follow(listener.clone()) => return,
            () = is_unneeded_for(linger, &mut is_needed, &*clocks) => {}
        }
        if listener.send(WatchMessage::Down).await.is_err() {
            return;
        }
    }
}

/// Waits until `is_needed` has been `false` for `linger`. Never returns if the sender was dropped while the value was `true`.
async fn is_unneeded_for(linger: Duration, is_needed: &mut watch::Receiver<bool>, clocks: &dyn Clocks) {
    loop {
        if is_needed.wait_for(|needed| !needed).await.is_err() {
            pending().await
        }
        let end = Deadline::after(clocks.now(), linger);
        tokio::select! {
            biased;
            Ok(_) = is_needed.wait_for(|needed| *needed) => {}
            () = clocks.sleep_until(end) => return,
        }
    }
}

/// Watches the object `key`. Skips events that cannot be decoded, because the next poll then reads the object and reports the
/// error.
pub(crate) async fn watch_one<W, T, E>(
    api: &W,
    key: &ObjectKey,
    convert: impl Fn(WatchEvent<T>) -> Option<E> + Send + 'static,
) -> Result<Events<E>, ApiError>
where
    W: ListWatch<Object = T>,
    T: Object + DeserializeOwned,
    E: Send + 'static,
{
    let mut field_selector = FieldSelector::everything().equals("metadata.name", key.name());
    // If `api` covers all namespaces, select only the objects of this namespace.
    if let (None, Some(namespace)) = (api.namespace(), key.namespace()) {
        field_selector = field_selector.equals("metadata.namespace", namespace);
    }
    let options = WatchOptions { field_selector, ..WatchOptions::default() };
    let key = key.clone();
    watch(api, options, SILENCE, move |event| match &event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object)
            if object.key() == key =>
        {
            convert(event)
        }
        _ => None,
    })
    .await
}

/// Watches the selected objects. Each watch starts with the current state, so changes between two watches are not lost. The
/// watch ends after `silence` without an event or a bookmark. Without this limit, a proxy or a stalled watch cache could keep
/// a dead watch open.
pub(crate) async fn watch<W, T, E>(
    api: &W,
    options: WatchOptions,
    silence: Duration,
    convert: impl Fn(WatchEvent<T>) -> Option<E> + Send + 'static,
) -> Result<Events<E>, ApiError>
where
    W: ListWatch<Object = T>,
    T: Object + DeserializeOwned,
    E: Send + 'static,
{
    let events = api.watch(&WatchOptions { allow_bookmarks: true, ..options }).await?;
    let events = stream::unfold(Box::pin(events), move |mut events| async move {
        let event = timeout(silence, events.next()).await.ok()??;
        Some((event, events))
    });
    let events = events.take_while(|event| ready(matches!(event, Ok(event) if !matches!(event, WatchEvent::Error(_)))));
    let decode = |event: Result<WatchEvent<RawObject>, ApiError>| event.ok()?.decode::<T>().ok();
    Ok(Box::pin(events.filter_map(move |event| ready(decode(event).and_then(&convert)))))
}

pub(crate) fn map<A: 'static, B: Send + 'static>(
    events: Events<A>,
    convert: impl Fn(A) -> Option<B> + Send + 'static,
) -> Events<B> {
    Box::pin(events.filter_map(move |event| ready(convert(event))))
}
