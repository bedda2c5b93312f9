//! Lists and watches the objects of a single shard.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use pintle_meta::{
    ApiError, ApiResource, ListOptions, ListPart, ListWatch, Object, PartialObject, RawObject, WatchEvent, WatchOptions,
};

use crate::shard::Shard;

/// A source of lists and watches that contain only the objects of one [`Shard`]. A sharded source asks the server to
/// filter the objects. Kubernetes versions before 1.36, and servers without the feature gate `ShardedListAndWatch`,
/// send all objects. If the server sends all objects, the source drops the objects of other shards.
///
/// # Examples
///
/// ```
/// use pintle_meta::ListWatch;
/// use pintle_sharding::{Shard, Sharded};
///
/// /// Returns the source for an informer that runs during a term.
/// fn source<A: ListWatch>(api: A, shard: Shard) -> impl ListWatch<Object = A::Object> {
///     Sharded { source: api, shard }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Sharded<S> {
    /// The unsharded source.
    pub source: S,
    /// The shard whose objects the source lists and watches.
    pub shard: Shard,
}

impl<S: ListWatch> ListWatch for Sharded<S> {
    type Object = S::Object;
    type Page = OfShard<S::Page>;
    type Events = OfShard<S::Events>;

    fn api_resource(&self) -> ApiResource {
        self.source.api_resource()
    }

    fn namespace(&self) -> Option<&str> {
        self.source.namespace()
    }

    async fn list(&self, options: &ListOptions) -> Result<Self::Page, ApiError> {
        let options = ListOptions { shard_selector: self.shard.to_string(), ..options.clone() };
        Ok(OfShard { all: self.source.list(&options).await?, shard: self.shard })
    }

    async fn watch(&self, options: &WatchOptions) -> Result<Self::Events, ApiError> {
        let options = WatchOptions { shard_selector: self.shard.to_string(), ..options.clone() };
        Ok(OfShard { all: self.source.watch(&options).await?, shard: self.shard })
    }
}

/// A list or watch stream that drops the objects of other shards.
#[derive(Debug)]
pub struct OfShard<S> {
    all: S,
    shard: Shard,
}

/// An item of a list or watch, which may contain an object.
trait Carrier {
    fn object(&self) -> Option<&RawObject>;
}

impl Carrier for ListPart {
    fn object(&self) -> Option<&RawObject> {
        match self {
            Self::Item(object) => Some(object),
            Self::Metadata(_) => None,
        }
    }
}

impl Carrier for WatchEvent<RawObject> {
    fn object(&self) -> Option<&RawObject> {
        match self {
            Self::Added(object) | Self::Modified(object) | Self::Deleted(object) => Some(object),
            _ => None,
        }
    }
}

impl<S, T> Stream for OfShard<S>
where
    S: Stream<Item = Result<T, ApiError>> + Unpin,
    T: Carrier,
{
    type Item = Result<T, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let next = ready!(Pin::new(&mut self.all).poll_next(context));
            let foreign =
                matches!(&next, Some(Ok(part)) if part.object().is_some_and(|object| self.shard.lacks(object)));
            if !foreign {
                return Poll::Ready(next);
            }
        }
    }
}

impl Shard {
    /// Returns `true` if the item contains another shard's object. For an object that cannot be decoded, returns
    /// `false` so that the stream returns the decode error.
    fn lacks(self, object: &RawObject) -> bool {
        match object {
            RawObject::Oversized(object) => !object.uid.is_empty() && !self.has_uid(&object.uid),
            object => object.decode::<PartialObject>().is_ok_and(|object| !self.has_uid(object.uid())),
        }
    }
}
