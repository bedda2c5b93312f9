//! Another cluster beneath the server: what nobody has written here is as that has it.
//!
//! A request is prepared before it is served: what it is about is brought here from the other cluster, unless it is here already. One
//! object is asked for whenever somebody asks for it. A collection, be it to list, to watch or to create in, is brought here whole, once, and
//! then followed by a watch. Nothing is ever written there. What this server knows nothing of (discovery, aggregated APIs, logs, who may do
//! what) the other cluster answers itself. Nothing is asked there for who is no administrator here.

mod follow;
mod forward;
mod upstream;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use http::{Method, Request, Response, Uri};
use pintle_json::Json;
use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
pub(crate) use upstream::{Refusal, Upstream};

use crate::crd::DEFINITIONS;
use crate::http::{Deadline, Incoming, ResponseBody, Socket};
use crate::kinds::posting::Posting;
use crate::kinds::{Kind, NAMESPACES, Origin, unknown_namespace};
use crate::object::metadata;
use crate::registry::Registry;
use crate::request::Subresource;
use crate::request::path::{ResourcePath, Target};
use crate::request::query::Query;
use crate::request::user::MASTERS;
use crate::store::{ResourceKey, UpstreamObject, key};

/// How long a request waits for what it needs from the other cluster, and each question of it for its answer.
const UPSTREAM_PATIENCE: Duration = Duration::from_secs(60);

/// The cluster beneath, and how much of it is here.
#[derive(Debug)]
pub(crate) struct Live {
    registry: Arc<Registry>,
    upstream: Upstream,
    /// The collections that were asked for: filled once they are here.
    collections: Mutex<HashMap<Collection, Arc<OnceCell<()>>>>,
    /// Those that are here whole. An object is shown under this lock, so that none comes unseen into one that has just become whole.
    whole: RwLock<HashSet<Collection>>,
    stop: CancellationToken,
    tasks: TaskTracker,
    /// Where the server works, whoever asks.
    runtime: Handle,
}

/// The objects of a resource in one namespace; in all of them, or in cluster scope, where that is empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Collection {
    resource: ResourceKey,
    namespace: String,
}

/// Where a request is answered.
enum Where {
    Here,
    /// In the other cluster.
    There(TimeoutScope),
}

/// How long another cluster may take for an answer that is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimeoutScope {
    /// As long as any request.
    Whole,
    /// Its head as long; the rest as long as somebody listens: of a watch.
    Head,
    /// Even its head as long as there is nothing to be said: of a log.
    Nothing,
}

impl Live {
    /// Lays a server that is still empty, and works on the present runtime, over a cluster.
    pub(crate) fn over(
        upstream: Upstream,
        registry: Arc<Registry>,
        stop: CancellationToken,
        tasks: TaskTracker,
    ) -> Arc<Self> {
        registry.db.begin_mirror();
        let (collections, whole, runtime) = (Mutex::default(), RwLock::default(), Handle::current());
        Arc::new(Self { registry, upstream, collections, whole, stop, tasks, runtime })
    }

    /// Takes the definitions over, and follows them.
    pub(crate) async fn begin(self: &Arc<Self>) -> Result<(), Refusal> {
        let kinds = self.registry.kinds();
        let Some(definitions) = kinds.group_kind("apiextensions.k8s.io", "CustomResourceDefinition") else {
            return Ok(());
        };
        self.bring_all(definitions, "").await
    }

    /// As [`respond`](crate::http::respond) does.
    pub(crate) async fn respond(
        self: Arc<Self>,
        request: Request<Incoming>,
        deadline: impl FnOnce(Deadline),
    ) -> (Response<ResponseBody>, Option<Socket>) {
        if !self.is_of_administrator(&request) {
            return crate::http::respond(self.registry.clone(), request, deadline).await;
        }
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let prepared = tokio::time::timeout(UPSTREAM_PATIENCE, self.prepare(&method, &uri)).await;
        match prepared.unwrap_or_else(|_| Err(Refusal::late())) {
            Ok(Where::Here) => crate::http::respond(self.registry.clone(), request, deadline).await,
            Ok(Where::There(timeout_scope)) => {
                let end = (timeout_scope == TimeoutScope::Whole).then(|| Instant::now() + UPSTREAM_PATIENCE);
                end.map(Deadline::Request).map(deadline);
                (self.forward(request, timeout_scope, end).await, None)
            }
            Err(refusal) => (refusal.into_response(), None),
        }
    }

