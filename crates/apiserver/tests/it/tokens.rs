//! Tests of service account tokens: claims, audiences, expiry, and bound objects.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use pintle_apiserver::{ApiServer, ApiServerConfig, ServerSnapshot};
use pintle_json::{Json, json};
use tower_service::Service;

use crate::identity::{send_as, server, server_with, who_am_i};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const OWN: &str = "https://kubernetes.default.svc";

async fn make(server: &ApiServer, path: &str, object: Json) -> Json {
    let made = send_as(server, "root", Method::POST, path, &[], object).await;
    assert_eq!(made.code, 201, "{:?}", made.body);
    made.body
}

async fn account(server: &ApiServer) {
    make(server, ACCOUNTS, json!({"metadata": {"name": "a"}})).await;
}

async fn token(server: &ApiServer, spec: Json) -> String {
    let made = make(server, &format!("{ACCOUNTS}/a/token"), json!({ "spec": spec })).await;
    made["status"]["token"].as_str().expect("a token").to_owned()
}

async fn review(server: &ApiServer, token: &str, audiences: &[&str]) -> Json {
    let body = json!({"spec": {"token": token, "audiences": audiences}});
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    send_as(server, "root", Method::POST, reviews, &[], body).await.body["status"].clone()
}

async fn is_valid(server: &ApiServer, token: &str) -> bool {
    let reviewed = review(server, token, &[]).await;
    let answer = who_am_i(server, token, &[]).await;
    assert_eq!(answer.code == 201, reviewed["authenticated"] == true, "{reviewed} {:?}", answer.body);
    if answer.code != 201 {
        assert_eq!((answer.code, &reviewed["user"]), (401, &json!({})), "{reviewed}");
    }
    answer.code == 201
}

#[tokio::test]
async fn token_claims_have_subject_audiences_and_expiry() {
    let server = server().await;
    account(&server).await;
    let token = token(&server, json!({"expirationSeconds": 600, "audiences": [OWN, "vault"]})).await;
    let claims = token.split('.').nth(1).and_then(|part| URL_SAFE_NO_PAD.decode(part).ok()).expect("claims");
    let claims: Json = serde_json::from_slice(&claims).expect("JSON");
    assert_eq!(claims["aud"], json!([OWN, "vault"]));
    assert_eq!(claims["sub"], "system:serviceaccount:default:a");
    assert_eq!(claims["exp"].as_i64().map(|exp| exp - 600), claims["iat"].as_i64());
    let user = &who_am_i(&server, &token, &[]).await.body["status"]["userInfo"];
    assert_eq!(user["username"], "system:serviceaccount:default:a");
    assert_eq!(user["uid"], claims["kubernetes.io"]["serviceaccount"]["uid"]);
    let credential = format!("JTI={}", claims["jti"].as_str().expect("an id"));
    assert_eq!(user["extra"], json!({"authentication.kubernetes.io/credential-id": [credential]}));
}

#[tokio::test]
async fn token_is_valid_only_for_its_audiences() {
    let server = server().await;
    account(&server).await;
    let foreign = token(&server, json!({"audiences": ["vault"]})).await;
    assert!(!is_valid(&server, &foreign).await);
    assert_eq!(review(&server, &foreign, &["vault", "x"]).await["audiences"], json!(["vault"]));
    assert_eq!(
        review(&server, &foreign, &["x"]).await["error"],
        r#"[invalid bearer token, token audiences ["vault"] is invalid for the target audiences ["x"]]"#
    );
    let own = token(&server, json!({})).await;
    assert!(is_valid(&server, &own).await);
    assert_eq!(review(&server, &own, &["vault"]).await["authenticated"], Json::Null);
    // Tokens from the token file are valid only for the audience of the server.
    assert_eq!(review(&server, "weak", &[OWN]).await["user"]["username"], "bob");
    assert_eq!(review(&server, "weak", &["vault"]).await["error"], "invalid bearer token");
}

#[tokio::test]
async fn token_expires_with_a_minute_of_clock_skew() {
    let server = server().await;
    account(&server).await;
    let token = token(&server, json!({"expirationSeconds": 600})).await;
    // Because clocks may differ, a token stays valid for one minute after it expires.
    server.set_clock_ahead(Duration::from_secs(630));
    assert!(is_valid(&server, &token).await);
    server.set_clock_ahead(Duration::from_secs(662));
    assert!(!is_valid(&server, &token).await);
    let error = &review(&server, &token, &[]).await["error"];
    assert_eq!(error, "[invalid bearer token, service account token has expired]");
}

