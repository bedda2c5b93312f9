//! Tests against a real kube-apiserver. `PINTLE_TEST_KUBECONFIG` is the path of a kubeconfig whose user has all
//! permissions.
//!
//! Each test creates its own namespace and deletes it at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt;
use pintle_kubeconfig::{Files, Overrides};
use pintle_meta::{
    ApiResource, ClientConfig, DeleteOptions, DynamicObject, FieldSelector, FieldValidation, ListOptions, ListPart,
    ListWatch, ObjectKey, ObjectMeta, Patch, Preconditions, RawObject, Reason, Scope, Secret, WatchEvent, WatchOptions,
    WriteOptions,
};
use pintle_restreq::{Api, RestClient};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct ConfigMap {
    metadata: ObjectMeta,
    #[serde(default)]
    data: BTreeMap<String, String>,
}
pintle_meta::resource!(ConfigMap, "v1", "ConfigMap", "configmaps", Namespaced);

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct Namespace {
    metadata: ObjectMeta,
}
pintle_meta::resource!(Namespace, "v1", "Namespace", "namespaces", Cluster);

fn map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: name.into(),
            labels: [("test".into(), "restreq".into())].into(),
            ..ObjectMeta::default()
        },
        data: [("key".into(), value.into())].into(),
    }
}

/// Returns the client configuration for a real server. If no server is configured, prints a message and returns `None`.
#[allow(clippy::print_stderr)]
pub(crate) fn config() -> Option<ClientConfig> {
    let Some(path) = std::env::var_os("PINTLE_TEST_KUBECONFIG") else {
        eprintln!("skipped: PINTLE_TEST_KUBECONFIG names no kubeconfig of a real cluster");
        return None;
    };
    let config = Files::explicit(path).load().unwrap().client_config(&Overrides::default()).unwrap();
    Some(config)
}

/// Runs a test in a separate namespace.
pub(crate) async fn in_namespace<F: Future<Output = ()>>(name: &str, test: impl FnOnce(RestClient, String) -> F) {
    let Some(config) = config() else { return };
    let client = RestClient::new(config).unwrap();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let metadata = ObjectMeta { generate_name: format!("restreq-{name}-"), ..ObjectMeta::default() };
    let made = namespaces.create(&Namespace { metadata }, &WriteOptions::default()).await.unwrap();
    let limit = Duration::from_secs(60);
    let done = tokio::time::timeout(limit, test(client, made.metadata.name.clone())).await;
    namespaces.delete(made.metadata.name.as_str(), &DeleteOptions::default()).await.unwrap();
    done.unwrap();
}

#[tokio::test]
async fn object_lifecycle_on_a_real_server() {
    in_namespace("life", |client, namespace| async move {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
        let (post, delete) = (WriteOptions::default(), DeleteOptions::default());

        let made = maps.create(&map("a", "1"), &post).await.unwrap();
        assert!(!made.metadata.uid.is_empty() && made.metadata.namespace == namespace);
        let twice = maps.create(&map("a", "1"), &post).await.unwrap_err();
        assert!(twice.is_already_exists(), "{twice}");

        let mut read = maps.get("a").await.unwrap();
        assert_eq!(read.data["key"], "1");
        read.data.insert("key".into(), "2".into());
        let updated = maps.update(&read, &post).await.unwrap();
        assert_ne!(updated.metadata.resource_version, made.metadata.resource_version);
        let stale = maps.update(&read, &post).await.unwrap_err();
        assert!(stale.is_conflict(), "{stale}");

        for (patch, expected) in [
            (Patch::Merge(json!({"data": {"key": "3"}})), "3"),
            (Patch::Json(json!([{"op": "replace", "path": "/data/key", "value": "4"}])), "4"),
            (Patch::Strategic(json!({"data": {"key": "5"}})), "5"),
        ] {
            assert_eq!(maps.patch("a", &patch, &post).await.unwrap().data["key"], expected);
        }
        let apply = WriteOptions { field_manager: "restreq".into(), force: true, ..WriteOptions::default() };
        let applied = Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "6"}}));
        assert_eq!(maps.patch("a", &applied, &apply).await.unwrap().data["key"], "6");

        let dry = WriteOptions { dry_run: true, ..WriteOptions::default() };
        maps.create(&map("dry", "1"), &dry).await.unwrap();
        assert!(maps.get("dry").await.unwrap_err().is_not_found());

        let other = Preconditions { uid: Some("another".into()), resource_version: None };
        let other = DeleteOptions { preconditions: Some(other), ..DeleteOptions::default() };
        assert!(maps.delete("a", &other).await.unwrap_err().is_conflict());
        maps.delete("a", &delete).await.unwrap();
        assert!(maps.get("a").await.unwrap_err().is_not_found());
    })
    .await;
}

