//! Tests of a manager's webhooks.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pintle_apiserver::RequestVerb;
use pintle_apiserver::faults::{Answer, Fault, Rule};
use pintle_cluster::Cluster;
use pintle_crd::CustomResourceDefinition;
use pintle_leaderelect::LeaderElectionConfig;
use pintle_leaderelect::Lease;
use pintle_meta::{ClientConfig, ObjectKey, ObjectMeta, Patch, PemSource, WriteOptions};
use pintle_operator::{Controller, Manager, OperatorError};
use pintle_restreq::RestClient;
use pintle_webhook::{
    Admission, CertificateFiles, Denial, Endpoint, Hub, MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
    Webhook, Webhooks,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::unbounded_channel;
use tokio_util::sync::CancellationToken;

use crate::http::{ReservedAddress, UNREACHABLE, get, listen};
use crate::support::{ConfigMap, Running, Spec, Website, World, eventually, publish, soon};

const NAME: &str = "website-controller";
const PATH: [&str; 5] = ["validate", "example.com", "v1", "websites", ""];

fn write_pair(directory: &Path) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    fs::write(directory.join("ca.crt"), authority.pem()).unwrap();
    fs::write(directory.join("tls.crt"), certificate.pem()).unwrap();
    fs::write(directory.join("tls.key"), key.serialize_pem()).unwrap();
}

struct Setup {
    world: World,
    directory: TempDir,
    address: SocketAddr,
    _reserved: ReservedAddress,
}

impl Setup {
    async fn new() -> Self {
        let directory = TempDir::new().unwrap();
        write_pair(directory.path());
        let reserved = ReservedAddress::new();
        Self { world: World::start().await, directory, address: reserved.address, _reserved: reserved }
    }

    fn files(&self) -> CertificateFiles {
        let mut files = CertificateFiles::in_directory(self.directory.path());
        files.period = Duration::from_millis(5);
        files
    }

    fn manager(&self) -> Manager {
        let check = async |request: Admission<Website>| match request.object.spec.domain.as_str() {
            "bad" => Err(Denial::new("bad domain")),
            _ => Ok(()),
        };
        let fill = async |request: Admission<Website>| Ok::<_, Denial>(request.object);
        let webhooks = Webhooks::new()
            .add(Webhook::validate(check))
            .add(Webhook::mutate(fill))
            .convert(Hub::<Website>::new())
            .endpoint(Endpoint::url(format!("https://{}", self.address)));
        self.world.manager().webhooks(self.address, self.files(), webhooks).install::<Website>()
    }

    /// Sends a site with this domain to the validating webhook, and returns the response. Returns `None` if the request
    /// fails.
    async fn ask(&self, domain: &str) -> Option<Value> {
        let mut config = ClientConfig::new(format!("https://{}", self.address));
        config.tls.ca = Some(PemSource::File(self.directory.path().join("ca.crt")));
        let site = Website {
            metadata: ObjectMeta::new("default", "blog"),
            spec: Spec { domain: domain.into() },
            status: None,
        };
        let resource = json!({"group": "example.com", "version": "v1", "resource": "websites"});
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "u", "operation": "CREATE", "object": site, "resource": resource,
                "kind": {"group": "example.com", "version": "v1", "kind": "Website"},
            },
        });
        let request = RestClient::new(config).unwrap().post().abs_path(&PATH[..4]).json(&review).max_retries(0);
        request.object::<Value>().await.ok()
    }

    fn bundle(&self) -> String {
        use base64::Engine;
        base64::engine::general_purpose::STANDARD.encode(fs::read(self.directory.path().join("ca.crt")).unwrap())
    }
}

