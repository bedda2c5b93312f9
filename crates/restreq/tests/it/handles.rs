//! Tests of the typed API: subresources, apply, deletion, metadata and tables, retried writes, and prefetched pages.

use std::cell::Cell;
use std::num::NonZeroUsize;

use http::Method;
use pintle_meta::{
    ApiError, DeleteOptions, DynamicObject, ErrorKind, List, ListOptions, ObjectMeta, Patch, Reason, Status,
    WatchOptions, WriteOptions,
};
use pintle_restreq::{Api, Deletion, OperationResult, retry_on_conflict};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::support::{End, Reply, Server, soon, steady_clock, until};

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
struct Widget {
    metadata: ObjectMeta,
    #[serde(default)]
    size: u32,
}
pintle_meta::resource!(Widget, "example.com/v1", "Widget", "widgets", Namespaced);

const BASE: &str = "/apis/example.com/v1/namespaces/ns/widgets";

fn widget(size: u32) -> Widget {
    Widget { metadata: ObjectMeta::new("ns", "a"), size }
}

fn stored(size: u32) -> Reply {
    let metadata = json!({"name": "a", "namespace": "ns", "resourceVersion": "7"});
    Reply::json(200, json!({"metadata": metadata, "size": size}).to_string())
}

fn api(server: &Server) -> Api<Widget> {
    Api::namespaced(server.client(), "ns")
}

fn sent(server: &Server) -> Vec<String> {
    server.seen().iter().map(|seen| format!("{} {}", seen.method, seen.uri)).collect()
}

fn body(server: &Server) -> Value {
    serde_json::from_slice(&server.seen().pop().unwrap().body).unwrap()
}

#[tokio::test]
async fn subresource_is_read_and_written() {
    let server = Server::always(Reply::json(200, r#"{"kind":"Scale","spec":{"replicas":3}}"#)).await;
    let scale = api(&server).subresource::<Value>("a", "scale");
    assert_eq!(soon(scale.get()).await.unwrap()["spec"]["replicas"], 3);
    let dry = WriteOptions { dry_run: true, ..WriteOptions::default() };
    soon(scale.update(&json!({"spec": {"replicas": 4}}), &dry)).await.unwrap();
    assert_eq!(body(&server), json!({"spec": {"replicas": 4}}), "bodies are sent unchanged");
    soon(scale.patch(&Patch::Merge(json!({})), &WriteOptions::default())).await.unwrap();
    assert_eq!(server.seen().pop().unwrap().header("content-type"), Some("application/merge-patch+json"));
    soon(scale.create(&json!({}), &WriteOptions::default())).await.unwrap();
    let deep = api(&server).subresource::<Value>("a", "proxy/healthz");
    soon(deep.request(Method::DELETE).param("x", "y").send()).await.unwrap();
    assert_eq!(
        sent(&server),
        [
            format!("GET {BASE}/a/scale"),
            format!("PUT {BASE}/a/scale?dryRun=All"),
            format!("PATCH {BASE}/a/scale"),
            format!("POST {BASE}/a/scale"),
            format!("DELETE {BASE}/a/proxy/healthz?x=y"),
        ]
    );
    for (key, name) in [("a", ".."), ("a", ""), ("", "scale"), ("a/b/c", "scale"), ("other/a", "scale")] {
        let error = soon(api(&server).subresource::<Value>(key, name).get()).await.unwrap_err();
        assert!(matches!(error.kind, ErrorKind::InvalidRequest(_)), "{key} {name}: {error}");
    }
    assert_eq!(server.seen().len(), 5, "nothing was sent");
}

#[tokio::test]
async fn apply_sends_kind_and_field_manager() {
    let server = Server::always(stored(3)).await;
    let options = WriteOptions { field_manager: "me".into(), force: true, ..WriteOptions::default() };
    soon(api(&server).apply(&widget(3), &options)).await.unwrap();
    let applied = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a", "namespace": "ns"}, "size": 3,
    });
    assert_eq!(body(&server), applied);
    assert_eq!(server.seen()[0].header("content-type"), Some("application/apply-patch+yaml"));
    soon(api(&server).apply_status(&widget(3), &options)).await.unwrap();
    let query = "?fieldManager=me&force=true";
    assert_eq!(sent(&server), [format!("PATCH {BASE}/a{query}"), format!("PATCH {BASE}/a/status{query}")]);
    let error = soon(api(&server).apply(&widget(3), &WriteOptions::default())).await.unwrap_err();
    assert!(error.to_string().contains("field manager"), "{error}");
    assert_eq!(server.seen().len(), 2, "nothing was sent");
}

