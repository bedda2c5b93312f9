//! Tests of installing CustomResourceDefinitions.

use std::time::Duration;

use base64::Engine as _;
use pintle_apiserver::RequestVerb;
use pintle_apiserver::faults::{Answer, Fault, Rule};
use pintle_crd::{CustomResource, CustomResourceDefinition};
use pintle_meta::WriteOptions;
use pintle_operator::OperatorError;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{Running, Website, World, eventually, soon};

fn answer(verb: RequestVerb, code: u16) -> Rule {
    let resource = Some("customresourcedefinitions".into());
    Rule { verb: Some(verb), resource, ..Rule::new(Fault::Answer(Answer::new(code))) }
}

#[tokio::test]
async fn rejected_definition_ends_the_manager() {
    let world = World::start().await;
    world.cluster.server().unwrap().faults().add(answer(RequestVerb::Create, 403));
    let error = soon(world.manager().install::<Website>().run(&CancellationToken::new())).await.unwrap_err();
    assert!(matches!(&error, OperatorError::Install { name, .. } if name == "websites.example.com"), "{error}");
}

#[tokio::test]
async fn failed_request_is_retried() {
    let world = World::start().await;
    world.cluster.server().unwrap().faults().add(answer(RequestVerb::Create, 500));
    let running = Running::start(world.manager().install::<Website>());
    let definitions = world.cluster.api::<CustomResourceDefinition>();
    eventually("the definition is established", async || {
        definitions.get("websites.example.com").await.ok().filter(CustomResourceDefinition::is_established)
    })
    .await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn stop_ends_a_pending_installation() {
    let world = World::start().await;
    let faults = world.cluster.server().unwrap().faults();
    let rule = faults.add(Rule { times: None, ..answer(RequestVerb::Create, 503) });
    let running = Running::start(world.manager().install::<Website>());
    eventually("a request fails", async || (faults.hits_of(rule) > 0).then_some(())).await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn installation_looks_the_resource_up_in_discovery() {
    let world = World::start().await;
    // Only discovery requests have no resource.
    let lookups = || {
        let audit = world.cluster.server().unwrap().audit();
        audit.records().iter().filter(|record| record.resource.is_empty()).count()
    };
    assert_eq!(lookups(), 0);
    world.install().await;
    assert_eq!(lookups(), 1, "the definition was new");
    world.install().await;
    assert_eq!(lookups(), 2, "the definition was established");
}

/// Returns the definition of websites in a build with the package version `package` and the API versions `versions`.
/// `maximum` is a part of the schema, by which the schemas of builds can differ.
fn definition(package: &str, versions: &[&str], maximum: u32) -> CustomResourceDefinition {
    let mut definition = Website::crd().with_package_version(package);
    let first = definition.spec["versions"][0].take();
    let all = versions.iter().enumerate().map(|(index, name)| {
        let mut version = first.clone();
        version["name"] = json!(name);
        version["storage"] = json!(index == 0);
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["domain"]["maxLength"] =
            json!(maximum);
        version
    });
    definition.spec["versions"] = all.collect();
    definition
}

impl World {
    /// Starts a replica that installs `definition`, and stops the replica when it is running.
    async fn run_build(&self, definition: CustomResourceDefinition) -> Result<(), OperatorError> {
        self.run_build_with(definition, false).await
    }

    async fn run_build_with(
        &self,
        definition: CustomResourceDefinition,
        rolls_back: bool,
    ) -> Result<(), OperatorError> {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let manager = self.manager().install_definition(definition).replace_newer_definitions(rolls_back).service(
            "stop",
            async move |_| {
                stopped.cancel();
                Ok(())
            },
        );
        soon(manager.run(&stop)).await
    }

    async fn installed(&self) -> (Vec<String>, Value, Option<String>) {
        let installed: CustomResourceDefinition = self.cluster.api().get("websites.example.com").await.unwrap();
        let domain = "/versions/0/schema/openAPIV3Schema/properties/spec/properties/domain/maxLength";
        (
            installed.served_versions().into_iter().map(str::to_owned).collect(),
            installed.spec.pointer(domain).cloned().unwrap_or_default(),
            installed.package_version().map(str::to_owned),
        )
    }
}

fn state(versions: &[&str], maximum: u32, package: &str) -> (Vec<String>, Value, Option<String>) {
    (versions.iter().map(|&name| name.to_owned()).collect(), json!(maximum), Some(package.to_owned()))
}

#[tokio::test]
async fn restart_of_an_old_build_keeps_the_newer_definition() {
    let world = World::start().await;
    let old = || definition("1.0.0", &["v1"], 100);
    world.run_build(old()).await.unwrap();
    assert_eq!(world.installed().await, state(&["v1"], 100, "1.0.0"));
    world.run_build(definition("1.1.0", &["v1", "v2"], 200)).await.unwrap();
    assert_eq!(world.installed().await, state(&["v1", "v2"], 200, "1.1.0"));
    world.run_build(old()).await.unwrap();
    assert_eq!(world.installed().await, state(&["v1", "v2"], 200, "1.1.0"), "the old build restarts");
    world.run_build(definition("1.2.0", &["v1"], 300)).await.unwrap();
    assert_eq!(world.installed().await, state(&["v1"], 300, "1.2.0"), "a newer build may remove a version");
}

#[tokio::test]
async fn rollback_replaces_the_newer_definition() {
    let world = World::start().await;
    let old = || definition("1.0.0", &["v1"], 100);
    world.run_build(definition("1.1.0", &["v1", "v2"], 200)).await.unwrap();
    world.run_build_with(old(), true).await.unwrap();
    assert_eq!(world.installed().await, state(&["v1"], 100, "1.0.0"));
    // The older build requires version v3, which the installed definition lacks.
    world.run_build(definition("2.0.0", &["v1", "v2"], 200)).await.unwrap();
    let error = world.run_build(definition("1.0.0", &["v1", "v3"], 100)).await.unwrap_err();
    assert!(matches!(error, OperatorError::Definition { .. }), "{error}");
    world.run_build_with(definition("1.0.0", &["v1", "v3"], 100), true).await.unwrap();
    assert_eq!(world.installed().await, state(&["v1", "v3"], 100, "1.0.0"));
}

#[tokio::test]
async fn equal_version_changes_the_schema_but_removes_no_version() {
    let world = World::start().await;
    world.run_build(definition("1.0.0", &["v1"], 100)).await.unwrap();
    world.run_build(definition("1.0.0", &["v1", "v2"], 200)).await.unwrap();
    assert_eq!(world.installed().await, state(&["v1", "v2"], 200, "1.0.0"));
    world.run_build(definition("1.0.0", &["v1"], 300)).await.unwrap();
    assert_eq!(world.installed().await, state(&["v1", "v2"], 200, "1.0.0"));
}

#[tokio::test]
async fn build_without_a_needed_version_fails_with_the_reason() {
    let world = World::start().await;
    world.run_build(definition("2.0.0", &["v2"], 100)).await.unwrap();
    let error = world.run_build(definition("1.0.0", &["v1"], 100)).await.unwrap_err().to_string();
    assert!(error.contains("this build needs v1") && error.contains("version \"2.0.0\" of the program"), "{error}");
    assert_eq!(world.installed().await, state(&["v2"], 100, "2.0.0"));
}

#[tokio::test]
async fn conflicting_write_of_another_build_is_decided_again() {
    let world = World::start().await;
    world.run_build(definition("1.0.0", &["v1"], 100)).await.unwrap();
    let faults = world.cluster.server().unwrap().faults();
    let conflict = faults.add(answer(RequestVerb::Patch, 409));
    let reads = world.count(RequestVerb::Get, "customresourcedefinitions", "");
    world.run_build(definition("1.1.0", &["v1"], 200)).await.unwrap();
    assert_eq!((faults.hits_of(conflict), world.counted(reads)), (1, 2));
    assert_eq!(world.installed().await, state(&["v1"], 200, "1.1.0"));
}

/// Both replicas read the definition before either of them writes it.
#[tokio::test]
async fn definition_that_changes_after_the_read_is_decided_again() {
    let world = World::start().await;
    world.run_build(definition("1.0.0", &["v1"], 100)).await.unwrap();
    let definitions = world.cluster.api::<CustomResourceDefinition>();
    let faults = world.cluster.server().unwrap().faults();
    // Delay the older build's apply until the newer build has written the definition.
    let delayed =
        faults.add(Rule { fault: Fault::Delay(Duration::from_millis(500)), ..answer(RequestVerb::Patch, 200) });
    let older = world.run_build(definition("1.0.1", &["v1"], 101));
    let newer = async {
        eventually("the older build applies", async || (faults.hits_of(delayed) > 0).then_some(())).await;
        let newer = definition("1.1.0", &["v1"], 200);
        definitions.apply(&newer, &WriteOptions::apply("website-controller")).await.unwrap();
    };
    let (older, ()) = tokio::join!(older, newer);
    older.unwrap();
    assert_eq!(world.installed().await, state(&["v1"], 200, "1.1.0"));
}

/// The first read returns 404, although the definition already exists.
#[tokio::test]
async fn newer_definition_that_appears_after_the_read_stays() {
    let world = World::start().await;
    let newer = definition("1.1.0", &["v1"], 200);
    world.cluster.api().apply(&newer, &WriteOptions::apply("newer")).await.unwrap();
    world.cluster.server().unwrap().faults().add(answer(RequestVerb::Get, 404));
    world.run_build(definition("1.0.0", &["v1"], 100)).await.unwrap();
    assert_eq!(world.installed().await, state(&["v1"], 200, "1.1.0"));
}

/// The definition is first installed with a create request. Later builds must be able to remove the fields of this
/// request.
#[tokio::test]
async fn field_of_the_first_installation_can_be_removed() {
    let world = World::start().await;
    let mut first = definition("1.0.0", &["v1"], 100);
    first.metadata.annotations.insert("example.com/first".into(), "x".into());
    world.run_build(first).await.unwrap();
    world.run_build(definition("1.1.0", &["v1"], 100)).await.unwrap();
    let installed: CustomResourceDefinition = world.cluster.api().get("websites.example.com").await.unwrap();
    assert_eq!(installed.package_version(), Some("1.1.0"));
    assert!(!installed.metadata.annotations.contains_key("example.com/first"), "{:?}", installed.metadata.annotations);
}

/// The first patch fails that would turn the create request's fields into applied fields. Without this patch, an apply
/// could never remove the annotation.
#[tokio::test]
async fn failed_adoption_is_repeated_before_the_apply() {
    let world = World::start().await;
    world.cluster.server().unwrap().faults().add(answer(RequestVerb::Patch, 503));
    let mut first = definition("1.0.0", &["v1"], 100);
    first.metadata.annotations.insert("example.com/first".into(), "x".into());
    world.run_build(first).await.unwrap();
    world.run_build(definition("1.1.0", &["v1"], 100)).await.unwrap();
    let installed: CustomResourceDefinition = world.cluster.api().get("websites.example.com").await.unwrap();
    assert!(!installed.metadata.annotations.contains_key("example.com/first"), "{:?}", installed.metadata.annotations);
}

/// Returns a definition with a conversion webhook at `url` and a new certificate, and this certificate.
fn converted(package: &str, maximum: u32, url: &str) -> (CustomResourceDefinition, String) {
    let key = rcgen::generate_simple_self_signed(["webhooks.example.com".to_owned()]).unwrap();
    let bundle = base64::engine::general_purpose::STANDARD.encode(key.cert.pem());
    let mut definition = definition(package, &["v1"], maximum);
    let webhook = json!({"clientConfig": {"url": url, "caBundle": bundle}, "conversionReviewVersions": ["v1"]});
    definition.spec["conversion"] = json!({"strategy": "Webhook", "webhook": webhook});
    (definition, bundle)
}

/// After a rollback, only replicas of the old build may run. The old build's conversion webhook must continue to work.
#[tokio::test]
async fn kept_definition_gets_new_webhook_certificates() {
    let world = World::start().await;
    let (newer, first) = converted("1.1.0", 200, "https://webhooks.example.com/convert");
    let (older, second) = converted("1.0.0", 100, "https://webhooks.example.com/old");
    let (elsewhere, _) = converted("1.0.0", 100, "https://other.example.com/convert");
    let conversion = async || {
        let installed: CustomResourceDefinition = world.cluster.api().get("websites.example.com").await.unwrap();
        installed.spec["conversion"].clone()
    };
    let bundle = async || conversion().await["webhook"]["clientConfig"]["caBundle"].clone();
    world.run_build(newer).await.unwrap();
    assert_eq!(bundle().await, first);
    world.run_build(elsewhere).await.unwrap();
    assert_eq!(bundle().await, first, "the webhook server of the older build is another one");
    world.run_build(older).await.unwrap();
    assert_eq!(bundle().await, second);
    assert_eq!(world.installed().await, state(&["v1"], 200, "1.1.0"));
    world.run_build(definition("1.2.0", &["v1"], 300)).await.unwrap();
    assert_eq!(conversion().await, json!({"strategy": "None"}), "the kept certificates do not remain");
}

#[test]
fn derived_definition_has_the_version_of_its_package() {
    assert_eq!(Website::crd().package_version(), Some(env!("CARGO_PKG_VERSION")));
    let manifest = serde_json::to_value(Website::crd()).unwrap();
    assert!(manifest["metadata"].get("annotations").is_none(), "{manifest}");
}
