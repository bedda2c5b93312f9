//! Tests of resource lookups, and of the discovery requests that they send.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::join_all;
use pintle_meta::{ApiResource, GroupVersionKind, GroupVersionResource, Scope};
use pintle_restreq::{MappingError, RestMapper};
use serde_json::{Value, json};

use crate::support::{Reply, Seen, Server, soon, steady_clock};

fn document(value: Value) -> Reply {
    Reply::json(200, value.to_string())
}

/// Serves two aggregated discovery documents. The first `before` responses do not contain the API group of the
/// widgets.
fn aggregated(seen: &Seen, before: usize) -> Reply {
    let pods = json!({
        "resource": "pods", "responseKind": {"group": "", "version": "", "kind": "Pod"}, "scope": "Namespaced",
        "singularResource": "pod", "verbs": ["get", "list"], "shortNames": ["po"], "categories": ["all"],
        "subresources": [{"subresource": "status", "verbs": ["get"]}],
    });
    let odd = json!({"resource": "odd", "responseKind": null, "scope": "Cluster", "verbs": null});
    let widgets = json!({
        "resource": "widgets", "responseKind": {"group": "example.com", "version": "v1", "kind": "Widget"},
        "scope": "Cluster", "singularResource": "widget", "verbs": ["get"],
    });
    let version =
        |version: &str, resources: Value| json!({"version": version, "resources": resources, "freshness": "Current"});
    let items = match seen.uri.as_str() {
        "/api" => json!([{"metadata": {}, "versions": [version("v1", json!([pods, odd]))]}]),
        "/apis" if before < 2 => json!([]),
        "/apis" => json!([
            {"metadata": {"name": "down.dev"}, "versions": [{"version": "v1", "resources": null, "freshness": "Stale"}]},
            {"metadata": {"name": "example.com"}, "versions": [version("v2", json!([widgets])), version("v1", json!([widgets]))]},
        ]),
        other => panic!("unexpected request: {other}"),
    };
    document(json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items}))
}

fn one_by_one(seen: &Seen, _: usize) -> Reply {
    let entry = |name: &str, kind: &str, namespaced: bool| json!({"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": ["get"], "shortNames": null});
    let version = |version: &str| json!({"groupVersion": format!("example.com/{version}"), "version": version});
    match seen.uri.as_str() {
        "/api" => document(json!({"kind": "APIVersions", "versions": ["v1"]})),
        "/apis" => document(json!({"kind": "APIGroupList", "groups": [
            {"name": "example.com", "versions": [version("v2"), version("v1")], "preferredVersion": version("v1")},
            {"name": "down.dev", "versions": [{"groupVersion": "down.dev/v1", "version": "v1"}], "preferredVersion": null},
        ]})),
        "/api/v1" => document(json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [
            entry("pods", "Pod", true), entry("pods/status", "Pod", true), entry("bindings", "Binding", true),
        ]})),
        "/apis/example.com/v1" | "/apis/example.com/v2" => {
            document(json!({"kind": "APIResourceList", "resources": [entry("widgets", "Widget", false)]}))
        }
        _ => Reply::json(503, "{}"),
    }
}

fn paths(server: &Server) -> Vec<String> {
    let mut paths: Vec<_> = server.seen().into_iter().map(|seen| seen.uri).collect();
    paths.sort();
    paths
}

