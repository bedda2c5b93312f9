//! Tests which requests the methods of [`Api`] send.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use pintle_meta::{
    ApiResource, DeleteOptions, DynamicObject, ErrorKind, FieldSelector, FieldValidation, LabelSelector, ListMeta,
    ListOptions, ListPart, ListWatch, ObjectApi, ObjectKey, ObjectMeta, Patch, PropagationPolicy, ResourceVersionMatch,
    Scope, WatchEvent, WatchOptions, WriteOptions,
};
use pintle_restreq::{Api, RestClient};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::support::{End, Reply, Server, soon, steady_clock};

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct Widget {
    metadata: ObjectMeta,
    #[serde(default)]
    size: u32,
}
pintle_meta::resource!(Widget, "example.com/v1", "Widget", "widgets", Namespaced);

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct Machine {
    metadata: ObjectMeta,
}
pintle_meta::resource!(Machine, "v1", "Machine", "machines", Cluster);

const WIDGET: &str = r#"{"metadata":{"name":"a","namespace":"ns"},"size":3}"#;

async fn server() -> Server {
    Server::always(Reply::json(200, WIDGET)).await
}

fn widget(namespace: &str) -> Widget {
    Widget { metadata: ObjectMeta::new(namespace, "a"), size: 3 }
}

fn last(server: &Server) -> (String, Value) {
    let seen = server.seen().pop().unwrap();
    (format!("{} {}", seen.method, seen.uri), serde_json::from_slice(&seen.body).unwrap_or_default())
}

const BASE: &str = "/apis/example.com/v1/namespaces/ns/widgets";

#[tokio::test]
async fn each_api_call_sends_its_request() {
    let server = server().await;
    let api: Api<Widget> = Api::namespaced(server.client(), "ns");
    let (post, delete) = (WriteOptions::default(), DeleteOptions::default());

    assert_eq!(soon(api.get("a")).await.unwrap().size, 3);
    assert_eq!(last(&server).0, format!("GET {BASE}/a"));

    soon(api.create(&widget(""), &WriteOptions { field_manager: "me".into(), ..post.clone() })).await.unwrap();
    let (request, body) = last(&server);
    assert_eq!(request, format!("POST {BASE}?fieldManager=me"));
    soon(api.create(&widget(""), &WriteOptions::apply("me"))).await.unwrap();
    assert_eq!(last(&server).0, format!("POST {BASE}?fieldManager=me"), "only patches have the parameter `force`");
    soon(api.update(&widget("ns"), &WriteOptions::apply("me"))).await.unwrap();
    assert_eq!(last(&server).0, format!("PUT {BASE}/a?fieldManager=me"));
    let types = json!({"apiVersion": "example.com/v1", "kind": "Widget"});
    let given = json!({"apiVersion": body["apiVersion"], "kind": body["kind"]});
    assert_eq!(given, types, "the body needs apiVersion and kind");

    soon(api.update(&widget("ns"), &WriteOptions { dry_run: true, ..post.clone() })).await.unwrap();
    assert_eq!(last(&server).0, format!("PUT {BASE}/a?dryRun=All"));
    soon(api.update_status(
        &widget("ns"),
        &WriteOptions { field_validation: Some(FieldValidation::Strict), ..post.clone() },
    ))
    .await
    .unwrap();
    assert_eq!(last(&server).0, format!("PUT {BASE}/a/status?fieldValidation=Strict"));

    for (patch, kind) in [
        (Patch::Merge(json!({})), "application/merge-patch+json"),
        (Patch::Json(json!([])), "application/json-patch+json"),
        (Patch::Strategic(json!({})), "application/strategic-merge-patch+json"),
        (Patch::Apply(json!({})), "application/apply-patch+yaml"),
    ] {
        soon(api.patch("a", &patch, &WriteOptions { force: true, ..post.clone() })).await.unwrap();
        let mut body = patch.body().clone();
        if let Patch::Apply(_) = &patch {
            // The server rejects apply patches that lack a kind.
            body = types.clone();
        }
        assert_eq!(last(&server), (format!("PATCH {BASE}/a?force=true"), body));
        assert_eq!(server.seen().pop().unwrap().header("content-type"), Some(kind));
        soon(api.patch_status("a", &patch, &post)).await.unwrap();
        assert_eq!(last(&server).0, format!("PATCH {BASE}/a/status"));
    }

    soon(api.delete("a", &delete)).await.unwrap();
    assert_eq!(last(&server), (format!("DELETE {BASE}/a"), json!({})));
    let background = DeleteOptions { propagation_policy: Some(PropagationPolicy::Background), ..delete };
    let which = ListOptions { label_selector: "a=b".parse().unwrap(), ..ListOptions::default() };
    soon(api.delete_collection(&which, &background)).await.unwrap();
    assert_eq!(
        last(&server),
        (format!("DELETE {BASE}?labelSelector=a%3Db"), json!({"propagationPolicy": "Background"}))
    );
    // A selector that matches nothing must not become an empty selector, which would match all objects.
    let which = ListOptions { label_selector: LabelSelector::nothing(), ..ListOptions::default() };
    let dry = DeleteOptions { dry_run: true, ..DeleteOptions::default() };
    soon(api.delete_collection(&which, &dry)).await.unwrap();
    let expected = format!("DELETE {BASE}?labelSelector=nothing%2C%21nothing");
    assert_eq!(last(&server), (expected, json!({"dryRun": ["All"]})));
}

