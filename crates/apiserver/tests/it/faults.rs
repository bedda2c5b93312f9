//! Tests of fault rules: which requests they match, and how far a stale view lags behind the store.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use pintle_apiserver::faults::{Answer, Fault, Lag, Rule};
use pintle_apiserver::{ApiServer, ApiServerConfig, InProcessBody, RequestVerb};
use pintle_json::{Json, json};
use tokio::time::{Instant, sleep};
use tower_service::Service;

use crate::support::{CONFIG_MAPS, Next, Watch, call, get, send, version};

async fn server() -> ApiServer {
    let config = ApiServerConfig { bookmark_interval: Duration::from_secs(1), ..ApiServerConfig::default() };
    ApiServer::start(config).await.expect("a server")
}

fn refusal() -> Rule {
    Rule { times: None, ..Rule::new(Fault::Answer(Answer::new(503))) }
}

/// Sends an in-process request. During an in-process request, a paused clock advances only while the server waits for a
/// timer.
async fn send_in_process(server: &ApiServer, method: Method, path: &str, body: Json) -> (u16, InProcessBody) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let request = request.body(Full::new(Bytes::from(body))).expect("a request");
    let answer = server.in_process().call(request).await.expect("an answer");
    (answer.status().as_u16(), answer.into_body())
}

async fn create(server: &ApiServer, name: &str) -> u64 {
    let (code, body) = send_in_process(server, Method::POST, CONFIG_MAPS, json!({"metadata": {"name": name}})).await;
    assert_eq!(code, 201);
    version(&value(body).await)
}

async fn value(body: InProcessBody) -> Json {
    serde_json::from_slice(&body.collect().await.expect("a body").to_bytes()).expect("JSON")
}

async fn names(server: &ApiServer, query: &str) -> String {
    let (code, body) = send_in_process(server, Method::GET, &format!("{CONFIG_MAPS}?{query}"), Json::Null).await;
    let list = value(body).await;
    let Some(items) = list["items"].as_array() else { return code.to_string() };
    let names: Vec<_> = items.iter().filter_map(|item| item["metadata"]["name"].as_str()).collect();
    names.join(" ")
}

async fn watch(server: &ApiServer, query: &str) -> Watch<InProcessBody> {
    let (code, body) =
        send_in_process(server, Method::GET, &format!("{CONFIG_MAPS}?watch=1&{query}"), Json::Null).await;
    assert_eq!(code, 200);
    Watch::of(Response::new(body))
}

/// Returns the object name in the next event that is not a bookmark, and the resourceVersion of the last bookmark
/// before it.
async fn next_name(watch: &mut Watch<InProcessBody>) -> (String, u64) {
    let mut mark = 0;
    loop {
        let Next::Event(event) = watch.next().await else { panic!("it goes on") };
        let object = &event["object"];
        if event["type"] != "BOOKMARK" {
            return (object["metadata"]["name"].as_str().unwrap_or_default().into(), mark);
        }
        mark = version(object);
    }
}

#[test]
fn parsing_an_unknown_verb_lists_the_known_ones() {
    assert_eq!("deletecollection".parse(), Ok(RequestVerb::DeleteCollection));
    for wrong in ["List", "watches", ""] {
        let error = wrong.parse::<RequestVerb>().expect_err(wrong).to_string();
        assert!(error.starts_with(&format!("unknown verb {wrong:?}: use one of create, ")), "{error}");
    }
}

