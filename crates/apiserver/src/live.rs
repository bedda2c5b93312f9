//! The upstream cluster of a plan. The server copies the cluster's objects and watches them, but ignores upstream
//! changes to objects that were written in the plan.
//!
//! Before the server processes a request, it loads the objects of the request from the upstream cluster:
//!
//! - For a single object, the server reads the object from the upstream cluster, unless it watches the object's collection.
//! - The first list, watch or create in a collection loads the whole collection, and the server then watches the
//!   collection.
//! - Requests for discovery, aggregated APIs, logs and access reviews are forwarded,
//!   because this server lacks the data for these responses.
//!
//! The server never writes to the upstream cluster. Only requests from administrators of
//! this server cause requests to the upstream cluster.

mod follow;
mod forward;
mod upstream;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, Uri};
use pintle_apiextensions::DEFINITIONS;
use pintle_apimachinery::object::{key, metadata};
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::request::path::{ResourcePath, Target};
use pintle_apimachinery::request::query::Query;
use pintle_apimachinery::request::user::MASTERS;
use pintle_builtin::{NAMESPACES, unknown_namespace};
use pintle_json::Json;
use pintle_kinds::post_handler::PostHandler;
use pintle_kinds::{Kind, Origin};
use pintle_meta::__private::{Mutex, RwLock};
use pintle_serving::body::ResponseBody;
use pintle_storage::{ResourceKey, UpstreamObject};
use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
pub(crate) use upstream::{Refusal, Upstream};

use crate::http::{Deadline, Incoming, Socket};
use crate::registry::Registry;

/// The timeout for loading all objects that a request needs, and for each request to the upstream cluster.
const UPSTREAM_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Live {
    registry: Arc<Registry>,
    upstream: Upstream,
    /// Maps each requested collection to a cell, which is set when the collection has been loaded.
    collections: Mutex<HashMap<Collection, Arc<OnceCell<()>>>>,
    /// The collections that are fully loaded and watched. A task must lock this set while it copies an object from the
    /// upstream cluster. Otherwise, the object's collection could become complete during the copy, and watchers of the
    /// collection would miss the object.
    complete: RwLock<HashSet<Collection>>,
    stop: CancellationToken,
    tasks: TaskTracker,
    /// The server's runtime, which can differ from the runtime that polls the future of a request.
    runtime: Handle,
}

/// A collection, which consists of the objects of a resource in one namespace. If `namespace` is empty, the collection
/// contains cluster-scoped objects or the objects in all namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Collection {
    resource: ResourceKey,
    namespace: String,
}

enum Route {
    Local,
    Upstream(TimeoutScope),
}

/// The part of a forwarded request to which the timeout applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimeoutScope {
    Whole,
    /// The timeout limits only the time until the response head. The body of a watch continues until the client stops
    /// reading.
    Head,
    /// The timeout does not apply, because the response to a log request may begin only with the first log line.
    Nothing,
}

impl Live {
    /// Makes `registry`, which must be empty, read its objects from the upstream cluster. Spawns background tasks on
    /// the current runtime.
    pub(crate) fn new(
        upstream: Upstream,
        registry: Arc<Registry>,
        stop: CancellationToken,
        tasks: TaskTracker,
    ) -> Arc<Self> {
        registry.db.begin_mirror();
        let (collections, complete, runtime) = (Mutex::default(), RwLock::default(), Handle::current());
        Arc::new(Self { registry, upstream, collections, complete, stop, tasks, runtime })
    }

    pub(crate) async fn load_definitions(self: &Arc<Self>) -> Result<(), Refusal> {
        let kinds = self.registry.kinds();
        let Some(definitions) = kinds.group_kind("apiextensions.k8s.io", "CustomResourceDefinition") else {
            return Ok(());
        };
        self.load_collection(definitions, "").await
    }

