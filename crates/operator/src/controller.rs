//! Controllers that can be configured before they are connected to a cluster.

use std::any::TypeId;
use std::collections::HashSet;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use pintle_cluster::Cluster;
use pintle_controller::predicate::{DesiredStateChanged, Predicate};
use pintle_controller::{Builder as EngineBuilder, Cleanup, Concurrency, Controller as Engine, ControllerConfig};
use pintle_controller::{EnqueueMapped, Every, Handler, Kind, Source};
use pintle_meta::__private::Mutex;
use pintle_meta::{FieldSelector, LabelSelector, ObjectKey, Resource, ResourceScope, Scope};
use pintle_metrics::Provider;
use pintle_sharding::Shard;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bound::{Bound, Functions};
use crate::caches::{Caches, Selection};
use crate::context::Context;
use crate::error::OperatorError;
use crate::reconciler::{CleanupFn, GoneFn, Reconciler};
use crate::references::{self, EnqueueReferrers, ListFn, Reference};
use crate::shared::Shared;
use crate::{Result, names};

/// A controller for objects of type `K`. The controller is connected to a cluster when a [`Manager`](crate::Manager)
/// runs it.
///
/// [`Controller::new`] returns a [`ControllerBuilder`]. [`ControllerBuilder::reconcile`] returns the finished
/// controller.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use pintle_meta::ObjectMeta;
/// use pintle_operator::{Action, Cleanup, Context, Controller, Result};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Deserialize, Serialize)]
/// struct Website {
///     metadata: ObjectMeta,
/// }
/// pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
///
/// #[derive(Deserialize, Serialize)]
/// struct ConfigMap {
///     metadata: ObjectMeta,
/// }
/// pintle_meta::resource!(ConfigMap, "v1", "ConfigMap", "configmaps", Namespaced);
///
/// async fn publish(site: Arc<Website>, cx: Context<Website>) -> Result<Action> {
///     cx.apply(ConfigMap { metadata: ObjectMeta::new("", &site.metadata.name) }).await?;
///     Ok(Action::await_change())
/// }
///
/// async fn retire(_site: Arc<Website>, _cx: Context<Website>) -> Result<Cleanup> {
///     Ok(Cleanup::Done)
/// }
///
/// let controller = Controller::<Website>::new()
///     .owns::<ConfigMap>()
///     .cleanup("example.com/dns", retire)
///     .concurrency(4)
///     .reconcile(publish);
/// assert_eq!(controller.name(), "website");
/// ```
#[must_use = "a controller does nothing until a manager runs it"]
pub struct Controller<K: Resource> {
    builder: ControllerBuilder<K>,
    functions: Functions<K>,
}

/// A controller that a [`Manager`](crate::Manager) can run. [`Controller`] implements this trait. [`ControllerBuilder`]
/// does not implement this trait, because it has no reconciler yet.
///
/// # Examples
///
/// The following program does not compile. The compiler error explains how to fix it:
///
/// ```compile_fail,E0277
/// # use pintle_meta::ObjectMeta;
/// # use pintle_operator::{Controller, Manager};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Deserialize, Serialize)]
/// # struct Website {
/// #     metadata: ObjectMeta,
/// # }
/// # pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
/// fn with_sites(manager: Manager) -> Manager {
///     manager.controller(Controller::<Website>::new())
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a finished controller",
    label = "this controller has no reconciler",
    note = "finish the builder with `.reconcile(function)`",
    note = "the function is an `async fn(Arc<K>, Context<K>) -> pintle::Result<Action>`, where `K` is your resource"
)]
pub trait FinishedController {
    /// The type of the reconciled objects.
    type Kind: Resource + Serialize + DeserializeOwned;

    /// Returns the finished controller.
    fn finished(self) -> Controller<Self::Kind>;
}

impl<K: Resource + Serialize + DeserializeOwned> FinishedController for Controller<K> {
    type Kind = K;

    fn finished(self) -> Self {
        self
    }
}

