//! The typed handle on one resource.

use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use pintle_meta::{
    ApiError, ApiResource, DeleteOptions, FieldValidation, InvalidKey, List, ListMeta, ListOptions, ListPart,
    ListWatch, NamespaceScope, Object, ObjectApi, ObjectKey, Patch, PostOptions, RawObject, Resource, Scope, TypeMeta,
    WatchEvent, WatchOptions,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::InvalidRequest;
use crate::{Error, ListStream, RawWatch, Request, RestClient, Watch, list};

/// The objects of one resource, in one namespace or all.
///
/// A clone is a reference count. An object is named by its [`ObjectKey`] or by the text of one: `namespace/name`, or the name alone
/// where the handle has the namespace or the kind has none.
///
/// # Cancel safety
///
/// Dropping any of its futures gives the request up; whether the server acted on a write is then unknown.
///
/// # Examples
///
/// By a type:
///
/// ```
/// use pintle_meta::{ApiError, ObjectMeta};
/// use pintle_restreq::{Api, RestClient};
///
/// #[derive(serde::Deserialize)]
/// struct Pod { metadata: ObjectMeta }
/// pintle_meta::resource!(Pod, "v1", "Pod", "pods", Namespaced);
///
/// async fn uid(client: RestClient) -> Result<String, ApiError> {
///     let pods: Api<Pod> = Api::namespaced(client, "team-a");
///     Ok(pods.get("web").await?.metadata.uid)
/// }
/// ```
///
/// By what is known at run time only:
///
/// ```
/// use pintle_meta::{ApiResource, ClientConfig, DynamicObject, Scope};
/// use pintle_restreq::{Api, RestClient};
///
/// let client = RestClient::new(ClientConfig::new("https://10.0.0.1:6443"))?;
/// let pods = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
/// let pods: Api<DynamicObject> = Api::dynamic(client.clone(), pods, Some("team-a"))?;
/// assert_eq!(pods.namespace(), Some("team-a"));
///
/// let nodes = ApiResource::new("v1", "Node", "nodes", Scope::Cluster);
/// assert!(Api::<DynamicObject>::dynamic(client, nodes, Some("team-a")).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Api<T> {
    client: RestClient,
    resource: Arc<ApiResource>,
    namespace: Option<Arc<str>>,
    object: PhantomData<fn() -> T>,
}

impl<T: Resource> Api<T> {
    /// All objects of the resource: of a cluster-scoped one, or across all namespaces. A single object of a namespaced one is
    /// then named by its whole key.
    pub fn all(client: RestClient) -> Self {
        Self::new(client, T::api_resource(), None)
    }
}

impl<T: Resource<Scope = NamespaceScope>> Api<T> {
    /// The objects in one namespace; the client's default one for an empty text.
    ///
    /// For a cluster-scoped kind this does not compile:
    ///
    /// ```compile_fail,E0271
    /// use pintle_meta::ObjectMeta;
    /// use pintle_restreq::{Api, RestClient};
    ///
    /// struct Node { metadata: ObjectMeta }
    /// pintle_meta::resource!(Node, "v1", "Node", "nodes", Cluster);
    ///
    /// fn nodes(client: RestClient) -> Api<Node> {
    ///     Api::namespaced(client, "default")
    /// }
    /// ```
    pub fn namespaced(client: RestClient, namespace: &str) -> Self {
        Self::new(client, T::api_resource(), Some(namespace))
    }
}

impl<T> Api<T> {
    /// The objects of a resource that is known at run time only: in one namespace, an empty text standing for the client's
    /// default one, or all.
    ///
    /// # Errors
    ///
    /// A namespace for a cluster-scoped resource.
    pub fn dynamic(client: RestClient, resource: ApiResource, namespace: Option<&str>) -> Result<Self, InvalidRequest> {
        match (resource.scope, namespace) {
            (Scope::Cluster, Some(namespace)) => Err(InvalidRequest::Mismatch(format!(
                "{resource} are cluster-scoped and do not live in namespace {namespace:?}; name none"
            ))),
            _ => Ok(Self::new(client, resource, namespace)),
        }
    }

    fn new(client: RestClient, resource: ApiResource, namespace: Option<&str>) -> Self {
        let client = client.for_group_version(&resource.group_version);
        let namespace = namespace.map(|namespace| match namespace {
            "" => client.default_namespace().into(),
            named => named.into(),
        });
        Self { client, resource: Arc::new(resource), namespace, object: PhantomData }
    }

    /// The resource.
    pub fn resource(&self) -> &ApiResource {
        &self.resource
    }

    /// The namespace, absent for all.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The client.
    pub fn client(&self) -> &RestClient {
        &self.client
    }