#[tokio::test]
async fn list_and_watch_options_become_parameters() {
    let server = Server::always(Reply::json(200, r#"{"items":[]}"#)).await;
    let api: Api<Widget> = Api::all(server.client());
    soon(api.list(&ListOptions::default())).await.unwrap();
    assert_eq!(last(&server).0, "GET /apis/example.com/v1/widgets");
    let options = ListOptions {
        label_selector: "a=b".parse().unwrap(),
        field_selector: FieldSelector::everything().equals("c", "d,e"),
        resource_version: "7".into(),
        resource_version_match: Some(ResourceVersionMatch::Exact),
        limit: 5,
        continue_token: "t".into(),
        shard_selector: "shardRange(x, '0x0')".into(),
    };
    soon(api.list(&options)).await.unwrap();
    let expected = "continue=t&fieldSelector=c%3Dd%5C%2Ce&labelSelector=a%3Db&limit=5&resourceVersion=7&resourceVersionMatch=Exact\
                    &shardSelector=shardRange%28x%2C%20%270x0%27%29";
    assert_eq!(last(&server).0, format!("GET /apis/example.com/v1/widgets?{expected}"));

    drop(soon(api.watch(&WatchOptions::default())).await);
    assert_eq!(last(&server).0, "GET /apis/example.com/v1/widgets?watch=true");
    let options = WatchOptions {
        resource_version: "7".into(),
        resource_version_match: Some(ResourceVersionMatch::NotOlderThan),
        allow_bookmarks: true,
        send_initial_events: true,
        timeout: Some(Duration::from_millis(100)),
        shard_selector: "shardRange(x)".into(),
        ..WatchOptions::default()
    };
    drop(soon(api.watch(&options)).await);
    let expected = "allowWatchBookmarks=true&resourceVersion=7&resourceVersionMatch=NotOlderThan&sendInitialEvents=true\
                    &shardSelector=shardRange%28x%29&timeoutSeconds=1&watch=true";
    assert_eq!(last(&server).0, format!("GET /apis/example.com/v1/widgets?{expected}"));
}

#[tokio::test]
async fn key_and_api_must_agree_on_the_namespace() {
    let server = server().await;
    let namespaced: Api<Widget> = Api::namespaced(server.client(), "ns");
    let all: Api<Widget> = Api::all(server.client());
    let machines: Api<Machine> = Api::all(server.client());
    let resource = ApiResource::new("v1", "Machine", "machines", Scope::Cluster);
    let misplaced = Api::<DynamicObject>::dynamic(server.client(), resource, Some("ns")).unwrap_err();
    assert!(misplaced.to_string().contains("cluster-scoped"), "{misplaced}");
    soon(namespaced.get(ObjectKey::new("ns", "a"))).await.unwrap();
    soon(all.get(&ObjectKey::new("ns", "a"))).await.unwrap();
    assert_eq!(last(&server).0, format!("GET {BASE}/a"));
    soon(all.delete("ns/a", &DeleteOptions::default())).await.unwrap();
    assert_eq!(last(&server).0, format!("DELETE {BASE}/a"));
    soon(all.create(&widget("ns"), &WriteOptions::default())).await.unwrap();
    assert_eq!(last(&server).0, format!("POST {BASE}"));
    soon(machines.get("a")).await.unwrap();
    assert_eq!(last(&server).0, "GET /api/v1/machines/a");
    let sent = server.seen().len();
    for (error, word) in [
        (soon(namespaced.get(ObjectKey::new("other", "a"))).await.map(drop), "\"other\""),
        (soon(all.get("a")).await.map(drop), "are namespaced; set a namespace"),
        (soon(all.create(&widget(""), &WriteOptions::default())).await.map(drop), "are namespaced; set a namespace"),
        (soon(machines.get(ObjectKey::new("ns", "a"))).await.map(drop), "cluster-scoped"),
        (soon(namespaced.get("a/b")).await.map(drop), "\"a\""),
        (soon(namespaced.get("a/b/c")).await.map(drop), "\"a/b/c\" is not an object key"),
        (soon(namespaced.get("")).await.map(drop), "\"\" is not an object key"),
        (soon(namespaced.get(ObjectKey::cluster("a/b"))).await.map(drop), "\"a/b\""),
        (soon(namespaced.get(ObjectKey::cluster(""))).await.map(drop), "empty"),
    ] {
        let error = error.unwrap_err();
        assert!(
            matches!(error.kind, ErrorKind::InvalidRequest(_)) && error.to_string().contains(word),
            "{word}: {error}"
        );
    }
    assert_eq!(server.seen().len(), sent, "nothing was sent");
}

#[tokio::test]
async fn get_opt_returns_none_only_for_missing_objects() {
    let missing = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}"#;
    let forbidden = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}"#;
    let page = Reply::json(404, "404 page not found").header("content-type", "text/plain");
    let replies = [Reply::json(200, WIDGET), Reply::json(404, missing), Reply::json(403, forbidden), page];
    let server = Server::start(replies).await;
    let api: Api<Widget> = Api::namespaced(server.client(), "ns");
    assert_eq!(soon(api.get_opt("a")).await.unwrap().map(|widget| widget.size), Some(3));
    assert!(soon(ObjectApi::get_opt(&api, &ObjectKey::new("ns", "a"))).await.unwrap().is_none());
    assert!(soon(api.get_opt("a")).await.unwrap_err().is_forbidden());
    assert!(soon(api.get_opt("a")).await.unwrap_err().is_not_found(), "the page may come from a proxy");
}

