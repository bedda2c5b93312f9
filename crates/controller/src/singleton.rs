//! Controllers with a single key.

use std::future::{pending, ready};
use std::time::Duration;

use pintle_informer::ResourceEvent;

use crate::builder::Builder;
use crate::controller::Controller;
use crate::handler::Handler;
use crate::requests::Requests;
use crate::source::Every;
use crate::source::Feed;
use crate::source::Source;

/// The only key of a controller whose work is not tied to an individual object: see [`Controller::singleton`].
///
/// As a [handler](Handler), a `Singleton` enqueues itself for each event.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use pintle_controller::{Action, Controller, ReconcileRequest, Singleton};
/// use pintle_informer::{InformerConfig, SharedInformer};
/// use pintle_meta::ObjectMeta;
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
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let sites = Collection::from([Website { metadata: ObjectMeta::new("team-a", "blog") }]);
///     let sites = SharedInformer::new(sites, InformerConfig::default());
///     let (lister, stop) = (sites.lister(), CancellationToken::new());
///     let done = stop.clone();
///     // One call handles any number of changes. The report is also written every hour.
///     let report = Controller::singleton("report")
///         .watches(&sites, Singleton)
///         .every(Duration::from_secs(3_600))
///         .reconciler(move |_: ReconcileRequest<Singleton>| {
///             println!("there are {} sites", lister.len());
///             done.cancel();
///             async { Ok(Action::await_change()) }
///         });
///     report.run(&stop).await?;
///     Ok(())
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Singleton;

impl Controller<Singleton> {
    /// Returns a builder for a controller whose only key is [`Singleton`]. The key is reconciled at the start of each
    /// run, and whenever a source adds it.
    pub fn singleton(name: impl Into<String>) -> Builder<Singleton> {
        Self::named(name).source(Start)
    }
}

impl Builder<Singleton> {
    /// Also reconciles the key once per `period`: see [`Every`].
    pub fn every(self, period: Duration) -> Self {
        self.source(Every::new(period, Singleton).after_first_period())
    }
}

impl<T: Send + Sync + 'static> Handler<T, Singleton> for Singleton {
    fn handle(&self, _: &ResourceEvent<T>, enqueue: &mut dyn FnMut(Singleton)) {
        enqueue(Self);
    }
}

struct Start;

impl Source<Singleton> for Start {
    fn name(&self) -> &str {
        "start"
    }

    fn start(&self, requests: Requests<Singleton>) -> Feed {
        let run = async move {
            requests.add(Singleton);
            pending().await
        };
        Feed { synced: Box::pin(ready(true)), run: Box::pin(run) }
    }
}
