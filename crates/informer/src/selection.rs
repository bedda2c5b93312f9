//! Selectors that can change while an informer runs.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use futures_core::Stream;
use pintle_meta::__private::Mutex;
use pintle_meta::{
    ApiError, ApiResource, FieldSelector, LabelSelector, ListOptions, ListWatch, RawObject, Reason, Status, WatchEvent,
    WatchOptions,
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::reflector_config::ReflectorConfig;

/// A label selector and a field selector. An object must match both selectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selectors {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
}

pub(crate) struct Selection {
    state: Mutex<State>,
}

#[derive(Clone)]
struct State {
    selectors: Selectors,
    choice: u64,
    changed: CancellationToken,
}

/// A source that lists and watches only objects that match the current selectors. When the selectors change, the open
/// watch fails with an "expired" error. Further watches also fail until the next list. When a watch fails in this way,
/// the reflector lists again with the new selectors.
pub(crate) struct Selected<L> {
    source: L,
    selection: Arc<Selection>,
    /// The selectors of the last list, which watches also use.
    listed: Mutex<Option<State>>,
    choice: Arc<AtomicU64>,
}

/// The events of a watch. The watch ends with an "expired" error when the selectors change.
pub(crate) struct Events<E> {
    events: E,
    changed: Pin<Box<WaitForCancellationFutureOwned>>,
    has_expired: bool,
}

impl Selectors {
    pub(crate) fn of(config: &ReflectorConfig) -> Self {
        Self { labels: config.label_selector.clone(), fields: config.field_selector.clone() }
    }
}

impl Selection {
    pub(crate) fn new(selectors: Selectors) -> Self {
        Self { state: Mutex::new(State { selectors, choice: 0, changed: CancellationToken::new() }) }
    }

    pub(crate) fn choice(&self) -> u64 {
        self.state.lock().choice
    }

    pub(crate) fn selectors(&self) -> Selectors {
        self.state.lock().selectors.clone()
    }

    pub(crate) fn set(&self, selectors: Selectors) {
        let mut state = self.state.lock();
        if state.selectors != selectors {
            let next = State { selectors, choice: state.choice + 1, changed: CancellationToken::new() };
            let before = std::mem::replace(&mut *state, next);
            drop(state);
            before.changed.cancel();
        }
    }
}

impl<L> Selected<L> {
    pub(crate) fn new(source: L, selection: Arc<Selection>) -> Self {
        Self { source, selection, listed: Mutex::new(None), choice: Arc::default() }
    }

    pub(crate) fn listed(&self) -> Arc<AtomicU64> {
        self.choice.clone()
    }

    /// Returns the selectors for the next request. If `begins` is `true`, the request begins a new list and uses the
    /// current selectors. Other requests use the selectors of the last list.
    fn selected(&self, begins: bool) -> State {
        let mut listed = self.listed.lock();
        if begins {
            *listed = None;
        }
        let selected = listed.get_or_insert_with(|| self.selection.state.lock().clone());
        self.choice.store(selected.choice, Ordering::Release);
        selected.clone()
    }
}

impl<L: ListWatch> ListWatch for Selected<L> {
    type Object = L::Object;
    type Page = L::Page;
    type Events = Events<L::Events>;

    fn api_resource(&self) -> ApiResource {
        self.source.api_resource()
    }

    fn namespace(&self) -> Option<&str> {
        self.source.namespace()
    }

    async fn list(&self, options: &ListOptions) -> Result<L::Page, ApiError> {
        let Selectors { labels, fields } = self.selected(options.continue_token.is_empty()).selectors;
        let options = ListOptions { label_selector: labels, field_selector: fields, ..options.clone() };
        self.source.list(&options).await
    }

    async fn watch(&self, options: &WatchOptions) -> Result<Self::Events, ApiError> {
        let State { selectors: Selectors { labels, fields }, changed, .. } = self.selected(options.send_initial_events);
        if changed.is_cancelled() {
            return Err(expired());
        }
        let options = WatchOptions { label_selector: labels, field_selector: fields, ..options.clone() };
        let events = self.source.watch(&options).await?;
        Ok(Events { events, changed: Box::pin(changed.cancelled_owned()), has_expired: false })
    }
}

impl<E: Stream<Item = Result<WatchEvent<RawObject>, ApiError>> + Unpin> Stream for Events<E> {
    type Item = E::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<E::Item>> {
        if self.has_expired {
            return Poll::Ready(None);
        }
        if self.changed.as_mut().poll(context).is_ready() {
            self.has_expired = true;
            return Poll::Ready(Some(Err(expired())));
        }
        Pin::new(&mut self.events).poll_next(context)
    }
}

fn expired() -> ApiError {
    Status::failure(410, Reason::Expired, "the selectors have changed").into()
}
