//! A stream of the existing objects of a resource and all later changes.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use pintle_meta::{ApiError, List, ListOptions, Object, WatchEvent, WatchOptions};
use pintle_ratelimit::Backoff;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep_until};

use super::pages::Pages;
use super::{Api, RetryWatch, retry_watch};

/// An endless stream of the existing objects of a resource and all later changes, like kube's `watcher`. A watcher
/// stores no objects. Use an informer instead if the objects should be cached.
///
/// A watcher lists all objects in pages, and then watches for changes. If the revision of the watch expires, all
/// objects are listed again. If the revision expires while objects are being listed, the next list is requested without
/// pages.
///
/// After an error, the watcher pauses and then lists all objects again. The pause is at least one second and grows with
/// consecutive errors. An event, a bookmark, or a watch that lasts for a second resets the pause.
///
/// A watcher does not spawn a task, so it makes progress only while it is polled. The watch is closed when the watcher
/// is dropped.
///
/// # Examples
///
/// ```
/// use pintle_meta::{ListOptions, Object, PartialObject};
/// use pintle_restreq::Api;
///
/// async fn follow(pods: &Api<PartialObject>) {
///     let mut pods = pods.watcher(&ListOptions::default()).applied();
///     while let Some(pod) = pods.next().await {
///         match pod {
///             Ok(pod) => println!("{}", pod.key()),
///             Err(error) => eprintln!("{error}"),
///         }
///     }
/// }
/// ```
#[must_use = "a watcher does nothing until it is polled"]
pub struct Watcher<T> {
    api: Api<T>,
    options: ListOptions,
    /// Whether a continue token has expired since the last complete list. If `true`, the next list request asks for all
    /// objects at once, because a new continue token could expire too.
    is_list_too_slow: bool,
    state: State<T>,
    pauses: Backoff,
}

/// An event of a [`Watcher`].
#[derive(Clone, Debug, PartialEq)]
pub enum WatcherEvent<T> {
    /// A list of all objects starts. Objects from earlier events may no longer exist.
    Init,
    /// The list contains this object.
    InitApply(T),
    /// The list is complete. Objects that were not in the list no longer exist.
    InitDone,
    /// An object was added or modified.
    Apply(T),
    /// An object was deleted, and this variant contains its last known state.
    Delete(T),
}

/// A stream of objects, returned by [`Watcher::applied`], [`Watcher::touched`] and [`Watcher::deleted`].
#[must_use = "a watcher does nothing until it is polled"]
pub struct WatchedObjects<T> {
    watcher: Watcher<T>,
    applied: bool,
    deleted: bool,
}

enum State<T> {
    Pausing(Pin<Box<dyn Future<Output = ()> + Send>>),
    Idle,
    Page(NextPage<T>),
    /// The remaining objects of a page, and the state of the watcher after the last of these objects.
    Items(VecDeque<T>, After<T>),
    Watch(Box<RetryWatch<T>>),
}

enum After<T> {
    Page(Pages<T>),
    Watch(String),
}

type NextPage<T> = Pin<Box<dyn Future<Output = (Pages<T>, Option<Result<List<T>, ApiError>>)> + Send>>;

impl<T: Object + DeserializeOwned + Send + 'static> Api<T> {
    /// Returns a [`Watcher`] for the existing objects and all later changes. `options` contains the selectors and the
    /// page size. No request is sent until the watcher is polled.
    pub fn watcher(&self, options: &ListOptions) -> Watcher<T> {
        let options = ListOptions { continue_token: String::new(), ..options.clone() };
        let (state, pauses) = (State::Idle, retry_watch::pauses());
        Watcher { api: self.clone(), options, is_list_too_slow: false, state, pauses }
    }
}

