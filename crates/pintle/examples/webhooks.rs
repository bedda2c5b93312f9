//! The webhooks of an operator: a mutating webhook, a validating webhook, and conversions between two versions of a
//! kind.
//!
//! By default, the embedded API server calls the webhooks. With `-- --cluster`, a real API server on this machine calls
//! the webhooks.
#![allow(clippy::print_stdout, reason = "a program that talks to a terminal")]

use pintle::prelude::*;
use pintle::webhook::{Admission, Denial, Endpoint, Hub, ValidatingWebhookConfiguration, Webhook, Webhooks};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

/// The API server stores the object that the handler returns. The library computes the patch from the returned object.
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
    let directory = tempfile::tempdir()?; // In a pod, use a volume with a certificate, for example from cert-manager.
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
    tokio::select! {
        ended = serve(Manager::new("websites", cluster.clone())).run(&stop) => Ok(ended?),
        used = create_sites(&cluster) => used,
    }
}

/// Creates sites, which makes the API server call the webhooks.
async fn create_sites(cluster: &Cluster) -> pintle::Result<()> {
    cluster.api::<ValidatingWebhookConfiguration>().wait_for("websites", |found| found.is_some()).await?;
    let (sites, options) = (cluster.namespaced::<Website>("default"), WriteOptions::default());
    let site = |name: &str, domains: &[&str]| Website {
        metadata: ObjectMeta::new("default", name),
        domains: domains.iter().map(|domain| (*domain).into()).collect(),
    };
    let denied =
        sites.create(&site("blog", &["Blog.test"]), &options).await.err().ok_or("the webhook allowed the site")?;
    println!("{denied}");
    let created = sites.create(&site("shop", &["Shop.Example.com", "www.example.com"]), &options).await?;
    assert_eq!(created.domains, ["shop.example.com", "www.example.com"]);
    let old = cluster.namespaced::<OldWebsite>("default").get("shop").await?;
    assert_eq!(old.domains, "shop.example.com,www.example.com");
    println!("in the old version: {}", old.domains);
    Ok(())
}