#[tokio::test]
async fn applied_returns_the_start_of_the_next_apply() {
    let entry = json!({"manager": "me", "operation": "Apply", "fieldsV1": {"f:size": {}}});
    let object = json!({"metadata": {"name": "a", "managedFields": [entry]}, "size": 3, "other": 4});
    let server = Server::always(Reply::json(200, object.to_string())).await;
    let applied = soon(api(&server).applied("a", "me")).await.unwrap();
    let expected = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "size": 3});
    assert_eq!(applied, Some(expected));
    assert_eq!(soon(api(&server).applied("a", "you")).await.unwrap(), None);
    let entry = json!({"manager": "me", "operation": "Apply", "fieldsV1": {"x": 1}});
    let object = json!({"metadata": {"name": "a", "managedFields": [entry]}});
    let server = Server::always(Reply::json(200, object.to_string())).await;
    let error = soon(api(&server).applied("a", "me")).await.unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Decode(_)) && error.to_string().contains("managed fields"), "{error}");
}

#[tokio::test]
async fn deletion_returns_the_object_or_a_status() {
    let gone = r#"{"kind":"Status","apiVersion":"v1","status":"Success","details":{"name":"a","uid":"4f9a"}}"#;
    let server = Server::start([Reply::json(200, gone), stored(3), Reply::json(200, ""), Reply::json(200, "[]")]).await;
    let delete = || async { soon(api(&server).delete("a", &DeleteOptions::default())).await };
    let Deletion::Status(status) = delete().await.unwrap() else { panic!("the response is a status") };
    assert_eq!(status.details.unwrap().uid, "4f9a");
    let Deletion::Object(object) = delete().await.unwrap() else { panic!("the response is an object") };
    assert_eq!(object.size, 3);
    assert!(matches!(delete().await.unwrap(), Deletion::Status(status) if status.status == "Success"));
    let error = delete().await.unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Decode(_)) && error.may_have_acted(), "{error}");
    let failure = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409}"#;
    let server = Server::always(Reply::json(200, failure)).await;
    let error = soon(api(&server).delete("a", &DeleteOptions::default())).await.unwrap_err();
    assert!(error.is_conflict(), "a failure status in a 200 response is an error: {error}");
}

