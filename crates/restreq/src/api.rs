//! A typed client for one resource.

mod apply;
mod conflict;
mod delete;
mod evict;
#[cfg(feature = "ws")]
mod exec;
mod logs;
mod options;
mod pages;
#[cfg(feature = "ws")]
mod port_forward;
mod representation;
mod retry_watch;
mod subresource;
mod token;
mod wait;
mod watcher;
mod workloads;

use std::marker::PhantomData;
use std::sync::Arc;

use http::Method;
use http::header::ACCEPT;
use pintle_meta::{
    ApiError, ApiResource, DeleteOptions, InvalidKey, List, ListMeta, ListOptions, ListPart, ListWatch, NamespaceScope,
    Object, ObjectApi, ObjectKey, Patch, Resource, Scope, TypeMeta, WatchOptions, WriteOptions,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::conflict::{OperationResult, retry_on_conflict};
pub use self::delete::Deletion;
pub use self::evict::EvictionOutcome;
#[cfg(feature = "ws")]
pub use self::exec::ExecOptions;
#[cfg(any(test, fuzzing))]
pub(crate) use self::logs::lines;
pub use self::logs::{LogLines, LogOptions, LogSource};
use self::options::{with_list_options, with_watch_options, with_write_options};
pub use self::pages::Pages;
#[cfg(feature = "ws")]
pub use self::port_forward::PortForward;
use self::representation::Representation;
pub use self::representation::{Table, TableColumn, TableRow};
pub use self::retry_watch::RetryWatch;
pub use self::subresource::Subresource;
pub use self::token::{BoundObjectReference, ServiceAccountToken, TokenRequest};
pub use self::watcher::{WatchedObjects, Watcher, WatcherEvent};
pub use self::workloads::{ScaleSpec, ScaleStatus, WorkloadScale};
use crate::client::RestClient;
use crate::error::{InvalidRequest, unreadable};
use crate::list::{self, ListStream};
use crate::request::Request;
use crate::watch::{RawWatch, Watch};

/// A typed client for one resource, in one namespace or in all namespaces. Cloning an `Api` is cheap.
///
/// Methods accept an [`ObjectKey`] or a string to identify an object. If the `Api` is for one namespace or for a
/// cluster-scoped kind, the string is the name of the object. In an `Api` for all namespaces of a namespaced kind, the
/// string is `namespace/name`.
///
/// # Cancel safety
///
/// Dropping a future cancels the request. A cancelled write may still take effect on the server.
///
/// # Examples
///
/// The following example uses a Rust type for the resource:
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
/// The following example uses a resource that is only known at run time:
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
    representation: Representation,
    object: PhantomData<fn() -> T>,
}

impl<T: Resource> Api<T> {
    /// Creates an `Api` for a cluster-scoped resource, or for all namespaces of a namespaced resource. To read or write
    /// a single object with an `Api` for all namespaces, pass a key that contains the namespace.
    pub fn all(client: RestClient) -> Self {
        Self::new(client, T::api_resource(), None)
    }
}

