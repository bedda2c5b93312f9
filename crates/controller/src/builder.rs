//! The controller builder.

use std::sync::Arc;

use pintle_meta::{ApiResource, Object, ObjectKey};

use crate::concurrency::Concurrency;
use crate::config::ControllerConfig;
use crate::controller::Controller;
use crate::handler::{EnqueueObject, EnqueueOwner, Handler};
use crate::key::RequestKey;
use crate::reconciler::Reconciler;
use crate::requests::{KeyFilter, Requests};
use crate::source::{Kind, KindSource, Named, Relation, Source};

/// Builds a [`Controller`]. The methods are named as in controller-runtime's builder. `K` is the key type: see
/// [`RequestKey`].
///
/// # Examples
///
/// ```
/// use pintle_controller::{Action, Controller, ControllerConfig, Kind, ReconcileRequest, Trigger, predicate::GenerationChanged};
/// use pintle_informer::{InformerConfig, SharedInformer};
/// use pintle_meta::{ApiResource, PartialObject, Scope};
/// use pintle_testing::{Collection, CollectionConfig};
///
/// let kind = |api_version, kind, plural| {
///     let resource = ApiResource::new(api_version, kind, plural, Scope::Namespaced);
///     let objects = Collection::<PartialObject>::dynamic(resource, CollectionConfig::default());
///     Kind::of(&SharedInformer::new(objects, InformerConfig::default()))
/// };
/// let controller = Controller::of(kind("example.com/v1", "Website", "websites").when(GenerationChanged))
///     .owns(kind("apps/v1", "Deployment", "deployments"))
///     .source(Trigger::new())
///     .config(ControllerConfig { max_concurrent_reconciles: 4, ..ControllerConfig::default() })
///     .reconciler(|_: ReconcileRequest| async { Ok(Action::await_change()) });
/// assert_eq!(controller.name(), "website");
/// ```
#[must_use]
pub struct Builder<K = ObjectKey> {
    name: String,
    /// The kind of the objects that the controller reconciles, or `None` for builders from [`Controller::named`].
    owner: Option<ApiResource>,
    sources: Vec<Named<K>>,
    config: ControllerConfig<K>,
    concurrency: Option<Concurrency>,
    filter: Option<KeyFilter<K>>,
}

impl<K> Builder<K> {
    fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            owner: None,
            sources: Vec::new(),
            config: ControllerConfig::default(),
            concurrency: None,
            filter: None,
        }
    }
}

impl Builder {
    fn of<T: Object>(objects: Kind<T>) -> Self {
        let resource = objects.resource().clone();
        let named = Self::named(resource.kind.to_lowercase());
        Self { owner: Some(resource), ..named }.source(KindSource::new(objects, EnqueueObject, Relation::Main))
    }

    /// Reconciles an object whenever one of its dependents changes. A dependent is an object with a controller
    /// reference to the owner's group, kind and name: see [`EnqueueOwner`].
    ///
    /// # Panics
    ///
    /// Panics if the builder was created with [`Controller::named`], because such a builder has no main kind. Without a
    /// main kind, use [`watches`](Self::watches) with an [`EnqueueOwner`].
    pub fn owns<T: Object>(self, dependents: impl Into<Kind<T>>) -> Self {
        let Some(owner) = &self.owner else {
            panic!(
                "controller {:?} has no kind of its own, so `owns` does not know the owners; use `watches`",
                self.name
            );
        };
        let handler = EnqueueOwner::new(owner);
        self.watches(dependents, handler)
    }
}

impl<K: RequestKey> Builder<K> {
    /// Sets the controller's name in logs and metrics. The default name is the main kind in lower case.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Reconciles the keys that `handler` returns for each event of `objects`.
    ///
    /// An event ends the backoff of a key whose last reconciliation failed. If an event arrives during the
    /// reconciliation or up to 5 s after its failure, the reconciliation may have caused the event. With
    /// [`EnqueueObject`] and [`EnqueueOwner`], an event that the reconciliation may have caused usually only shortens
    /// the backoff. With other handlers, every event ends the backoff. Events that the reconciliation may have caused
    /// shorten or end a key's backoff at most ten times until the key succeeds. [`ControllerConfig::queue`] lists the
    /// exact rules for shortening and ending a backoff.
    pub fn watches<T: Object>(self, objects: impl Into<Kind<T>>, handler: impl Handler<T, K>) -> Self {
        let relation = Relation::of(&handler);
        self.source(KindSource::new(objects.into(), handler, relation))
    }

    /// Reconciles the keys that `source` adds to the queue.
    pub fn source(mut self, source: impl Source<K>) -> Self {
        self.sources.push(Named::new(source));
        self
    }

    /// Sets the controller's configuration.
    pub fn config(mut self, config: ControllerConfig<K>) -> Self {
        self.config = config;
        self
    }

    /// Sets the maximum number of concurrent reconciliations. This limit overrides the limit in the configuration. Pass
    /// a [`Concurrency`] to change the limit while the controller runs.
    pub fn concurrency(mut self, limit: impl Into<Concurrency>) -> Self {
        self.concurrency = Some(limit.into());
        self
    }

    /// Reconciles only keys for which `filter` returns `true`. The filter applies to keys from all sources, including
    /// [`Trigger`](crate::Trigger)s. If several filters are set, a key must pass all filters. The filter is called for
    /// each event, so it must be fast. The filter must be deterministic: it must return the same value on each call
    /// with the same key.
    ///
    /// Use this method to divide keys among several controllers or replicas: see
    /// [`Manager::sharded`](crate::Manager::sharded).
    pub fn only(mut self, filter: impl Fn(&K) -> bool + Send + Sync + 'static) -> Self {
        self.filter = Some(match self.filter.take() {
            None => Arc::new(filter),
            Some(before) => Arc::new(move |key| before(key) && filter(key)),
        });
        self
    }

    /// Sets the reconciler and returns the controller. The controller starts when [`run`](Controller::run) is called.
    pub fn reconciler(self, reconciler: impl Reconciler<K>) -> Controller<K> {
        let concurrency = self.concurrency.unwrap_or_else(|| self.config.max_concurrent_reconciles.into());
        let requests = Requests::new(&self.name, self.filter);
        Controller::new(requests, self.config, concurrency, self.sources, Arc::new(reconciler))
    }
}

impl Controller {
    /// Returns a builder for a controller that reconciles each object of one kind when it changes. Pass a
    /// `&SharedInformer`, or a [`Kind`] to add predicates.
    pub fn of<T: Object>(objects: impl Into<Kind<T>>) -> Builder {
        Builder::of(objects.into())
    }
}

impl<K: RequestKey> Controller<K> {
    /// Returns a builder for a controller without a main kind. The key type can be any [`RequestKey`]. The compiler
    /// infers the key type from the sources and the reconciler's [`ReconcileRequest`](crate::ReconcileRequest). If the
    /// key type is ambiguous, specify it: `Controller::<Tenant>::named("tenants")`.
    pub fn named(name: impl Into<String>) -> Builder<K> {
        Builder::named(name)
    }
}

pintle_meta::debug_struct!(Builder<K: RequestKey> |self| {
    name,
    sources = self.sources.iter().map(Named::name).collect::<Vec<_>>(),
    ..
});
