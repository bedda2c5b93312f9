//! The namespaces that informers follow, which may change while they run.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

/// Namespaces to follow: a set of them, or all. It may change at any time, and all informers that were made
/// [of it](crate::SharedInformer::of_namespaces) go with it. Clones are handles to one set.
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

/// What there is to follow.
#[derive(Clone, Default)]
pub(crate) struct Followed {
    /// None: all.
    names: Option<BTreeSet<Arc<str>>>,
    /// How often these have changed. So what was left and is followed again is told from what was followed all the time.
    pub(crate) choice: u64,
}

/// What a driver follows: one of several namespaces, or, where there is none, all that there is to follow.
pub(crate) type Place = Option<Arc<str>>;

impl Namespaces {
    /// These. Without any, nothing is followed; and nothing is in a namespace of an empty name.
    pub fn new(names: impl IntoIterator<Item: Into<String>>) -> Self {
        Self { followed: Arc::new(watch::Sender::new(Followed { names: Some(set(names)), choice: 0 })) }
    }

    /// All of them, by one list and one watch.
    pub fn all() -> Self {
        Self { followed: Arc::default() }
    }

    /// Follows these from now on. What is in others is told as deleted, and what is in those that are new is listed and told as added;
    /// of the rest nobody notices anything. [`wait_for_sync`](crate::SharedInformer::wait_for_sync) waits for that.
    pub fn set(&self, names: impl IntoIterator<Item: Into<String>>) {
        self.follow(Some(set(names)));
    }

    /// Follows all of them from now on. Objects that are there stay; how they have changed meanwhile is told when the list of all has come.
    pub fn set_all(&self) {
        self.follow(None);
    }

    /// Which these are. `None`: all.
    pub fn names(&self) -> Option<BTreeSet<String>> {
        self.followed.borrow().names.as_ref().map(|names| names.iter().map(|name| name.to_string()).collect())
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Followed> {
        self.followed.subscribe()
    }

    /// Which choice of names it is: another number after each change.
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

/// They are equal if they are handles to one set, which is then the same for ever.
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
    /// One driver each.
    pub(crate) fn places(&self) -> BTreeSet<Place> {
        match &self.names {
            None => BTreeSet::from([None]),
            Some(names) => names.iter().cloned().map(Some).collect(),
        }
    }

    /// Whether what is in that namespace is followed.
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