#[tokio::test]
async fn metadata_only_api_reads_but_never_replaces() {
    let object =
        r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a","namespace":"ns"}}"#;
    let list: &str = format!(r#"{{"kind":"PartialObjectMetadataList","items":[{object}]}}"#).leak();
    let frame: &str = format!(r#"{{"type":"ADDED","object":{object}}}"#).leak();
    let script = [Reply::json(200, object), Reply::json(200, list), Reply::watch(&[frame], End::Proper)];
    let server = Server::start_with(script, Reply::json(200, object), None).await;
    let api = api(&server).metadata_only();
    let read = soon(api.get("a")).await.unwrap();
    assert_eq!(read.metadata.name, "a");
    assert_eq!(soon(api.list(&ListOptions::default())).await.unwrap().items.len(), 1);
    soon(soon(api.watch(&WatchOptions::default())).await.unwrap().next()).await.unwrap().unwrap();
    soon(api.patch("a", &Patch::Merge(json!({})), &WriteOptions::default())).await.unwrap();
    soon(api.delete("a", &DeleteOptions::default())).await.unwrap();
    let form = |form: &str| format!("application/json;as={form};g=meta.k8s.io;v=v1, application/json");
    let (one, many) = (form("PartialObjectMetadata"), form("PartialObjectMetadataList"));
    let accepted: Vec<_> = server.seen().iter().map(|seen| seen.header("accept").unwrap().to_owned()).collect();
    assert_eq!(accepted, [&one, &many, &one, &one, &one].map(String::clone));

    let options = WriteOptions { field_manager: "me".into(), ..WriteOptions::default() };
    for error in [
        soon(api.create(&read, &options)).await.unwrap_err(),
        soon(api.update(&read, &options)).await.unwrap_err(),
        soon(api.update_status(&read, &options)).await.unwrap_err(),
        soon(api.apply(&read, &options)).await.unwrap_err(),
    ] {
        assert!(error.to_string().contains("send a patch instead"), "{error}");
    }
    assert_eq!(server.seen().len(), 5, "nothing was sent");
}

#[tokio::test]
async fn table_has_the_columns_of_the_server() {
    let table = json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "7"},
        "columnDefinitions": [{"name": "Name", "type": "string", "format": "name", "description": "d", "priority": 0}],
        "rows": [{"cells": ["a"], "object": {"kind": "PartialObjectMetadata", "metadata": {"name": "a"}}}],
    });
    let empty = json!({"kind": "Table", "columnDefinitions": null, "rows": null});
    let list = json!({"kind": "WidgetList", "items": []});
    let server = Server::start([table, empty, list].map(|table| Reply::json(200, table.to_string()))).await;
    let options = ListOptions { limit: 2, ..ListOptions::default() };
    let table = soon(api(&server).table(&options)).await.unwrap();
    assert_eq!((table.columns[0].name.as_str(), &table.rows[0].cells[0]), ("Name", &json!("a")));
    assert_eq!((table.rows[0].object.metadata.name.as_str(), table.metadata.resource_version.as_str()), ("a", "7"));
    assert_eq!(sent(&server), [format!("GET {BASE}?limit=2")]);
    assert_eq!(server.seen()[0].header("accept"), Some("application/json;as=Table;g=meta.k8s.io;v=v1"));
    assert!(soon(api(&server).table(&options)).await.unwrap().rows.is_empty());
    let error = soon(api(&server).table(&options)).await.unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Decode(_)) && error.to_string().contains("WidgetList"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn only_conflicts_are_retried() {
    let conflict = || ApiError::from(Status::failure(409, Reason::Conflict, "too late"));
    let tried = async |attempts: u32, outcomes: &dyn Fn(u32) -> Result<u32, ApiError>| {
        let calls = Cell::new(0);
        let result = retry_on_conflict(attempts, || {
            calls.set(calls.get() + 1);
            std::future::ready(outcomes(calls.get()))
        });
        (result.await, calls.get())
    };
    let (result, calls) = tried(3, &|_| Err(conflict())).await;
    assert!(result.unwrap_err().is_conflict() && calls == 3, "the last conflict is returned");
    let (result, calls) = tried(3, &Ok).await;
    assert_eq!((result.unwrap(), calls), (1, 1));
    let (result, calls) = tried(3, &|call| if call < 3 { Err(conflict()) } else { Ok(call) }).await;
    assert_eq!((result.unwrap(), calls), (3, 3));
    let (result, calls) = tried(3, &|_| Err(ApiError::timeout("late"))).await;
    assert!(result.is_err() && calls == 1);
    let exists = || ApiError::from(Status::failure(409, Reason::AlreadyExists, "there"));
    let (result, calls) = tried(3, &|_| Err(exists())).await;
    assert!(result.unwrap_err().is_already_exists() && calls == 1);
    let (_, calls) = tried(0, &|_| Err(conflict())).await;
    assert_eq!(calls, 1, "at least one attempt");
}

#[tokio::test(start_paused = true)]
async fn create_or_update_reaches_the_wanted_state() {
    let _clock = steady_clock();
    let (missing, conflict) = (|| Reply::json(404, "{}"), || Reply::json(409, "{}"));
    let settle = async |script: Vec<Reply>| {
        let server = Server::start_with(script, conflict(), None).await;
        let result = soon(api(&server).create_or_update(&widget(1), &WriteOptions::default(), |it| it.size = 3)).await;
        let methods: Vec<_> = server.seen().iter().map(|seen| seen.method.to_string()).collect();
        (result.map(|(result, object)| (result, object.size)), methods.join(" "), body_or_null(&server))
    };
    let (result, sent, body) = settle(vec![missing(), stored(3)]).await;
    assert_eq!((result.unwrap(), sent.as_str()), ((OperationResult::Created, 3), "GET POST"));
    assert_eq!(body["size"], 3);
    let (result, sent, _) = settle(vec![stored(3)]).await;
    assert_eq!((result.unwrap(), sent.as_str()), ((OperationResult::Unchanged, 3), "GET"));
    let (result, sent, body) = settle(vec![stored(2), stored(3)]).await;
    assert_eq!((result.unwrap(), sent.as_str()), ((OperationResult::Updated, 3), "GET PUT"));
    assert_eq!((&body["size"], &body["metadata"]["resourceVersion"]), (&json!(3), &json!("7")));
    // Another client creates the object before this client does, and changes it later.
    let (result, sent, _) = settle(vec![missing(), conflict(), stored(2), conflict(), stored(2), stored(3)]).await;
    assert_eq!((result.unwrap(), sent.as_str()), ((OperationResult::Updated, 3), "GET POST GET PUT GET PUT"));
    let always = (0..5).flat_map(|_| [stored(2), conflict()]).collect();
    let (result, sent, _) = settle(always).await;
    assert!(result.unwrap_err().is_conflict());
    assert_eq!(sent, ["GET PUT"; 5].join(" "));
    let (result, sent, _) = settle(vec![Reply::json(403, "{}")]).await;
    assert!(result.unwrap_err().is_forbidden() && sent == "GET");
}

fn body_or_null(server: &Server) -> Value {
    serde_json::from_slice(&server.seen().pop().unwrap().body).unwrap_or_default()
}

/// The list consists of five pages with one widget each.
fn page(seen: &crate::support::Seen, _: usize) -> Reply {
    let at: u32 = seen.uri.split("continue=").nth(1).map_or(0, |rest| rest.split('&').next().unwrap().parse().unwrap());
    let token = if at == 4 { String::new() } else { (at + 1).to_string() };
    let items = json!([{"metadata": {"name": "a"}, "size": at}]);
    Reply::json(200, json!({"metadata": {"resourceVersion": "7", "continue": token}, "items": items}).to_string())
}

#[tokio::test]
async fn read_ahead_is_bounded() {
    for (ahead, taken, fetched) in [(1, 0, 1), (1, 1, 2), (2, 1, 3), (10, 1, 5)] {
        let server = Server::always(Reply::By(page)).await;
        let mut pages = api(&server).pages(&ListOptions::default()).read_ahead(NonZeroUsize::new(ahead).unwrap());
        let mut sizes = Vec::new();
        for _ in 0..taken {
            sizes.push(soon(pages.next()).await.unwrap().unwrap().items[0].size);
        }
        soon(until(|| server.seen().len() == fetched)).await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(server.seen().len(), fetched, "{ahead} ahead of {taken}");
        while let Some(page) = soon(pages.next()).await {
            sizes.push(page.unwrap().items[0].size);
        }
        assert_eq!(sizes, [0, 1, 2, 3, 4], "{ahead} ahead");
        assert!(soon(pages.next()).await.is_none());
        assert_eq!(server.seen().len(), 5);
    }
}

/// Following a repeated continue token would never end the list.
#[tokio::test]
async fn repeated_continue_token_is_an_error() {
    let same = r#"{"metadata":{"resourceVersion":"7","continue":"c"},"items":[{"metadata":{"name":"a"}}]}"#;
    let server = Server::always(Reply::json(200, same)).await;
    let error = soon(api(&server).list_all(&ListOptions::default())).await.unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Decode(_)) && error.to_string().contains("no end"), "{error}");
    assert_eq!(server.seen().len(), 2);
    let mut pages = api(&server).pages(&ListOptions::default()).read_ahead(NonZeroUsize::MAX);
    soon(pages.next()).await.unwrap().unwrap();
    soon(pages.next()).await.unwrap().unwrap_err();
    assert!(soon(pages.next()).await.is_none());
}

