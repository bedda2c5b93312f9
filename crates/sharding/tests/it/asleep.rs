//! An API for clients on a machine that can be suspended, during which responses are delayed. The API's server can be
//! replaced by a server that was restored from a backup.

use std::sync::{Arc, OnceLock};

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use pintle_leaderelect::Lease;
use pintle_meta::{
    ApiError, ApiResource, DeleteOptions, ListOptions, ListWatch, ObjectApi, ObjectKey, Patch, RawObject, WatchEvent,
    WatchOptions, WriteOptions,
};
use pintle_testing::{Client, Page};

use crate::clock::NodeClock;

#[derive(Clone)]
pub(crate) struct Asleep {
    pub(crate) client: Client<Lease>,
    /// The client's machine, or `None` if it cannot be suspended.
    pub(crate) machine: Option<Arc<NodeClock>>,
    /// The client of the restored server, which all requests use once it is set.
    pub(crate) restored: Arc<OnceLock<Client<Lease>>>,
}

impl Asleep {
    fn client(&self) -> &Client<Lease> {
        self.restored.get().unwrap_or(&self.client)
    }

    async fn after_waking<T>(&self, answer: impl Future<Output = T>) -> T {
        let answer = answer.await;
        awake(self.machine.as_deref()).await;
        answer
    }
}

async fn awake(machine: Option<&NodeClock>) {
    if let Some(machine) = machine {
        machine.awake().await;
    }
}

impl ListWatch for Asleep {
    type Object = Lease;
    type Page = Page;
    type Events = BoxStream<'static, Result<WatchEvent<RawObject>, ApiError>>;

    fn api_resource(&self) -> ApiResource {
        self.client.api_resource()
    }

    fn namespace(&self) -> Option<&str> {
        self.client.namespace()
    }

    async fn list(&self, options: &ListOptions) -> Result<Page, ApiError> {
        self.after_waking(self.client().list(options)).await
    }

    async fn watch(&self, options: &WatchOptions) -> Result<Self::Events, ApiError> {
        let events = self.after_waking(self.client().watch(options)).await?;
        let machine = self.machine.clone();
        let delayed = events.then(move |event| {
            let machine = machine.clone();
            async move {
                awake(machine.as_deref()).await;
                event
            }
        });
        Ok(delayed.boxed())
    }
}

impl ObjectApi<Lease> for Asleep {
    async fn get(&self, key: &ObjectKey) -> Result<Lease, ApiError> {
        self.after_waking(self.client().get(key)).await
    }

    async fn create(&self, lease: &Lease, options: &WriteOptions) -> Result<Lease, ApiError> {
        self.after_waking(self.client().create(lease, options)).await
    }

    async fn update(&self, lease: &Lease, options: &WriteOptions) -> Result<Lease, ApiError> {
        self.after_waking(self.client().update(lease, options)).await
    }

    async fn update_status(&self, lease: &Lease, options: &WriteOptions) -> Result<Lease, ApiError> {
        self.after_waking(self.client().update_status(lease, options)).await
    }

    async fn patch(&self, key: &ObjectKey, patch: &Patch, options: &WriteOptions) -> Result<Lease, ApiError> {
        self.after_waking(self.client().patch(key, patch, options)).await
    }

    async fn delete(&self, key: &ObjectKey, options: &DeleteOptions) -> Result<(), ApiError> {
        self.after_waking(self.client().delete(key, options)).await
    }
}