#[tokio::test]
async fn name_of_a_rule_matches_all_kinds_of_requests() {
    let server = server().await;
    let rule = server.faults().add(Rule { name: Some("a".into()), ..refusal() });
    let post = async |object: Json| call(&server, Method::POST, CONFIG_MAPS, object).await.code;
    assert_eq!(post(json!({"metadata": {"name": "a"}})).await, 503);
    assert_eq!(post(json!({"metadata": {"name": "b"}})).await, 201);
    assert_eq!(post(json!({"metadata": {"generateName": "a"}})).await, 201);
    let yaml = [("content-type", "application/yaml")];
    assert_eq!(send(&server, Method::POST, CONFIG_MAPS, &yaml, "metadata: {name: a}").await.status(), 503);
    let selected = "fieldSelector=metadata.name%3Da";
    for (query, code) in [(format!("?{selected}"), 503), (String::new(), 200), ("/a".into(), 503), ("/b".into(), 200)] {
        assert_eq!(get(&server, &format!("{CONFIG_MAPS}{query}")).await.code, code, "{query}");
    }
    let path = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1&{selected}");
    assert_eq!(send(&server, Method::GET, &path, &[], "").await.status(), 503);
    server.faults().remove(rule);
    let cut = Rule { name: Some("b".into()), times: None, ..Rule::new(Fault::CutAfter(0)) };
    let cut = server.faults().add(cut);
    for (query, is_cut) in [("fieldSelector=metadata.name%3Db", true), ("timeoutSeconds=1", false)] {
        let first = watch(&server, query).await.next().await;
        assert_eq!(first == Next::Broken, is_cut, "{query}");
    }
    assert_eq!(server.faults().hits_of(cut), 1);
}

#[tokio::test(start_paused = true)]
async fn delayed_request_does_not_block_others_with_its_body() {
    // The body budget is large enough for both bodies, but the server processes only one large body at a time.
    let config = ApiServerConfig { body_bytes: 5_500_000, ..ApiServerConfig::default() };
    let server = ApiServer::start(config).await.expect("a server");
    let delay = Duration::from_secs(30);
    server.faults().add(Rule { name: Some("slow".into()), ..Rule::new(Fault::Delay(delay)) });
    let began = Instant::now();
    let post = async |name: &str| {
        let object = json!({"metadata": {"name": name}, "data": {"k": "x".repeat(2_500_000)}});
        let (code, _) = send_in_process(&server, Method::POST, CONFIG_MAPS, object).await;
        (code, began.elapsed() >= delay)
    };
    // The objects are too large, so validation rejects both requests after the delay.
    assert_eq!(tokio::join!(post("slow"), post("quick")), ((422, true), (422, false)));
}

#[tokio::test]
async fn rules_match_subresources_and_users() {
    let server = server().await;
    let namespace = "/api/v1/namespaces/default";
    for (subresource, codes) in [("status", [200, 503]), ("", [503, 200])] {
        let rule = server.faults().add(Rule { subresource: Some(subresource.into()), ..refusal() });
        let answers = [get(&server, namespace).await.code, get(&server, &format!("{namespace}/status")).await.code];
        assert_eq!(answers, codes, "{subresource:?}");
        server.faults().remove(rule);
    }
    server.faults().add(Rule { user: Some("jane".into()), ..refusal() });
    assert_eq!(get(&server, namespace).await.code, 200);
    let jane = [("impersonate-user", "jane"), ("impersonate-group", "system:masters")];
    assert_eq!(send(&server, Method::GET, namespace, &jane, "").await.status(), 503);
}

