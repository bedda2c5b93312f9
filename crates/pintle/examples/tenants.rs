//! A controller with a custom key type, where several objects map to the same key. The equivalent in controller-runtime
//! is a `TypedReconciler`.
#![allow(clippy::print_stdout, reason = "a program that talks to a terminal")]

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use pintle::controller::{Controller, EnqueueMapped};
use pintle::prelude::*;

/// The key of the controller. One reconciliation handles all objects of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Tenant(String);

fn tenant_of<T: Object>(object: &T) -> Option<Tenant> {
    object.metadata().labels().get("tenant").map(|tenant| Tenant(tenant.clone()))
}

fn count<T: Resource>(objects: &Lister<T>, tenant: &Tenant) -> usize {
    objects.list().iter().filter(|object| tenant_of::<T>(object).as_ref() == Some(tenant)).count()
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let cluster = Cluster::embedded().await?;
    for (name, tenant) in [("colours", "acme"), ("prices", "acme"), ("colours-of-globex", "globex")] {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.into());
        map.metadata.labels = Some([("tenant".into(), tenant.into())].into());
        cluster.namespaced("default").create(&map, &WriteOptions::default()).await?;
    }
    let mut secret = Secret::default();
    secret.metadata.name = Some("token".into());
    secret.metadata.labels = Some([("tenant".into(), "acme".into())].into());
    cluster.namespaced("default").create(&secret, &WriteOptions::default()).await?;

    let (maps, secrets) = (cluster.informer::<ConfigMap>(), cluster.informer::<Secret>());
    let (of_maps, of_secrets) = (maps.lister(), secrets.lister());
    let (calls, mut called) = tokio::sync::mpsc::unbounded_channel();
    let controller = Controller::named("tenants")
        .watches(&maps, EnqueueMapped::new(tenant_of::<ConfigMap>))
        .watches(&secrets, EnqueueMapped::new(tenant_of::<Secret>))
        .reconciler(move |request: ReconcileRequest<Tenant>| {
            let (maps, secrets) = (count(&of_maps, &request.key), count(&of_secrets, &request.key));
            println!("{:?} has {maps} ConfigMaps and {secrets} Secrets", request.key);
            let sent = calls.send((request.key.0, maps, secrets));
            async { Ok(sent.map(|()| Action::await_change())?) }
        });
    let stop = CancellationToken::new();
    let check = async {
        // The caches are filled before the first reconciliation, so one reconciliation per tenant is sufficient.
        let mut tenants = [called.recv().await, called.recv().await].map(Option::unwrap_or_default);
        tenants.sort();
        stop.cancel();
        Ok(tenants)
    };
    let ((), tenants) = tokio::try_join!(controller.run(&stop), check)?;
    assert_eq!(tenants, [("acme".into(), 2, 1), ("globex".into(), 1, 0)]);
    cluster.shutdown().await;
    Ok(())
}
