//! Sources that provide decoded objects instead of JSON bytes.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::vec;

use futures_core::Stream;
use serde::Serialize;

use crate::error::ApiError;
use crate::list::List;
use crate::options::{ListOptions, WatchOptions};
use crate::raw_object::RawObject;
use crate::resource::ApiResource;
use crate::seams::{ListPart, ListWatch};
use crate::watch::WatchEvent;

/// A source that provides the objects of one resource in decoded form, such as a test double or a system other than an
/// API server. The adapter [`Encoded`] turns an `ObjectSource` into a [`ListWatch`].
///
/// # Cancel safety
///
/// As in [`ListWatch`], dropping a future or a stream must cancel its request.
///
/// # Examples
///
/// ```
/// use std::pin::Pin;
/// use futures_core::Stream;
/// use pintle_meta::*;
///
/// /// A list of objects that never changes.
/// struct Fixed(Vec<DynamicObject>);
///
/// impl ObjectSource for Fixed {
///     type Object = DynamicObject;
///     type Events = Pin<Box<dyn Stream<Item = Result<WatchEvent<DynamicObject>, ApiError>> + Send>>;
///
///     fn api_resource(&self) -> ApiResource {
///         ApiResource::new("example.com/v1", "Stone", "stones", Scope::Namespaced)
///     }
///
///     fn namespace(&self) -> Option<&str> {
///         None
///     }
///
///     async fn list(&self, _: &ListOptions) -> Result<List<DynamicObject>, ApiError> {
///         Ok(List { types: TypeMeta::default(), metadata: ListMeta::default(), items: self.0.clone() })
///     }
///
///     async fn watch(&self, _: &WatchOptions) -> Result<Self::Events, ApiError> {
///         Err(Status::failure(405, Reason::MethodNotAllowed, "they never change").into())
///     }
/// }
/// ```
pub trait ObjectSource: Send + Sync + 'static {
    /// The Rust type of an object.
    type Object: Serialize + Send + 'static;

    /// The stream of watch events.
    type Events: Stream<Item = Result<WatchEvent<Self::Object>, ApiError>> + Send + Unpin + 'static;

    /// Returns the resource of the objects.
    fn api_resource(&self) -> ApiResource;

    /// Returns the watched namespace, like [`ListWatch::namespace`].
    fn namespace(&self) -> Option<&str>;

    /// Requests one page of objects.
    fn list(&self, options: &ListOptions) -> impl Future<Output = Result<List<Self::Object>, ApiError>> + Send;

    /// Opens a watch.
    fn watch(&self, options: &WatchOptions) -> impl Future<Output = Result<Self::Events, ApiError>> + Send;
}

/// An adapter that implements [`ListWatch`] for an [`ObjectSource`] by serializing each object as JSON.
///
/// # Examples
///
/// ```
/// use pintle_meta::{Encoded, ListWatch, ObjectSource};
///
/// /// Accepts any source that has objects, as a reflector would.
/// fn source<S: ObjectSource>(objects: S) -> impl ListWatch<Object = S::Object> {
///     Encoded(objects)
/// }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Encoded<S>(pub S);

impl<S: ObjectSource> ListWatch for Encoded<S> {
    type Object = S::Object;
    type Page = Parts;
    type Events = EncodedEvents<S::Events>;

    fn api_resource(&self) -> ApiResource {
        self.0.api_resource()
    }

    fn namespace(&self) -> Option<&str> {
        self.0.namespace()
    }

    async fn list(&self, options: &ListOptions) -> Result<Parts, ApiError> {
        let list = self.0.list(options).await?;
        let mut parts = vec![Ok(ListPart::Metadata(list.metadata))];
        parts.extend(list.items.iter().map(|object| encode(object).map(ListPart::Item)));
        Ok(Parts(parts.into_iter()))
    }

    async fn watch(&self, options: &WatchOptions) -> Result<Self::Events, ApiError> {
        Ok(EncodedEvents(self.0.watch(options).await?))
    }
}

