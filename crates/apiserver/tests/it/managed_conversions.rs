//! Tests of conversion webhooks that fail while the server updates the managed fields.

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use super::support::{self, Answer};
use super::webhooks::{Webhook, define_widgets, renamed, widgets};

/// Converts objects, except for a size or a count above 9, which the other version cannot represent.
fn renamed_if_small(request: &Json) -> Json {
    let is_above = |value: &Json| value.as_i64().is_some_and(|value| value > 9);
    let is_large = |object: &Json| ["size", "count"].into_iter().any(|field| is_above(&object["spec"][field]));
    if request.list("/objects").any(is_large) {
        return json!({"result": {"status": "Failed", "message": "too large"}});
    }
    renamed(request)
}

fn widget(version: &str, field: &str, value: i64) -> Json {
    json!({
        "apiVersion": format!("example.com/{version}"), "kind": "Widget", "metadata": {"name": "w"},
        "spec": {field: value},
    })
}

/// Starts a server with a widget that was created in v2, the version that is not stored.
async fn with_old_widget() -> (ApiServer, Webhook) {
    let webhook = Webhook::start(&["127.0.0.1"], renamed_if_small).await;
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    define_widgets(&server, &webhook).await;
    let path = format!("{}?fieldManager=old", widgets("v2"));
    let created = support::call(&server, Method::POST, &path, widget("v2", "count", 1)).await;
    assert_eq!(created.code, 201, "{:?}", created.body);
    (server, webhook)
}

fn assert_written(answer: &Answer, written: &str) {
    assert_eq!(answer.code, 200, "{written}: {:?}", answer.body);
    assert_eq!(answer.body["spec"]["size"], 10, "{written}");
    assert_eq!(answer.body.at("/metadata/managedFields"), None, "{written}");
}

#[tokio::test]
async fn failed_conversion_clears_managed_fields_of_an_update() {
    for query in ["?dryRun=All", ""] {
        let (server, _webhook) = with_old_widget().await;
        let path = format!("{}/w", widgets("v1"));
        let patch = json!({"spec": {"size": 10}});
        assert_written(&support::call(&server, Method::PATCH, &format!("{path}{query}"), patch).await, "patch");
        if query.is_empty() {
            assert_written(&support::get(&server, &path).await, "stored");
        }
        let (server, _webhook) = with_old_widget().await;
        let mut put = support::get(&server, &path).await.body;
        put["spec"].set("size", 10);
        assert_written(&support::call(&server, Method::PUT, &format!("{path}{query}"), put).await, "put");
        let (server, _webhook) = with_old_widget().await;
        let scale = json!({"spec": {"replicas": 10}});
        let path = format!("{path}/scale{query}");
        assert_eq!(support::call(&server, Method::PATCH, &path, scale).await.code, 200, "scale");
    }
}

#[tokio::test]
async fn failed_conversion_to_the_stored_version_fails_the_write() {
    let (server, _webhook) = with_old_widget().await;
    let patch = json!({"spec": {"count": 10}});
    let failed = support::call(&server, Method::PATCH, &format!("{}/w", widgets("v2")), patch).await;
    assert_eq!(failed.code, 500, "{:?}", failed.body);
}

async fn apply_to(server: &ApiServer, path: &str, configuration: Json) -> Answer {
    let headers = [("content-type", "application/apply-patch+yaml")];
    support::read(support::send(server, Method::PATCH, path, &headers, configuration.to_string()).await).await
}

#[tokio::test]
async fn failed_conversion_fails_an_apply() {
    let (server, _webhook) = with_old_widget().await;
    let failure = "conversion webhook for example.com/v1, Kind=Widget failed: too large";
    let apply = async |name: &str, options: &str, size: i64| {
        let path = format!("{}/w?fieldManager={name}{options}", widgets("v1"));
        apply_to(&server, &path, widget("v1", "size", size)).await
    };
    for options in ["", "&force=true"] {
        let failed = apply("new", options, 10).await;
        let expected = format!("failed to convert new object: {failure}");
        assert_eq!((failed.code, failed.body.text("/message")), (500, &*expected), "{options}");
    }
    let path = format!("{}/w?fieldManager=own", widgets("v2"));
    assert_eq!(apply_to(&server, &path, widget("v2", "count", 1)).await.code, 200);
    let failed = apply("own", "", 10).await;
    let expected =
        format!("failed to prune fields: failed to convert merged object to last applied version: {failure}");
    assert_eq!((failed.code, failed.body.text("/message")), (500, &*expected));
}