    /// Whether who asks may have this server's client ask for it: that may see more than others should.
    fn is_of_administrator(&self, request: &Request<Incoming>) -> bool {
        let now = self.registry.clock.now().as_second();
        let user = self.registry.authenticator.authenticate(&self.registry.db, &mut request.headers().clone(), now);
        user.is_ok_and(|user| user.is_in(MASTERS))
    }

    /// Brings here what a request is about.
    async fn prepare(self: &Arc<Self>, method: &Method, uri: &Uri) -> Result<Where, Refusal> {
        let reads = matches!(*method, Method::GET | Method::HEAD);
        let path = match Target::parse(uri.path()) {
            Target::Resource(path) => path,
            // Once somebody has written definitions, it is this server that knows what there is.
            Target::Other(parts) if reads && !(is_discovery(&parts) && self.has_written_definitions()) => {
                return Ok(Where::There(TimeoutScope::Whole));
            }
            Target::Other(_) | Target::Undeterminable => return Ok(Where::Here),
        };
        // Nothing has such a name, and who sends the request might shorten its path.
        if [&path.namespace, &path.name].iter().any(|name| matches!(name.as_str(), "." | "..")) {
            return Ok(Where::Here);
        }
        let kinds = self.registry.kinds();
        let Some(kind) = kinds.resource(&path.group, &path.version, &path.resource) else {
            // Behind a proxy, to read may be to do anything.
            let is_proxy = path.old_proxy || path.resource == "proxy" || path.subresource == "proxy";
            return if reads && !is_proxy {
                Ok(Where::There(timeout_scope(&path, uri)))
            } else {
                Err(Refusal::unknown(&path.resource))
            };
        };
        // What others than the store would say is for the other cluster to say.
        let subresource = Subresource::parse(&path.subresource).unwrap_or_default();
        if subresource == Subresource::Proxy || path.old_proxy {
            return Err(Refusal::unknown(&path.full_resource()));
        }
        let is_told = subresource == Subresource::Log || kind.strategy.computed_objects().is_some();
        let is_question = path.name.is_empty() && kind.strategy.posting(subresource).is_some_and(Posting::is_question);
        if reads && is_told {
            return Ok(Where::There(timeout_scope(&path, uri)));
        }
        if *method == Method::POST && is_question {
            return Ok(Where::There(TimeoutScope::Whole));
        }
        let namespace = if kind.namespaced() { &*path.namespace } else { "" };
        if !reads {
            self.bring_what_rules_look_at(kind, subresource, namespace).await?;
        }
        match path.name.is_empty() || path.old_watch {
            _ if kind.conduct.transient => (),
            true => self.bring_all(kind, namespace).await?,
            false => self.bring(kind, namespace, &path.name).await?,
        }
        Ok(Where::Here)
    }

    /// The namespace of what is written, and what the server's own rules for it depend on. What may not be seen has no effect.
    async fn bring_what_rules_look_at(
        self: &Arc<Self>,
        kind: &Arc<Kind>,
        subresource: Subresource,
        namespace: &str,
    ) -> Result<(), Refusal> {
        let kinds = self.registry.kinds();
        if let Some(namespaces) = kinds.group_kind("", "Namespace").filter(|_| !namespace.is_empty()) {
            match self.bring(namespaces, "", namespace).await {
                // Who may not see it may still be at home in it.
                Err(refusal) if refusal.code == 403 && self.registry.db.get(NAMESPACES, namespace).is_some() => (),
                Err(refusal) if refusal.code == 403 => {
                    self.show(namespaces, unknown_namespace(namespace));
                }
                brought => brought?,
            }
        }
        for (group, kind) in kind.strategy.read_kinds(subresource) {
            let Some(kind) = kinds.group_kind(group, kind) else { continue };
            match self.bring_all(kind, if kind.namespaced() { namespace } else { "" }).await {
                Err(refusal) if refusal.code == 403 => (),
                brought => brought?,
            }
        }
        Ok(())
    }

    /// Brings one object here, unless it was written here or is followed.
    async fn bring(&self, kind: &Arc<Kind>, namespace: &str, name: &str) -> Result<(), Refusal> {
        let collection = Collection { resource: kind.store.to_string().into(), namespace: namespace.into() };
        let at = key(namespace, name);
        let is_written = !self.registry.db.is_left_alone(&collection.resource, &at);
        let Some(source) = self.source(kind).filter(|_| !is_written && !self.is_whole(&collection)) else {
            return Ok(());
        };
        match self.upstream.get(&upstream::object_path(&source, namespace, name)).await {
            Ok(object) if is_named(&object, namespace, name) => self.show(&source, object),
            Ok(_) => return Err(Refusal::foreign(&at)),
            Err(refusal) if refusal.is_absent(name) => {
                let whole = self.whole.read().unwrap_or_else(PoisonError::into_inner);
                if !is_in(&whole, &collection) {
                    self.registry.db.show(&collection.resource, &at, UpstreamObject { at: 0, object: None }, false);
                }
            }
            Err(refusal) => return Err(refusal),
        }
        Ok(())
    }

