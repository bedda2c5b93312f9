//! Runs one driver for each namespace.

use std::collections::BTreeMap;
use std::future::pending;
use std::panic::resume_unwind;
use std::sync::Arc;

use pintle_meta::{ListWatch, Object};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::Driver;
use super::offload::off_the_runtime;
use crate::namespaces::{Followed, Place};
use crate::publisher::Publisher;
use crate::states::Whole;

/// Watches several namespaces with one driver per namespace. Each driver runs in its own task.
pub(crate) struct Followers<T: Object, L> {
    followed: watch::Receiver<Followed>,
    /// Creates a driver for a single namespace or for all namespaces. The string argument is the newest revision that
    /// another driver has received.
    driver: Box<MakeDriver<T, L>>,
    publisher: Arc<Publisher<T>>,
    whole: Arc<Whole>,
    running: BTreeMap<Place, CancellationToken>,
    tasks: JoinSet<Place>,
}

pub(crate) type MakeDriver<T, L> = dyn Fn(&Place, String) -> Driver<T, L> + Send;

impl<T: Object + DeserializeOwned, L: ListWatch<Object = T>> Followers<T, L> {
    pub(crate) fn new(
        followed: watch::Receiver<Followed>,
        driver: Box<MakeDriver<T, L>>,
        publisher: Arc<Publisher<T>>,
        whole: Arc<Whole>,
    ) -> Self {
        Self { followed, driver, publisher, whole, running: BTreeMap::new(), tasks: JoinSet::new() }
    }

    pub(crate) async fn follow(mut self, stop: CancellationToken) {
        loop {
            let followed = self.followed.borrow_and_update().clone();
            self.switch_to(followed, &stop).await;
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                // An error means that the last handle of the set was dropped, so that the set cannot change anymore.
                changed = self.followed.changed() => if changed.is_err() { stop.cancelled().await; },
                Some(ended) = self.tasks.join_next() => self.ended(ended).await,
            }
        }
        while let Some(ended) = self.tasks.join_next().await {
            self.ended(ended).await;
        }
    }

    /// Switches to other namespaces. The drivers of removed namespaces end first, so that they write nothing after the
    /// objects of their namespaces are deleted.
    async fn switch_to(&mut self, followed: Followed, stop: &CancellationToken) {
        let places = followed.places();
        let is_gone = |place: &Place| !places.contains(place);
        self.running.iter().filter(|(place, _)| is_gone(place)).for_each(|(_, stop)| stop.cancel());
        while self.running.keys().any(is_gone) {
            let Some(ended) = self.tasks.join_next().await else { break };
            self.ended(ended).await;
        }
        let (publisher, turn) = (self.publisher.clone(), self.publisher.turn().await);
        off_the_runtime(move || {
            publisher.follow(&followed);
            drop(turn);
        })
        .await;
        // Change the state only after the objects of removed namespaces are deleted. From now on, only the drivers of
        // the remaining namespaces determine the informer's state.
        self.whole.follow(&places);
        for place in places {
            if !self.running.contains_key(&place) {
                // A new driver must not accept a list that is older than the newest revision of any namespace. The
                // cache's revision would be too old for this, because it is the lowest revision of all namespaces.
                let known_elsewhere = self.publisher.cache.parts().newest().to_owned();
                let driver = (self.driver)(&place, known_elsewhere);
                let stop = stop.child_token();
                self.running.insert(place.clone(), stop.clone());
                self.tasks.spawn(async move {
                    driver.drive(stop).await;
                    place
                });
            }
        }
    }

    async fn ended(&mut self, ended: Result<Place, JoinError>) {
        match ended {
            Ok(place) => _ = self.running.remove(&place),
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            // The runtime is shutting down: it has dropped the driver's task, and will also drop the current task.
            Err(_) => pending().await,
        }
    }
}
