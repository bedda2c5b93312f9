//! Tests of `Api` and `RestMapper` operations that send several requests, against the embedded server. `cargo xtask
//! conformance --client` runs these tests against a real server.

use std::num::NonZeroUsize;

use pintle::apiserver::ApiServer;
use pintle::apiserver::faults::{Fault, Rule};
use pintle::kubeconfig::{self, Environment, Overrides};
use pintle::meta::{
    DeleteOptions, DynamicObject, GroupVersionKind, ListOptions, Object, ObjectMeta, Patch, Resource, WatchEvent,
    WatchOptions, WriteOptions,
};
use pintle::restreq::{Api, Deletion, MappingError, OperationResult, RestClient, RestMapper};
use serde_json::{Value, json};

use crate::support::{ConfigMap, client, create, eventually, server, soon};

/// The environment variable for the path of a real server's kubeconfig. The tests run one at a time and may change any
/// object on the real server.
const REAL: &str = "PINTLE_CONFORMANCE_KUBECONFIG";

/// The server under test. The `default` namespace of the server is initially empty.
struct TestServer {
    embedded: Option<ApiServer>,
    client: RestClient,
}

impl TestServer {
    async fn new() -> Self {
        let Some(kubeconfig) = std::env::var_os(REAL) else {
            let embedded = server().await;
            return Self { client: client(embedded.client_config()), embedded: Some(embedded) };
        };
        let overrides = Overrides::default();
        let config = kubeconfig::infer(Some(kubeconfig.into()), &overrides, &Environment::default()).unwrap();
        let test = Self { client: client(config), embedded: None };
        // Retry, because the server may not be ready yet.
        let start = test.client.get().abs_path(["/api/v1/namespaces/default"]).max_retries(0);
        eventually("the namespace exists", async || start.send().await.ok()).await;
        let mapper = RestMapper::new(test.client.clone());
        let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
        for (resource, namespace) in [("crd", None), ("cm", Some("default")), ("po", Some("default"))] {
            let resource = mapper.named(resource).await.unwrap();
            let api: Api<DynamicObject> = Api::dynamic(test.client.clone(), resource, namespace).unwrap();
            let _ = api.delete_collection(&ListOptions::default(), &now).await;
            let is_empty = async || api.list(&ListOptions::default()).await.ok().filter(|list| list.items.is_empty());
            eventually("objects of an earlier test are gone", is_empty).await;
        }
        test
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), "default")
    }

    async fn shutdown(self) {
        if let Some(embedded) = self.embedded {
            embedded.shutdown().await;
        }
    }
}

const DEFAULTS: WriteOptions =
    WriteOptions { dry_run: false, field_manager: String::new(), field_validation: None, force: false };

fn apply_as(manager: &str, force: bool) -> WriteOptions {
    WriteOptions { field_manager: manager.into(), force, ..DEFAULTS }
}

fn with(name: &str, key: &str, value: &str) -> ConfigMap {
    let mut map = ConfigMap::new(name);
    map.data.insert(key.into(), value.into());
    map
}

#[tokio::test]
async fn apply_owns_fields_and_removes_those_no_longer_applied() {
    let test = TestServer::new().await;
    let maps = test.maps();
    maps.apply(&with("a", "mine", "1"), &apply_as("me", false)).await.unwrap();
    maps.apply(&with("a", "yours", "2"), &apply_as("you", false)).await.unwrap();
    let error = maps.apply(&with("a", "mine", "3"), &apply_as("you", false)).await.unwrap_err();
    assert!(error.is_conflict(), "{error}");

    let mine = maps.applied("a", "me").await.unwrap().unwrap();
    let expected = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"mine": "1"},
        "metadata": {"name": "a", "namespace": "default"},
    });
    assert_eq!(mine, expected);
    assert_eq!(maps.applied("a", "nobody").await.unwrap(), None);
    // Applying the same object again has no effect. Applying an object with fewer fields removes the missing fields.
    let before = maps.get("a").await.unwrap();
    maps.patch("a", &Patch::Apply(mine), &apply_as("me", false)).await.unwrap();
    assert_eq!(maps.get("a").await.unwrap(), before);
    let after = maps.apply(&ConfigMap::new("a"), &apply_as("me", false)).await.unwrap();
    assert_eq!(after.data.keys().collect::<Vec<_>>(), ["yours"]);
    let forced = maps.apply(&with("a", "yours", "4"), &apply_as("me", true)).await.unwrap();
    assert_eq!(forced.data["yours"], "4");
    test.shutdown().await;
}