    /// The request for the collection.
    fn on_collection(&self, request: Request) -> Request {
        let request = match &self.namespace {
            Some(namespace) => request.namespace(&**namespace),
            None => request,
        };
        request.resource(&self.resource.plural)
    }

    /// The request for one object.
    fn on_object(&self, request: Request, key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>) -> Request {
        let key = match key.try_into() {
            Ok(key) => key,
            Err(error) => return request.keep(InvalidRequest::Key(error.into())),
        };
        match self.namespace_of(key.namespace()) {
            Ok(namespace) => {
                let scoped = namespace.is_some();
                let request = request.namespace_if_scoped(namespace.unwrap_or_default(), scoped);
                request.resource(&self.resource.plural).name(key.name())
            }
            Err(fault) => request.keep(fault),
        }
    }

    /// The namespace for an object that says it is in `given`, or says nothing.
    fn namespace_of<'a>(&'a self, given: Option<&'a str>) -> Result<Option<&'a str>, InvalidRequest> {
        let resource = &self.resource;
        match (resource.scope, self.namespace.as_deref(), given) {
            (Scope::Cluster, None, None) => Ok(None),
            (Scope::Cluster, ..) => Err(InvalidRequest::Mismatch(format!(
                "{resource} are cluster-scoped: neither handle nor object may name a namespace"
            ))),
            (Scope::Namespaced, Some(own), Some(given)) if own != given => Err(InvalidRequest::Mismatch(format!(
                "the handle is on {resource} in namespace {own:?}, the object is in {given:?}"
            ))),
            (Scope::Namespaced, None, None) => Err(InvalidRequest::Mismatch(format!(
                "{resource} live in namespaces, and neither handle nor object names one"
            ))),
            (Scope::Namespaced, own, given) => Ok(given.or(own)),
        }
    }
}

impl<T: DeserializeOwned> Api<T> {
    /// Reads an object.
    ///
    /// # Errors
    ///
    /// Not found, or however else a request fails.
    pub async fn get(&self, key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>) -> Result<T, ApiError> {
        Ok(self.on_object(self.client.get(), key).object().await?)
    }

    /// One page of objects: all of them, unless the options set a limit. Each is decoded as it comes; to meet them one by one,
    /// or undecoded, read the page as a [`ListWatch`].
    ///
    /// # Errors
    ///
    /// However a request fails. `Expired`: the revision or the page token is too old. An object that is no `T` is named by its
    /// place in the list, and by its name if it has one.
    pub async fn list(&self, options: &ListOptions) -> Result<List<T>, ApiError> {
        let mut page = self.page(options).await?.0;
        let mut list = List { types: TypeMeta::default(), metadata: ListMeta::default(), items: Vec::new() };
        while let Some(part) = page.next().await {
            match part? {
                ListPart::Item(item) => {
                    let unreadable = |message: String| {
                        let request = page.request().clone();
                        Error::Decode { request, message: message.into() }
                    };
                    list.items.push(list::decode(list.items.len(), &item).map_err(unreadable)?);
                }
                ListPart::Metadata(metadata) => list.metadata = metadata,
            }
        }
        Ok(list)
    }

    /// Opens a watch, decoded: see [`EventStream`]. It is not taken up again when it ends; an informer does that.
    ///
    /// # Errors
    ///
    /// However a request fails, up to the server's acceptance. What comes later comes in the stream.
    pub async fn watch(&self, options: &WatchOptions) -> Result<EventStream<T>, ApiError> {
        let request = with_watch_options(self.on_collection(self.client.get()), options);
        Ok(EventStream(request.watch().await?))
    }

    /// Changes an object in part.
    ///
    /// # Errors
    ///
    /// However a request fails.
    pub async fn patch(
        &self,
        key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>,
        patch: &Patch,
        options: &PostOptions,
    ) -> Result<T, ApiError> {
        let request = self.on_object(self.client.patch(patch.content_type()), key);
        Ok(with_post_options(request, options).json(patch.body()).object().await?)
    }

    /// Changes the status of an object in part.
    ///
    /// # Errors
    ///
    /// However a request fails.
    pub async fn patch_status(
        &self,
        key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>,
        patch: &Patch,
        options: &PostOptions,
    ) -> Result<T, ApiError> {
        let request = self.on_object(self.client.patch(patch.content_type()), key).subresource(["status"]);
        Ok(with_post_options(request, options).json(patch.body()).object().await?)
    }
}

impl<T: Object + Serialize + DeserializeOwned> Api<T> {
    /// Creates an object and returns it as stored.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`, or however else a request fails.
    pub async fn create(&self, object: &T, options: &PostOptions) -> Result<T, ApiError> {
        let request = match self.namespace_of(object.namespace()) {
            Ok(namespace) => {
                let scoped = namespace.is_some();
                let request = self.client.post().namespace_if_scoped(namespace.unwrap_or_default(), scoped);
                request.resource(&self.resource.plural)
            }
            Err(fault) => self.client.post().keep(fault),
        };
        Ok(self.with_object(request, object, options).object().await?)
    }