impl<T: Object + DeserializeOwned + Send + 'static> Watcher<T> {
    /// Returns the next event. Never returns `None`.
    ///
    /// # Errors
    ///
    /// Returns an error if listing fails, or if an error occurs that the watch does not retry. After an error, the next
    /// poll starts with a new list of all objects.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe: no event is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<Result<WatcherEvent<T>, ApiError>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Returns a stream of existing, added and modified objects.
    pub fn applied(self) -> WatchedObjects<T> {
        WatchedObjects { watcher: self, applied: true, deleted: false }
    }

    /// Returns a stream of existing, added, modified and deleted objects.
    pub fn touched(self) -> WatchedObjects<T> {
        WatchedObjects { watcher: self, applied: true, deleted: true }
    }

    /// Returns a stream of deleted objects, each in its last state. Objects that are deleted while no watch is open are
    /// missing from the stream. An informer also reports objects that are deleted while no watch is open.
    pub fn deleted(self) -> WatchedObjects<T> {
        WatchedObjects { watcher: self, applied: false, deleted: true }
    }

    fn page(mut pages: Pages<T>) -> State<T> {
        State::Page(Box::pin(async move {
            let page = pages.next().await;
            (pages, page)
        }))
    }

    fn watch(&self, revision: String) -> Result<State<T>, ApiError> {
        let ListOptions { label_selector, field_selector, shard_selector, .. } = self.options.clone();
        let from = WatchOptions {
            label_selector,
            field_selector,
            shard_selector,
            resource_version: revision,
            ..<_>::default()
        };
        Ok(State::Watch(Box::new(self.api.retry_watch(&from)?)))
    }

    fn pause(&mut self, error: &ApiError) {
        let until = Instant::now() + self.pauses.next(error.retry_after);
        self.state = State::Pausing(Box::pin(sleep_until(until)));
    }

    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<WatcherEvent<T>>, ApiError>> {
        let event = match &mut self.state {
            State::Pausing(pause) => {
                ready!(pause.as_mut().poll(cx));
                self.state = State::Idle;
                None
            }
            State::Idle => {
                let list = if self.is_list_too_slow { Api::one_page } else { Api::pages };
                self.state = Self::page(list(&self.api, &self.options));
                Some(WatcherEvent::Init)
            }
            State::Page(page) => {
                let (pages, page) = ready!(page.as_mut().poll(cx));
                // A server that returns no page violates the contract of `Pages`, which returns at least one page or an
                // error.
                let page = page.unwrap_or_else(|| Err(ApiError::decode("a list without a page")));
                self.is_list_too_slow |= page.as_ref().is_err_and(ApiError::is_expired);
                let List { metadata, items, .. } = page?;
                let is_last = metadata.continue_token.is_empty();
                let after = if is_last { After::Watch(metadata.resource_version) } else { After::Page(pages) };
                self.state = State::Items(items.into(), after);
                None
            }
            State::Items(items, after) => match (items.pop_front(), after) {
                (Some(item), _) => Some(WatcherEvent::InitApply(item)),
                (None, after) => match std::mem::replace(after, After::Watch(String::new())) {
                    After::Page(pages) => {
                        self.state = Self::page(pages);
                        None
                    }
                    After::Watch(revision) => {
                        self.is_list_too_slow = false;
                        self.state = self.watch(revision)?;
                        Some(WatcherEvent::InitDone)
                    }
                },
            },
            State::Watch(watch) => match ready!(Pin::new(&mut **watch).poll_next(cx)) {
                Some(Ok(event)) => match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => Some(WatcherEvent::Apply(object)),
                    WatchEvent::Deleted(object) => Some(WatcherEvent::Delete(object)),
                    // Unreachable, because a `RetryWatch` returns no bookmarks and no error events.
                    WatchEvent::Bookmark(_) | WatchEvent::Error(_) => None,
                },
                Some(Err(error)) => {
                    if watch.was_successful() {
                        self.pauses.reset();
                    }
                    return Poll::Ready(Err(error));
                }
                None => {
                    self.state = State::Idle;
                    None
                }
            },
        };
        Poll::Ready(Ok(event))
    }
}

impl<T: Object + DeserializeOwned + Send + 'static> WatchedObjects<T> {
    /// Returns the next object. Never returns `None`.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Watcher::next`].
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe: no object is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<Result<T, ApiError>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

/// All contained futures are boxed, so no field is structurally pinned.
impl<T> Unpin for Watcher<T> {}

impl<T> Unpin for WatchedObjects<T> {}

impl<T: Object + DeserializeOwned + Send + 'static> Stream for Watcher<T> {
    type Item = Result<WatcherEvent<T>, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match ready!(self.poll_step(cx)) {
                Ok(None) => {}
                Ok(Some(event)) => return Poll::Ready(Some(Ok(event))),
                Err(error) => {
                    self.pause(&error);
                    // Do not return this error to the caller, because the watcher lists again after an expired
                    // revision.
                    if !error.is_expired() {
                        return Poll::Ready(Some(Err(error)));
                    }
                    tracing::debug!("listing again: {error}");
                }
            }
        }
    }
}

impl<T: Object + DeserializeOwned + Send + 'static> Stream for WatchedObjects<T> {
    type Item = Result<T, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let object = match ready!(Pin::new(&mut self.watcher).poll_next(cx)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(WatcherEvent::Apply(object) | WatcherEvent::InitApply(object))) if self.applied => object,
                Some(Ok(WatcherEvent::Delete(object))) if self.deleted => object,
                Some(Ok(_)) => continue,
            };
            return Poll::Ready(Some(Ok(object)));
        }
    }
}

pintle_meta::debug_struct!(Watcher<T> { api, .. });

pintle_meta::debug_struct!(WatchedObjects<T> { watcher, applied, deleted });
