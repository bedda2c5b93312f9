//! How a controller is put together.

use std::fmt;
use std::sync::Arc;

use pintle_meta::{ApiResource, Object};

use crate::handler::{EnqueueObject, EnqueueOwner, Handler};
use crate::source::{Kind, KindSource, Named, Source};
use crate::{Controller, ControllerConfig, Reconciler};

/// Puts a [`Controller`] together, in the words of controller-runtime's builder.
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
pub struct Builder {
    name: String,
    /// The kind that it is for, if it is for one.
    owner: Option<ApiResource>,
    sources: Vec<Named>,
    config: ControllerConfig,
}

impl Builder {
    fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), owner: None, sources: Vec::new(), config: ControllerConfig::default() }
    }

    fn of<T: Object>(objects: Kind<T>) -> Self {
        let resource = objects.resource().clone();
        let named = Self::named(resource.kind.to_lowercase());
        Self { owner: Some(resource), ..named }.source(KindSource::new(objects, EnqueueObject, true))
    }

    /// The controller's name in logs and metrics, in place of the kind in lower case.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Reconciles an object whenever one that it manages changes: an object whose controller reference names the group,
    /// kind and name of the other. See [`EnqueueOwner`].
    ///
    /// # Panics
    ///
    /// If the builder comes from [`Controller::named`]: it does not know the owners' kind then. Use [`watches`](Self::watches)
    /// with an [`EnqueueOwner`].
    pub fn owns<T: Object>(self, dependents: impl Into<Kind<T>>) -> Self {
        let Some(owner) = &self.owner else {
            panic!("controller {:?} is for no kind, so `owns` cannot tell whose dependents are meant", self.name);
        };
        let handler = EnqueueOwner::new(owner);
        self.watches(dependents, handler)
    }

    /// Reconciles the keys that `handler` makes of each event.
    pub fn watches<T: Object>(self, objects: impl Into<Kind<T>>, handler: impl Handler<T>) -> Self {
        self.source(KindSource::new(objects.into(), handler, false))
    }

    /// Reconciles the keys that any other source yields.
    pub fn source(mut self, source: impl Source) -> Self {
        self.sources.push(Named::new(source));
        self
    }

    /// How the controller works.
    pub fn config(mut self, config: ControllerConfig) -> Self {
        self.config = config;
        self
    }

    /// The controller. It does nothing before it runs.
    pub fn reconciler(self, reconciler: impl Reconciler) -> Controller {
        Controller::new(self.name, self.config, self.sources, Arc::new(reconciler))
    }
}

impl Controller {
    /// A controller for the objects of one kind: each change of one has it reconciled. A `&SharedInformer` is such a kind, as is
    /// a [`Kind`] that says more.
    pub fn of<T: Object>(objects: impl Into<Kind<T>>) -> Builder {
        Builder::of(objects.into())
    }

    /// A controller that is for no one kind.
    pub fn named(name: impl Into<String>) -> Builder {
        Builder::named(name)
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sources: Vec<_> = self.sources.iter().map(Named::name).collect();
        f.debug_struct("Builder").field("name", &self.name).field("sources", &sources).finish_non_exhaustive()
    }
}
