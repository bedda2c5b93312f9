//! Sets of namespaces that can change while informers run.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

/// A set of namespaces, or all namespaces. The set can change at any time.
/// [Informers](crate::SharedInformer::of_namespaces) that use the set adapt to each change. All clones of a
/// `Namespaces` share one set.
///
/// # Examples
///
/// ```
/// use pintle_informer::{InformerConfig, Namespaces, SharedInformer};
/// use pintle_meta::{ObjectMeta, PartialObject};
/// use pintle_testing::Collection;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Deserialize, Serialize)]
/// struct Website {
///     metadata: ObjectMeta,
/// }
/// pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
///
/// #[tokio::main(flavor = "current_thread", start_paused = true)]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let websites: Collection<Website> =
///         ["a", "b", "c"].map(|namespace| Website { metadata: ObjectMeta::new(namespace, "blog") }).into_iter().collect();
///     let client = websites.client("");
///     let source = move |namespace: Option<&str>| match namespace {
///         Some(namespace) => client.in_namespace(namespace),
///         None => client.clone(),
///     };
///
///     let namespaces = Namespaces::new(["a", "b"]);
///     let informer = SharedInformer::of_namespaces(&namespaces, source, InformerConfig::default());
///     informer.start();
///     informer.wait_for_sync().await?;
///     assert_eq!(informer.lister().len(), 2);
///
///     namespaces.set(["b", "c"]);
///     informer.wait_for_sync().await?;
///     assert!(informer.lister().namespace("a").is_empty());
///     assert_eq!(informer.lister().len(), 2);
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct Namespaces {
    followed: Arc<watch::Sender<Followed>>,
}

#[derive(Clone, Default)]
pub(crate) struct Followed {
    /// The namespaces in the set, or `None` for all namespaces.
    names: Option<BTreeSet<Arc<str>>>,
    /// The number of times the set has changed. A driver detects by this number that a namespace was removed and added
    /// again.
    pub(crate) choice: u64,
}

/// The namespace that a driver watches, or `None` for all objects that the source returns.
pub(crate) type Place = Option<Arc<str>>;

impl Namespaces {
    /// Creates a set that contains these namespaces. Empty names are ignored. An informer of an empty set contains no
    /// objects.
    pub fn new(names: impl IntoIterator<Item: Into<String>>) -> Self {
        Self { followed: Arc::new(watch::Sender::new(Followed { names: Some(set(names)), choice: 0 })) }
    }

    /// Creates a set that contains all namespaces. An informer of this set uses one list and one watch.
    pub fn all() -> Self {
        Self { followed: Arc::default() }
    }

    /// Replaces the namespaces in the set. Informers list the objects in added namespaces, and delete the objects in
    /// removed namespaces from their caches. Namespaces that stay in the set are not affected.
    /// [`wait_for_sync`](crate::SharedInformer::wait_for_sync) waits until an informer's cache matches the new set.
    pub fn set(&self, names: impl IntoIterator<Item: Into<String>>) {
        self.follow(Some(set(names)));
    }

    /// Changes the set to all namespaces. Objects that are already in the cache stay there. Subscribers receive no
    /// events until the list of all namespaces is complete.
    pub fn set_all(&self) {
        self.follow(None);
    }

    /// Returns the namespaces in the set, or `None` for all namespaces.
    pub fn names(&self) -> Option<BTreeSet<String>> {
        self.followed.borrow().names.as_ref().map(|names| names.iter().map(|name| name.to_string()).collect())
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Followed> {
        self.followed.subscribe()
    }

    pub(crate) fn choice(&self) -> u64 {
        self.followed.borrow().choice
    }

    fn follow(&self, names: Option<BTreeSet<Arc<str>>>) {
        self.followed.send_if_modified(|followed| {
            let is_other = followed.names != names;
            if is_other {
                *followed = Followed { names, choice: followed.choice + 1 };
            }
            is_other
        });
    }
}

/// Two `Namespaces` are equal if they are clones of the same set.
impl PartialEq for Namespaces {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.followed, &other.followed)
    }
}

impl fmt::Debug for Namespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Namespaces").field(&self.names()).finish()
    }
}

impl Followed {
    /// Returns the namespaces that need a driver. An entry that is `None` means all namespaces.
    pub(crate) fn places(&self) -> BTreeSet<Place> {
        match &self.names {
            None => BTreeSet::from([None]),
            Some(names) => names.iter().cloned().map(Some).collect(),
        }
    }

    pub(crate) fn has(&self, namespace: Option<&str>) -> bool {
        match &self.names {
            None => true,
            Some(names) => namespace.is_some_and(|namespace| names.contains(namespace)),
        }
    }
}

fn set(names: impl IntoIterator<Item: Into<String>>) -> BTreeSet<Arc<str>> {
    let names = names.into_iter().map(Into::into).filter(|name: &String| !name.is_empty());
    names.map(Arc::from).collect()
}