#[tokio::test]
async fn webhooks_are_served_and_registered() {
    let setup = Setup::new().await;
    let running = Running::start(setup.manager());
    let answer = eventually("the webhook answers", async || setup.ask("bad").await).await;
    assert_eq!(answer["response"]["status"]["message"], "bad domain");

    let cluster = &setup.world.cluster;
    let validating = cluster.api::<ValidatingWebhookConfiguration>();
    let validating = eventually("registered", async || validating.get(NAME).await.ok()).await;
    let webhook = &validating.webhooks[0];
    assert_eq!(
        (&webhook["name"], &webhook["failurePolicy"]),
        (&json!("validate.websites.v1.example.com"), &json!("Fail"))
    );
    assert_eq!(webhook["clientConfig"]["caBundle"], setup.bundle());
    let mutating = cluster.api::<MutatingWebhookConfiguration>().get(NAME).await.unwrap();
    let url = format!("https://{}/mutate/example.com/v1/websites", setup.address);
    assert_eq!(mutating.webhooks[0]["clientConfig"]["url"], url);
    let definition = cluster.api::<CustomResourceDefinition>().get("websites.example.com").await.unwrap();
    let conversion = &definition.spec["conversion"];
    assert_eq!(
        (&conversion["strategy"], &conversion["webhook"]["conversionReviewVersions"]),
        (&json!("Webhook"), &json!(["v1"]))
    );
    running.stop().await.unwrap();
    assert!(setup.ask("bad").await.is_none(), "the server ends with the manager");
}

#[tokio::test]
async fn changed_authority_is_registered_again() {
    let (setup, edge) = (Setup::new().await, World::start().await);
    let unreachable = Cluster::connect(ClientConfig::new(UNREACHABLE)).unwrap();
    let manager = setup.manager().install_in::<Website>(&unreachable).install_in::<Website>(&edge.cluster);
    let running = Running::start(manager);
    let validating = setup.world.cluster.api::<ValidatingWebhookConfiguration>();
    eventually("registered", async || validating.get(NAME).await.ok()).await;
    write_pair(setup.directory.path());
    let bundle = setup.bundle();
    eventually("the new authority is registered", async || {
        let validating = validating.get(NAME).await.unwrap();
        let is_validating_new = validating.webhooks[0]["clientConfig"]["caBundle"] == bundle;
        for cluster in [&setup.world.cluster, &edge.cluster] {
            let definition = cluster.api::<CustomResourceDefinition>().get("websites.example.com").await.ok()?;
            if definition.spec["conversion"]["webhook"]["clientConfig"]["caBundle"] != bundle {
                return None;
            }
        }
        is_validating_new.then_some(())
    })
    .await;
    eventually("the new certificate is served", async || setup.ask("good").await).await;
    running.stop().await.unwrap();
}

