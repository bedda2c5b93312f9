//! Tests of the debug page and its JSON data.

mod browser;
mod members;
mod troubles;

use std::collections::BTreeSet;

use pintle_controller::{Controller as PlainController, ReconcileRequest, Trigger};
use pintle_meta::ObjectKey;
use pintle_operator::Controller;
use serde_json::Value;

use self::troubles::Troubles;
use crate::http::{get, listen, request};
use crate::support::{ConfigMap, Running, Website, World, eventually, publish};

/// A text that the browser would interpret as markup if the page did not escape it.
pub(super) const HOSTILE: &str = "</script><img src=x onerror=alert(1)>\"'&\u{1b}[31m";

fn keys(list: &Value) -> BTreeSet<&str> {
    list.as_array().unwrap().iter().map(|entry| entry["key"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn json_shows_the_state_after_known_events() {
    let troubles = Troubles::start().await;
    let json = troubles.eventually("all troubles and a held shard", |json| {
        let controller = &json["controllers"][0];
        controller["failing"][0]["last_call"]["failures"].as_u64() > Some(1)
            && controller["slowest"].as_array().is_some_and(|slowest| slowest.len() == 2)
            && controller["blocked"][0].is_object()
            && json["controllers"][1]["sources"][0]["problem"].is_string()
            && json["shards"][0]["shards"][0]["is_leader"] == true
    });
    let json = json.await;

    assert_eq!(
        (&json["format"], &json["name"], &json["phase"]),
        (&1.into(), &"website-controller".into(), &"running".into())
    );
    assert!(json["waits_for"].is_null() && json["explanation"].is_null());
    let leader = &json["leader"];
    assert!(leader["is_leader"] == true && leader["seconds_left"].as_f64() > Some(0.0), "{leader}");
    assert_eq!(leader["lease"], "default/website-controller");

    let controller = &json["controllers"][0];
    assert_eq!((&controller["name"], &controller["running"]), (&HOSTILE_SHOWN.into(), &true.into()));
    assert_eq!(controller["max_concurrent_reconciles"], 2);
    assert_eq!(keys(&controller["failing"]), ["default/broken"].into());
    assert_eq!(keys(&controller["slowest"]), ["default/blog", "default/broken"].into());
    assert_eq!(keys(&controller["active"]), ["default/blog", "default/blocking", "default/broken"].into());
    let broken = &controller["failing"][0];
    assert_eq!(broken["last_call"]["error"], HOSTILE_SHOWN);
    assert!(broken["causes"][0]["text"].as_str().unwrap().starts_with("retry after an error: "), "{broken}");
    assert!(controller["queue"]["in_flight"].as_u64() >= Some(1), "the blocking call is in flight");
    assert_eq!(controller["blocked"][0]["key"], "default/blocking");
    assert_eq!(controller["sources"][0]["problem"], Value::Null);

    let missing = &json["controllers"][1];
    let problem = missing["sources"][0]["problem"].as_str().unwrap();
    assert!(missing["name"] == "certificate" && problem.contains("the resource does not exist"), "{missing}");
    let informers = json["informers"].as_array().unwrap();
    let informer = |name: &str| informers.iter().find(|informer| informer["name"] == name).unwrap();
    assert_eq!((&informer("Website")["state"], &informer("Website")["objects"]), (&"synced".into(), &3.into()));
    let degraded = informer("Certificate");
    assert_eq!(
        (&degraded["state"], &degraded["resource"]),
        (&"degraded".into(), &"example.com/v1 certificates".into())
    );
    assert!(degraded["last_failure"]["text"].as_str().unwrap().contains("does not exist"), "{degraded}");
    assert!(degraded["since"].as_str() <= json["now"].as_str(), "{degraded}");

    assert_eq!(json["shards"][0]["shards"].as_array().unwrap().len(), 2);
    assert_eq!(json["left_out"], serde_json::json!({"controllers": 0, "informers": 0, "shards": 0}));
    troubles.stop().await;
}

/// The text that the page shows for [`HOSTILE`], which differs only in the control character.
const HOSTILE_SHOWN: &str = "</script><img src=x onerror=alert(1)>\"'&\u{fffd}[31m";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn key_is_explained_and_unknown_names_are_404() {
    let troubles = Troubles::start().await;
    troubles
        .eventually("a failure", |json| json["controllers"][0]["failing"][0]["last_call"]["failures"].is_u64())
        .await;
    let name: String = HOSTILE.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let explain = async |query: &str| get(troubles.address, &format!("/debug.json?{query}")).await.unwrap();

    let (status, body) = explain(&format!("controller={name}&key=default%2Fbroken")).await;
    let json: Value = serde_json::from_str(&body).unwrap();
    let explanation = &json["explanation"];
    assert_eq!(
        (status, &explanation["key"], &explanation["controller"]),
        (200, &"default/broken".into(), &HOSTILE_SHOWN.into())
    );
    assert_eq!(explanation["last_call"]["error"], HOSTILE_SHOWN);
    let causes = explanation["causes"].as_array().unwrap();
    assert!(causes.last().unwrap()["text"].as_str().unwrap().starts_with("listed default/broken in Website"), "{body}");

    let (_, body) = explain(&format!("controller={name}&key=unknown")).await;
    let json: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&json["explanation"]["state"], &json["explanation"]["causes_total"]), (&"idle".into(), &0.into()));

    let (status, body) = explain("controller=%3Cb%3E&key=x").await;
    assert!(status == 404 && body.starts_with("no controller is named \"<b>\"; the controllers are: "), "{body}");
    let (status, body) = explain(&format!("controller={name}&key=a/b/c")).await;
    assert!(status == 404 && body.contains("knows no key \"a/b/c\"; the key of an object is namespace/name"), "{body}");
    let (status, body) = explain("controller=certificate").await;
    assert!(status == 400 && body.contains("\"key\" is missing"), "{body}");
    troubles.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn script_and_json_have_the_same_members() {
    let troubles = Troubles::start().await;
    let path = "/debug.json?controller=certificate&key=default/blog";
    let json = troubles.eventually_at(path, "all kinds of members", members::is_complete).await;
    let (status, page) = get(troubles.address, "/debug").await.unwrap();
    assert_eq!(status, 200);
    members::check(&page, &json);
    troubles.stop().await;
}

#[tokio::test]
async fn head_has_the_headers_and_no_body() {
    let world = World::with_site("blog").await;
    let (listener, address) = listen().await;
    let controller = Controller::<Website>::new().owns::<crate::support::ConfigMap>().reconcile(publish);
    let running = Running::start(world.manager().serve_on(listener).controller(controller));
    eventually("live", async || get(address, "/debug.json").await).await;
    for (path, content_type) in [("/debug", "text/html; charset=utf-8"), ("/debug.json", "application/json")] {
        let (head, body) = request(address, "HEAD", path).await.unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && body.is_empty(), "{head}{body}");
        assert!(head.contains(&format!("content-type: {content_type}\r\n")), "{head}");
        for header in
            ["cache-control: no-store", "x-content-type-options: nosniff", "cross-origin-resource-policy: same-origin"]
        {
            assert!(head.contains(header), "{head}");
        }
        let (head, _) = request(address, "POST", path).await.unwrap();
        assert!(head.starts_with("HTTP/1.1 405 "), "{head}");
    }
    let (head, _) = request(address, "GET", "/debug").await.unwrap();
    assert!(head.contains("content-security-policy: default-src 'none'; script-src 'sha256-"), "{head}");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn debug_page_can_be_switched_off() {
    let world = World::start().await;
    let (listener, address) = listen().await;
    let running = Running::start(world.manager().serve_on(listener).debug(false));
    eventually("live", async || get(address, "/healthz").await).await;
    for path in ["/debug", "/debug.json"] {
        let (status, body) = get(address, path).await.unwrap();
        assert_eq!((status, body), (404, format!("{path} is not one of /healthz, /livez, /readyz, /metrics\n")));
    }
    running.stop().await.unwrap();
}

/// The queue contains 100,000 keys with long names and long error texts. Characters of four bytes make the texts as
/// large as possible.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answer_is_bounded_with_many_keys() {
    const KEYS: usize = 100_000;
    let world = World::with_site("blog").await;
    let ((listener, address), trigger) = (listen().await, Trigger::new());
    let error = "💥".repeat(2_000);
    let controller = Controller::<Website>::new()
        .source(trigger.clone())
        .gone(move |_, _| {
            let error = error.clone();
            async { Err(error.into()) }
        })
        .reconcile(publish_nothing);
    let running = Running::start(world.manager().serve_on(listener).controller(controller));
    let name = "x".repeat(240);
    for number in 0..KEYS {
        trigger.trigger(ObjectKey::new("default", &format!("{name}-{number}")));
    }
    let json = eventually("many keys are known", async || {
        let (_, body) = get(address, "/debug.json").await?;
        let json: Value = serde_json::from_str(&body).unwrap();
        let queue = &json["controllers"][0]["queue"];
        let known = ["queued", "delayed", "in_flight"].map(|state| queue[state].as_u64().unwrap_or_default());
        let is_full = json["controllers"][0]["failing"].as_array().is_some_and(|keys| keys.len() == 10);
        (is_full && known.iter().sum::<u64>() as usize >= KEYS).then_some(body)
    });
    let body = json.await;
    assert!((10_000..300_000).contains(&body.len()), "{} bytes", body.len());
    running.stop().await.unwrap();
}

async fn publish_nothing(
    _: std::sync::Arc<Website>,
    _: pintle_operator::Context<Website>,
) -> pintle_operator::Result<pintle_operator::Action> {
    Ok(pintle_operator::Action::await_change())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: the step `slow` of `cargo xtask ci --full` runs it"]
async fn json_stays_small_with_many_failing_keys() {
    const KEYS: usize = 10_000;
    let world = World::start().await;
    let trigger = Trigger::new();
    for number in 0..KEYS {
        trigger.trigger(ObjectKey::new("default", &format!("site-{number}")));
    }
    let fail =
        async |request: ReconcileRequest| Err(format!("no zone for {}: {}", request.key, "x".repeat(1_000)).into());
    let controller = PlainController::named("failing").source(trigger).reconciler(fail);
    let (listener, address) = listen().await;
    let manager = world.manager().serve_on(listener).plain_controller(controller);
    let status = manager.status();
    let running = Running::start(manager);
    eventually("all keys have failed", async || {
        (status.controller("failing")?.most_failing(KEYS).len() == KEYS).then_some(())
    })
    .await;
    let (status, body) = get(address, "/debug.json").await.unwrap();
    let json: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, json["controllers"][0]["failing"].as_array().unwrap().len()), (200, 10));
    assert!(body.len() < 100_000, "{} bytes", body.len());
    running.stop().await.unwrap();
}

#[tokio::test]
async fn page_shows_the_informers_of_other_clusters() {
    let (home, edge) = (World::with_site("blog").await, World::with_site("blog").await);
    let (listener, address) = listen().await;
    let controller = || Controller::<Website>::new().owns::<ConfigMap>();
    let manager = home.manager().serve_on(listener).controller(controller().reconcile(publish));
    let manager = manager.controller_in(&edge.cluster, controller().name("website-edge").reconcile(publish));
    let running = Running::start(manager);
    eventually("the edge has its child", async || edge.child("blog").await.ok()).await;
    let debug: Value = serde_json::from_str(&get(address, "/debug.json").await.unwrap().1).unwrap();
    running.stop().await.unwrap();
    assert_eq!(debug["informers"].as_array().map(Vec::len), Some(4), "{}", debug["informers"]);
}