/// Builds a [`Controller`].
#[must_use = "a builder does nothing until `reconcile` finishes it"]
pub struct ControllerBuilder<K: Resource> {
    name: String,
    field_manager: Option<String>,
    selection: Selection,
    filter: Filter<K>,
    config: ControllerConfig,
    concurrency: Option<Concurrency>,
    steps: Vec<Step>,
    /// The types that the controller owns, watches or reads.
    used: HashSet<TypeId>,
    /// Whether `K` or a used type is namespaced.
    has_namespaced: bool,
    finalizer: Option<String>,
    cleanup: Option<CleanupFn<K>>,
    gone: Option<GoneFn<K>>,
    problem: Option<String>,
}

type Filter<K> = Box<dyn FnOnce(Kind<K>) -> Kind<K> + Send>;
type Step = Box<dyn FnOnce(EngineBuilder, &mut Binding<'_>) -> EngineBuilder + Send>;

struct Binding<'a> {
    cluster: &'a Cluster,
    selection: Selection,
    caches: &'a mut Caches,
}

impl<K: Resource> Controller<K> {
    /// Returns a builder for a controller of objects of type `K`. By default, the controller has the name of the kind
    /// `K` in lower case.
    #[expect(clippy::new_ret_no_self, reason = "a controller without a reconciler does not exist")]
    pub fn new() -> ControllerBuilder<K> {
        ControllerBuilder {
            name: K::KIND.to_lowercase(),
            field_manager: None,
            selection: Selection::default(),
            filter: Box::new(|kind| kind.when(DesiredStateChanged)),
            config: ControllerConfig::default(),
            concurrency: None,
            steps: Vec::new(),
            used: HashSet::new(),
            has_namespaced: K::Scope::SCOPE == Scope::Namespaced,
            finalizer: None,
            cleanup: None,
            gone: None,
            problem: None,
        }
    }

    /// Returns the name of the controller.
    pub fn name(&self) -> &str {
        &self.builder.name
    }

    pub(crate) fn fault(&self) -> Option<OperatorError> {
        let (controller, problem) = (self.builder.name.clone(), self.builder.problem.clone()?);
        Some(OperatorError::Controller { controller, problem })
    }
}

impl<K: Resource> ControllerBuilder<K> {
    /// Sets the name of the controller in logs and metrics. Controllers of the same manager must have different names.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the field manager of the controller's writes. The default is the manager's name. Two controllers of a
    /// manager need different field managers if they apply fields of the same object. With the same field manager, each
    /// apply would remove the fields that the other controller has applied.
    pub fn field_manager(mut self, name: impl Into<String>) -> Self {
        self.field_manager = Some(name.into());
        self
    }