/// The CA certificates change while the installation in another cluster fails.
#[tokio::test]
async fn old_authority_is_not_restored_by_an_installation() {
    let (setup, edge, (listener, address)) = (Setup::new().await, World::start().await, listen().await);
    let faults = edge.cluster.server().unwrap().faults();
    let resource = Some("customresourcedefinitions".into());
    let down = faults.add(Rule { resource, times: None, ..Rule::new(Fault::Answer(Answer::new(503))) });
    let attempt = async || {
        let before = faults.hits_of(down);
        eventually("an attempt", async || (faults.hits_of(down) > before).then_some(())).await;
    };
    let running = Running::start(setup.manager().install_in::<Website>(&edge.cluster).serve_on(listener));
    let validating = setup.world.cluster.api::<ValidatingWebhookConfiguration>();
    eventually("registered", async || validating.get(NAME).await.ok()).await;
    attempt().await;
    write_pair(setup.directory.path());
    let bundle = setup.bundle();
    eventually("the new authority is registered", async || {
        (validating.get(NAME).await.unwrap().webhooks[0]["clientConfig"]["caBundle"] == bundle).then_some(())
    })
    .await;
    attempt().await;
    faults.remove(down);
    eventually("ready", async || get(address, "/readyz").await.filter(|ready| ready.0 == 200)).await;
    let definitions = edge.cluster.api::<CustomResourceDefinition>();
    eventually("the other cluster has the new authority", async || {
        let definition = definitions.get("websites.example.com").await.unwrap();
        (definition.spec["conversion"]["webhook"]["clientConfig"]["caBundle"] == bundle).then_some(())
    })
    .await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn failing_registration_does_not_stop_other_clusters() {
    let (setup, edge) = (Setup::new().await, World::with_site("shop").await);
    let resource = Some("validatingwebhookconfigurations".into());
    let rule = Rule { resource, times: None, ..Rule::new(Fault::Answer(Answer::new(503))) };
    setup.world.cluster.server().unwrap().faults().add(rule);
    let controller = Controller::<Website>::new().owns::<ConfigMap>().reconcile(publish);
    let (listener, address) = listen().await;
    let running = Running::start(setup.manager().serve_on(listener).controller_in(&edge.cluster, controller));
    eventually("the child in the other cluster", async || edge.child("shop").await.ok()).await;
    let (status, text) = get(address, "/readyz").await.unwrap();
    let problem = format!(
        "[-]cluster {} failed: waits for the registration of the webhooks: ",
        setup.world.cluster.config().server
    );
    assert!(status == 500 && text.contains(&problem), "{text}");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn standby_serves_webhooks() {
    let setup = Setup::new().await;
    let leader = Running::start(setup.world.manager().leader_election());
    let leases = setup.world.cluster.api::<Lease>();
    eventually("the other process leads", async || leases.get(ObjectKey::new("default", NAME)).await.ok()).await;
    let standby = setup.manager().leader_election_with(LeaderElectionConfig::default());
    let standby = Running::start(standby);
    let answer = eventually("the webhook answers", async || setup.ask("good").await).await;
    assert_eq!(answer["response"]["allowed"], true);
    standby.stop().await.unwrap();
    leader.stop().await.unwrap();
}

/// The API server does not respond, so the manager stops before it has installed the definition or registered the
/// webhooks.
#[tokio::test]
async fn webhook_in_flight_ends_when_the_manager_stops_early() {
    for resource in ["customresourcedefinitions", "validatingwebhookconfigurations"] {
        let setup = Setup::new().await;
        let delay = Fault::Delay(Duration::from_secs(60));
        let rule = Rule { resource: Some(resource.into()), times: None, ..Rule::new(delay) };
        let faults = setup.world.cluster.server().unwrap().faults();
        faults.add(rule);
        let (called, mut calls) = unbounded_channel();
        let go = Arc::new(Semaphore::new(0));
        let wait = go.clone();
        let check = move |_: Admission<Website>| {
            let (called, wait) = (called.clone(), wait.clone());
            async move {
                called.send(()).unwrap();
                wait.acquire().await.unwrap().forget();
                Ok::<_, Denial>(())
            }
        };
        let endpoint = Endpoint::url(format!("https://{}", setup.address));
        let webhooks = Webhooks::new().add(Webhook::validate(check)).endpoint(endpoint);
        let manager = setup.world.manager().webhooks(setup.address, setup.files(), webhooks).install::<Website>();
        let running = Running::start(manager);
        eventually("the manager waits for the server", async || (faults.hits() > 0).then_some(())).await;
        let stopping = async {
            soon(calls.recv()).await.unwrap();
            let closed = async {
                let refused = async || TcpStream::connect(setup.address).await.err();
                eventually("the server of the webhooks stops", refused).await;
                go.add_permits(1);
            };
            tokio::join!(running.stop(), closed).0.unwrap();
        };
        let (answer, ()) = tokio::join!(setup.ask("good"), stopping);
        assert_eq!(answer.expect(resource)["response"]["allowed"], true);
    }
}

#[tokio::test]
async fn missing_certificate_ends_the_manager() {
    let setup = Setup::new().await;
    fs::remove_file(setup.directory.path().join("tls.crt")).unwrap();
    let error = soon(setup.manager().run(&CancellationToken::new())).await.unwrap_err();
    assert!(matches!(&error, OperatorError::Webhooks(_)) && error.to_string().contains("tls.crt"), "{error}");
}

#[tokio::test]
async fn rejected_registration_ends_the_manager() {
    let setup = Setup::new().await;
    let resource = Some("mutatingwebhookconfigurations".into());
    let rule = Rule { verb: Some(RequestVerb::Patch), resource, ..Rule::new(Fault::Answer(Answer::new(403))) };
    setup.world.cluster.server().unwrap().faults().add(rule);
    let error = soon(setup.manager().run(&CancellationToken::new())).await.unwrap_err().to_string();
    assert!(error.contains("cannot install the MutatingWebhookConfiguration \"website-controller\""), "{error}");
}

/// Without the conversion webhook, the API server would drop the fields of the other version.
#[tokio::test]
async fn definition_in_another_cluster_has_the_conversion_webhook() {
    let (setup, edge) = (Setup::new().await, World::start().await);
    let running = Running::start(setup.manager().install_in::<Website>(&edge.cluster));
    let definitions = edge.cluster.api::<CustomResourceDefinition>();
    let installed = eventually("installed", async || definitions.get("websites.example.com").await.ok()).await;
    let conversion = &installed.spec["conversion"];
    running.stop().await.unwrap();
    assert_eq!(conversion["strategy"], "Webhook", "{conversion}");
    assert_eq!(conversion["webhook"]["clientConfig"]["caBundle"], setup.bundle());
}

/// Runs `manager` until it has registered its webhooks.
async fn register(manager: Manager) -> Result<(), OperatorError> {
    let stop = CancellationToken::new();
    let token = stop.clone();
    let stopped = async move |_| {
        token.cancel();
        Ok(())
    };
    soon(manager.service("stop", stopped).run(&stop)).await
}

fn version(version: &str) -> Value {
    json!({"op": "replace", "path": "/metadata/annotations/pintle-package-version", "value": version})
}

/// An older build may restart during an upgrade, or even after the newer build has stopped.
#[tokio::test]
async fn older_build_keeps_the_newer_configuration() {
    let setup = Setup::new().await;
    let validating = setup.world.cluster.api::<ValidatingWebhookConfiguration>();
    let run = async |manager: Manager| {
        register(manager).await.unwrap();
        let stored = validating.get(NAME).await.unwrap();
        let webhook = &stored.webhooks[0];
        let version = stored.metadata.annotations.get("pintle-package-version").cloned();
        (version.unwrap(), webhook["timeoutSeconds"].clone(), webhook["clientConfig"]["caBundle"].clone())
    };
    let (own, own_timeout, bundle) = run(setup.manager()).await;
    assert_eq!((&*own, bundle), (env!("CARGO_PKG_VERSION"), setup.bundle().into()));
    assert_ne!(own_timeout, 7);
    let newer = json!([version("999.0.0"), {"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 7}]);
    validating.patch(NAME, &Patch::Json(newer), &WriteOptions::default()).await.unwrap();
    write_pair(setup.directory.path());
    assert_eq!(run(setup.manager()).await, ("999.0.0".into(), 7.into(), setup.bundle().into()));
    let rolled_back = run(setup.manager().replace_newer_definitions(true)).await;
    assert_eq!(rolled_back, (own, own_timeout, setup.bundle().into()));
}

/// The older build patches the certificates of the newer build's webhook. A later build must be able to remove them, to
/// use the root certificates of the API server's system.
#[tokio::test]
async fn kept_certificates_can_be_removed() {
    let setup = Setup::new().await;
    let manager = |files: CertificateFiles| {
        let check = async |_: Admission<Website>| Ok::<_, Denial>(());
        let endpoint = Endpoint::url(format!("https://{}", setup.address));
        let webhooks = Webhooks::new().add(Webhook::validate(check)).endpoint(endpoint);
        setup.world.manager().webhooks(setup.address, files, webhooks).install::<Website>()
    };
    let validating = setup.world.cluster.api::<ValidatingWebhookConfiguration>();
    let set_version = async |to: &str| {
        validating.patch(NAME, &Patch::Json(json!([version(to)])), &WriteOptions::default()).await.unwrap();
    };
    let config = async || validating.get(NAME).await.unwrap().webhooks[0]["clientConfig"].clone();
    register(manager(setup.files())).await.unwrap();
    set_version("999.0.0").await;
    write_pair(setup.directory.path());
    register(manager(setup.files())).await.unwrap();
    assert_eq!(config().await["caBundle"], setup.bundle());
    set_version("0.0.1").await;
    register(manager(CertificateFiles { authority: None, ..setup.files() })).await.unwrap();
    assert_eq!(config().await.get("caBundle"), None);
}

/// Another build creates its configuration after this build's read and before its write.
#[tokio::test]
async fn newer_configuration_that_appears_after_the_read_stays() {
    let setup = Setup::new().await;
    let resource = Some("validatingwebhookconfigurations".into());
    let missing = Fault::Answer(Answer::new(404));
    register(setup.manager()).await.unwrap();
    let validating = setup.world.cluster.api::<ValidatingWebhookConfiguration>();
    validating.patch(NAME, &Patch::Json(json!([version("999.0.0")])), &WriteOptions::default()).await.unwrap();
    let faults = setup.world.cluster.server().unwrap().faults();
    let rule = faults.add(Rule { verb: Some(RequestVerb::Get), resource, ..Rule::new(missing) });
    register(setup.manager()).await.unwrap();
    assert_eq!(faults.hits_of(rule), 1);
    let stored = validating.get(NAME).await.unwrap();
    assert_eq!(stored.metadata.annotations["pintle-package-version"], "999.0.0");
}
