//! The tokens of service accounts: for whom, for how long, and bound to what.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use pintle_apiserver::{ApiServer, ApiServerConfig, ServerSnapshot};
use pintle_json::{Json, json};
use tower_service::Service;

use crate::identity::{ask, server, server_with, who_am_i};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const OWN: &str = "https://kubernetes.default.svc";

async fn make(server: &ApiServer, path: &str, object: Json) -> Json {
    let made = ask(server, "root", Method::POST, path, &[], object).await;
    assert_eq!(made.code, 201, "{:?}", made.body);
    made.body
}

async fn account(server: &ApiServer) {
    make(server, ACCOUNTS, json!({"metadata": {"name": "a"}})).await;
}

/// A token of the account `a`.
async fn token(server: &ApiServer, spec: Json) -> String {
    let made = make(server, &format!("{ACCOUNTS}/a/token"), json!({ "spec": spec })).await;
    made["status"]["token"].as_str().expect("a token").to_owned()
}

/// What a review says of a token, for these audiences.
async fn review(server: &ApiServer, token: &str, audiences: &[&str]) -> Json {
    let body = json!({"spec": {"token": token, "audiences": audiences}});
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    ask(server, "root", Method::POST, reviews, &[], body).await.body["status"].clone()
}

/// Whether a token is taken, by requests and reviews alike.
async fn holds(server: &ApiServer, token: &str) -> bool {
    let reviewed = review(server, token, &[]).await;
    let asked = who_am_i(server, token, &[]).await;
    assert_eq!(asked.code == 201, reviewed["authenticated"] == true, "{reviewed} {:?}", asked.body);
    if asked.code != 201 {
        assert_eq!((asked.code, &reviewed["user"]), (401, &json!({})), "{reviewed}");
    }
    asked.code == 201
}

#[tokio::test]
async fn a_token_says_who_it_is_for_whom_and_how_long() {
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
async fn a_token_is_for_its_audience_alone() {
    let server = server().await;
    account(&server).await;
    let foreign = token(&server, json!({"audiences": ["vault"]})).await;
    assert!(!holds(&server, &foreign).await);
    assert_eq!(review(&server, &foreign, &["vault", "x"]).await["audiences"], json!(["vault"]));
    assert_eq!(
        review(&server, &foreign, &["x"]).await["error"],
        r#"[invalid bearer token, token audiences ["vault"] is invalid for the target audiences ["x"]]"#
    );
    let own = token(&server, json!({})).await;
    assert!(holds(&server, &own).await);
    assert_eq!(review(&server, &own, &["vault"]).await["authenticated"], Json::Null);
    // Those of the token file are for the server.
    assert_eq!(review(&server, "weak", &[OWN]).await["user"]["username"], "bob");
    assert_eq!(review(&server, "weak", &["vault"]).await["error"], "invalid bearer token");
}

#[tokio::test]
async fn a_token_ends_with_its_time() {
    let server = server().await;
    account(&server).await;
    let token = token(&server, json!({"expirationSeconds": 600})).await;
    // Clocks may disagree by a minute.
    server.set_clock_ahead(Duration::from_secs(630));
    assert!(holds(&server, &token).await);
    server.set_clock_ahead(Duration::from_secs(662));
    assert!(!holds(&server, &token).await);
    let error = &review(&server, &token, &[]).await["error"];
    assert_eq!(error, "[invalid bearer token, service account token has expired]");
}

#[tokio::test]
async fn a_token_dies_with_its_account_and_a_new_one_of_the_name_has_no_part_in_it() {
    let server = server().await;
    account(&server).await;
    let token = token(&server, json!({})).await;
    assert!(holds(&server, &token).await);
    ask(&server, "root", Method::DELETE, &format!("{ACCOUNTS}/a"), &[], Json::Null).await;
    assert!(!holds(&server, &token).await);
    account(&server).await;
    assert!(!holds(&server, &token).await);
}

#[tokio::test]
async fn a_token_dies_with_its_namespace() {
    let server = server().await;
    make(&server, "/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await;
    let accounts = "/api/v1/namespaces/n/serviceaccounts";
    make(&server, accounts, json!({"metadata": {"name": "a"}})).await;
    let made = make(&server, &format!("{accounts}/a/token"), json!({})).await;
    let token = made["status"]["token"].as_str().expect("a token");
    assert!(holds(&server, token).await);
    ask(&server, "root", Method::DELETE, "/api/v1/namespaces/n", &[], Json::Null).await;
    server.settle().await;
    assert!(!holds(&server, token).await);
}

#[tokio::test]
async fn a_token_dies_with_the_object_that_it_is_bound_to() {
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
        assert!(holds(&server, &token).await, "{kind}");
        ask(&server, "root", Method::DELETE, &format!("{path}/x?gracePeriodSeconds=0"), &[], Json::Null).await;
        assert!(!holds(&server, &token).await, "{kind}");
        make(&server, path, object).await;
        assert!(!holds(&server, &token).await, "a new {kind} of the name");
    }
}

#[tokio::test]
async fn a_token_is_bound_to_what_it_names_and_nothing_else() {
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
        assert_eq!(ask(&server, "root", Method::POST, &path, &[], body).await.code, code, "{reference}");
    }
    for metadata in [json!({"name": "b"}), json!({"namespace": "kube-system"}), json!({"uid": "0"})] {
        let answer = ask(&server, "root", Method::POST, &path, &[], json!({"metadata": metadata})).await;
        assert!(matches!(answer.code, 400 | 409 | 422), "{metadata}: {:?}", answer.body);
    }
}

#[tokio::test]
async fn a_token_that_this_server_did_not_sign_is_nobodys() {
    let (server, other) = (server().await, crate::identity::server().await);
    account(&server).await;
    account(&other).await;
    let ours = token(&server, json!({})).await;
    assert!(holds(&server, &ours).await && !holds(&other, &ours).await);
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
        assert!(!holds(&server, &token).await, "{token}");
    }
}

#[tokio::test]
async fn a_review_knows_accounts_where_everybody_is_an_administrator() {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    account(&server).await;
    let token = token(&server, json!({})).await;
    assert_eq!(review(&server, &token, &[]).await["user"]["username"], "system:serviceaccount:default:a");
    assert_eq!(review(&server, "x", &[]).await["error"], "invalid bearer token");
}

#[tokio::test(start_paused = true)]
async fn with_a_seed_tokens_are_the_same_each_time_and_a_snapshot_keeps_their_key() {
    let start_time = Some(std::time::UNIX_EPOCH + Duration::from_secs(1_800_000_000));
    let seeded = |seed| server_with(ApiServerConfig { seed, start_time, ..ApiServerConfig::default() });
    let made = async |seed| {
        let server = seeded(seed).await;
        // Without sockets, for which a paused clock does not wait.
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
    assert_ne!(made(None).await.0, made(None).await.0, "without a seed nobody knows it");
    let snapshot = server.snapshot();
    assert!(!format!("{snapshot:?}").contains("key"), "{snapshot:?}");
    let snapshot = ServerSnapshot::parse(&snapshot.to_text()).expect("a snapshot");
    let other = seeded(None).await;
    assert!(!holds(&other, &first).await);
    other.restore(&snapshot);
    assert!(holds(&other, &first).await);
}