#[tokio::test(start_paused = true)]
async fn discovery_is_cached_and_a_miss_refetches() {
    let _clock = steady_clock();
    let server = Server::always(Reply::By(aggregated)).await;
    let mapper = RestMapper::new(server.client());
    let pods = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
    for name in ["pods", "po", "Pod", "pods.v1", "pods."] {
        assert_eq!(mapper.named(name).await.unwrap(), pods, "{name}");
    }
    assert_eq!(mapper.kind(&GroupVersionKind::new("", "v1", "Pod")).await.unwrap(), pods);
    assert_eq!(paths(&server), ["/api", "/apis"]);
    for seen in server.seen() {
        let accept = seen.header("accept").unwrap().to_owned();
        assert!(accept.starts_with("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"), "{accept}");
    }
    // The API group of the widgets was created after the first fetch.
    let widgets = mapper.named("widgets").await.unwrap();
    assert_eq!(widgets, ApiResource::new("example.com/v2", "Widget", "widgets", Scope::Cluster));
    let old = mapper.resource(&GroupVersionResource::new("example.com", "v1", "widgets")).await.unwrap();
    assert_eq!(old.group_version.version, "v1");
    assert_eq!(server.seen().len(), 4);

    let all = mapper.resources().await.unwrap();
    let pods = &all[0];
    assert_eq!((pods.singular.as_str(), &pods.short_names[..]), ("pod", &["po".to_owned()][..]));
    assert_eq!(
        (&pods.subresources[..], &pods.verbs[..]),
        (&["status".to_owned()][..], &["get".into(), "list".into()][..])
    );
    assert_eq!(pods.categories, ["all"]);
    assert_eq!(all.len(), 3, "a resource without a kind is skipped");
    mapper.invalidate();
    mapper.resources().await.unwrap();
    assert_eq!(server.seen().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn concurrent_misses_share_one_fetch_per_second() {
    let _clock = steady_clock();
    let server = Server::always(Reply::By(aggregated)).await;
    let mapper = RestMapper::new(server.client());
    let began = tokio::time::Instant::now();
    // The mapper has just fetched the documents, so it does not fetch them again to find the missing resource.
    let error = mapper.named("gadgets").await.unwrap_err();
    assert!(matches!(&error, MappingError::NoMatch { name, .. } if name == "gadgets"), "{error}");
    assert_eq!(server.seen().len(), 2);
    let errors = join_all((0..20).map(|_| mapper.named("gadgets"))).await;
    for error in errors {
        let error = error.unwrap_err();
        assert!(error.to_string().contains("down.dev/v1 did not answer"), "{error}");
    }
    assert_eq!(server.seen().len(), 4);
    mapper.named("gadgets").await.unwrap_err();
    assert_eq!(server.seen().len(), 6);
    assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn concurrent_lookups_share_a_failed_fetch() {
    let _clock = steady_clock();
    let server = Server::always(Reply::Silence).await;
    let mapper = RestMapper::new(server.client());
    let began = tokio::time::Instant::now();
    let results = join_all((0..20).map(|_| mapper.named("pods"))).await;
    assert!(results.into_iter().all(|result| matches!(result, Err(MappingError::Api(_)))));
    assert!(began.elapsed() < Duration::from_secs(80), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn cache_hit_does_not_wait_for_a_fetch() {
    fn silent_later(seen: &Seen, before: usize) -> Reply {
        if before < 2 { aggregated(seen, before) } else { Reply::Silence }
    }
    let _clock = steady_clock();
    let server = Server::always(Reply::By(silent_later)).await;
    let mapper = RestMapper::new(server.client());
    mapper.named("pods").await.unwrap();
    let mut missing = pin!(mapper.named("gadgets"));
    while server.seen().len() < 4 {
        let asked = tokio::time::timeout(Duration::from_millis(500), missing.as_mut()).await;
        assert!(asked.is_err(), "nobody answers");
    }
    let known = tokio::time::timeout(Duration::from_secs(1), mapper.named("pods"));
    known.await.unwrap().unwrap();
}

#[tokio::test]
async fn server_without_aggregated_discovery_is_queried_by_group() {
    let server = Server::always(Reply::By(one_by_one)).await;
    let mapper = RestMapper::new(server.client());
    let widgets = soon(mapper.named("widget")).await.unwrap();
    assert_eq!(
        widgets,
        ApiResource::new("example.com/v1", "Widget", "widgets", Scope::Cluster),
        "the preferred version"
    );
    let expected = ["/api", "/api/v1", "/apis", "/apis/down.dev/v1", "/apis/example.com/v1", "/apis/example.com/v2"];
    assert_eq!(paths(&server), expected);
    let all = soon(mapper.resources()).await.unwrap();
    let named: Vec<_> = all.iter().map(|entry| entry.resource.gvr().to_string()).collect();
    assert_eq!(named, ["v1/pods", "v1/bindings", "example.com/v1/widgets", "example.com/v2/widgets"]);
    assert_eq!((&all[0].subresources[..], all[1].subresources.len()), (&["status".to_owned()][..], 0));
    let error = soon(mapper.named("gadgets")).await.unwrap_err();
    assert!(matches!(&error, MappingError::NoMatch { missing, .. } if missing[0].group == "down.dev"), "{error}");
}

#[tokio::test]
async fn forbidden_discovery_root_is_skipped_but_failure_is_returned() {
    fn core_alone(seen: &Seen, before: usize) -> Reply {
        if seen.uri == "/apis" { Reply::json(403, "{}") } else { aggregated(seen, before) }
    }
    fn broken(seen: &Seen, before: usize) -> Reply {
        if seen.uri == "/apis" { Reply::json(500, "{}") } else { aggregated(seen, before) }
    }
    let server = Server::always(Reply::By(core_alone)).await;
    assert_eq!(soon(RestMapper::new(server.client()).named("po")).await.unwrap().kind, "Pod");
    let server = Server::always(Reply::By(broken)).await;
    let error = soon(RestMapper::new(server.client()).named("po")).await.unwrap_err();
    assert!(matches!(&error, MappingError::Api(error) if error.is_internal_error()), "{error}");
}

/// Both discovery paths fail if the URL is wrong or the user is not allowed to read discovery documents.
#[tokio::test]
async fn discovery_fails_if_both_roots_fail() {
    fn half_forbidden(seen: &Seen, _: usize) -> Reply {
        Reply::json(if seen.uri == "/apis" { 403 } else { 404 }, "{}")
    }
    let server = Server::always(Reply::By(half_forbidden)).await;
    let mapper = RestMapper::new(server.client());
    let error = soon(mapper.resources()).await.unwrap_err();
    assert!(error.is_forbidden(), "{error}");
    let error = soon(mapper.named("po")).await.unwrap_err();
    assert!(matches!(&error, MappingError::Api(error) if error.is_forbidden()), "{error}");
}