    pub(crate) async fn respond(
        self: Arc<Self>,
        request: Request<Incoming>,
        deadline: impl FnOnce(Deadline),
    ) -> (Response<ResponseBody>, Option<Socket>) {
        if !self.is_from_administrator(&request) {
            return crate::http::respond(self.registry.clone(), request, deadline).await;
        }
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let prepared = tokio::time::timeout(UPSTREAM_TIMEOUT, self.prepare(&method, &uri)).await;
        match prepared.unwrap_or_else(|_| Err(Refusal::timeout())) {
            Ok(Route::Local) => crate::http::respond(self.registry.clone(), request, deadline).await,
            Ok(Route::Upstream(timeout_scope)) => {
                let end = (timeout_scope == TimeoutScope::Whole).then(|| Instant::now() + UPSTREAM_TIMEOUT);
                end.map(Deadline::Request).map(deadline);
                (self.forward(request, timeout_scope, end).await, None)
            }
            Err(refusal) => (refusal.into_response(), None),
        }
    }

    /// Returns `true` if the user is an administrator. Other users must not cause requests to the upstream cluster,
    /// because these requests use the server's credentials, which may have more permissions than the user.
    fn is_from_administrator(&self, request: &Request<Incoming>) -> bool {
        let now = self.registry.clock.now().as_second();
        let user = self.registry.authenticator.authenticate(&*self.registry.db, &mut request.headers().clone(), now);
        user.is_ok_and(|user| user.is_in(MASTERS))
    }

    /// Loads the objects that a request needs, and determines whether this server or the upstream server must respond.
    async fn prepare(self: &Arc<Self>, method: &Method, uri: &Uri) -> Result<Route, Refusal> {
        let is_read = matches!(*method, Method::GET | Method::HEAD);
        let path = match Target::parse(uri.path()) {
            Target::Resource(path) => path,
            // After a write to a custom resource definition in the plan, only this server has the correct discovery
            // documents.
            Target::Other(parts) if is_read && !(is_discovery(&parts) && self.has_written_definitions()) => {
                return Ok(Route::Upstream(TimeoutScope::Whole));
            }
            Target::Other(_) | Target::Undeterminable => return Ok(Route::Local),
        };
        // Never send the names `.` and `..` to the upstream cluster. No object
        // can have these names, and the upstream client could normalize the path.
        if [&path.namespace, &path.name].iter().any(|name| matches!(name.as_str(), "." | "..")) {
            return Ok(Route::Local);
        }
        let kinds = self.registry.kinds();
        let Some(kind) = kinds.resource(&path.group, &path.version, &path.resource) else {
            // Do not forward GET requests through a proxy, because they can have side effects.
            let is_proxy = path.old_proxy || path.resource == "proxy" || path.subresource == "proxy";
            return if is_read && !is_proxy {
                Ok(Route::Upstream(timeout_scope(&path, uri)))
            } else {
                Err(Refusal::unknown(&path.resource))
            };
        };
        // Forward requests if their responses are not computed from stored objects.
        let subresource = Subresource::parse(&path.subresource).unwrap_or_default();
        if subresource == Subresource::Proxy || path.old_proxy {
            return Err(Refusal::unknown(&path.full_resource()));
        }
        let is_computed = subresource == Subresource::Log || kind.strategy.computed_objects().is_some();
        let is_read_only_review =
            path.name.is_empty() && kind.strategy.post_handler(subresource).is_some_and(PostHandler::is_read_only);
        if is_read && is_computed {
            return Ok(Route::Upstream(timeout_scope(&path, uri)));
        }
        if *method == Method::POST && is_read_only_review {
            return Ok(Route::Upstream(TimeoutScope::Whole));
        }
        let namespace = if kind.is_namespaced() { &*path.namespace } else { "" };
        if !is_read {
            self.load_dependencies(kind, subresource, namespace).await?;
        }
        match path.name.is_empty() || path.old_watch {
            _ if kind.flags.is_transient => (),
            true => self.load_collection(kind, namespace).await?,
            false => self.load_object(kind, namespace, &path.name).await?,
        }
        Ok(Route::Local)
    }