#[tokio::test]
async fn read_ahead_reports_errors_and_panics() {
    const ONE: NonZeroUsize = NonZeroUsize::MIN;
    let expired = |_: &crate::support::Seen, at| if at == 1 { Reply::json(410, "{}") } else { Reply::By(page) };
    let server = Server::always(Reply::By(expired)).await;
    let mut pages = api(&server).pages(&ListOptions::default()).read_ahead(ONE);
    soon(pages.next()).await.unwrap().unwrap();
    assert!(soon(pages.next()).await.unwrap().unwrap_err().is_expired());
    assert!(soon(pages.next()).await.is_none());

    #[derive(Debug)]
    struct Panicking;
    impl<'de> Deserialize<'de> for Panicking {
        fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
            panic!("of the type");
        }
    }
    let server = Server::always(Reply::By(page)).await;
    let resource = api(&server).resource().clone();
    let api: Api<Panicking> = Api::dynamic(server.client(), resource, Some("ns")).unwrap();
    let mut pages = api.pages(&ListOptions::default()).read_ahead(ONE);
    let read: Result<Option<Result<List<Panicking>, ApiError>>, _> =
        soon(tokio::spawn(async move { pages.next().await })).await;
    assert!(read.unwrap_err().is_panic(), "a panicking task must not look like the end of the list");
    // A `DynamicObject` keeps all fields.
    let api: Api<DynamicObject> = Api::dynamic(server.client(), api.resource().clone(), Some("ns")).unwrap();
    assert_eq!(soon(api.list_all(&ListOptions::default())).await.unwrap().items.len(), 5);
}
