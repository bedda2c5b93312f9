//! One lease in memory.

use std::future::pending;
use std::sync::{Arc, Mutex};

use pintle_leaderelect::{LeaderElectionConfig, LeaderElector, Lease, LeaseLock};
use pintle_meta::{ApiError, DeleteOptions, ObjectApi, ObjectKey, Patch, PostOptions, Reason, Status};

/// Clones of one are clients of one server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leases {
    server: Arc<Mutex<(Option<Lease>, u64)>>,
    cut_off: Arc<Mutex<bool>>,
}

impl Leases {
    /// Another client of the same server.
    pub(crate) fn client(&self) -> Self {
        Self { server: self.server.clone(), cut_off: Arc::default() }
    }

    pub(crate) fn elector(&self, identity: &str) -> LeaderElector<LeaseLock<Self>> {
        let mut config = LeaderElectionConfig::new(identity);
        config.seed = Some(7);
        LeaderElector::new(LeaseLock::new(self.clone(), "ns", "lock"), config).unwrap()
    }

    pub(crate) fn cut_off(&self) {
        *self.cut_off.lock().unwrap() = true;
    }

    pub(crate) fn holder(&self) -> String {
        let server = self.server.lock().unwrap();
        server.0.as_ref().map_or("(none)".into(), |lease| lease.spec.record().holder_identity)
    }

    /// Lets someone else hold it.
    pub(crate) fn usurp(&self, by: &str) {
        let mut server = self.server.lock().unwrap();
        server.1 += 1;
        let version = server.1.to_string();
        let lease = server.0.as_mut().unwrap();
        lease.spec.holder_identity = Some(by.into());
        lease.metadata.resource_version = version;
    }

    async fn exchange<T>(
        &self,
        act: impl FnOnce(&mut Option<Lease>, u64) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        if *self.cut_off.lock().unwrap() {
            return pending().await;
        }
        let mut server = self.server.lock().unwrap();
        server.1 += 1;
        let version = server.1;
        act(&mut server.0, version)
    }
}

fn failure(code: u16, reason: Reason) -> ApiError {
    Status::failure(code, reason, "").into()
}

fn store(slot: &mut Option<Lease>, lease: &Lease, version: u64) -> Lease {
    let mut lease = lease.clone();
    lease.metadata.uid = "uid".into();
    lease.metadata.resource_version = version.to_string();
    slot.insert(lease).clone()
}

impl ObjectApi<Lease> for Leases {
    async fn get(&self, _: &ObjectKey) -> Result<Lease, ApiError> {
        self.exchange(|slot, _| slot.clone().ok_or_else(|| failure(404, Reason::NotFound))).await
    }

    async fn create(&self, lease: &Lease, _: &PostOptions) -> Result<Lease, ApiError> {
        self.exchange(|slot, version| match slot {
            Some(_) => Err(failure(409, Reason::AlreadyExists)),
            None => Ok(store(slot, lease, version)),
        })
        .await
    }

    async fn update(&self, lease: &Lease, _: &PostOptions) -> Result<Lease, ApiError> {
        self.exchange(|slot, version| match slot {
            Some(old) if old.metadata.resource_version == lease.metadata.resource_version => {
                Ok(store(slot, lease, version))
            }
            _ => Err(failure(409, Reason::Conflict)),
        })
        .await
    }

    async fn update_status(&self, _: &Lease, _: &PostOptions) -> Result<Lease, ApiError> {
        Err(failure(405, Reason::MethodNotAllowed))
    }

    async fn patch(&self, _: &ObjectKey, _: &Patch, _: &PostOptions) -> Result<Lease, ApiError> {
        Err(failure(405, Reason::MethodNotAllowed))
    }

    async fn delete(&self, _: &ObjectKey, _: &DeleteOptions) -> Result<(), ApiError> {
        Err(failure(405, Reason::MethodNotAllowed))
    }
}