    /// Caches only the objects in one namespace. The namespace also applies to the caches of all other namespaced kinds
    /// that the controller uses. The default is all namespaces. If all kinds that the controller uses are
    /// cluster-scoped, the namespace has no effect, and a warning is logged. If the namespace is empty, the manager does
    /// not start.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        let namespace = namespace.into();
        if namespace.is_empty() {
            let advice = "omit `.namespace(…)` to use all namespaces";
            self.problem.get_or_insert(format!("its namespace is empty; {advice}"));
        }
        self.selection.namespace = Some(namespace);
        self
    }

    /// Reconciles only objects whose labels match `selector`. The selector is used only for the reconciled kind.
    ///
    /// If an object loses the labels, it still exists, so [`gone`](Self::gone) is not called. If an object without the
    /// labels has the controller's [finalizer](Self::finalizer), the controller reads the object once a minute. When an
    /// object without the labels is being deleted, the controller cleans up and removes the finalizer. After a restart,
    /// the controller does not know the objects that have lost the labels. Controllers with different selectors must
    /// use different finalizers.
    pub fn labels(mut self, selector: LabelSelector) -> Self {
        self.selection.labels = selector;
        self
    }

    /// Reconciles only objects whose fields match `selector`, such as the Pods of a node with `spec.nodeName=a`. The API
    /// server supports only some fields: `metadata.name`, `metadata.namespace`, and the fields that the kind or its
    /// CustomResourceDefinition declares as selectable. The selector applies only to the reconciled kind. The controller
    /// treats objects that no longer match the selector like objects that lose their [labels](Self::labels).
    pub fn fields(mut self, selector: FieldSelector) -> Self {
        self.selection.fields = selector;
        self
    }

    /// Caches only objects of type `T` whose labels match `selector`. `T` is a kind that the controller
    /// [owns](Self::owns), [watches](Self::watches) or [reads](Self::reads). If the controller does not use `T`, the
    /// manager does not start. The context returns no other objects, so it is a terminal error to
    /// [apply](Context::apply) or [create](Context::create) an object without these labels.
    ///
    /// # Examples
    ///
    /// This controller caches only Secrets with the label `app=website`:
    ///
    /// ```
    /// use pintle_meta::{InvalidSelector, ObjectMeta};
    /// use pintle_operator::{Controller, ControllerBuilder};
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Deserialize, Serialize)]
    /// struct Secret {
    ///     metadata: ObjectMeta,
    /// }
    /// pintle_meta::resource!(Secret, "v1", "Secret", "secrets", Namespaced);
    /// # #[derive(Deserialize, Serialize)]
    /// # struct Website {
    /// #     metadata: ObjectMeta,
    /// # }
    /// # pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
    ///
    /// fn websites() -> Result<ControllerBuilder<Website>, InvalidSelector> {
    ///     Ok(Controller::new().owns::<Secret>().labels_of::<Secret>("app=website".parse()?))
    /// }
    /// # websites().unwrap();
    /// ```
    pub fn labels_of<T: Resource>(mut self, selector: LabelSelector) -> Self {
        if TypeId::of::<T>() == TypeId::of::<K>() {
            return self.labels(selector);
        }
        self.selection.labels_of.insert(TypeId::of::<T>(), (T::KIND, selector));
        self
    }

    /// Reconciles an object only on the events that `predicate` accepts. The default is [`DesiredStateChanged`].
    /// [`DesiredStateChanged`] accepts changes of the generation, labels, annotations or finalizers, and deletions.
    /// [`DesiredStateChanged`] rejects changes that affect only the status.
    pub fn when(mut self, predicate: impl Predicate<K>) -> Self {
        self.filter = Box::new(|kind| kind.when(predicate));
        self
    }

    /// Sets the maximum number of concurrent reconciliations. The default limit is 1. Pass a [`Concurrency`] to change
    /// the limit while the controller runs.
    pub fn concurrency(mut self, limit: impl Into<Concurrency>) -> Self {
        self.concurrency = Some(limit.into());
        self
    }

    /// Sets the configuration of the underlying [`pintle_controller::Controller`], such as timeouts, the queue and the
    /// concurrency. If `config` contains no metrics provider, the manager's provider is used.
    pub fn config(mut self, config: ControllerConfig) -> Self {
        self.config = config;
        self
    }

    /// Caches objects of type `T`. When an object of type `T` changes, the controller reconciles the owner in the
    /// object's controller reference. This method is required for types that the controller writes with
    /// [`apply`](Context::apply) or [`create`](Context::create). [`watches`](Self::watches) and [`reads`](Self::reads)
    /// are not sufficient for applies and creates.
    ///
    /// A namespaced object cannot own a cluster-scoped object. If `K` is namespaced and `T` is cluster-scoped, the manager
    /// does not start.
    pub fn owns<T: Resource + DeserializeOwned>(mut self) -> Self {
        if K::Scope::SCOPE == Scope::Namespaced && T::Scope::SCOPE == Scope::Cluster {
            let (owner, child) = (K::KIND, T::KIND);
            self.problem.get_or_insert(format!(
                "it owns {child}, which is cluster-scoped, but {owner} is namespaced, so it cannot own {child}; use \
                 `.watches` and `Context::apply_unowned`, and delete the objects in a `.cleanup`"
            ));
        }
        self.uses::<T>();
        self.steps.push(Box::new(|engine, binding| {
            let children = binding.caches.open::<T>(binding.cluster, &binding.selection.others());
            binding.caches.own(&children);
            engine.owns(&children.informer)
        }));
        self
    }

    /// Caches objects of type `T`. When an object of type `T` changes, the controller reconciles the keys that `map`
    /// returns for the object. For an update, `map` is called with the old object and with the new object.
    ///
    /// If the reconciled objects contain the names of these objects, use [`references`](Self::references).
    pub fn watches<T>(self, map: impl ListFn<T, List: IntoIterator<Item = ObjectKey>>) -> Self
    where
        T: Resource + DeserializeOwned,
    {
        self.watches_with(EnqueueMapped::new(map))
    }

    /// Caches objects of type `T`. Passes each change to `handler`, which returns the keys to reconcile. For an update,
    /// the handler can compare the old and the new object. If the keys can be found without comparing two states, use
    /// [`watches`](Self::watches).
    ///
    /// # Examples
    ///
    /// This handler reconciles the website of a ConfigMap only if the data of the ConfigMap has changed:
    ///
    /// ```
    /// use std::collections::BTreeMap;
    ///
    /// use pintle_informer::ResourceEvent;
    /// use pintle_meta::{ObjectKey, ObjectMeta};
    /// use pintle_operator::{ControllerBuilder, Controller};
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Deserialize, Serialize)]
    /// struct ConfigMap {
    ///     metadata: ObjectMeta,
    ///     #[serde(default)]
    ///     data: BTreeMap<String, String>,
    /// }
    /// pintle_meta::resource!(ConfigMap, "v1", "ConfigMap", "configmaps", Namespaced);
    /// # #[derive(Deserialize, Serialize)]
    /// # struct Website {
    /// #     metadata: ObjectMeta,
    /// # }
    /// # pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
    ///
    /// fn websites() -> ControllerBuilder<Website> {
    ///     Controller::new().watches_with(|event: &ResourceEvent<ConfigMap>, enqueue: &mut dyn FnMut(ObjectKey)| match event {
    ///         ResourceEvent::Updated { old, new } if old.data == new.data => {}
    ///         event => enqueue(event.key()),
    ///     })
    /// }
    /// ```
    pub fn watches_with<T>(mut self, handler: impl Handler<T>) -> Self
    where
        T: Resource + DeserializeOwned,
    {
        self.uses::<T>();
        self.steps.push(Box::new(|engine, binding| {
            let others = binding.caches.open::<T>(binding.cluster, &binding.selection.others());
            engine.watches(&others.informer, handler)
        }));
        self
    }

    /// Caches objects of type `T`. When an object of type `T` changes, the controller reconciles the objects that refer to it:
    /// `references` returns the objects of type `T` that an object of type `K` refers to. A reference is a name, or an
    /// [`ObjectKey`] for objects in other namespaces. A name refers to an object in the namespace of the referring object,
    /// or to a cluster-scoped object.
    ///
    /// The controller finds the referring objects with an index, so a change does not scan the cache. The referenced
    /// object does not have to exist: its creation and its deletion are changes. If `K` is cluster-scoped, `T` is
    /// namespaced, and the references are names, the manager does not start.
    ///
    /// If `references` panics for an object, the panic is logged and counted, and changes of `T` do not reconcile this
    /// object.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use pintle_meta::ObjectMeta;
    /// use pintle_operator::{Action, Context, Controller, Result};
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Deserialize, Serialize)]
    /// struct Website {
    ///     metadata: ObjectMeta,
    ///     certificate: Option<String>,
    /// }
    /// pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
    ///
    /// #[derive(Deserialize, Serialize)]
    /// struct Secret {
    ///     metadata: ObjectMeta,
    /// }
    /// pintle_meta::resource!(Secret, "v1", "Secret", "secrets", Namespaced);
    ///
    /// async fn publish(site: Arc<Website>, cx: Context<Website>) -> Result<Action> {
    ///     let Some(name) = &site.certificate else { return Ok(Action::await_change()) };
    ///     let certificate = cx.get::<Secret>(name)?;
    ///     println!("the certificate exists: {}", certificate.is_some());
    ///     Ok(Action::await_change())
    /// }
    ///
    /// Controller::<Website>::new().references::<Secret>(|site| site.certificate.clone()).reconcile(publish);
    /// ```
    pub fn references<T>(mut self, references: impl ListFn<K, List: IntoIterator<Item: Reference>>) -> Self
    where
        T: Resource + DeserializeOwned,
        K: DeserializeOwned,
    {
        if let Some(problem) = references::problem::<K, T, _>(&references) {
            self.problem.get_or_insert(problem);
        }
        self.uses::<T>();
        self.steps.push(Box::new(move |engine, binding| {
            let objects = binding.caches.open::<K>(binding.cluster, &binding.selection);
            let others = binding.caches.open::<T>(binding.cluster, &binding.selection.others());
            engine.watches(&others.informer, EnqueueReferrers::new::<T>(&objects, references))
        }));
        self
    }

    /// Caches objects of type `T` for reads. Changes of these objects do not cause reconciliations.
    pub fn reads<T: Resource + DeserializeOwned>(self) -> Self {
        // With this handler, which returns no keys, the controller waits until the cache has synced.
        self.watches_with(EnqueueMapped::new(|_: &T| None::<ObjectKey>))
    }

    /// Reconciles the keys of an additional source, such as a [`Trigger`](pintle_controller::Trigger).
    pub fn source(mut self, source: impl Source) -> Self {
        self.steps.push(Box::new(|engine, _| engine.source(source)));
        self
    }

    /// Also reconciles each object periodically, even if the object has not changed. Use this method if the reconciler
    /// depends on a system that does not report changes. Periodic reconciliations have a low priority, so changed
    /// objects are reconciled first. See [`Every`](pintle_controller::Every).
    pub fn every(mut self, period: Duration) -> Self
    where
        K: DeserializeOwned,
    {
        self.steps.push(Box::new(move |engine, binding| {
            let lister = binding.caches.open::<K>(binding.cluster, &binding.selection).informer.lister();
            engine.source(Every::keys(period, move || lister.list().into_iter().map(|object| object.key())))
        }));
        self
    }

    /// Adds a finalizer to each object before its first reconciliation, and calls [`Reconciler::cleanup`] before the
    /// object is deleted. A finalizer has a domain-qualified name, such as `example.com/dns`. A controller can have
    /// only one finalizer. If a controller has two finalizers or an invalid finalizer, the manager does not start.
    ///
    /// If the metadata type of `K` does not [support finalizers](pintle_meta::Metadata::supports_finalizers), each
    /// reconciliation fails with a terminal error.
    pub fn finalizer(mut self, finalizer: impl Into<String>) -> Self {
        let finalizer = finalizer.into();
        if !names::is_finalizer(&finalizer) {
            let problem =
                format!("{finalizer:?} is not a finalizer; use a domain and a name, such as \"example.com/dns\"");
            self.problem.get_or_insert(problem);
        }
        if let Some(first) = &self.finalizer {
            let advice = "call both cleanups in one function, or use two controllers with different names";
            self.problem.get_or_insert(format!("it has the finalizers {first:?} and {finalizer:?}; {advice}"));
        }
        self.finalizer = Some(finalizer);
        self
    }

    /// Adds a finalizer to each object before its first reconciliation. Before the object is deleted, `cleanup` is
    /// called until it returns [`Cleanup::Done`]. `cleanup` must be idempotent, as [`Reconciler::cleanup`] describes.
    /// [`finalizer`](Self::finalizer) describes valid finalizers.
    pub fn cleanup<Fut>(
        self,
        finalizer: impl Into<String>,
        cleanup: impl Fn(Arc<K>, Context<K>) -> Fut + Send + Sync + 'static,
    ) -> Self
    where
        Fut: Future<Output = Result<Cleanup>> + Send + 'static,
    {
        let cleanup: CleanupFn<K> = Box::new(move |object, cx| Box::pin(cleanup(object, cx)));
        Self { cleanup: Some(cleanup), ..self.finalizer(finalizer) }
    }

    /// Calls `gone` when an object no longer exists: see [`Reconciler::gone`].
    pub fn gone<Fut>(self, gone: impl Fn(ObjectKey, Context<K>) -> Fut + Send + Sync + 'static) -> Self
    where
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        Self { gone: Some(Box::new(move |key, cx| Box::pin(gone(key, cx)))), ..self }
    }

    fn uses<T: Resource>(&mut self) {
        self.used.insert(TypeId::of::<T>());
        self.has_namespaced |= T::Scope::SCOPE == Scope::Namespaced;
    }

    /// Sets the reconciler and returns the finished controller. The reconciler is a function `async fn(Arc<K>,
    /// Context<K>) -> Result<Action>`, or a type that implements [`Reconciler`].
    pub fn reconcile(mut self, reconciler: impl Reconciler<K>) -> Controller<K> {
        let mut unused = self.selection.labels_of.iter().filter(|(kind, _)| !self.used.contains(*kind));
        if let Some((_, (kind, _))) = unused.next() {
            let advice = format!("add `.owns::<{kind}>()`, `.watches` or `.reads::<{kind}>()`");
            self.problem.get_or_insert(format!("it has labels of {kind}, but does not use this kind; {advice}"));
        }
        if let Some(namespace) = self.selection.namespace.as_deref().filter(|_| !self.has_namespaced) {
            // Do not fail, because a program may set the namespace of all its controllers with one flag.
            let (controller, kind) = (&self.name, K::KIND);
            tracing::warn!(
                controller,
                namespace,
                "the namespace has no effect, because the controller uses no namespaced kind, and {kind} is cluster-scoped"
            );
        }
        let functions = Functions {
            reconciler: Arc::new(reconciler),
            finalizer: self.finalizer.take(),
            cleanup: self.cleanup.take(),
            gone: self.gone.take(),
        };
        Controller { builder: self, functions }
    }
}