#[tokio::test]
async fn lists_have_pages_and_collections_can_be_deleted() {
    in_namespace("list", |client, namespace| async move {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
        for at in 0..5 {
            maps.create(&map(&format!("m{at}"), "x"), &WriteOptions::default()).await.unwrap();
        }
        let mut options =
            ListOptions { limit: 2, label_selector: "test=restreq".parse().unwrap(), ..ListOptions::default() };
        let mut names = Vec::new();
        loop {
            let page = maps.list(&options).await.unwrap();
            assert!(page.items.len() <= 2 && !page.metadata.resource_version.is_empty());
            names.extend(page.items.into_iter().map(|map| map.metadata.name));
            options.continue_token = page.metadata.continue_token;
            if options.continue_token.is_empty() {
                break;
            }
        }
        assert_eq!(names, ["m0", "m1", "m2", "m3", "m4"]);

        let resource = ApiResource::new("v1", "ConfigMap", "configmaps", Scope::Namespaced);
        let all: Api<DynamicObject> = Api::dynamic(client.clone(), resource, None).unwrap();
        let field_selector = FieldSelector::everything().equals("metadata.namespace", &namespace);
        let fields = ListOptions { field_selector, ..ListOptions::default() };
        assert!(all.list(&fields).await.unwrap().items.len() >= 5);

        let which = ListOptions { label_selector: "test=restreq".parse().unwrap(), ..ListOptions::default() };
        maps.delete_collection(&which, &DeleteOptions::default()).await.unwrap();
        assert!(maps.list(&which).await.unwrap().items.is_empty());
    })
    .await;
}