#[tokio::test]
async fn token_stays_invalid_when_its_account_is_recreated() {
    let server = server().await;
    account(&server).await;
    let token = token(&server, json!({})).await;
    assert!(is_valid(&server, &token).await);
    send_as(&server, "root", Method::DELETE, &format!("{ACCOUNTS}/a"), &[], Json::Null).await;
    assert!(!is_valid(&server, &token).await);
    account(&server).await;
    assert!(!is_valid(&server, &token).await);
}

#[tokio::test]
async fn token_is_invalid_once_its_namespace_is_deleted() {
    let server = server().await;
    make(&server, "/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await;
    let accounts = "/api/v1/namespaces/n/serviceaccounts";
    make(&server, accounts, json!({"metadata": {"name": "a"}})).await;
    let made = make(&server, &format!("{accounts}/a/token"), json!({})).await;
    let token = made["status"]["token"].as_str().expect("a token");
    assert!(is_valid(&server, token).await);
    send_as(&server, "root", Method::DELETE, "/api/v1/namespaces/n", &[], Json::Null).await;
    server.settle().await;
    assert!(!is_valid(&server, token).await);
}

#[tokio::test]
async fn token_is_invalid_once_its_bound_object_is_deleted() {
    let server = server().await;
    account(&server).await;
    let pod = json!({"serviceAccountName": "a", "containers": [{"name": "c", "image": "x"}]});
    for (kind, path, object) in [
        ("Pod", "/api/v1/namespaces/default/pods", json!({"metadata": {"name": "x"}, "spec": pod})),
        ("Secret", "/api/v1/namespaces/default/secrets", json!({"metadata": {"name": "x"}})),
        ("Node", "/api/v1/nodes", json!({"metadata": {"name": "x"}})),
    ] {
        make(&server, path, object.clone()).await;
        let bound = json!({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": "x"}});
        let token = token(&server, bound).await;
        assert!(is_valid(&server, &token).await, "{kind}");
        send_as(&server, "root", Method::DELETE, &format!("{path}/x?gracePeriodSeconds=0"), &[], Json::Null).await;
        assert!(!is_valid(&server, &token).await, "{kind}");
        make(&server, path, object).await;
        assert!(!is_valid(&server, &token).await, "a new {kind} of the name");
    }
}

#[tokio::test]
async fn token_requests_with_wrong_references_are_rejected() {
    let server = server().await;
    account(&server).await;
    make(&server, "/api/v1/namespaces/default/secrets", json!({"metadata": {"name": "x"}})).await;
    let path = format!("{ACCOUNTS}/a/token");
    for (reference, code) in [
        (json!({"apiVersion": "v1", "kind": "Secret", "name": "y"}), 404),
        (json!({"apiVersion": "v1", "kind": "Secret", "name": "x", "uid": "0"}), 409),
        (json!({"apiVersion": "apps/v1", "kind": "Secret", "name": "x"}), 400),
        (json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}), 400),
    ] {
        let body = json!({"spec": {"boundObjectRef": reference}});
        assert_eq!(send_as(&server, "root", Method::POST, &path, &[], body).await.code, code, "{reference}");
    }
    for metadata in [json!({"name": "b"}), json!({"namespace": "kube-system"}), json!({"uid": "0"})] {
        let answer = send_as(&server, "root", Method::POST, &path, &[], json!({"metadata": metadata})).await;
        assert!(matches!(answer.code, 400 | 409 | 422), "{metadata}: {:?}", answer.body);
    }
}

#[tokio::test]
async fn forged_tokens_are_rejected() {
    let (server, other) = (server().await, crate::identity::server().await);
    account(&server).await;
    account(&other).await;
    let ours = token(&server, json!({})).await;
    assert!(is_valid(&server, &ours).await && !is_valid(&other, &ours).await);
    let [header, claims, signature] = ours.split('.').collect::<Vec<_>>()[..] else { panic!("three parts: {ours}") };
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(claims).expect("base64")).expect("a text");
    let promoted = URL_SAFE_NO_PAD.encode(text.replace("default:a", "default:b"));
    let unsigned = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    for token in [
        format!("{header}.{promoted}.{signature}"),
        format!("{unsigned}.{claims}."),
        format!("{unsigned}.{claims}.{signature}"),
        format!("{header}.{claims}."),
        format!("{header}.{claims}.{signature}x"),
        format!("{header}.{claims}"),
        format!("{header}..{signature}"),
        format!("{ours}.{ours}"),
        "..".to_owned(),
        "not.a.token".to_owned(),
    ] {
        assert!(!is_valid(&server, &token).await, "{token}");
    }
}

