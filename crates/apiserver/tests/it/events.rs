//! Tests of expired and deleted Events.

use std::time::Duration;

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use crate::support::*;

const EVENTS: &str = "/api/v1/namespaces/default/events";
const NEW_EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

async fn names(server: &ApiServer, path: &str) -> Vec<String> {
    let list = get(server, path).await.body;
    let items = list["items"].as_array().into_iter().flatten();
    items.filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned)).collect()
}

#[tokio::test(start_paused = true)]
async fn events_expire_an_hour_after_their_last_write() {
    const MINUTE: Duration = Duration::from_secs(60);
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let about = json!({"kind": "Pod", "namespace": "default", "name": "p"});
    let old = |name: &str| json!({"metadata": {"name": name}, "involvedObject": about, "reason": "R"});
    let new = json!({
        "metadata": {"name": "new"}, "regarding": about, "reason": "R", "action": "A", "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "e.com/c", "reportingInstance": "i",
    });
    for (path, event) in [(EVENTS, old("old")), (EVENTS, old("updated")), (NEW_EVENTS, new)] {
        let made = call(&server, Method::POST, path, event).await;
        assert_eq!(made.code, 201, "{:?}", made.body);
    }
    create_map(&server, "m", json!({})).await;
    tokio::time::sleep(30 * MINUTE).await;
    let updated = call(&server, Method::PATCH, &format!("{EVENTS}/updated"), json!({"count": 2})).await;
    assert_eq!(updated.code, 200);
    tokio::time::sleep(29 * MINUTE).await;
    for path in [EVENTS, NEW_EVENTS] {
        assert_eq!(names(&server, path).await, ["new", "old", "updated"]);
    }
    let revision = version(&updated.body);
    let response = send(&server, Method::GET, &format!("{EVENTS}?watch=1&resourceVersion={revision}"), &[], "").await;
    let mut watch = Watch::of(response);
    tokio::time::sleep(2 * MINUTE).await;
    for path in [EVENTS, NEW_EVENTS] {
        assert_eq!(names(&server, path).await, ["updated"]);
    }
    for (name, after) in [("old", 1), ("new", 2)] {
        assert_eq!(watch.next_event().await, format!("DELETED {name} {}", revision + after));
    }
    tokio::time::sleep(30 * MINUTE).await;
    assert_eq!(names(&server, EVENTS).await, Vec::<String>::new());
    assert_eq!(get(&server, &format!("{CONFIG_MAPS}/m")).await.code, 200, "only events expire");
    let expired: Json = get(&server, &format!("{EVENTS}/updated")).await.body;
    assert_eq!(expired["code"], 404);
}

#[tokio::test]
async fn events_are_deleted_at_once_with_any_propagation_policy() {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    for policy in ["Foreground", "Orphan", "Background"] {
        let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}});
        assert_eq!(call(&server, Method::POST, EVENTS, event).await.code, 201);
        let answer = delete(&server, &format!("{EVENTS}/e?propagationPolicy={policy}")).await;
        assert_eq!((answer.code, &answer.body["kind"]), (200, &json!("Status")), "{policy}: {:?}", answer.body);
        assert_eq!(get(&server, &format!("{EVENTS}/e")).await.code, 404);
    }
}