    /// Loads the namespace of the written object and other objects that the rules for this write need. If reading one
    /// of these objects is forbidden, the plan treats the object as absent.
    async fn load_dependencies(
        self: &Arc<Self>,
        kind: &Arc<Kind>,
        subresource: Subresource,
        namespace: &str,
    ) -> Result<(), Refusal> {
        let kinds = self.registry.kinds();
        if let Some(namespaces) = kinds.group_kind("", "Namespace").filter(|_| !namespace.is_empty()) {
            match self.load_object(namespaces, "", namespace).await {
                // Ignore 403 errors for the namespace. A client without permission to read a namespace can still have
                // permissions for the objects in the namespace.
                Err(refusal) if refusal.code == 403 && self.registry.db.get(NAMESPACES, namespace).is_some() => (),
                Err(refusal) if refusal.code == 403 => {
                    self.store_upstream_object(namespaces, unknown_namespace(namespace));
                }
                loaded => loaded?,
            }
        }
        for (group, kind) in kind.strategy.read_kinds(subresource) {
            let Some(kind) = kinds.group_kind(group, kind) else { continue };
            match self.load_collection(kind, if kind.is_namespaced() { namespace } else { "" }).await {
                Err(refusal) if refusal.code == 403 => (),
                loaded => loaded?,
            }
        }
        Ok(())
    }

    /// Loads one object, unless it was written in the plan or its collection is watched.
    async fn load_object(&self, kind: &Arc<Kind>, namespace: &str, name: &str) -> Result<(), Refusal> {
        let collection = Collection { resource: kind.stored_as.to_string().into(), namespace: namespace.into() };
        let object_key = key(namespace, name);
        let is_written = !self.registry.db.follows_upstream(&collection.resource, &object_key);
        let Some(source) = self.storage_version_kind(kind).filter(|_| !is_written && !self.is_complete(&collection))
        else {
            return Ok(());
        };
        match self.upstream.get(&upstream::object_path(&source, namespace, name)).await {
            Ok(object) if is_named(&object, namespace, name) => self.store_upstream_object(&source, object),
            Ok(_) => return Err(Refusal::wrong_object(&object_key)),
            Err(refusal) if refusal.is_absent(name) => {
                let complete = self.complete.read();
                if !contains(&complete, &collection) {
                    self.registry.db.show(
                        &collection.resource,
                        &object_key,
                        UpstreamObject { at: 0, object: None },
                        false,
                    );
                }
            }
            Err(refusal) => return Err(refusal),
        }
        Ok(())
    }

    /// Loads a collection if it is not loaded yet. Dropping the future does not cancel the loading.
    async fn load_collection(self: &Arc<Self>, kind: &Arc<Kind>, namespace: &str) -> Result<(), Refusal> {
        let collection = Collection { resource: kind.stored_as.to_string().into(), namespace: namespace.into() };
        let Some(source) = self.storage_version_kind(kind).filter(|_| !self.is_complete(&collection)) else {
            return Ok(());
        };
        let cell = self.collections.lock().entry(collection.clone()).or_default().clone();
        let (live, stop) = (self.clone(), self.stop.clone());
        let work = async move { cell.get_or_try_init(|| live.follow(source, collection)).await.copied() };
        let loaded = self.tasks.spawn_on(async move { stop.run_until_cancelled(work).await }, &self.runtime);
        loaded.await.ok().flatten().unwrap_or_else(|| Err(Refusal::timeout()))
    }

    /// Copies an upstream object into the store. Ignores upstream objects that have no name.
    fn store_upstream_object(&self, kind: &Arc<Kind>, object: Json) {
        let (namespace, name) = (metadata::namespace(&object), metadata::name(&object));
        let collection = Collection { resource: kind.stored_as.to_string().into(), namespace: namespace.into() };
        let revision = version(&object);
        let key = key(namespace, name);
        if name.is_empty() {
            return tracing::warn!(resource = %collection.resource, "ignoring an object without a name from the upstream cluster");
        }
        let object = kind.strategy.to_stored(crate::registry::typed(&kind.api_version(), &kind.kind, object));
        let draft = self.registry.db.draft(&collection.resource, &object);
        let complete = self.complete.read();
        let upstream_object = UpstreamObject { at: revision, object: Some(draft) };
        self.registry.db.show(&collection.resource, &key, upstream_object, contains(&complete, &collection));
    }

