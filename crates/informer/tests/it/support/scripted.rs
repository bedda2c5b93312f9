//! A source with scripted responses.

use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use pintle_meta::{
    ApiError, ApiResource, ListMeta, ListOptions, ListPart, ListWatch, RawObject, Resource, WatchEvent, WatchOptions,
};
use serde_json::Value;

use super::Pod;

/// A source with scripted responses. All items of a response are ready immediately. The objects are pods in the
/// namespace `ns`, or objects of another resource.
pub(crate) struct Scripted<T = Pod> {
    resource: ApiResource,
    namespace: Option<&'static str>,
    list: Answer<(), ListPart>,
    watch: Answer<WatchOptions, WatchEvent<RawObject>>,
    object: PhantomData<fn() -> T>,
}

type Answer<O, I> = Box<dyn Fn(&O) -> Result<Items<I>, ApiError> + Send + Sync>;
pub(crate) type Items<I> = Box<dyn Iterator<Item = I> + Send>;

impl Scripted {
    /// Creates a source of pods. The function `list` responds to each list request. Each watch sends the given
    /// events and then remains silent.
    pub(crate) fn new(
        list: impl Fn() -> Result<Items<ListPart>, ApiError> + Send + Sync + 'static,
        watch: impl Fn() -> Result<Items<WatchEvent<RawObject>>, ApiError> + Send + Sync + 'static,
    ) -> Self {
        Self::of(Pod::api_resource(), Some("ns"), list, move |_| watch())
    }
}

impl<T> Scripted<T> {
    /// Creates a source of any resource. The function `watch` determines each watch from the options of its
    /// request.
    pub(crate) fn of(
        resource: ApiResource,
        namespace: Option<&'static str>,
        list: impl Fn() -> Result<Items<ListPart>, ApiError> + Send + Sync + 'static,
        watch: impl Fn(&WatchOptions) -> Result<Items<WatchEvent<RawObject>>, ApiError> + Send + Sync + 'static,
    ) -> Self {
        Self { resource, namespace, list: Box::new(move |()| list()), watch: Box::new(watch), object: PhantomData }
    }
}

pub(crate) struct Script<I> {
    items: Items<I>,
    ends: bool,
}

impl<I> Stream for Script<I> {
    type Item = Result<I, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.items.next() {
            None if !self.ends => Poll::Pending,
            next => Poll::Ready(next.map(Ok)),
        }
    }
}

impl<T: 'static> ListWatch for Scripted<T> {
    type Object = T;
    type Page = Script<ListPart>;
    type Events = Script<WatchEvent<RawObject>>;

    fn api_resource(&self) -> ApiResource {
        self.resource.clone()
    }

    fn namespace(&self) -> Option<&str> {
        self.namespace
    }

    async fn list(&self, _: &ListOptions) -> Result<Self::Page, ApiError> {
        Ok(Script { items: (self.list)(&())?, ends: true })
    }

    async fn watch(&self, options: &WatchOptions) -> Result<Self::Events, ApiError> {
        Ok(Script { items: (self.watch)(options)?, ends: false })
    }
}

pub(crate) fn list(items: &[Value], resource_version: &str) -> Items<ListPart> {
    let metadata = ListMeta { resource_version: resource_version.into(), ..ListMeta::default() };
    let items: Vec<ListPart> = items.iter().map(|item| ListPart::Item(raw(item))).collect();
    Box::new(items.into_iter().chain([ListPart::Metadata(metadata)]))
}

pub(crate) fn raw(object: &Value) -> RawObject {
    RawObject::Json(object.to_string().into())
}

pub(crate) fn silence<I>() -> Items<I>
where
    I: Send + 'static,
{
    Box::new(std::iter::empty())
}
