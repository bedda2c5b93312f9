//! Tests of the operator with an API server in the same process. The tests need no cluster.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use pintle::apiserver::faults::{Answer, Fault, Rule};
use pintle::apiserver::{CrdChecker, RequestVerb};
use pintle::meta::Impersonate;
use pintle::operator::OperatorError;
use pintle::prelude::*;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use website_operator::{FINALIZER, NAME, Website, WebsiteSpec, operator};

/// An embedded API server with the manifests in `deploy`, and an operator that has only the permissions of its service
/// account.
struct Running {
    cluster: Cluster,
    stop: CancellationToken,
    operator: JoinHandle<Result<(), OperatorError>>,
}

impl Running {
    async fn start() -> pintle::Result<Self> {
        let cluster = Cluster::embedded().await?;
        let server = cluster.server().expect("an embedded server");
        server.load_path(&Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy"))?;
        let mut config = server.client_config();
        config.namespace = NAME.to_owned();
        let user = format!("system:serviceaccount:{NAME}:{NAME}");
        config.impersonate = Some(Impersonate {
            user,
            ..Impersonate::default()
        });
        let stop = CancellationToken::new();
        let (manager, token) = (Manager::connect(NAME, config)?, stop.clone());
        let operator = tokio::spawn(async move { operator(manager).run(&token).await });
        Ok(Self {
            cluster,
            stop,
            operator,
        })
    }

    async fn create(&self, name: &str) -> pintle::Result<()> {
        let spec = WebsiteSpec {
            domain: format!("{name}.example.com"),
        };
        let site = Website {
            metadata: ObjectMeta::new("default", name),
            spec,
            status: None,
        };
        self.cluster
            .server()
            .expect("an embedded server")
            .settle()
            .await; // The server now serves the custom resource.
        self.cluster
            .api()
            .create(&site, &WriteOptions::default())
            .await?;
        Ok(())
    }

    async fn until_ready(&self, name: &str) -> pintle::Result<Website> {
        let sites = self.cluster.namespaced::<Website>("default");
        Ok(timeout(
            Duration::from_secs(30),
            sites.wait_for_condition(name, &["Ready"]),
        )
        .await??
        .1)
    }

    async fn stop(self) -> pintle::Result<()> {
        self.stop.cancel();
        self.operator.await??;
        self.cluster.shutdown().await;
        Ok(())
    }
}

#[tokio::test]
async fn website_is_published_and_retired() -> pintle::Result<()> {
    let running = Running::start().await?;
    running.create("blog").await?;
    let site = running.until_ready("blog").await?;
    assert_eq!(
        site.status.expect("a status").url,
        "https://blog.example.com"
    );
    assert_eq!(site.metadata.finalizers, [FINALIZER]);
    let map = running
        .cluster
        .namespaced::<ConfigMap>("default")
        .get("blog")
        .await?;
    assert_eq!(map.data.expect("data")["url"], "https://blog.example.com");

    let sites = running.cluster.namespaced::<Website>("default");
    sites.delete("blog", &DeleteOptions::default()).await?;
    timeout(
        Duration::from_secs(30),
        sites.wait_for_deletion("blog", None),
    )
    .await??;
    running.stop().await
}

#[tokio::test]
async fn website_is_published_although_answers_are_lost() -> pintle::Result<()> {
    let running = Running::start().await?;
    let faults = running
        .cluster
        .server()
        .expect("an embedded server")
        .faults();
    // The server executes writes that match this rule, but returns errors. The watch of the ConfigMaps also breaks, so
    // the operator must reconnect.
    let lost = Rule {
        times: Some(2),
        ..Rule::new(Fault::LoseAnswer(Answer::new(500)))
    };
    faults.add(Rule {
        verb: Some(RequestVerb::Patch),
        resource: Some("configmaps".into()),
        ..lost.clone()
    });
    faults.add(Rule {
        subresource: Some("status".into()),
        ..lost
    });
    faults.add(Rule {
        resource: Some("configmaps".into()),
        ..Rule::new(Fault::CutAfter(0))
    });
    running.create("blog").await?;
    running.until_ready("blog").await?;
    assert!(faults.hits() >= 4);
    running.stop().await
}

#[test]
fn site_without_a_domain_is_rejected() {
    let crd = CrdChecker::new(Website::crd()).expect("a valid definition");
    crd.assert_accepts("spec: {domain: blog.example.com}");
    crd.assert_rejects("spec: {}", "spec.domain: Required value");
}

#[test]
fn manifests_are_up_to_date() {
    for (command, file) in [("crd", "deploy/crd.yaml"), ("role", "deploy/role.yaml")] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_website-operator"))
            .arg(command)
            .output();
        let printed = String::from_utf8(output.expect("the program starts").stdout).expect("UTF-8");
        let stored = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file))
            .unwrap_or_default();
        assert!(printed == stored, "run: cargo run -- {command} > {file}");
    }
}
