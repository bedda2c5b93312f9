//! The webhooks of an operator: a mutating handler, a validating handler, and conversions between two versions of a
//! kind.
//!
//! The embedded API server does not call webhooks, so the example itself sends the review requests. With `--
//! --cluster`, the webhooks are called by a real API server on this machine.
#![allow(clippy::print_stdout, reason = "a program that talks to a terminal")]

use pintle::meta::PemSource;
use pintle::prelude::*;
use pintle::restreq::RestClient;
use pintle::webhook::{Admission, Denial, Endpoint, Hub, ValidatingWebhookConfiguration, Webhook, Webhooks};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Resource, Deserialize, Serialize, JsonSchema)]
#[resource(group = "example.com", version = "v1")]
struct Website {
    metadata: ObjectMeta,
    domains: Vec<String>,
}

#[derive(Resource, Deserialize, Serialize, JsonSchema)]
#[resource(group = "example.com", version = "v1alpha1", kind = "Website", stored = false)]
struct OldWebsite {
    metadata: ObjectMeta,
    /// Separated by commas.
    domains: String,
}

impl From<OldWebsite> for Website {
    fn from(old: OldWebsite) -> Self {
        Self { metadata: old.metadata, domains: old.domains.split(',').map(Into::into).collect() }
    }
}

impl From<Website> for OldWebsite {
    fn from(site: Website) -> Self {
        Self { metadata: site.metadata, domains: site.domains.join(",") }
    }
}

/// The API server stores the object that this handler returns. The library computes the patch.
async fn lower_case(request: Admission<Website>) -> Result<Website, Denial> {
    let mut site = request.object;
    site.domains.iter_mut().for_each(|domain| domain.make_ascii_lowercase());
    Ok(site)
}

async fn check(request: Admission<Website>) -> Result<(), Denial> {
    match request.object.domains.iter().position(|domain| !domain.ends_with(".example.com")) {
        Some(at) => Err(Denial::invalid(format!("domains[{at}]"), "must end with .example.com")),
        None => Ok(()),
    }
}

#[tokio::main]
async fn main() -> pintle::Result<()> {
    let directory = tempfile::tempdir()?; // In a pod, use the volume of a certificate, such as a volume of cert-manager.
    let rcgen::CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(["127.0.0.1".into()])?;
    for (file, pem) in [("tls.key", signing_key.serialize_pem()), ("tls.crt", cert.pem()), ("ca.crt", cert.pem())] {
        std::fs::write(directory.path().join(file), pem)?;
    }
    let address = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?; // A free port.
    let webhooks = Webhooks::new()
        .add(Webhook::mutate(lower_case))
        .add(Webhook::validate(check))
        .convert(Hub::<Website>::new().spoke::<OldWebsite>())
        .endpoint(Endpoint::url(format!("https://{address}"))); // In a pod, use `Endpoint::service`.
    let definition = CustomResourceDefinition::merge([Website::crd(), OldWebsite::crd()])?;
    let serve = |manager: Manager| manager.install_definition(definition).webhooks(address, directory.path(), webhooks);
    if std::env::args().any(|argument| argument == "--cluster") {
        return serve(Manager::infer("websites")?).run_until_signal().await;
    }
    let (cluster, stop) = (Cluster::embedded().await?, CancellationToken::new());
    let mut config = ClientConfig::new(format!("https://{address}"));
    config.tls.ca = Some(PemSource::File(directory.path().join("ca.crt")));
    tokio::select! {
        ended = serve(Manager::new("websites", cluster.clone())).run(&stop) => Ok(ended?),
        used = send_reviews(&cluster, RestClient::new(config)?) => used,
    }
}

/// Sends the same requests as an API server would if a user created a site and read it in the old version.
async fn send_reviews(cluster: &Cluster, client: RestClient) -> pintle::Result<()> {
    cluster.api::<ValidatingWebhookConfiguration>().wait_for("websites", |found| found.is_some()).await?;
    let ask = async |path: &str, review| client.post().abs_path(path.split('/')).json(review).object::<Value>().await;
    let names = json!({"group": "example.com", "version": "v1", "kind": "Website", "resource": "websites"});
    let site = json!({"apiVersion": "example.com/v1", "kind": "Website", "metadata": {}, "domains": ["Blog.test"]});
    let request = json!({"uid": "1", "operation": "CREATE", "kind": names, "resource": names, "object": site});
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    assert_eq!(ask("mutate/example.com/v1/websites", &review).await?["response"]["patchType"], "JSONPatch");
    let denied = ask("validate/example.com/v1/websites", &review).await?;
    println!("denied: {}", denied["response"]["status"]["message"]);
    let request = json!({"uid": "2", "desiredAPIVersion": "example.com/v1alpha1", "objects": [site]});
    let review = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request});
    let old = ask("convert/example.com/websites", &review).await?;
    assert_eq!(old["response"]["convertedObjects"][0]["domains"], "Blog.test");
    Ok(())
}
