//! The operator from the README, written with Pintle for the comparison in docs/OPERATORS.md.
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use pintle::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Resource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[resource(group = "example.com", version = "v1", column("URL", ".status.url"))]
struct Website {
    metadata: ObjectMeta,
    spec: Spec,
    status: Option<Status>,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
struct Spec {
    #[schemars(length(max = 253))]
    domain: String,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
struct Status {
    url: String,
    conditions: Conditions,
}

async fn publish(site: Arc<Website>, cx: Context<Website>) -> pintle::Result<Action> {
    assert_ne!(site.spec.domain, "panic.example.com", "for the run with a panic");
    let url = format!("https://{}", site.spec.domain);
    let mut map = ConfigMap::default();
    map.metadata.name = Some(site.name().into());
    map.data = Some([("url".into(), url.clone())].into());
    cx.apply(map).await?; // adds namespace and owner; sends no request if nothing would change
    cx.apply_status(Status { url, conditions: cx.ready("Published") }).await?;
    Ok(Action::await_change())
}

async fn retire(site: Arc<Website>, _: Context<Website>) -> pintle::Result<Cleanup> {
    println!("the DNS record of {} is removed", site.spec.domain);
    Ok(Cleanup::Done)
}

#[tokio::main]
async fn main() -> pintle::Result<()> {
    Manager::infer("website-controller")? // the name of the Lease, the field manager and the source of Events
        .leader_election()
        .serve(([0, 0, 0, 0], 8080)) // /healthz, /readyz and /metrics
        .install::<Website>() // applies the CustomResourceDefinition, and waits until it is Established
        .controller(Controller::new().owns::<ConfigMap>().cleanup("example.com/dns", retire).reconcile(publish))
        .run_until_signal()
        .await
}