#[tokio::test]
async fn deletion_returns_finalizers_and_wait_for_deletion_completes() {
    let test = TestServer::new().await;
    let maps = test.maps();
    let plain = create(&maps, "plain").await;
    let Deletion::Status(status) = maps.delete("plain", &DeleteOptions::default()).await.unwrap() else {
        panic!("the object has no finalizer")
    };
    assert_eq!(status.details.unwrap().uid, plain.metadata.uid);

    let mut held = ConfigMap::new("held");
    held.metadata.finalizers.push("example.com/hold".into());
    let held = maps.create(&held, &DEFAULTS).await.unwrap();
    let Deletion::Object(object) = maps.delete("held", &DeleteOptions::default()).await.unwrap() else {
        panic!("the finalizer blocks the deletion")
    };
    assert!(object.metadata.deletion_timestamp.is_some());
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let (uid, options) = (&held.metadata.uid, DEFAULTS);
    let both =
        async { tokio::join!(maps.wait_for_deletion("held", Some(uid)), maps.patch("held", &release, &options)) };
    let (waited, released) = soon(both).await;
    waited.unwrap();
    released.unwrap();
    assert!(maps.get("held").await.unwrap_err().is_not_found());
    test.shutdown().await;
}

#[tokio::test]
async fn metadata_only_and_table_responses_match_the_kind() {
    let test = TestServer::new().await;
    let maps = test.maps();
    maps.create(&with("a", "big", &"x".repeat(10_000)), &DEFAULTS).await.unwrap();
    let metadata = maps.metadata_only();
    let read = metadata.get("a").await.unwrap();
    assert_eq!((read.kind.as_str(), read.metadata.name.as_str()), ("PartialObjectMetadata", "a"));
    let list = metadata.list(&ListOptions::default()).await.unwrap();
    assert!(list.items.iter().any(|map| map.metadata.name == "a"));
    let from = WatchOptions { resource_version: list.metadata.resource_version, ..WatchOptions::default() };
    let mut events = metadata.watch(&from).await.unwrap();
    let label = Patch::Merge(json!({"metadata": {"labels": {"k": "v"}}}));
    metadata.patch("a", &label, &DEFAULTS).await.unwrap();
    match soon(events.next()).await.unwrap().unwrap() {
        WatchEvent::Modified(map) => assert_eq!(map.metadata.labels["k"], "v"),
        other => panic!("{other:?}"),
    }
    assert_eq!(maps.get("a").await.unwrap().data["big"].len(), 10_000, "a metadata patch keeps the data");

    let table = maps.table(&ListOptions::default()).await.unwrap();
    let columns: Vec<_> = table.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(columns[..2], ["Name", "Data"]);
    let row = table.rows.iter().find(|row| row.object.metadata.name == "a").unwrap();
    assert_eq!(row.cells[0], json!("a"));
    test.shutdown().await;
}

#[tokio::test]
async fn create_or_update_creates_updates_or_does_nothing() {
    let test = TestServer::new().await;
    let maps = test.maps();
    let settle = async |value: &str| {
        let want = |map: &mut ConfigMap| _ = map.data.insert("k".into(), value.into());
        let (result, map) = maps.create_or_update(&ConfigMap::new("a"), &DEFAULTS, want).await.unwrap();
        assert_eq!(map.data["k"], value);
        (result, map.metadata.resource_version)
    };
    let (created, _) = settle("1").await;
    let (updated, revision) = settle("2").await;
    let (unchanged, same) = settle("2").await;
    assert_eq!(created, OperationResult::Created);
    assert_eq!((updated, unchanged), (OperationResult::Updated, OperationResult::Unchanged));
    assert_eq!(revision, same);
    test.shutdown().await;
}

#[tokio::test]
async fn subresources_can_be_read_written_and_created() {
    let test = TestServer::new().await;
    let pods = Api::<k8s_openapi::api::core::v1::Pod>::namespaced(test.client.clone(), "default");
    let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    pods.create(&serde_json::from_value(pod).unwrap(), &DEFAULTS).await.unwrap();
    let status = pods.subresource::<Value>("a", "status");
    let running = Patch::Merge(json!({"status": {"phase": "Running"}}));
    assert_eq!(status.patch(&running, &DEFAULTS).await.unwrap()["status"]["phase"], "Running");
    assert_eq!(status.get().await.unwrap()["status"]["phase"], "Running");
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}});
    let evicted = pods.subresource::<Value>("a", "eviction").create(&eviction, &DEFAULTS).await.unwrap();
    assert_eq!((&evicted["kind"], &evicted["status"]), (&json!("Status"), &json!("Success")));
    test.shutdown().await;
}