    /// Returns the kind in the upstream cluster's storage version. The plan reads upstream objects in their storage
    /// version. Returns `None` if the resource's definition was created in the plan.
    fn storage_version_kind(&self, kind: &Arc<Kind>) -> Option<Arc<Kind>> {
        let kinds = self.registry.kinds();
        let mut version = kind.stored_version.as_ref().map(|stored| stored.version.clone());
        if kind.origin() == Origin::Custom {
            let name = format!("{}.{}", kind.plural, kind.group);
            if !self.registry.db.follows_upstream(DEFINITIONS, &name) {
                let definition = self.registry.db.upstream_object(DEFINITIONS, &name)?.decode();
                let versions = definition.list("/spec/versions");
                let mut stored = versions.filter(|version| version["storage"] == true);
                version = stored.next().map(|version| version.text("/name").to_owned());
            }
        }
        let found = version.and_then(|version| kinds.resource(&kind.group, &version, &kind.plural));
        Some(found.unwrap_or(kind).clone())
    }

    fn is_complete(&self, collection: &Collection) -> bool {
        contains(&self.complete.read(), collection)
    }

    fn has_written_definitions(&self) -> bool {
        self.registry.db.local_writes().iter().any(|written| &*written.resource == DEFINITIONS)
    }
}

fn is_named(object: &Json, namespace: &str, name: &str) -> bool {
    object.text("/metadata/namespace") == namespace && object.text("/metadata/name") == name
}

/// Returns `true` if `complete` contains this collection, or the resource's collection across all namespaces.
fn contains(complete: &HashSet<Collection>, collection: &Collection) -> bool {
    complete.contains(collection) || complete.contains(&Collection { namespace: String::new(), ..collection.clone() })
}

fn is_discovery(parts: &[String]) -> bool {
    matches!(parts.first().map(String::as_str), Some("api" | "apis" | "openapi"))
}

fn version(object: &Json) -> u64 {
    object.text("/metadata/resourceVersion").parse().unwrap_or(0)
}

/// Returns the part of a forwarded read request to which the timeout applies. Watches and log requests have no time
/// limit for the body, even if a log request lacks `follow`.
fn timeout_scope(path: &ResourcePath, uri: &Uri) -> TimeoutScope {
    let query = Query::parse(uri.query().unwrap_or_default());
    match Subresource::parse(&path.subresource) {
        _ if path.old_watch || (path.name.is_empty() && query.flag("watch") == Some(true)) => TimeoutScope::Head,
        Some(subresource) if subresource.is_stream() => TimeoutScope::Nothing,
        _ => TimeoutScope::Whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_watches_and_logs_have_no_total_timeout() {
        const THINGS: &str = "/apis/e.com/v1/namespaces/default/things";
        for (uri, expected) in [
            (THINGS.to_owned(), TimeoutScope::Whole),
            (format!("{THINGS}?watch"), TimeoutScope::Head),
            (format!("{THINGS}?watch=1"), TimeoutScope::Head),
            (format!("{THINGS}?watch=False"), TimeoutScope::Whole),
            (format!("{THINGS}/watch?watch=1"), TimeoutScope::Whole),
            ("/apis/e.com/v1/watch/things".into(), TimeoutScope::Head),
            ("/apis/e.com/v1/%77atch/namespaces/default/things/a".into(), TimeoutScope::Head),
            ("/apis/e.com/v1/namespaces/watch/things".into(), TimeoutScope::Whole),
            (format!("{THINGS}/watch/status"), TimeoutScope::Whole),
            ("/api/v1/namespaces/default/pods/p/log".into(), TimeoutScope::Nothing),
            ("/api/v1/namespaces/default/pods/p/log?follow=true".into(), TimeoutScope::Nothing),
            ("/api/v1/namespaces/default/pods/p/status".into(), TimeoutScope::Whole),
        ] {
            let uri: Uri = uri.parse().expect("a path");
            let Target::Resource(path) = Target::parse(uri.path()) else { panic!("{uri}") };
            assert_eq!(timeout_scope(&path, &uri), expected, "{uri}");
        }
    }
}