impl<T: Resource<Scope = NamespaceScope>> Api<T> {
    /// Creates an `Api` for one namespace. If `namespace` is empty, the default namespace of the client is used.
    ///
    /// Calling `namespaced` for a cluster-scoped kind does not compile:
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
    /// Creates an `Api` for a resource that is only known at run time. If `namespace` is `None`, the `Api` is for all
    /// namespaces. If `namespace` is an empty string, the default namespace of the client is used.
    ///
    /// # Errors
    ///
    /// Returns an error if `namespace` is set for a cluster-scoped resource.
    pub fn dynamic(client: RestClient, resource: ApiResource, namespace: Option<&str>) -> Result<Self, InvalidRequest> {
        match (resource.scope, namespace) {
            (Scope::Cluster, Some(namespace)) => Err(InvalidRequest::Mismatch(format!(
                "{resource} are cluster-scoped, so the namespace {namespace:?} is invalid; use None"
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
        let representation = Representation::Whole;
        Self { client, resource: Arc::new(resource), namespace, representation, object: PhantomData }
    }

    fn cast<U>(&self) -> Api<U> {
        Api {
            client: self.client.clone(),
            resource: self.resource.clone(),
            namespace: self.namespace.clone(),
            representation: self.representation,
            object: PhantomData,
        }
    }

    /// Returns the resource.
    pub fn resource(&self) -> &ApiResource {
        &self.resource
    }

    /// Returns the namespace, or `None` for all namespaces.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Returns the client.
    pub fn client(&self) -> &RestClient {
        &self.client
    }

    fn request(&self, method: Method) -> Request {
        self.accepting(self.client.verb(method), self.representation.object())
    }

    fn patch_request(&self, patch: &Patch) -> Request {
        self.accepting(self.client.patch(patch.content_type()), self.representation.object())
    }

    fn accepting(&self, request: Request, accept: Option<&str>) -> Request {
        match accept {
            Some(accept) => request.header(ACCEPT.as_str(), accept),
            None => request,
        }
    }

    fn on_collection(&self, request: Request) -> Request {
        let request = match &self.namespace {
            Some(namespace) => request.namespace(&**namespace),
            None => request,
        };
        request.resource(&self.resource.plural)
    }

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

    /// Adds the path of an object, like [`on_object`](Self::on_object). Sending the request returns an error if the
    /// resource of this `Api` is not one of `plurals` in the API group `group`.
    fn on_object_of(
        &self,
        group: &str,
        plurals: &[&str],
        request: Request,
        key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>,
    ) -> Request {
        match self.expect_resource(group, plurals) {
            Ok(()) => self.on_object(request, key),
            Err(fault) => request.keep(fault),
        }
    }

    fn expect_resource(&self, group: &str, plurals: &[&str]) -> Result<(), InvalidRequest> {
        let resource = &*self.resource;
        if resource.group_version.group == group && plurals.contains(&&*resource.plural) {
            return Ok(());
        }
        let plurals = plurals.join(", ");
        Err(InvalidRequest::Mismatch(format!("only {plurals} support this request, {resource} do not")))
    }

    /// Returns the namespace to use in a request. `given` is the namespace in the metadata of the object.
    fn namespace_of<'a>(&'a self, given: Option<&'a str>) -> Result<Option<&'a str>, InvalidRequest> {
        let resource = &self.resource;
        match (resource.scope, self.namespace.as_deref(), given) {
            (Scope::Cluster, None, None) => Ok(None),
            (Scope::Cluster, ..) => Err(InvalidRequest::Mismatch(format!(
                "{resource} are cluster-scoped; remove the namespace from the `Api` or the object"
            ))),
            (Scope::Namespaced, Some(own), Some(given)) if own != given => Err(InvalidRequest::Mismatch(format!(
                "the `Api` is for {resource} in namespace {own:?}, but the object is in {given:?}"
            ))),
            (Scope::Namespaced, None, None) => Err(InvalidRequest::Mismatch(format!(
                "{resource} are namespaced; set a namespace in the `Api` or the object"
            ))),
            (Scope::Namespaced, own, given) => Ok(given.or(own)),
        }
    }
}

impl<T: DeserializeOwned> Api<T> {
    /// Gets an object.
    ///
    /// # Errors
    ///
    /// Returns `NotFound` if the object does not exist, or another error if the request fails.
    pub async fn get(&self, key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>) -> Result<T, ApiError> {
        self.on_object(self.request(Method::GET), key).object().await
    }

    /// Gets an object. Returns `None` if the object does not exist.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use pintle_meta::{ApiError, DynamicObject};
    /// # async fn f(config_maps: pintle_restreq::Api<DynamicObject>) -> Result<(), ApiError> {
    /// match config_maps.get_opt("settings").await? {
    ///     Some(settings) => println!("version {}", settings.metadata.resource_version),
    ///     None => println!("no settings"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the request fails. A 404 response without a `Status` object is also an error, because it may
    /// come from a proxy, or from a server that does not serve this resource.
    pub async fn get_opt(&self, key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>) -> Result<Option<T>, ApiError> {
        match self.get(key).await {
            Err(error) if error.is_object_not_found() => Ok(None),
            found => found.map(Some),
        }
    }

    /// Lists one page of objects, or all objects if `options` contains no limit. Each object is decoded as soon as it
    /// arrives. Use the [`ListWatch`] implementation instead to process objects one by one or to get their JSON bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if the request fails. The error is `Expired` if the server no longer has the requested revision
    /// or the revision of the continue token. A decoding error contains the index of the object in the list, and the
    /// name of the object if it could be decoded.
    pub async fn list(&self, options: &ListOptions) -> Result<List<T>, ApiError> {
        let mut page = self.page(options).await?;
        let mut list = List { types: TypeMeta::default(), metadata: ListMeta::default(), items: Vec::new() };
        while let Some(part) = page.next().await {
            match part? {
                ListPart::Item(item) => {
                    let object = list::decode(list.items.len(), &item);
                    list.items.push(object.map_err(|message| unreadable(page.request(), message))?);
                }
                ListPart::Metadata(metadata) => list.metadata = metadata,
            }
        }
        Ok(list)
    }

    /// Opens a [`Watch`] whose objects are decoded as `T`. The stream ends when the server closes the watch.
    /// [`retry_watch`](Self::retry_watch) and informers resume a watch automatically.
    ///
    /// # Errors
    ///
    /// Returns an error if the request fails before the response headers arrive. The returned stream reports errors
    /// that occur later.
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
    pub async fn watch(&self, options: &WatchOptions) -> Result<Watch<T>, ApiError> {
        let request = with_watch_options(self.on_collection(self.request(Method::GET)), options);
        request.watch().await
    }

    /// Patches an object.
    ///
    /// # Errors
    ///
    /// Returns an error if the request fails.
    pub async fn patch(
        &self,
        key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>,
        patch: &Patch,
        options: &WriteOptions,
    ) -> Result<T, ApiError> {
        let request = self.on_object(self.patch_request(patch), key);
        with_write_options(request, options).json(&*self.patch_body(patch)).object().await
    }

    /// Patches an object's status.
    ///
    /// # Errors
    ///
    /// Returns an error if the request fails.
    pub async fn patch_status(
        &self,
        key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>,
        patch: &Patch,
        options: &WriteOptions,
    ) -> Result<T, ApiError> {
        let request = self.on_object(self.patch_request(patch), key).subresource(["status"]);
        with_write_options(request, options).json(&*self.patch_body(patch)).object().await
    }
}

impl<T: Object + Serialize + DeserializeOwned> Api<T> {
    /// Creates an object and returns the stored object.
    ///
    /// # Errors
    ///
    /// Returns `AlreadyExists` if the object already exists, or another error if the request fails.
    pub async fn create(&self, object: &T, options: &WriteOptions) -> Result<T, ApiError> {
        let request = match self.namespace_of(object.namespace()) {
            Ok(namespace) => {
                let scoped = namespace.is_some();
                let request = self.request(Method::POST).namespace_if_scoped(namespace.unwrap_or_default(), scoped);
                request.resource(&self.resource.plural)
            }
            Err(fault) => self.client.post().keep(fault),
        };
        self.with_object(request, object, options).object().await
    }

    /// Replaces an object. If `object` has a `resourceVersion` that differs from the stored one, the update fails with
    /// a conflict.
    ///
    /// # Errors
    ///
    /// Returns `Conflict` if the stored object has changed, `NotFound` if the object does not exist, or another error
    /// if the request fails.
    pub async fn update(&self, object: &T, options: &WriteOptions) -> Result<T, ApiError> {
        let request = self.on_object(self.request(Method::PUT), object.key());
        self.with_object(request, object, options).object().await
    }

    /// Replaces only an object's status.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`update`](Self::update).
    pub async fn update_status(&self, object: &T, options: &WriteOptions) -> Result<T, ApiError> {
        let request = self.on_object(self.request(Method::PUT), object.key()).subresource(["status"]);
        self.with_object(request, object, options).object().await
    }
}

impl<T> Api<T> {
    async fn page(&self, options: &ListOptions) -> Result<ListStream, ApiError> {
        let request = self.accepting(self.client.get(), self.representation.list());
        with_list_options(self.on_collection(request), options).list().await
    }
}

impl<T: 'static> ListWatch for Api<T> {
    type Object = T;
    type Page = ListStream;
    type Events = RawWatch;

    fn api_resource(&self) -> ApiResource {
        self.resource().clone()
    }

    fn namespace(&self) -> Option<&str> {
        Api::namespace(self)
    }

    async fn list(&self, options: &ListOptions) -> Result<ListStream, ApiError> {
        self.page(options).await
    }

    async fn watch(&self, options: &WatchOptions) -> Result<RawWatch, ApiError> {
        let request = with_watch_options(self.on_collection(self.request(Method::GET)), options);
        request.raw_watch().await
    }
}

impl<T: Object + Serialize + DeserializeOwned> ObjectApi<T> for Api<T> {
    async fn get(&self, key: &ObjectKey) -> Result<T, ApiError> {
        Api::get(self, key).await
    }

    async fn create(&self, object: &T, options: &WriteOptions) -> Result<T, ApiError> {
        Api::create(self, object, options).await
    }

    async fn update(&self, object: &T, options: &WriteOptions) -> Result<T, ApiError> {
        Api::update(self, object, options).await
    }

    async fn update_status(&self, object: &T, options: &WriteOptions) -> Result<T, ApiError> {
        Api::update_status(self, object, options).await
    }

    async fn patch(&self, key: &ObjectKey, patch: &Patch, options: &WriteOptions) -> Result<T, ApiError> {
        Api::patch(self, key, patch, options).await
    }

    async fn delete(&self, key: &ObjectKey, options: &DeleteOptions) -> Result<(), ApiError> {
        Api::delete(self, key, options).await.map(drop)
    }
}

impl<T> Clone for Api<T> {
    fn clone(&self) -> Self {
        self.cast()
    }
}

pintle_meta::debug_struct!(Api<T> |self| { resource = format_args!("{}", self.resource), namespace, .. });