    /// Brings a collection here, unless it is. It goes on if the future is dropped.
    async fn bring_all(self: &Arc<Self>, kind: &Arc<Kind>, namespace: &str) -> Result<(), Refusal> {
        let collection = Collection { resource: kind.store.to_string().into(), namespace: namespace.into() };
        let Some(source) = self.source(kind).filter(|_| !self.is_whole(&collection)) else { return Ok(()) };
        let cell = self
            .collections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(collection.clone())
            .or_default()
            .clone();
        let (live, stop) = (self.clone(), self.stop.clone());
        let work = async move { cell.get_or_try_init(|| live.follow(source, collection)).await.copied() };
        let brought = self.tasks.spawn_on(async move { stop.run_until_cancelled(work).await }, &self.runtime);
        brought.await.ok().flatten().unwrap_or_else(|| Err(Refusal::late()))
    }

    /// Shows an object of the other cluster. One that is none is passed over.
    fn show(&self, kind: &Arc<Kind>, object: Json) {
        let (namespace, name) = (metadata::namespace(&object), metadata::name(&object));
        let collection = Collection { resource: kind.store.to_string().into(), namespace: namespace.into() };
        let at = version(&object);
        let place = key(namespace, name);
        if name.is_empty() {
            return tracing::warn!(resource = %collection.resource, "the cluster told of an object without a name");
        }
        let object = kind.strategy.to_stored(crate::registry::typed(&kind.api_version(), &kind.kind, object));
        let draft = self.registry.db.draft(&collection.resource, &object);
        let whole = self.whole.read().unwrap_or_else(PoisonError::into_inner);
        let shown = UpstreamObject { at, object: Some(draft) };
        self.registry.db.show(&collection.resource, &place, shown, is_in(&whole, &collection));
    }

    /// The kind as which the objects of this kind's store are read in the other cluster, which is that in which they are stored; none if
    /// there is no such resource there, but a definition that was made here.
    fn source(&self, kind: &Arc<Kind>) -> Option<Arc<Kind>> {
        let kinds = self.registry.kinds();
        let mut version = kind.stored_version.as_ref().map(|stored| stored.version.clone());
        if kind.origin() == Origin::Custom {
            let name = format!("{}.{}", kind.plural, kind.group);
            if !self.registry.db.is_left_alone(DEFINITIONS, &name) {
                let definition = self.registry.db.base(DEFINITIONS, &name)?.decode();
                let versions = definition.list("/spec/versions");
                let mut stored = versions.filter(|version| version["storage"] == true);
                version = stored.next().map(|version| version.text("/name").to_owned());
            }
        }
        let found = version.and_then(|version| kinds.resource(&kind.group, &version, &kind.plural));
        Some(found.unwrap_or(kind).clone())
    }

    fn is_whole(&self, collection: &Collection) -> bool {
        is_in(&self.whole.read().unwrap_or_else(PoisonError::into_inner), collection)
    }

    fn has_written_definitions(&self) -> bool {
        self.registry.db.local_writes().iter().any(|written| &*written.resource == DEFINITIONS)
    }
}

/// Whether it is what was asked for.
fn is_named(object: &Json, namespace: &str, name: &str) -> bool {
    object.text("/metadata/namespace") == namespace && object.text("/metadata/name") == name
}

/// Whether a collection, or all of its resource, is among those.
fn is_in(whole: &HashSet<Collection>, collection: &Collection) -> bool {
    whole.contains(collection) || whole.contains(&Collection { namespace: String::new(), ..collection.clone() })
}

fn is_discovery(parts: &[String]) -> bool {
    matches!(parts.first().map(String::as_str), Some("api" | "apis" | "openapi"))
}

/// The version of an object; 0 for one that is no number.
fn version(object: &Json) -> u64 {
    object.text("/metadata/resourceVersion").parse().unwrap_or(0)
}

/// What is asked of the other cluster where such a read is passed on to it: a watch of a collection, or a log, which has no limit even if
/// it is not followed, goes on for as long as somebody listens.
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
    fn a_watch_and_a_log_go_on_and_other_reads_do_not() {
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