#[tokio::test]
async fn review_verifies_tokens_when_authorization_is_off() {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    account(&server).await;
    let token = token(&server, json!({})).await;
    assert_eq!(review(&server, &token, &[]).await["user"]["username"], "system:serviceaccount:default:a");
    assert_eq!(review(&server, "x", &[]).await["error"], "invalid bearer token");
}

#[tokio::test(start_paused = true)]
async fn seeded_tokens_are_reproducible_and_snapshots_keep_the_key() {
    let start_time = Some(std::time::UNIX_EPOCH + Duration::from_secs(1_800_000_000));
    let seeded = |seed| server_with(ApiServerConfig { seed, start_time, ..ApiServerConfig::default() });
    let made = async |seed| {
        let server = seeded(seed).await;
        // Send the requests in process, because a paused clock does not wait for sockets.
        let post = async |path: &str, body: Json| {
            let request = Request::post(path).header("content-type", "application/json");
            let request = request.body(Full::new(Bytes::from(body.to_string()))).expect("a request");
            let body = server.in_process().call(request).await.expect("an answer").into_body();
            let body = body.collect().await.expect("a body").to_bytes();
            serde_json::from_slice::<Json>(&body).expect("JSON")
        };
        post(ACCOUNTS, json!({"metadata": {"name": "a"}})).await;
        let made = post(&format!("{ACCOUNTS}/a/token"), json!({})).await;
        (made["status"]["token"].as_str().expect("a token").to_owned(), server)
    };
    let (first, server) = made(Some(1)).await;
    assert_eq!(first, made(Some(1)).await.0);
    assert_ne!(first, made(Some(2)).await.0);
    assert_ne!(made(None).await.0, made(None).await.0, "random without a seed");
    let snapshot = server.snapshot();
    assert!(!format!("{snapshot:?}").contains("key"), "{snapshot:?}");
    let snapshot = ServerSnapshot::parse(&snapshot.to_text()).expect("a snapshot");
    let other = seeded(None).await;
    assert!(!is_valid(&other, &first).await);
    other.restore(&snapshot);
    assert!(is_valid(&other, &first).await);
}

#[tokio::test]
async fn review_lists_audiences_in_the_order_of_the_request() {
    let server = server().await;
    account(&server).await;
    let token = token(&server, json!({"audiences": ["z", "m", "a"]})).await;
    assert_eq!(review(&server, &token, &["a", "x", "z"]).await["audiences"], json!(["a", "z"]));
}

#[tokio::test]
async fn token_request_without_bound_name_is_a_bad_request() {
    let server = server().await;
    account(&server).await;
    for kind in ["Pod", "Secret", "Node"] {
        let body = json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": kind}}});
        let path = format!("{ACCOUNTS}/a/token");
        let refused = send_as(&server, "root", Method::POST, &path, &[], body).await;
        assert_eq!((refused.code, &refused.body["message"]), (400, &json!("Name parameter required.")), "{kind}");
    }
}

#[tokio::test]
async fn posted_reviews_and_tokens_have_managed_fields() {
    let server = server().await;
    make(&server, ACCOUNTS, json!({"metadata": {"name": "a"}})).await;
    let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews".to_owned();
    let resource = json!({"verb": "get", "resource": "pods"});
    let review = json!({"spec": {"user": "u", "resourceAttributes": resource}, "status": {"allowed": true}});
    let reviewed = json!({
        "f:spec": {"f:resourceAttributes": {".": {}, "f:resource": {}, "f:verb": {}}, "f:user": {}},
        "f:status": {"f:allowed": {}},
    });
    let token = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"audiences": ["x"]}});
    let granted = json!({
        "f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:spec": {"f:audiences": {}, "f:expirationSeconds": {}},
    });
    for (path, sent, subresource, fields) in
        [(reviews, review, Json::Null, reviewed), (format!("{ACCOUNTS}/a/token"), token, json!("token"), granted)]
    {
        let answer = make(&server, &format!("{path}?fieldManager=m"), sent.clone()).await;
        assert_eq!(answer["metadata"]["labels"], sent["metadata"]["labels"], "{path}");
        let entry = &answer["metadata"]["managedFields"][0];
        assert_eq!((&entry["manager"], &entry["subresource"]), (&json!("m"), &subresource), "{path}");
        assert_eq!(entry["fieldsV1"], fields, "{path}");
    }
}