#[tokio::test]
async fn watch_reports_changes() {
    in_namespace("watch", |client, namespace| async move {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
        let from = maps.list(&ListOptions::default()).await.unwrap().metadata.resource_version;
        let options = WatchOptions {
            resource_version: from,
            label_selector: "test=restreq".parse().unwrap(),
            allow_bookmarks: true,
            timeout: Some(Duration::from_secs(30)),
            ..WatchOptions::default()
        };
        let mut events = maps.watch(&options).await.unwrap();
        maps.create(&map("a", "1"), &WriteOptions::default()).await.unwrap();
        maps.patch("a", &Patch::Merge(json!({"data": {"key": "2"}})), &WriteOptions::default()).await.unwrap();
        maps.delete("a", &DeleteOptions::default()).await.unwrap();
        let mut seen = Vec::new();
        while seen.len() < 3 {
            match events.next().await.unwrap().unwrap() {
                WatchEvent::Added(map) => seen.push(("added", map.data["key"].clone())),
                WatchEvent::Modified(map) => seen.push(("modified", map.data["key"].clone())),
                WatchEvent::Deleted(map) => seen.push(("deleted", map.data["key"].clone())),
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(status) => panic!("{status}"),
            }
        }
        assert_eq!(seen, [("added", "1".into()), ("modified", "2".into()), ("deleted", "2".into())]);

        let short = WatchOptions { timeout: Some(Duration::from_secs(1)), ..options };
        let mut events = maps.watch(&short).await.unwrap();
        while let Some(event) = events.next().await {
            event.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn oversized_object_is_reported_by_list_and_watch() {
    in_namespace("large", |client, namespace| async move {
        let maps: Api<ConfigMap> = Api::namespaced(client, &namespace);
        for (name, value) in [("a", "x"), ("b", &*"x".repeat(5000)), ("c", "x")] {
            maps.create(&map(name, value), &WriteOptions::default()).await.unwrap();
        }
        let mut config = config().unwrap();
        config.max_object = Some(2000);
        let narrow: Api<ConfigMap> = Api::namespaced(RestClient::new(config).unwrap(), &namespace);
        let options = ListOptions { label_selector: "test=restreq".parse().unwrap(), ..ListOptions::default() };
        let parts: Vec<_> = ListWatch::list(&narrow, &options).await.unwrap().map(Result::unwrap).collect().await;
        let [
            ListPart::Item(RawObject::Json(_)),
            ListPart::Item(RawObject::Oversized(large)),
            ListPart::Item(RawObject::Json(_)),
            ListPart::Metadata(list),
        ] = &*parts
        else {
            panic!("{parts:?}")
        };
        assert_eq!(large.key, Some(ObjectKey::new(&namespace, "b")));
        assert!(large.size > 5000 && !large.uid.is_empty() && !large.resource_version.is_empty(), "{large:?}");

        let options = WatchOptions { resource_version: list.resource_version.clone(), ..WatchOptions::default() };
        let mut events = ListWatch::watch(&narrow, &options).await.unwrap();
        maps.delete("b", &DeleteOptions::default()).await.unwrap();
        maps.delete("c", &DeleteOptions::default()).await.unwrap();
        let WatchEvent::Deleted(RawObject::Oversized(gone)) = events.next().await.unwrap().unwrap() else {
            panic!("it is too large")
        };
        assert_eq!((&gone.key, &gone.uid), (&large.key, &large.uid));
        let WatchEvent::Deleted(small) = events.next().await.unwrap().unwrap() else { panic!("it is deleted") };
        assert_eq!(small.decode::<ConfigMap>().unwrap().metadata.name, "c");
    })
    .await;
}

#[tokio::test]
async fn future_revision_is_distinguished_from_other_timeouts() {
    in_namespace("future", |client, namespace| async move {
        // Disable retries, because the server requests a delay of three seconds before each retry.
        let request = client.get().abs_path(["/api/v1"]).namespace(namespace).resource("configmaps").max_retries(0);
        let request = request.param("resourceVersion", "999999999").param("resourceVersionMatch", "NotOlderThan");
        let error = request.send().await.unwrap_err();
        assert!(error.is_too_large_resource_version(), "{error}");
    })
    .await;
}

#[tokio::test]
async fn streaming_list_ends_with_its_bookmark() {
    in_namespace("stream", |client, namespace| async move {
        let maps: Api<ConfigMap> = Api::namespaced(client, &namespace);
        maps.create(&map("a", "1"), &WriteOptions::default()).await.unwrap();
        let options = WatchOptions {
            allow_bookmarks: true,
            send_initial_events: true,
            resource_version_match: Some(pintle_meta::ResourceVersionMatch::NotOlderThan),
            ..WatchOptions::default()
        };
        let mut events = maps.watch(&options).await.unwrap();
        let mut names = Vec::new();
        loop {
            match events.next().await.unwrap().unwrap() {
                WatchEvent::Added(map) => names.push(map.metadata.name),
                WatchEvent::Bookmark(mark) if mark.initial_events_end => break,
                other => panic!("{other:?}"),
            }
        }
        assert!(names.contains(&"a".to_owned()), "{names:?}");
    })
    .await;
}

#[tokio::test]
async fn rejections_are_typed() {
    let Some(admin) = config() else { return };
    let mut wrong = admin.clone();
    wrong.token = Some(Secret::new("wrong"));
    let maps: Api<ConfigMap> = Api::namespaced(RestClient::new(wrong).unwrap(), "default");
    let error = maps.get("a").await.unwrap_err();
    assert_eq!(error.reason(), Some(&Reason::Unauthorized), "{error}");
    assert_eq!(error.status().unwrap().code, 401);

    let mut nobody = admin.clone();
    nobody.token = Some(Secret::new("nobody-token"));
    let maps: Api<ConfigMap> = Api::namespaced(RestClient::new(nobody).unwrap(), "default");
    let error = maps.get("a").await.unwrap_err();
    assert_eq!(error.reason(), Some(&Reason::Forbidden), "{error}");
    assert!(error.to_string().contains("nobody"), "{error}");

    let client = RestClient::new(admin.clone()).unwrap();
    let resource = ApiResource::new("example.com/v1", "Gadget", "gadgets", Scope::Cluster);
    let gadgets: Api<DynamicObject> = Api::dynamic(client.clone(), resource, None).unwrap();
    assert!(gadgets.list(&ListOptions::default()).await.unwrap_err().is_not_found());

    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let invalid = maps.create(&map("Not A Name", "x"), &WriteOptions::default()).await.unwrap_err();
    assert_eq!(invalid.reason(), Some(&Reason::Invalid), "{invalid}");

    let strict =
        WriteOptions { field_validation: Some(FieldValidation::Strict), dry_run: true, ..WriteOptions::default() };
    let typo = json!({"metadata": {"name": "typo"}, "datta": {}});
    let resource = ApiResource::new("v1", "ConfigMap", "configmaps", Scope::Namespaced);
    let typos: Api<DynamicObject> = Api::dynamic(client, resource, Some("default")).unwrap();
    let error = typos.create(&serde_json::from_value(typo).unwrap(), &strict).await.unwrap_err();
    assert!(error.to_string().contains("datta"), "{error}");
}

#[tokio::test]
async fn impersonation_changes_the_user() {
    let Some(mut config) = config() else { return };
    config.impersonate = Some(pintle_meta::Impersonate {
        user: "somebody".into(),
        groups: vec!["some-group".into(), "system:authenticated".into()],
        extra: [("example.com/reason".into(), vec!["test".into()])].into(),
        ..pintle_meta::Impersonate::default()
    });
    let client = RestClient::new(config).unwrap();
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let request =
        client.post().abs_path(["/apis/authentication.k8s.io/v1"]).resource("selfsubjectreviews").json(&review);
    let answer = request.object::<serde_json::Value>().await.unwrap();
    let user = &answer["status"]["userInfo"];
    assert_eq!(user["username"], "somebody");
    assert!(user["groups"].as_array().unwrap().contains(&json!("some-group")), "{user}");
    assert_eq!(user["extra"]["example.com/reason"], json!(["test"]), "{user}");
}

#[tokio::test]
async fn watches_exceed_the_streams_of_one_connection() {
    let Some(config) = config() else { return };
    let client = RestClient::new(config).unwrap();
    let maps = client.get().abs_path(["/api/v1/configmaps"]).param("watch", "true");
    let watches = futures_util::future::try_join_all((0..600).map(|_| maps.raw_watch()));
    let watches = tokio::time::timeout(Duration::from_secs(60), watches).await.unwrap().unwrap();
    client.get().abs_path(["/version"]).send().await.unwrap();
    assert_eq!(watches.len(), 600);
}

#[tokio::test]
async fn requests_share_one_http2_connection() {
    let Some(config) = config() else { return };
    let client = RestClient::new(config).unwrap();
    let answers = futures_util::future::join_all((0..50).map(|_| {
        let client = client.clone();
        async move { client.get().abs_path(["/version"]).send().await.unwrap() }
    }));
    for answer in answers.await {
        let version: serde_json::Value = answer.into().unwrap();
        assert!(version["gitVersion"].is_string(), "{version}");
    }
}
