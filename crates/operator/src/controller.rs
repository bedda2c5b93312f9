//! Controllers that are configured without a cluster.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use pintle_cluster::Cluster;
use pintle_controller::predicate::{DesiredStateChanged, Predicate};
use pintle_controller::{Builder as EngineBuilder, Cleanup, Concurrency, Controller as Engine, ControllerConfig};
use pintle_controller::{EnqueueMapped, Every, Handler, Kind, Source};
use pintle_meta::{LabelSelector, ObjectKey, Resource};
use pintle_metrics::Provider;
use pintle_sharding::Shard;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bound::{Bound, Functions};
use crate::caches::{Caches, Selection};
use crate::context::Context;
use crate::error::OperatorError;
use crate::reconciler::{CleanupFn, GoneFn, Reconciler};
use crate::shared::Shared;
use crate::{Result, names};

/// A controller for objects of type `K`. The controller needs no cluster until a [`Manager`](crate::Manager) runs it.
///
/// [`Controller::new`] starts a [`ControllerBuilder`], and [`reconcile`](ControllerBuilder::reconcile) finishes it.
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

/// A value that a [`Manager`](crate::Manager) can run: a [`Controller`]. A [`ControllerBuilder`] does not implement this trait, because it
/// has no reconciler yet.
///
/// # Examples
///
/// This program does not compile, and the compiler error explains how to fix it:
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

    /// Returns the controller.
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
    /// The functions that [`Controller::bind`] calls: one function for each additional kind and each additional source.
    steps: Vec<Step>,
    finalizer: Option<String>,
    cleanup: Option<CleanupFn<K>>,
    gone: Option<GoneFn<K>>,
    problem: Option<String>,
}

type Filter<K> = Box<dyn FnOnce(Kind<K>) -> Kind<K> + Send>;
type Step = Box<dyn FnOnce(EngineBuilder, &mut Binding<'_>) -> EngineBuilder + Send>;

/// The values that [`Controller::bind`] passes to each of its steps.
struct Binding<'a> {
    cluster: &'a Cluster,
    selection: Selection,
    caches: &'a mut Caches,
}

impl<K: Resource> Controller<K> {
    /// Starts to build a controller for objects of type `K`. By default, the name of the controller is the name of the
    /// kind `K` in lower case.
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
    /// Sets the name of the controller in logs and metrics. Two controllers of one manager must have different names.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the field manager of the controller's writes. The default is the name of the manager. If two controllers of
    /// one manager apply fields of the same object, they need different field managers. With the same field manager,
    /// each apply of one controller would remove the fields that the other controller applied.
    pub fn field_manager(mut self, name: impl Into<String>) -> Self {
        self.field_manager = Some(name.into());
        self
    }