#[tokio::test]
async fn cut_watch_resumes_without_loss() {
    // Only the embedded server can cut a watch on request.
    let server = server().await;
    let maps: Api<ConfigMap> = Api::namespaced(client(server.client_config()), "default");
    let revision = maps.list(&ListOptions::default()).await.unwrap().metadata.resource_version;
    let cut = Rule { resource: Some("configmaps".into()), ..Rule::new(Fault::CutMidFrame(2)) };
    server.faults().add(cut);
    let from = WatchOptions { resource_version: revision, ..WatchOptions::default() };
    let mut watch = maps.retry_watch(&from).unwrap();
    for name in ["a", "b", "c", "d"] {
        create(&maps, name).await;
    }
    let mut names = Vec::new();
    while names.len() < 4 {
        match soon(watch.next()).await.unwrap().unwrap() {
            WatchEvent::Added(map) => names.push(map.metadata.name),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(names, ["a", "b", "c", "d"]);
    assert_eq!(server.faults().hits(), 1);
    server.shutdown().await;
}

#[tokio::test]
async fn prefetched_pages_return_the_whole_list() {
    let test = TestServer::new().await;
    let maps = test.maps();
    for at in 0..25 {
        create(&maps, &format!("map-{at:02}")).await;
    }
    let options = ListOptions { limit: 4, ..ListOptions::default() };
    let mut pages = maps.pages(&options).read_ahead(NonZeroUsize::new(3).unwrap());
    let mut names = Vec::new();
    while let Some(page) = pages.next().await {
        names.extend(page.unwrap().items.into_iter().map(|map| map.metadata.name));
    }
    let whole = maps.list(&ListOptions::default()).await.unwrap();
    assert_eq!(names, whole.items.iter().map(|map| map.name().to_owned()).collect::<Vec<_>>());
    test.shutdown().await;
}

#[tokio::test]
async fn mapper_finds_a_new_definition_by_each_name() {
    let test = TestServer::new().await;
    let client = test.client.clone();
    let mapper = RestMapper::new(client.clone());
    assert_eq!(mapper.named("cm").await.unwrap(), ConfigMap::api_resource());
    assert_eq!(mapper.named("deploy").await.unwrap().to_string(), "deployments.apps");
    assert_eq!(mapper.named("events").await.unwrap().group_version.group, "", "the core group comes first");
    assert_eq!(mapper.named("events.events.k8s.io").await.unwrap().group_version.group, "events.k8s.io");
    let error = mapper.named("widgets").await.unwrap_err();
    assert!(matches!(error, MappingError::NoMatch { .. }), "{error}");

    let definitions: Api<DynamicObject> =
        Api::dynamic(client.clone(), mapper.named("crd").await.unwrap(), None).unwrap();
    let definition = |group: &str| {
        json!({
            "metadata": {"name": format!("widgets.{group}")},
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"]},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                }],
            },
        })
    };
    let define = async |group: &str| {
        let definition: DynamicObject = serde_json::from_value(definition(group)).unwrap();
        definitions.create(&definition, &DEFAULTS).await.unwrap();
        let name = format!("widgets.{group}");
        let (condition, _) = soon(definitions.wait_for_condition(&*name, &["Established"])).await.unwrap();
        assert_eq!(condition, "Established");
    };
    define("a.example.com").await;
    // A real server starts to serve a new definition after a delay.
    let widgets = eventually("the kind is discovered", async || mapper.named("wd").await.ok()).await;
    assert_eq!(widgets.to_string(), "widgets.a.example.com");
    let api: Api<DynamicObject> = Api::dynamic(client, widgets, Some("default")).unwrap();
    let blog = DynamicObject { metadata: ObjectMeta::new("default", "blog"), ..DynamicObject::default() };
    let blog = api.apply(&blog, &apply_as("me", false)).await.unwrap();
    assert_eq!(blog.types.kind, "Widget", "the handle knows the kind");

    define("b.example.com").await;
    let is_ambiguous = async || {
        mapper.invalidate();
        match mapper.named("widgets").await {
            Err(MappingError::Ambiguous { candidates, .. }) => Some(candidates.len()),
            _ => None,
        }
    };
    assert_eq!(eventually("both are discovered", is_ambiguous).await, 2);
    let kind = GroupVersionKind::new("b.example.com", "", "Widget");
    assert_eq!(mapper.kind(&kind).await.unwrap().to_string(), "widgets.b.example.com");
    test.shutdown().await;
}