#[tokio::test]
async fn empty_namespace_means_the_configured_one() {
    let server = server().await;
    let mut config = server.config();
    config.namespace = "team".into();
    let api: Api<Widget> = Api::namespaced(RestClient::new(config).unwrap(), "");
    assert_eq!(api.namespace(), Some("team"));
}

#[tokio::test]
async fn dynamic_api_needs_no_rust_type() {
    let server = server().await;
    let resource = ApiResource::new("example.com/v1", "Widget", "widgets", Scope::Namespaced);
    let api: Api<DynamicObject> = Api::dynamic(server.client(), resource, Some("ns")).unwrap();
    let read = soon(api.get("a")).await.unwrap();
    assert_eq!(read.data["size"], 3);
    soon(api.update(&read, &WriteOptions::default())).await.unwrap();
    assert_eq!(last(&server).1["kind"], "Widget");
}

#[tokio::test]
async fn api_implements_the_meta_traits() {
    async fn read<A>(api: A) -> (Vec<ListPart>, u32, Vec<WatchEvent<Widget>>)
    where
        A: ListWatch<Object = Widget> + ObjectApi<Widget>,
    {
        let page = api.list(&ListOptions::default()).await.unwrap();
        let got = ObjectApi::get(&api, &ObjectKey::new("ns", "a")).await.unwrap().size;
        let events = api.watch(&WatchOptions::default()).await.unwrap();
        let events = events.map(|event| event.unwrap().decode().unwrap());
        (page.map(Result::unwrap).collect().await, got, events.collect().await)
    }
    let frames = [r#"{"type":"DELETED","object":{"metadata":{"name":"a"},"size":1}}"#];
    let server = Server::start([
        Reply::json(200, format!(r#"{{"items":[{WIDGET}],"metadata":{{"resourceVersion":"7"}}}}"#)),
        Reply::json(200, WIDGET),
        Reply::watch(&frames, End::Proper),
    ])
    .await;
    let (listed, got, events) = soon(read(Api::<Widget>::all(server.client()))).await;
    let metadata = ListMeta { resource_version: "7".into(), ..ListMeta::default() };
    assert_eq!(listed, [ListPart::Item(Bytes::from(WIDGET).into()), ListPart::Metadata(metadata)]);
    assert_eq!(got, 3);
    assert!(matches!(&events[..], [WatchEvent::Deleted(widget)] if widget.size == 1), "{events:?}");
}

#[tokio::test]
async fn undecodable_object_of_a_typed_list_is_named() {
    let big = format!(r#"{{"metadata":{{"name":"b","namespace":"ns"}},"size":{}1}}"#, " ".repeat(100));
    let server = Server::always(Reply::json(200, format!(r#"{{"items":[{WIDGET},{big}]}}"#))).await;
    let error = soon(Api::<Widget>::all(server.narrow_client(100)).list(&ListOptions::default()))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("GET http://127.0.0.1") && error.contains("item 1 (ns/b): its size"), "{error}");
    assert!(error.contains("exceeds the limit of 100"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn watch_ends_shortly_after_its_timeout() {
    let _clock = steady_clock();
    let server = Server::always(Reply::watch(&[], End::Stall)).await;
    let api: Api<Widget> = Api::all(server.client());
    let options = WatchOptions { timeout: Some(Duration::from_secs(60)), ..WatchOptions::default() };
    let mut events = api.watch(&options).await.unwrap();
    let error = tokio::time::timeout(Duration::from_secs(120), events.next()).await.unwrap().unwrap().unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Timeout(_)), "{error}");
}

fn page(names: &[&str], token: &str) -> Reply {
    let items: Vec<_> = names.iter().map(|name| json!({"metadata": {"name": name}})).collect();
    let metadata = json!({"resourceVersion": "7", "continue": token});
    Reply::json(200, json!({"kind": "WidgetList", "metadata": metadata, "items": items}).to_string())
}

fn queries(server: &Server) -> Vec<String> {
    server.seen().iter().map(|seen| seen.uri.split_once('?').unwrap_or_default().1.to_owned()).collect()
}

#[tokio::test]
async fn pages_follow_tokens_and_only_first_has_revision() {
    let options = ListOptions {
        resource_version: "5".into(),
        resource_version_match: Some(ResourceVersionMatch::Exact),
        label_selector: "a".parse().unwrap(),
        limit: 2,
        ..ListOptions::default()
    };
    let server = Server::start([page(&["a", "b"], "t1"), page(&["c", "d"], "t2"), page(&["e"], "")]).await;
    let api: Api<Widget> = Api::all(server.client());
    let whole = soon(api.list_all(&options)).await.unwrap();
    let names: Vec<_> = whole.items.iter().map(|widget| widget.metadata.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "d", "e"]);
    assert_eq!((whole.metadata.resource_version.as_str(), whole.metadata.continue_token.as_str()), ("7", ""));
    assert_eq!(
        queries(&server),
        [
            "labelSelector=a&limit=2&resourceVersion=5&resourceVersionMatch=Exact",
            "continue=t1&labelSelector=a&limit=2",
            "continue=t2&labelSelector=a&limit=2",
        ]
    );
    let single = Server::start([page(&[], "")]).await;
    let api: Api<Widget> = Api::all(single.client());
    assert!(soon(api.list_all(&ListOptions::default())).await.unwrap().items.is_empty());
    assert_eq!(queries(&single), ["limit=500"]);
}

#[tokio::test]
async fn list_all_restarts_unpaged_when_its_revision_expires() {
    let gone = || Reply::json(410, r#"{"kind":"Status","status":"Failure","reason":"Expired","code":410}"#);
    let options = ListOptions { resource_version: "5".into(), limit: 1, ..ListOptions::default() };
    let server = Server::start([page(&["a"], "t"), gone(), page(&["a", "b"], "")]).await;
    let api: Api<Widget> = Api::all(server.client());
    assert_eq!(soon(api.list_all(&options)).await.unwrap().items.len(), 2);
    assert_eq!(queries(&server), ["limit=1&resourceVersion=5", "continue=t&limit=1", "resourceVersion=5"]);

    let server = Server::start([page(&["a"], "t"), gone()]).await;
    let api: Api<Widget> = Api::all(server.client());
    let mut pages = api.pages(&options);
    soon(pages.next()).await.unwrap().unwrap();
    assert!(soon(pages.next()).await.unwrap().unwrap_err().is_expired());
    assert!(soon(pages.next()).await.is_none());

    let server = Server::start([gone()]).await;
    let api: Api<Widget> = Api::all(server.client());
    assert!(soon(api.list_all(&options)).await.unwrap_err().is_expired(), "the first page is not requested again");
}