    /// Replaces an object. With a resourceVersion in its metadata, only if it has not changed since.
    ///
    /// # Errors
    ///
    /// `Conflict`, not found, or however else a request fails.
    pub async fn update(&self, object: &T, options: &PostOptions) -> Result<T, ApiError> {
        let request = self.on_object(self.client.put(), object.key());
        Ok(self.with_object(request, object, options).object().await?)
    }

    /// Replaces the status of an object, and nothing else of it.
    ///
    /// # Errors
    ///
    /// As [`update`](Self::update).
    pub async fn update_status(&self, object: &T, options: &PostOptions) -> Result<T, ApiError> {
        let request = self.on_object(self.client.put(), object.key()).subresource(["status"]);
        Ok(self.with_object(request, object, options).object().await?)
    }

    /// The body of a write. A type that does not say what kind it is, as most Rust types do not, is told it here.
    fn with_object(&self, request: Request, object: &T, options: &PostOptions) -> Request {
        let request = with_post_options(request, options);
        let mut value = match serde_json::to_value(object) {
            Ok(value) => value,
            Err(error) => {
                return request.keep(InvalidRequest::Encode { what: "the object", message: error.to_string() });
            }
        };
        if let Some(members) = value.as_object_mut() {
            let named = |members: &serde_json::Map<_, serde_json::Value>, key: &str| {
                members.get(key).and_then(|value| value.as_str()).is_some_and(|text| !text.is_empty())
            };
            if !named(members, "kind") {
                members.insert("kind".into(), self.resource.kind.clone().into());
            }
            if !named(members, "apiVersion") {
                members.insert("apiVersion".into(), self.resource.group_version.to_string().into());
            }
        }
        request.json(&value)
    }
}

impl<T> Api<T> {
    /// Deletes an object, or asks for it where finalizers or a grace period hold it.
    ///
    /// # Errors
    ///
    /// Not found, `Conflict` if a precondition does not hold, or however else a request fails.
    pub async fn delete(
        &self,
        key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        self.on_object(self.client.delete(), key).json(options).send().await?;
        Ok(())
    }

    /// Deletes all objects that match.
    ///
    /// # Errors
    ///
    /// However a request fails. Some objects may be gone then.
    pub async fn delete_collection(&self, which: &ListOptions, options: &DeleteOptions) -> Result<(), ApiError> {
        with_list_options(self.on_collection(self.client.delete()), which).json(options).send().await?;
        Ok(())
    }
}

impl<T> Api<T> {
    async fn page(&self, options: &ListOptions) -> Result<PageStream, ApiError> {
        Ok(PageStream(with_list_options(self.on_collection(self.client.get()), options).list().await?))
    }
}

impl<T: 'static> ListWatch for Api<T> {
    type Object = T;
    type Page = PageStream;
    type Events = RawEventStream;

    fn api_resource(&self) -> ApiResource {
        self.resource().clone()
    }

    fn namespace(&self) -> Option<&str> {
        Api::namespace(self)
    }

    async fn list(&self, options: &ListOptions) -> Result<PageStream, ApiError> {
        self.page(options).await
    }

    async fn watch(&self, options: &WatchOptions) -> Result<RawEventStream, ApiError> {
        let request = with_watch_options(self.on_collection(self.client.get()), options);
        Ok(RawEventStream(request.raw_watch().await?))
    }
}

impl<T: Object + Serialize + DeserializeOwned> ObjectApi<T> for Api<T> {
    async fn get(&self, key: &ObjectKey) -> Result<T, ApiError> {
        Api::get(self, key).await
    }

    async fn create(&self, object: &T, options: &PostOptions) -> Result<T, ApiError> {
        Api::create(self, object, options).await
    }

    async fn update(&self, object: &T, options: &PostOptions) -> Result<T, ApiError> {
        Api::update(self, object, options).await
    }

    async fn update_status(&self, object: &T, options: &PostOptions) -> Result<T, ApiError> {
        Api::update_status(self, object, options).await
    }

    async fn patch(&self, key: &ObjectKey, patch: &Patch, options: &PostOptions) -> Result<T, ApiError> {
        Api::patch(self, key, patch, options).await
    }

    async fn delete(&self, key: &ObjectKey, options: &DeleteOptions) -> Result<(), ApiError> {
        Api::delete(self, key, options).await
    }
}

impl<T> Clone for Api<T> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            resource: self.resource.clone(),
            namespace: self.namespace.clone(),
            object: PhantomData,
        }
    }
}

impl<T> fmt::Debug for Api<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api")
            .field("resource", &format_args!("{}", self.resource))
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

