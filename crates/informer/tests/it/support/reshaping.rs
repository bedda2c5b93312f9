//! A source that returns known versions of objects with other content, like a server whose resource definition has
//! changed.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use pintle_meta::{ApiError, ApiResource, ListOptions, ListPart, ListWatch, RawObject, WatchEvent, WatchOptions};
use pintle_testing::Collection;
use serde_json::Value;

use super::Pod;

/// The pods in a collection with their current content. The contents (shapes) of one version of a pod differ only in
/// the field `node`.
pub(crate) struct Reshaping {
    source: Collection<Pod>,
    shapes: Shapes,
}

/// The contents (shapes) of each version of a pod. All clones of a `Shapes` share the same contents.
#[derive(Clone, Default)]
pub(crate) struct Shapes(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    /// The shapes of each pod, by name and version. The last shape in the list is the current shape.
    shapes: BTreeMap<(String, String), Vec<String>>,
    /// The shape that a watch sent last, by name and version, where 0 is the original shape.
    received: BTreeMap<(String, String), usize>,
    made: usize,
    echoes: usize,
}

impl Reshaping {
    pub(crate) fn new(source: Collection<Pod>) -> (Self, Shapes) {
        let shapes = Shapes::default();
        (Self { source, shapes: shapes.clone() }, shapes)
    }
}

impl Shapes {
    pub(crate) fn reshape(&self, pod: &Pod) {
        self.0.lock().unwrap().reshape(&pod.metadata.name, &pod.metadata.resource_version);
    }

    pub(crate) fn echo(&self) {
        self.0.lock().unwrap().echoes += 1;
    }

    /// Returns `true` if `seen` is the version `pod`, in the shape that a watch last sent or in a later shape.
    pub(crate) fn is_one_of(&self, seen: &Pod, pod: &Pod) -> bool {
        let inner = self.0.lock().unwrap();
        let version = (pod.metadata.name.clone(), pod.metadata.resource_version.clone());
        let shapes = inner.shapes.get(&version).into_iter().flatten();
        let mut since = [&pod.node].into_iter().chain(shapes).skip(inner.received.get(&version).copied().unwrap_or(0));
        seen.metadata == pod.metadata && since.any(|shape| *shape == seen.node)
    }
}

impl Inner {
    fn reshape(&mut self, name: &str, version: &str) {
        self.made += 1;
        let shape = format!("shape {}", self.made);
        self.shapes.entry((name.into(), version.into())).or_default().push(shape);
    }

    /// Returns the object with its current content. Only pods have several shapes.
    fn shaped(&self, object: RawObject) -> RawObject {
        let Some((mut json, name, version)) = parts(&object) else { return object };
        match self.shapes.get(&(name, version)).and_then(|shapes| shapes.last()) {
            Some(shape) => {
                json["node"] = shape.as_str().into();
                RawObject::Json(json.to_string().into())
            }
            None => object,
        }
    }

    fn record(&mut self, object: &RawObject) {
        let Some((json, name, version)) = parts(object) else { return };
        let version = (name, version);
        let shapes = self.shapes.get(&version).map_or(&[][..], |shapes| shapes);
        let shape = shapes.iter().position(|shape| json["node"] == **shape).map_or(0, |at| at + 1);
        self.received.insert(version, shape);
    }

    fn echo_of(&mut self, object: &RawObject) -> Option<RawObject> {
        let (_, name, version) = parts(object)?;
        self.echoes = self.echoes.checked_sub(1)?;
        self.reshape(&name, &version);
        Some(self.shaped(object.clone()))
    }
}

fn parts(object: &RawObject) -> Option<(Value, String, String)> {
    let RawObject::Json(bytes) = object else { return None };
    let json: Value = serde_json::from_slice(bytes).ok()?;
    json["node"].as_str()?;
    let text = |field: &str| json["metadata"][field].as_str().map(str::to_owned);
    let (name, version) = (text("name")?, text("resourceVersion")?);
    Some((json, name, version))
}

pub(crate) struct Reshaped<S, I> {
    stream: S,
    shapes: Shapes,
    reshape: fn(&mut Inner, I) -> (I, Option<I>),
    record: fn(&mut Inner, &I, &mut bool),
    /// Whether the object comes from a watch event instead of a list.
    is_change: bool,
    echo: Option<I>,
}

impl<S: Stream<Item = Result<I, ApiError>> + Unpin, I: Unpin> Stream for Reshaped<S, I> {
    type Item = Result<I, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let item = match this.echo.take() {
            Some(echo) => echo,
            None => match ready!(Pin::new(&mut this.stream).poll_next(context)) {
                Some(Ok(item)) => {
                    let (item, echo) = (this.reshape)(&mut this.shapes.0.lock().unwrap(), item);
                    this.echo = echo;
                    item
                }
                end => return Poll::Ready(end),
            },
        };
        (this.record)(&mut this.shapes.0.lock().unwrap(), &item, &mut this.is_change);
        Poll::Ready(Some(Ok(item)))
    }
}

fn part(inner: &mut Inner, part: ListPart) -> (ListPart, Option<ListPart>) {
    let part = match part {
        ListPart::Item(object) => ListPart::Item(inner.shaped(object)),
        metadata => metadata,
    };
    (part, None)
}

fn event(inner: &mut Inner, event: WatchEvent<RawObject>) -> (WatchEvent<RawObject>, Option<WatchEvent<RawObject>>) {
    match event {
        WatchEvent::Added(object) => {
            let object = inner.shaped(object);
            let echo = inner.echo_of(&object).map(WatchEvent::Modified);
            (WatchEvent::Added(object), echo)
        }
        WatchEvent::Modified(object) => {
            let object = inner.shaped(object);
            let echo = inner.echo_of(&object).map(WatchEvent::Modified);
            (WatchEvent::Modified(object), echo)
        }
        event => (event, None),
    }
}

fn record(inner: &mut Inner, event: &WatchEvent<RawObject>, is_change: &mut bool) {
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) if *is_change => inner.record(object),
        WatchEvent::Bookmark(bookmark) => *is_change |= bookmark.initial_events_end,
        _ => {}
    }
}

impl ListWatch for Reshaping {
    type Object = Pod;
    type Page = Reshaped<<Collection<Pod> as ListWatch>::Page, ListPart>;
    type Events = Reshaped<<Collection<Pod> as ListWatch>::Events, WatchEvent<RawObject>>;

    fn api_resource(&self) -> ApiResource {
        self.source.api_resource()
    }

    fn namespace(&self) -> Option<&str> {
        self.source.namespace()
    }

    async fn list(&self, options: &ListOptions) -> Result<Self::Page, ApiError> {
        let stream = ListWatch::list(&self.source, options).await?;
        let shapes = self.shapes.clone();
        Ok(Reshaped { stream, shapes, reshape: part, record: |_, _, _| {}, is_change: false, echo: None })
    }

    async fn watch(&self, options: &WatchOptions) -> Result<Self::Events, ApiError> {
        let stream = ListWatch::watch(&self.source, options).await?;
        let (shapes, is_change) = (self.shapes.clone(), !options.send_initial_events);
        Ok(Reshaped { stream, shapes, reshape: event, record, is_change, echo: None })
    }
}