#[derive(Clone)]
pub(crate) struct Surroundings {
    pub(crate) cluster: Cluster,
    pub(crate) name: String,
    pub(crate) metrics: Arc<dyn Provider>,
}

impl<K: Resource + Serialize + DeserializeOwned> Controller<K> {
    /// Connects the controller to a cluster and starts its informers.
    ///
    /// If `shard` is `Some`, the controller processes only keys of this shard.
    pub(crate) fn bind(self, surroundings: &Surroundings, shard: Option<Shard>) -> Engine {
        let Self { builder, functions } = self;
        let ControllerBuilder { mut name, field_manager, selection, filter, mut config, concurrency, steps, .. } =
            builder;
        if let Some(shard) = shard {
            name = format!("{name}-shard-{}", shard.index());
        }
        let cluster = &surroundings.cluster;
        let is_selective = !selection.labels.is_everything() || !selection.fields.is_everything();
        let mut caches = Caches::new(&name);
        let objects = caches.open::<K>(cluster, &selection);
        config.metrics = config.metrics.or_else(|| Some(surroundings.metrics.clone()));
        let mut engine = Engine::of(filter(Kind::of(&objects.informer))).name(&name).config(config);
        if let Some(shard) = shard {
            engine = engine.only(move |key| shard.has_key(key));
        }
        if let Some(limit) = concurrency {
            engine = engine.concurrency(limit);
        }
        for step in steps {
            let mut binding = Binding { cluster, selection: selection.clone(), caches: &mut caches };
            engine = step(engine, &mut binding);
        }
        let shared = Shared {
            recorder: cluster.recorder(&surroundings.name),
            field_manager: field_manager.unwrap_or_else(|| surroundings.name.clone()),
            cluster: cluster.clone(),
            name,
            caches,
            applied: Default::default(),
            rivals: Default::default(),
            kind: PhantomData,
            is_selective,
        };
        engine.reconciler(Bound { shared: Arc::new(shared), objects, functions, cleaned_up: Mutex::default() })
    }
}

pintle_meta::debug_struct!(Controller<K: Resource> |self| { name = self.builder.name, kind = K::KIND, .. });

pintle_meta::debug_struct!(ControllerBuilder<K: Resource> { name, kind = K::KIND, .. });
