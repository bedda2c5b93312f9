//! The context of a reconciliation.

mod conditions;
mod reads;
mod rivals;
mod writes;

use std::sync::{Arc, OnceLock};

use pintle_cluster::Cluster;
use pintle_controller::ReconcileRequest;
use pintle_events::{EventRecorder, EventType, ObjectReference};
use pintle_leaderelect::Leadership;
use pintle_meta::__private::Mutex;
use pintle_meta::{ObjectKey, OwnerReference, Resource};

use crate::applied::Applied;
use crate::own_conditions;
use crate::shared::Shared;

/// Provides cached reads, writes, conditions and Events for the reconciliation of an object of type `K`.
///
/// - **Reads** use the caches of the kinds that are declared with [`owns`](crate::ControllerBuilder::owns),
///   [`watches`](crate::ControllerBuilder::watches) or [`reads`](crate::ControllerBuilder::reads). Reads immediately
///   reflect the controller's own writes. By default, reads use the namespace of the reconciled object. Use
///   [`get_in`](Self::get_in) and [`list_in`](Self::list_in) to read from another namespace. Reading a kind that is not
///   declared returns a terminal error that explains how to declare the kind.
/// - **Writes** are sent only while this replica is the leader. At the end of the leadership term, the context cancels
///   writes in flight, even if they are awaited in another task.
/// - **Applies** send no request if the object would not change.
///
/// Clones share the same context.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use pintle_meta::{Conditions, ObjectMeta};
/// use pintle_operator::{Action, Context, Result};
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
/// #[derive(Serialize)]
/// struct Status {
///     conditions: Conditions,
/// }
///
/// async fn publish(site: Arc<Website>, cx: Context<Website>) -> Result<Action> {
///     cx.apply(ConfigMap { metadata: ObjectMeta::new("", &site.metadata.name) }).await?;
///     cx.apply_status(Status { conditions: cx.ready("Published") }).await?;
///     Ok(Action::await_change())
/// }
/// ```
pub struct Context<K: Resource> {
    shared: Arc<Shared<K>>,
    call: Arc<Call<K>>,
}

struct Call<K> {
    request: ReconcileRequest,
    /// The reconciled object, or `None` if the object no longer exists.
    object: Option<Arc<K>>,
    /// The last applies of the reconciled object's children and status. Initialized lazily, because most
    /// reconciliations apply nothing.
    applied: OnceLock<Arc<Mutex<Applied>>>,
    conditions: Mutex<own_conditions::Used>,
}

impl<K: Resource> Clone for Context<K> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), call: self.call.clone() }
    }
}

impl<K: Resource> Context<K> {
    pub(crate) fn new(shared: Arc<Shared<K>>, request: ReconcileRequest, object: Option<Arc<K>>) -> Self {
        let call = Call { request, object, applied: OnceLock::new(), conditions: Mutex::default() };
        Self { shared, call: Arc::new(call) }
    }

    /// Returns the key of the reconciled object.
    pub fn key(&self) -> &ObjectKey {
        &self.call.request.key
    }

    /// Returns the number of consecutive failures of the key.
    pub fn failures(&self) -> u32 {
        self.call.request.failures
    }

    /// Returns the leadership term of this reconciliation, or `None` without leader election.
    pub fn leadership(&self) -> Option<&Leadership> {
        self.call.request.leadership.as_ref()
    }

    /// Returns the reconciled object's cluster. Requests that the reconciler sends directly through the cluster are not
    /// cancelled at the end of the leadership term.
    pub fn cluster(&self) -> &Cluster {
        &self.shared.cluster
    }

    /// Returns the field manager of this context's writes.
    pub fn field_manager(&self) -> &str {
        &self.shared.field_manager
    }

    /// Returns a controller reference to the reconciled object. Returns `None` if the object no longer exists.
    /// [`apply`](Self::apply) and [`create`](Self::create) add a controller reference to each child.
    pub fn owner_reference(&self) -> Option<OwnerReference> {
        self.call.object.as_deref().map(OwnerReference::controller_of)
    }

    /// Records an Event about the reconciled object. `reason` is a single word in UpperCamelCase. `message` is a
    /// human-readable sentence.
    pub fn event(&self, event_type: EventType, reason: &str, message: impl Into<String>) {
        if let Some(object) = self.call.object.as_deref() {
            self.recorder().event(ObjectReference::from(object), event_type, reason, message);
        }
    }

    /// Returns the Event recorder, for Events about other objects or Events with more fields.
    pub fn recorder(&self) -> &EventRecorder {
        &self.shared.recorder
    }

    fn is_reconciled(&self, uid: &str) -> bool {
        self.call.object.as_ref().is_some_and(|object| object.uid() == uid)
    }

    fn applied<R>(&self, with: impl FnOnce(&mut Applied) -> R) -> R {
        with(&mut self.all_applied().lock())
    }

    fn all_applied(&self) -> &Mutex<Applied> {
        self.call.applied.get_or_init(|| self.shared.applied_for(&self.call.request))
    }
}

pintle_meta::debug_struct!(Context<K: Resource> |self| { controller = self.shared.name, request = self.call.request });
