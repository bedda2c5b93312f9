//! The key types of controllers.

use std::any::{Any, TypeId};
use std::fmt;
use std::hash::Hash;

use pintle_meta::ObjectKey;

use crate::panic::catch;

/// A key that a controller can reconcile, like the request type of controller-runtime's `TypedReconciler`. This trait
/// is implemented for every type that implements the supertraits.
///
/// The default key type is [`ObjectKey`], which identifies one object. Use another key type if several objects are
/// reconciled together, or if the object's name does not identify the work. For example, a key can be the name of a
/// tenant, a pair of cluster and object, or an enum of work items. To create a controller with another key type, use
/// [`Controller::named`](crate::Controller::named). In a controller with another key type, handlers usually map objects
/// to keys with [`EnqueueMapped`](crate::EnqueueMapped).
///
/// Logs, errors and debug pages show an [`ObjectKey`] as `namespace/name`, and a `String` unchanged. Other key types
/// are shown with their `Debug` implementation. Different keys should have different `Debug` output. Keys should
/// contain no secrets.
///
/// The controller compares, hashes and clones keys while it holds a lock, so these operations should be fast and must
/// not panic.
///
/// # Examples
///
/// ```
/// use pintle_controller::{Action, Controller, EnqueueMapped, ReconcileRequest};
/// use pintle_informer::{InformerConfig, SharedInformer};
/// use pintle_meta::{Object, ObjectMeta};
/// use pintle_testing::Collection;
/// use serde::{Deserialize, Serialize};
/// use tokio_util::sync::CancellationToken;
///
/// #[derive(Deserialize, Serialize)]
/// struct Website {
///     metadata: ObjectMeta,
/// }
/// pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
///
/// #[derive(Deserialize, Serialize)]
/// struct Database {
///     metadata: ObjectMeta,
/// }
/// pintle_meta::resource!(Database, "example.com/v1", "Database", "databases", Namespaced);
///
/// /// All objects in the namespaces of a tenant are reconciled together.
/// #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
/// struct Tenant(String);
///
/// fn tenant_of<T: Object>(object: &T) -> Option<Tenant> {
///     let (tenant, _) = object.metadata().namespace().split_once('-')?;
///     Some(Tenant(tenant.into()))
/// }
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let sites = Collection::from([Website { metadata: ObjectMeta::new("acme-prod", "blog") }]);
///     let databases = Collection::from([Database { metadata: ObjectMeta::new("acme-test", "users") }]);
///     let sites = SharedInformer::new(sites, InformerConfig::default());
///     let databases = SharedInformer::new(databases, InformerConfig::default());
///
///     let stop = CancellationToken::new();
///     let done = stop.clone();
///     let controller = Controller::named("tenants")
///         .watches(&sites, EnqueueMapped::new(tenant_of::<Website>))
///         .watches(&databases, EnqueueMapped::new(tenant_of::<Database>))
///         .reconciler(move |request: ReconcileRequest<Tenant>| {
///             assert_eq!(request.key, Tenant("acme".into()));
///             done.cancel();
///             async { Ok(Action::await_change()) }
///         });
///     controller.run(&stop).await?;
///     Ok(())
/// }
/// ```
pub trait RequestKey: Clone + Eq + Ord + Hash + fmt::Debug + Send + Sync + 'static {}

impl<K: Clone + Eq + Ord + Hash + fmt::Debug + Send + Sync + 'static> RequestKey for K {}

pub(crate) fn object_key<K: RequestKey>(key: &K) -> Option<&ObjectKey> {
    (key as &dyn Any).downcast_ref()
}

/// Returns the text form of the key for logs, errors and debug pages. If the key's `Debug` implementation panics, this
/// text reports the panic.
pub(crate) fn text<K: RequestKey>(key: &K) -> String {
    if let Some(key) = object_key(key) {
        return key.to_string();
    }
    if let Some(key) = (key as &dyn Any).downcast_ref::<String>() {
        return key.clone();
    }
    catch(|| format!("{key:?}")).unwrap_or_else(|panic| format!("(a key whose Debug panicked: {panic})"))
}

/// Parses the text form of an [`ObjectKey`] or a `String`. Returns `None` for other key types and for invalid object
/// keys.
pub(crate) fn parse<K: RequestKey>(text: &str) -> Option<K> {
    let key: Box<dyn Any> = if TypeId::of::<K>() == TypeId::of::<ObjectKey>() {
        Box::new(text.parse::<ObjectKey>().ok()?)
    } else {
        Box::new(text.to_owned())
    };
    key.downcast().ok().map(|key| *key)
}

/// Formats a key and catches panics, because a log subscriber may hold a lock while it formats the key.
pub(crate) struct Text<'a, K>(pub(crate) &'a K);

impl<K: RequestKey> fmt::Display for Text<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match object_key(self.0) {
            Some(key) => f.write_str(key.as_str()),
            None => f.write_str(&text(self.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
    struct Panics;

    impl fmt::Debug for Panics {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("the Debug of a test panics")
        }
    }

    #[test]
    fn text_is_the_object_key_the_string_or_debug() {
        let key = ObjectKey::new("team-a", "blog");
        assert_eq!((text(&key), Text(&key).to_string()), ("team-a/blog".into(), "team-a/blog".into()));
        assert_eq!(Text(&"acme".to_owned()).to_string(), "acme");
        assert_eq!(Text(&("eu-1", key)).to_string(), r#"("eu-1", "team-a/blog")"#);
        assert_eq!(Text(&Panics).to_string(), "(a key whose Debug panicked: the Debug of a test panics)");
    }
}
