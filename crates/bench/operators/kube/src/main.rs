//! The operator from the README, written with kube-rs for the comparison in docs/OPERATORS.md. The
//! kube-rs operator has no leader election, no probes and no metrics.
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{self, Event, finalizer};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher;
use kube::{Api, Client, CustomResource, CustomResourceExt, Resource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

const NAME: &str = "website-controller";

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Website", namespaced, status = "WebsiteStatus")]
#[kube(printcolumn = r#"{"name": "URL", "type": "string", "jsonPath": ".status.url"}"#)]
struct WebsiteSpec {
    #[schemars(length(max = 253))]
    domain: String,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
struct WebsiteStatus {
    url: String,
    conditions: Vec<Condition>,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Kube(#[from] kube::Error),
    #[error("the website has no namespace")]
    NoNamespace,
    #[error(transparent)]
    Finalizer(#[from] Box<finalizer::Error<Error>>),
}

struct Context {
    client: Client,
    /// The number of consecutive failures of each object, which determines the backoff.
    failures: Mutex<HashMap<String, u32>>,
}

async fn reconcile(site: Arc<Website>, context: Arc<Context>) -> Result<Action, Error> {
    let namespace = site.namespace().ok_or(Error::NoNamespace)?;
    let sites: Api<Website> = Api::namespaced(context.client.clone(), &namespace);
    let name = site.name_any();
    let action = finalizer(&sites, "example.com/dns", site, |event| async {
        match event {
            Event::Apply(site) => publish(&site, &namespace, &context.client).await,
            Event::Cleanup(site) => Ok(retire(&site)),
        }
    });
    let action = action.await.map_err(Box::new)?;
    context.failures.lock().unwrap().remove(&format!("{namespace}/{name}"));
    Ok(action)
}

async fn publish(site: &Website, namespace: &str, client: &Client) -> Result<Action, Error> {
    assert_ne!(site.spec.domain, "panic.example.com", "for the run with a panic");
    let (name, url) = (site.name_any(), format!("https://{}", site.spec.domain));
    let apply = PatchParams::apply(NAME).force();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.clone());
    map.metadata.owner_references = Some(site.controller_owner_ref(&()).into_iter().collect());
    map.data = Some([("url".into(), url.clone())].into());
    maps.patch(&name, &apply, &Patch::Apply(&map)).await?;

    let known = site.status.iter().flat_map(|status| &status.conditions).find(|known| known.type_ == "Ready");
    let since = known.filter(|known| known.status == "True").map(|known| known.last_transition_time.clone());
    let ready = Condition {
        type_: "Ready".into(),
        status: "True".into(),
        reason: "Published".into(),
        message: String::new(),
        observed_generation: site.metadata.generation,
        last_transition_time: since.unwrap_or_else(|| Time(Timestamp::now())),
    };
    let status = WebsiteStatus { url, conditions: vec![ready] };
    let patch = json!({
        "apiVersion": Website::api_version(&()),
        "kind": Website::kind(&()),
        "status": status,
    });
    let sites: Api<Website> = Api::namespaced(client.clone(), namespace);
    sites.patch_status(&name, &apply, &Patch::Apply(&patch)).await?;
    Ok(Action::await_change())
}

fn retire(site: &Website) -> Action {
    println!("the DNS record of {} is removed", site.spec.domain);
    Action::await_change()
}

fn back_off(site: Arc<Website>, error: &Error, context: Arc<Context>) -> Action {
    let key = format!("{}/{}", site.namespace().unwrap_or_default(), site.name_any());
    let mut failures = context.failures.lock().unwrap();
    let count = failures.entry(key).or_default();
    *count = (*count + 1).min(18);
    eprintln!("{}: {error}", site.name_any());
    Action::requeue(Duration::from_millis(5 << *count))
}

async fn install(client: Client) -> anyhow::Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client);
    let apply = PatchParams::apply(NAME).force();
    definitions.patch(Website::crd_name(), &apply, &Patch::Apply(Website::crd())).await?;
    let established = await_condition(definitions, Website::crd_name(), conditions::is_crd_established());
    tokio::time::timeout(Duration::from_secs(60), established).await??;
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = Client::try_default().await?;
    install(client.clone()).await?;
    let context = Arc::new(Context { client: client.clone(), failures: Mutex::default() });
    Controller::new(Api::<Website>::all(client.clone()), watcher::Config::default())
        .owns(Api::<ConfigMap>::all(client), watcher::Config::default())
        .shutdown_on_signal()
        .run(reconcile, back_off, context)
        .for_each(|_| async {})
        .await;
    Ok(())
}