    /// Caches only objects in this namespace. This setting also limits the caches for the other namespaced kinds that the controller uses.
    /// The default is all namespaces.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.selection.namespace = Some(namespace.into());
        self
    }

    /// Reconciles only objects whose labels match `selector`. The selector does not apply to objects of other kinds.
    ///
    /// An object that loses the labels still exists, so the controller does not call [`gone`](Self::gone) for the object. If such an object
    /// has the controller's [finalizer](Self::finalizer), the controller reads the object every minute. When the object is being deleted,
    /// the controller cleans up after the object and removes the finalizer. After a restart, the controller does not know which objects
    /// have lost the labels. Controllers with different selectors need different finalizers.
    pub fn labels(mut self, selector: LabelSelector) -> Self {
        self.selection.labels = selector;
        self
    }

    /// Reconciles an object on the events for which `predicate` returns `true`. The default is [`DesiredStateChanged`]. This predicate
    /// returns `true` for changes of the generation, labels, annotations or finalizers, and for deletions. The predicate returns `false`
    /// for changes that affect only the status.
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
    /// concurrency. If `config` has no metrics provider, the manager's metrics provider is used.
    pub fn config(mut self, config: ControllerConfig) -> Self {
        self.config = config;
        self
    }

    /// Caches the objects of type `T`. When one of these objects changes, the controller reconciles the object's
    /// controller owner. A controller needs this declaration to [`apply`](Context::apply) or
    /// [`create`](Context::create) such objects. [`watches`](Self::watches) and [`reads`](Self::reads) are not enough.
    pub fn owns<T: Resource + DeserializeOwned>(mut self) -> Self {
        self.steps.push(Box::new(|engine, binding| {
            let children = binding.caches.open::<T>(binding.cluster, &binding.others());
            binding.caches.own(&children);
            engine.owns(&children.informer)
        }));
        self
    }

    /// Caches the objects of type `T`. When one of these objects changes, the controller reconciles the keys that `map`
    /// returns for the changed object. For an update, `map` is called for both the old and the new state.
    pub fn watches<T, Keys>(mut self, map: impl Fn(&T) -> Keys + Send + Sync + 'static) -> Self
    where
        T: Resource + DeserializeOwned,
        Keys: IntoIterator<Item = ObjectKey>,
    {
        self.steps.push(Box::new(|engine, binding| {
            let others = binding.caches.open::<T>(binding.cluster, &binding.others());
            engine.watches(&others.informer, EnqueueMapped::new(map))
        }));
        self
    }

    /// Caches the objects of type `T`, and passes each change to `handler`, which returns the keys to reconcile. For an update, the handler
    /// can compare the old and the new state. If the keys depend on only one state, use [`watches`](Self::watches).
    ///
    /// # Examples
    ///
    /// Reconciles a ConfigMap's website only if the ConfigMap's data has changed:
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
        self.steps.push(Box::new(|engine, binding| {
            let others = binding.caches.open::<T>(binding.cluster, &binding.others());
            engine.watches(&others.informer, handler)
        }));
        self
    }

    /// Caches the objects of type `T` for reads. Changes of these objects do not trigger reconciliations.
    pub fn reads<T: Resource + DeserializeOwned>(mut self) -> Self {
        self.steps.push(Box::new(|engine, binding| {
            let others = binding.caches.open::<T>(binding.cluster, &binding.others());
            // This no-op handler makes the controller wait until this cache has synced before it reconciles any object.
            engine.watches(&others.informer, EnqueueMapped::new(|_: &T| None::<ObjectKey>))
        }));
        self
    }

    /// Reconciles the keys that an additional source adds, such as a [`Trigger`](pintle_controller::Trigger).
    pub fn source(mut self, source: impl Source) -> Self {
        self.steps.push(Box::new(|engine, _| engine.source(source)));
        self
    }

    /// Also reconciles each object after each period, even if the object has not changed. Use this method if the reconciler compares the
    /// object with a system that does not report changes. Reconciliations from the timer have a low priority, so changed objects come
    /// first. See [`Every`](pintle_controller::Every).
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

    /// Adds the finalizer to each object before its first reconciliation, and calls [`Reconciler::cleanup`] before the object is deleted.
    /// The finalizer is a domain-qualified name such as `example.com/dns`. A controller has at most one finalizer. The manager does not
    /// start if a controller has two finalizers or an invalid finalizer.
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

    /// Adds the finalizer to each object before its first reconciliation. Before the object is deleted, calls `cleanup` until it returns
    /// [`Cleanup::Done`]. `cleanup` must be idempotent. [`finalizer`](Self::finalizer) describes valid finalizers.
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

    /// Calls `gone` when an object no longer exists, as [`Reconciler::gone`] describes.
    pub fn gone<Fut>(self, gone: impl Fn(ObjectKey, Context<K>) -> Fut + Send + Sync + 'static) -> Self
    where
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        Self { gone: Some(Box::new(move |key, cx| Box::pin(gone(key, cx)))), ..self }
    }

    /// Sets the reconciler and returns the finished controller. The reconciler is an `async fn(Arc<K>, Context<K>) ->
    /// Result<Action>`, or a type that implements [`Reconciler`].
    pub fn reconcile(mut self, reconciler: impl Reconciler<K>) -> Controller<K> {
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
    /// Connects the controller to a cluster, and starts its informers.
    ///
    /// With a `shard`, the controller processes only the keys of this shard.
    pub(crate) fn bind(self, surroundings: &Surroundings, shard: Option<Shard>) -> Engine {
        let Self { builder, functions } = self;
        let ControllerBuilder { mut name, field_manager, selection, filter, mut config, concurrency, steps, .. } =
            builder;
        if let Some(shard) = shard {
            name = format!("{name}-shard-{}", shard.index());
        }
        let cluster = &surroundings.cluster;
        let is_selective = !selection.labels.is_everything();
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
        engine.reconciler(Bound { shared: Arc::new(shared), objects, functions })
    }
}

impl Binding<'_> {
    /// Returns the selection for all kinds except the reconciled kind.
    fn others(&self) -> Selection {
        Selection { namespace: self.selection.namespace.clone(), ..Selection::default() }
    }
}

impl<K: Resource> fmt::Debug for Controller<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller").field("name", &self.builder.name).field("kind", &K::KIND).finish_non_exhaustive()
    }
}

impl<K: Resource> fmt::Debug for ControllerBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerBuilder").field("name", &self.name).field("kind", &K::KIND).finish_non_exhaustive()
    }
}
