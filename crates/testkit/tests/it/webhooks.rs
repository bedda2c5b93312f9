//! Tests with an operator that serves webhooks.

use std::fs::write;
use std::net::TcpListener;
use std::path::Path;

use pintle_cluster::Cluster;
use pintle_operator::Manager;
use pintle_testkit::Kit;
use pintle_webhook::{Admission, Denial, Endpoint, Webhook, Webhooks};
use tempfile::TempDir;

use crate::website::{Website, operator, site};

async fn check(_: Admission<Website>) -> Result<(), Denial> {
    Ok(())
}

fn with_webhooks(cluster: Cluster, port: u16, certificate: &Path) -> Manager {
    let webhooks = Webhooks::new().add(Webhook::validate(check)).endpoint(Endpoint::service("default", "websites"));
    operator(cluster).webhooks(([127, 0, 0, 1], port), certificate, webhooks)
}

fn certificate() -> TempDir {
    let directory = TempDir::new().unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let names = rcgen::CertificateParams::new(["websites.default.svc".to_owned()]).unwrap();
    let certificate = names.self_signed(&key).unwrap();
    write(directory.path().join("tls.crt"), certificate.pem()).unwrap();
    write(directory.path().join("ca.crt"), certificate.pem()).unwrap();
    write(directory.path().join("tls.key"), key.serialize_pem()).unwrap();
    directory
}

#[test]
fn parallel_processes_serve_webhooks_on_different_ports() {
    let directory = certificate();
    let path = directory.path().to_owned();
    // Another listener uses the configured port during the whole test.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let kit = Kit::new(move |cluster| with_webhooks(cluster, port, &path)).create(site("blog")).create(site("shop"));
    kit.survives_chaos(0..3).unwrap();
}

#[test]
fn registration_of_webhooks_is_no_second_leader() {
    let directory = certificate();
    let path = directory.path().to_owned();
    let kit = Kit::new(move |cluster| with_webhooks(cluster, 0, &path)).create(site("blog")).create(site("shop"));
    kit.survives_reordering(0..4).unwrap();
    let role = kit.role("websites").unwrap().to_string();
    assert!(role.contains("- validatingwebhookconfigurations\n"), "{role}");
}