/// A list page whose items are all in memory.
#[derive(Debug)]
pub struct Parts(vec::IntoIter<Result<ListPart, ApiError>>);

impl Parts {
    /// Creates a page that yields the elements of `parts` in order.
    pub fn new(parts: Vec<Result<ListPart, ApiError>>) -> Self {
        Self(parts.into_iter())
    }
}

impl Stream for Parts {
    type Item = Result<ListPart, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.next())
    }
}

/// The watch events of an [`Encoded`] source, with each object serialized as JSON.
#[derive(Debug)]
pub struct EncodedEvents<S>(S);

impl<T, S> Stream for EncodedEvents<S>
where
    T: Serialize,
    S: Stream<Item = Result<WatchEvent<T>, ApiError>> + Unpin,
{
    type Item = Result<WatchEvent<RawObject>, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = Pin::new(&mut self.0).poll_next(context);
        next.map(|event| event.map(|event| event?.try_map(|object| encode(&object))))
    }
}

fn encode(object: &impl Serialize) -> Result<RawObject, ApiError> {
    serde_json::to_vec(object).map(|json| RawObject::Json(json.into())).map_err(ApiError::decode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ListMeta, ObjectMeta, PartialObject, Scope};

    struct Two;

    impl ObjectSource for Two {
        type Object = PartialObject;
        type Events = Once;

        fn api_resource(&self) -> ApiResource {
            ApiResource::new("v1", "Pod", "pods", Scope::Namespaced)
        }

        fn namespace(&self) -> Option<&str> {
            Some("ns")
        }

        async fn list(&self, _: &ListOptions) -> Result<List<PartialObject>, ApiError> {
            let metadata = ListMeta { resource_version: "7".into(), ..ListMeta::default() };
            Ok(List { types: Default::default(), metadata, items: vec![object("a"), object("b")] })
        }

        async fn watch(&self, _: &WatchOptions) -> Result<Once, ApiError> {
            Ok(Once(Some(Ok(WatchEvent::Deleted(object("a"))))))
        }
    }

    struct Once(Option<Result<WatchEvent<PartialObject>, ApiError>>);

    impl Stream for Once {
        type Item = Result<WatchEvent<PartialObject>, ApiError>;

        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            Poll::Ready(self.0.take())
        }
    }

    fn object(name: &str) -> PartialObject {
        PartialObject { metadata: ObjectMeta::new("ns", name), ..PartialObject::default() }
    }

    fn ready<F: Future>(future: F) -> F::Output {
        match std::pin::pin!(future).poll(&mut Context::from_waker(std::task::Waker::noop())) {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("the future is not ready"),
        }
    }

    fn all<S: Stream + Unpin>(mut stream: S) -> Vec<S::Item> {
        let context = &mut Context::from_waker(std::task::Waker::noop());
        std::iter::from_fn(|| match Pin::new(&mut stream).poll_next(context) {
            Poll::Ready(item) => item,
            Poll::Pending => panic!("the stream has no item yet"),
        })
        .collect()
    }

    #[test]
    fn encoded_object_source_yields_json() {
        let source = Encoded(Two);
        assert_eq!((source.api_resource(), source.namespace()), (Two.api_resource(), Some("ns")));
        let json = |name| RawObject::Json(format!(r#"{{"metadata":{{"name":"{name}","namespace":"ns"}}}}"#).into());
        let page = all(ready(source.list(&ListOptions::default())).unwrap()).into_iter().map(Result::unwrap);
        let metadata = ListMeta { resource_version: "7".into(), ..ListMeta::default() };
        let expected = [ListPart::Metadata(metadata), ListPart::Item(json("a")), ListPart::Item(json("b"))];
        assert_eq!(page.collect::<Vec<_>>(), expected);
        let events = all(ready(source.watch(&WatchOptions::default())).unwrap()).into_iter().map(Result::unwrap);
        assert_eq!(events.collect::<Vec<_>>(), [WatchEvent::Deleted(json("a"))]);
    }
}
