//! Tests with an operator that has webhooks. The operator has no certificate.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use pintle_cluster::Cluster;
use pintle_crd::{CustomResource, CustomResourceDefinition, Resource};
use pintle_meta::{ApiError, ObjectMeta, WriteOptions};
use pintle_operator::{Action, Context, Controller, Manager};
use pintle_testkit::{Kit, Lab, Violation, seeds};
use pintle_webhook::{Admission, Denial, Endpoint, FailurePolicy, Hub, Webhook, Webhooks};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::website::{ConfigMap, Spec, Website, operator, publish, site};

#[derive(Resource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[resource(crate = pintle_crd, group = "example.com", version = "v1alpha1", kind = "Website", stored = false)]
struct OldWebsite {
    metadata: ObjectMeta,
    domain: String,
}

impl From<OldWebsite> for Website {
    fn from(old: OldWebsite) -> Self {
        Self { metadata: old.metadata, spec: Spec { domain: old.domain, replicas: 1 }, status: None }
    }
}

impl From<Website> for OldWebsite {
    fn from(site: Website) -> Self {
        Self { metadata: site.metadata, domain: site.spec.domain }
    }
}

async fn lower_case(request: Admission<Website>) -> Result<Website, Denial> {
    let mut site = request.object;
    site.spec.domain.make_ascii_lowercase();
    Ok(site)
}

async fn check(request: Admission<Website>) -> Result<(), Denial> {
    // The validating webhook receives the object of the mutating webhook.
    let is_valid = request.object.spec.domain.starts_with(|first: char| first.is_ascii_lowercase());
    if is_valid { Ok(()) } else { Err(Denial::invalid("spec.domain", "must begin with a letter")) }
}

fn service() -> Endpoint {
    Endpoint::service("default", "websites")
}

fn with_webhooks(cluster: Cluster, endpoint: Endpoint) -> Manager {
    let webhooks = Webhooks::new()
        .add(Webhook::mutate(lower_case))
        .add(Webhook::validate(check))
        .convert(Hub::<Website>::new().spoke::<OldWebsite>())
        .endpoint(endpoint);
    let publish = async |site: Arc<Website>, cx: Context<Website>| -> pintle_operator::Result<Action> {
        assert_eq!(site.spec.domain, site.spec.domain.to_ascii_lowercase(), "the webhook was not called");
        publish(site, cx).await
    };
    Manager::new("website-controller", cluster)
        .install_definition(CustomResourceDefinition::merge([Website::crd(), OldWebsite::crd()]).unwrap())
        .controller(Controller::<Website>::new().owns::<ConfigMap>().reconcile(publish))
        .webhooks(([127, 0, 0, 1], 9443), "/no/certificate", webhooks)
}

fn loud(name: &str) -> Website {
    let mut site = site(name);
    site.spec.domain.make_ascii_uppercase();
    site
}

async fn create(lab: &Lab, site: &Website) -> Result<Website, ApiError> {
    lab.user().api::<Website>().create(site, &WriteOptions::default()).await
}

#[test]
fn server_calls_webhooks_without_certificate() -> Result<(), Violation> {
    for endpoint in [service(), Endpoint::url("https://websites.example.com:9443")] {
        let kit = Kit::new(move |cluster| with_webhooks(cluster, endpoint.clone()));
        kit.run(async |lab| {
            assert_eq!(lab.create(&loud("blog")).await?.spec.domain, "blog.example.com");
            let mut invalid = site("invalid");
            invalid.spec.domain = "7.example.com".into();
            let denial = create(lab, &invalid).await.unwrap_err().to_string();
            assert!(denial.contains("spec.domain: must begin with a letter"), "{denial}");
            let old = lab.get::<OldWebsite>("blog").await?.unwrap();
            assert_eq!(old.domain, "blog.example.com");
            lab.steady().await
        })?;
    }
    Ok(())
}

#[test]
fn webhook_calls_fail_while_no_process_runs() -> Result<(), Violation> {
    Kit::new(|cluster| with_webhooks(cluster, service())).run(async |lab| {
        lab.create(&loud("blog")).await?;
        lab.kill("operator-1").await;
        let error = create(lab, &loud("shop")).await.unwrap_err().to_string();
        let call = "failed calling webhook \"mutate.websites.v1.example.com\": failed to call webhook: Post \
                    \"https://websites.default.svc:443/mutate/example.com/v1/websites?timeout=10s\": \
                    dial tcp websites.default.svc:443: connect: connection refused";
        assert!(error.contains(call), "{error}");
        let error = lab.get::<OldWebsite>("blog").await.unwrap_err().to_string();
        assert!(error.contains("connection refused"), "{error}");
        lab.start()?;
        assert_eq!(lab.create(&loud("shop")).await?.spec.domain, "shop.example.com");
        lab.stop("operator-2").await?;
        create(lab, &loud("news")).await.unwrap_err();
        Ok(())
    })
}

#[test]
fn each_running_process_answers_webhook_calls() -> Result<(), Violation> {
    Kit::new(|cluster| with_webhooks(cluster, service()).leader_election()).run(async |lab| {
        lab.start()?;
        lab.create(&loud("blog")).await?;
        lab.kill("operator-1").await;
        for name in ["shop", "news"] {
            assert_eq!(create(lab, &loud(name)).await.unwrap().spec.domain, format!("{name}.example.com"));
        }
        Ok(())
    })
}

#[test]
fn crash_during_a_call_ends_the_call() -> Result<(), Violation> {
    let kit = Kit::new(|cluster| {
        let wait = async |request: Admission<Website>| {
            if request.object.metadata.name == "slow" {
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
            Ok::<_, Denial>(())
        };
        let add = |webhook: Webhook| Webhooks::new().add(webhook.failure_policy(FailurePolicy::Ignore));
        let webhooks = add(Webhook::validate(wait)).endpoint(service());
        operator(cluster).webhooks(([127, 0, 0, 1], 9443), "/no/certificate", webhooks)
    });
    kit.run(async |lab| {
        lab.create(&site("blog")).await?;
        let start = tokio::time::Instant::now();
        let kill = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            lab.kill("operator-1").await;
        };
        let slow = site("slow");
        let (created, ()) = tokio::join!(create(lab, &slow), kill);
        created.unwrap();
        assert_eq!(start.elapsed().as_secs(), 1);
        Ok(())
    })
}

#[test]
fn operator_with_webhooks_survives_crashes() -> Result<(), Violation> {
    let kit = Kit::new(|cluster| with_webhooks(cluster, service()));
    println!("{}", kit.create(loud("blog")).delete::<Website>("blog").survives_crashes()?);
    Ok(())
}

#[test]
fn parallel_processes_with_webhooks_need_no_port() {
    // Another listener uses the configured port during the whole test.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let kit = Kit::new(move |cluster| {
        let webhooks = Webhooks::new().add(Webhook::mutate(lower_case)).endpoint(service());
        operator(cluster).webhooks(address, "/no/certificate", webhooks)
    });
    kit.create(loud("blog")).create(site("shop")).survives_chaos(seeds(3)).unwrap();
}

#[test]
fn registration_of_webhooks_is_no_second_leader() {
    let kit = Kit::new(|cluster| with_webhooks(cluster, service()).leader_election());
    let kit = kit.create(loud("blog")).create(site("shop"));
    kit.survives_reordering(seeds(4)).unwrap();
    let role = kit.role("websites").unwrap().to_string();
    assert!(role.contains("- validatingwebhookconfigurations\n"), "{role}");
}