/// A [`ListStream`], its errors in the words of the seams: what an [`Api`] gives as the [`ListWatch`] that it is.
#[must_use = "a list is not read until it is polled"]
#[derive(Debug)]
pub struct PageStream(ListStream);

/// The events of a [`Watch`], their errors in the words of the seams: what [`Api::watch`] gives.
///
/// # Examples
///
/// ```
/// use pintle_meta::{ApiError, Object, PartialObject, WatchEvent, WatchOptions};
/// use pintle_restreq::Api;
///
/// async fn follow(pods: &Api<PartialObject>) -> Result<(), ApiError> {
///     let mut events = pods.watch(&WatchOptions::default()).await?;
///     while let Some(event) = events.next().await {
///         match event? {
///             WatchEvent::Deleted(pod) => println!("{} is gone", pod.key()),
///             event => println!("{event:?}"),
///         }
///     }
///     Ok(())
/// }
/// ```
#[must_use = "a watch does nothing until it is polled"]
#[derive(Debug)]
pub struct EventStream<T>(Watch<T>);

/// The events of a [`RawWatch`], their errors in the words of the seams: what an [`Api`] gives as the [`ListWatch`] that it is.
#[must_use = "a watch does nothing until it is polled"]
#[derive(Debug)]
pub struct RawEventStream(RawWatch);

impl<T: DeserializeOwned> EventStream<T> {
    /// The next event, `None` at the end.
    ///
    /// # Errors
    ///
    /// The connection is lost or rests for too long, or brings what is no event of a `T`. The watch is at its end then. What the
    /// server itself has to say on the end of the watch is an event: [`WatchEvent::Error`].
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn next(&mut self) -> Option<Result<WatchEvent<T>, ApiError>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for PageStream {
    type Item = Result<ListPart, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.0).poll_next(cx).map_err(Error::into)
    }
}

impl<T: DeserializeOwned> Stream for EventStream<T> {
    type Item = Result<WatchEvent<T>, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.0).poll_next(cx).map_err(Error::into)
    }
}

impl Stream for RawEventStream {
    type Item = Result<WatchEvent<RawObject>, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.0).poll_next(cx).map_err(Error::into)
    }
}

fn with_list_options(request: Request, options: &ListOptions) -> Request {
    let limit = if options.limit == 0 { String::new() } else { options.limit.to_string() };
    params(
        request,
        [
            ("labelSelector", options.label_selector.to_string().as_str()),
            ("fieldSelector", &options.field_selector.to_string()),
            ("shardSelector", &options.shard_selector),
            ("resourceVersion", &options.resource_version),
            ("resourceVersionMatch", options.resource_version_match.map_or("", |rule| rule.as_str())),
            ("limit", &limit),
            ("continue", &options.continue_token),
        ],
    )
}

fn with_watch_options(request: Request, options: &WatchOptions) -> Request {
    let seconds = options.timeout.map(|timeout| timeout.as_secs().clamp(1, LONGEST_WATCH));
    let text = |flag| if flag { "true" } else { "" };
    let request = params(
        request,
        [
            ("watch", "true"),
            ("labelSelector", &options.label_selector.to_string()),
            ("fieldSelector", &options.field_selector.to_string()),
            ("shardSelector", &options.shard_selector),
            ("resourceVersion", &options.resource_version),
            ("resourceVersionMatch", options.resource_version_match.map_or("", |rule| rule.as_str())),
            ("allowWatchBookmarks", text(options.allow_bookmarks)),
            ("sendInitialEvents", text(options.send_initial_events)),
            ("timeoutSeconds", &seconds.map(|seconds| seconds.to_string()).unwrap_or_default()),
        ],
    );
    match seconds {
        // The server ends the watch by then. One that rests for longer has lost its server.
        Some(seconds) => request.idle_timeout(Duration::from_secs(seconds) + WATCH_GRACE),
        None => request,
    }
}

fn with_post_options(request: Request, options: &PostOptions) -> Request {
    params(
        request,
        [
            ("dryRun", if options.dry_run { "All" } else { "" }),
            ("fieldManager", &options.field_manager),
            ("fieldValidation", options.field_validation.map_or("", FieldValidation::as_str)),
            ("force", if options.force { "true" } else { "" }),
        ],
    )
}

/// Sets the parameters that are not empty.
fn params<const N: usize>(request: Request, pairs: [(&str, &str); N]) -> Request {
    pairs
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .fold(request, |request, (key, value)| request.param(key, value))
}

/// In seconds. A server of Go's counts nanoseconds in 63 bits, and ends a watch of more at once.
const LONGEST_WATCH: u64 = i32::MAX as u64;

/// How long a watch may outlive the time that the server was given for it.
const WATCH_GRACE: Duration = Duration::from_secs(30);