#[tokio::test(start_paused = true)]
async fn view_lags_by_a_duration_for_reads_and_watches() {
    const LAG: Duration = Duration::from_secs(10);
    let server = server().await;
    let (began, a) = (Instant::now(), create(&server, "a").await);
    let rule = Rule { resource: Some("configmaps".into()), times: None, ..Rule::new(Fault::Lag(Lag::Time(LAG))) };
    let rule = server.faults().add(rule);
    let mut all = watch(&server, "resourceVersion=0&allowWatchBookmarks=true").await;
    let mut newest = watch(&server, "").await;
    assert_eq!(next_name(&mut newest).await.0, "a", "a watch from the latest version begins with the latest state");
    sleep(LAG / 2).await;
    let b = create(&server, "b").await;
    assert_eq!((names(&server, "resourceVersion=0").await, names(&server, "").await), ("".into(), "a b".into()));
    let not_older = format!("resourceVersion={b}&resourceVersionMatch=NotOlderThan");
    assert_eq!(names(&server, &not_older).await, "504", "the version is not reached in time");
    let (name, mark) = next_name(&mut all).await;
    assert_eq!((name.as_str(), began.elapsed()), ("a", LAG));
    assert!(mark < a, "a bookmark of {mark}");
    assert_eq!(names(&server, "resourceVersion=0").await, "a");
    sleep(LAG / 2 - Duration::from_secs(1)).await;
    assert_eq!(names(&server, &not_older).await, "a b", "the list waits for a version that is reached soon");
    let (name, mark) = next_name(&mut all).await;
    assert_eq!((name.as_str(), began.elapsed()), ("b", LAG * 3 / 2));
    assert!(mark < b, "a bookmark of {mark}");
    assert_eq!(next_name(&mut newest).await.0, "b");
    create(&server, "c").await;
    server.faults().remove(rule);
    assert_eq!(next_name(&mut newest).await.0, "c");
    assert_eq!(began.elapsed(), LAG * 3 / 2, "without the rule, events are not delayed");
}

#[tokio::test(start_paused = true)]
async fn view_lags_by_a_number_of_versions() {
    let server = server().await;
    let until = Duration::from_secs(20);
    let lag = Rule {
        resource: Some("configmaps".into()),
        times: None,
        until: Some(until),
        ..Rule::new(Fault::Lag(Lag::Versions(1)))
    };
    let began = Instant::now();
    server.faults().add(lag);
    create(&server, "a").await;
    assert_eq!(names(&server, "resourceVersion=0").await, "");
    let mut watch = watch(&server, "resourceVersion=0").await;
    create(&server, "b").await;
    assert_eq!((next_name(&mut watch).await.0, began.elapsed()), ("a".into(), Duration::ZERO));
    assert_eq!(names(&server, "resourceVersion=0").await, "a");
    assert_eq!((next_name(&mut watch).await.0, began.elapsed()), ("b".into(), until), "the rule has ended");
    assert_eq!(names(&server, "resourceVersion=0").await, "a b");
}

#[tokio::test(start_paused = true)]
async fn lagging_watch_is_cut_when_its_events_are_dropped() {
    let server = server().await;
    let lag = Fault::Lag(Lag::Versions(1_000));
    let rule = server.faults().add(Rule { resource: Some("configmaps".into()), times: None, ..Rule::new(lag) });
    let mut watch = watch(&server, "resourceVersion=0").await;
    create(&server, "a").await;
    // At this point, the watch has read the first change from the log, but has not sent it yet.
    let held = tokio::time::timeout(Duration::from_secs(1), watch.next()).await;
    assert!(held.is_err(), "the event is delayed");
    create(&server, "b").await;
    create(&server, "c").await;
    sleep(Duration::from_secs(360)).await;
    let secret = json!({"metadata": {"name": "s"}});
    assert_eq!(send_in_process(&server, Method::POST, "/api/v1/namespaces/default/secrets", secret).await.0, 201);
    server.faults().remove(rule);
    assert_eq!(next_name(&mut watch).await.0, "a");
    assert_eq!(watch.next().await, Next::Broken, "b is no longer kept");
}

#[tokio::test(start_paused = true)]
async fn removing_a_lag_sends_pending_events_and_a_bookmark() {
    let server = server().await;
    let lag = Fault::Lag(Lag::Versions(1_000));
    let rule = server.faults().add(Rule { resource: Some("configmaps".into()), times: None, ..Rule::new(lag) });
    let mut watch = watch(&server, "resourceVersion=0&allowWatchBookmarks=true").await;
    let a = create(&server, "a").await;
    server.faults().remove(rule);
    assert_eq!(next_name(&mut watch).await.0, "a");
    let Next::Event(event) = watch.next().await else { panic!("it goes on") };
    assert!(event["type"] == "BOOKMARK" && version(&event["object"]) >= a, "{event}");
}
