//! Tests of CertificateSigningRequests: the requesting user, and the permissions for approving and signing.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use pintle_apiserver::ApiServer;
use pintle_json::{Json, json};
use rcgen::{CertificateParams, DnType, KeyPair};

use crate::identity::{grant, send_as, server};
use crate::support::Answer;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const GROUP: &str = "certificates.k8s.io";

fn request(organization: &str) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "x");
    params.distinguished_name.push(DnType::OrganizationName, organization);
    let key = KeyPair::generate().expect("a key");
    STANDARD.encode(params.serialize_request(&key).and_then(|request| request.pem()).expect("a request"))
}

fn signing_request(name: &str, signer: &str, organization: &str) -> Json {
    json!({
        "metadata": {"name": name},
        "spec": {"request": request(organization), "signerName": signer, "usages": ["client auth"]},
    })
}

async fn post(server: &ApiServer, token: &str, object: Json) -> Answer {
    send_as(server, token, Method::POST, REQUESTS, &[], object).await
}

async fn patch(server: &ApiServer, token: &str, path: &str, patch: Json) -> Answer {
    let headers = [("content-type", "application/merge-patch+json")];
    let bearer = format!("Bearer {token}");
    let all = [headers[0], ("authorization", bearer.as_str())];
    crate::support::read(
        crate::support::send(server, Method::PATCH, &format!("{REQUESTS}/{path}"), &all, &patch.to_string()).await,
    )
    .await
}

fn decision(kind: &str) -> Json {
    json!({"status": {"conditions": [{"type": kind, "status": "True", "reason": "R", "message": "m"}]}})
}

async fn let_bob_write(server: &ApiServer) {
    let all =
        ["certificatesigningrequests", "certificatesigningrequests/approval", "certificatesigningrequests/status"];
    grant(server, "", "writer", json!([{"apiGroups": [GROUP], "resources": all, "verbs": ["*"]}])).await;
}

#[tokio::test]
async fn request_spec_names_the_creating_user() {
    let server = server().await;
    let_bob_write(&server).await;
    let mut object = signing_request("a", "example.org/s", "o");
    for (field, value) in [
        ("username", json!("root")),
        ("uid", json!("1")),
        ("groups", json!(["system:masters"])),
        ("extra", json!({"a": ["b"]})),
    ] {
        object["spec"][field] = value;
    }
    object["status"] = decision("Approved")["status"].clone();
    let made = post(&server, "weak", object.clone()).await;
    assert_eq!(made.code, 201, "{:?}", made.body);
    let check = |object: &Json| {
        let spec = &object["spec"];
        assert_eq!((&spec["username"], &spec["uid"]), (&json!("bob"), &json!("2")));
        assert_eq!((&spec["groups"], &spec["extra"]), (&json!(["users", "system:authenticated"]), &Json::Null));
        assert_eq!(object["status"], json!({}));
    };
    check(&made.body);
    for path in ["a", "a/status", "a/approval"] {
        let patched =
            patch(&server, "root", path, json!({"spec": {"username": "root", "groups": ["system:masters"]}})).await;
        assert_eq!(patched.code, 200, "{path}: {:?}", patched.body);
        check(&patched.body);
    }
    let put = send_as(&server, "root", Method::PUT, &format!("{REQUESTS}/a"), &[], object).await;
    assert_eq!(put.code, 200, "{:?}", put.body);
    check(&put.body);
}

#[tokio::test]
async fn request_spec_names_the_applying_user() {
    let server = server().await;
    let_bob_write(&server).await;
    let mut object = signing_request("a", "example.org/s", "o");
    object["apiVersion"] = format!("{GROUP}/v1").into();
    object["kind"] = "CertificateSigningRequest".into();
    object["spec"]["username"] = "root".into();
    object["spec"]["groups"] = json!(["system:masters"]);
    let headers = [("content-type", "application/apply-patch+yaml"), ("authorization", "Bearer weak")];
    let path = format!("{REQUESTS}/a?fieldManager=m&force=true");
    for code in [201, 200] {
        let sent = crate::support::send(&server, Method::PATCH, &path, &headers, &object.to_string()).await;
        let applied = crate::support::read(sent).await;
        assert_eq!(applied.code, code, "{:?}", applied.body);
        let spec = &applied.body["spec"];
        assert_eq!((&spec["username"], &spec["groups"]), (&json!("bob"), &json!(["users", "system:authenticated"])));
    }
}

#[tokio::test]
async fn request_spec_names_the_impersonated_user() {
    let server = server().await;
    let headers = [("impersonate-user", "jane"), ("impersonate-uid", "u"), ("impersonate-extra-team", "x")];
    let all = [headers.as_slice(), &[("impersonate-group", "system:masters")]].concat();
    let made = send_as(&server, "root", Method::POST, REQUESTS, &all, signing_request("a", "example.org/s", "o")).await;
    let spec = &made.body["spec"];
    assert_eq!((&spec["username"], &spec["uid"]), (&json!("jane"), &json!("u")), "{:?}", made.body);
    assert_eq!(spec["groups"], json!(["system:masters", "system:authenticated"]));
    assert_eq!(spec["extra"], json!({"team": ["x"]}));
}

#[tokio::test]
async fn approving_and_signing_need_a_right_on_the_signer() {
    let server = server().await;
    let_bob_write(&server).await;
    for name in ["a", "b", "c"] {
        assert_eq!(post(&server, "root", signing_request(name, "example.org/s", "o")).await.code, 201);
    }
    let on = |verb: &str, name: &str| json!([{"apiGroups": [GROUP], "resources": ["signers"], "verbs": [verb], "resourceNames": [name]}]);
    let approve = async |name: &str| patch(&server, "weak", &format!("{name}/approval"), decision("Approved")).await;
    let sign = async |name: &str| patch(&server, "weak", &format!("{name}/status"), decision("Failed")).await;
    for (verb, answer) in [("approve", approve("a").await), ("sign", sign("a").await)] {
        assert_eq!(answer.code, 403, "{:?}", answer.body);
        let message = answer.body["message"].as_str().expect("a message");
        let wanted = format!("user not permitted to {verb} requests with signerName \"example.org/s\"");
        assert!(message.ends_with(&wanted), "{message}");
    }
    grant(&server, "", "other-signer", on("approve", "example.org/t")).await;
    grant(&server, "", "other-domain", on("sign", "example.com/*")).await;
    grant(&server, "", "signs", on("sign", "example.org/s")).await;
    assert_eq!(approve("a").await.code, 403);
    assert_eq!(sign("a").await.code, 200);
    grant(&server, "", "approves", on("approve", "example.org/*")).await;
    assert_eq!(approve("b").await.code, 200);
    // A status write requires permission for the signer only if it changes the certificate or the conditions.
    let labels = patch(&server, "weak", "c/status", json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(labels.code, 200, "{:?}", labels.body);
}

#[tokio::test]
async fn client_certificates_for_system_masters_are_rejected() {
    let server = server().await;
    let client = "kubernetes.io/kube-apiserver-client";
    let refused = post(&server, "root", signing_request("a", client, "system:masters")).await;
    assert_eq!(refused.code, 403, "{:?}", refused.body);
    assert_eq!(post(&server, "root", signing_request("b", client, "ops")).await.code, 201);
    assert_eq!(post(&server, "root", signing_request("c", "example.org/s", "system:masters")).await.code, 201);
}

#[tokio::test]
async fn decisions_cannot_be_changed() {
    let server = server().await;
    assert_eq!(post(&server, "root", signing_request("a", "example.org/s", "o")).await.code, 201);
    let approved = patch(&server, "root", "a/approval", decision("Approved")).await;
    assert_eq!(approved.code, 200, "{:?}", approved.body);
    for (path, change) in [
        ("a/approval", decision("Denied")),
        ("a/approval", json!({"status": {"conditions": []}})),
        ("a/status", json!({"status": {"conditions": null}})),
        ("a/status", json!({"status": {"certificate": "bm9uc2Vuc2U="}})),
    ] {
        let answer = patch(&server, "root", path, change.clone()).await;
        assert_eq!((answer.code, &answer.body["reason"]), (422, &json!("Invalid")), "{path} {change}");
    }
    // Writes to the approval subresource ignore the certificate. Writes to the main resource ignore the whole status.
    for path in ["a/approval", "a"] {
        let answer = patch(&server, "root", path, json!({"status": {"certificate": "bm9uc2Vuc2U="}})).await;
        assert_eq!(answer.body["status"], approved.body["status"], "{path}");
    }
}

#[tokio::test]
async fn invalid_signing_requests_are_rejected() {
    let server = server().await;
    let good = signing_request("a", "example.org/s", "o");
    for (field, value) in [
        ("request", json!("bm90IGEgY3Ny")),
        (
            "request",
            json!(STANDARD.encode("-----BEGIN CERTIFICATE REQUEST-----\nMAA=\n-----END CERTIFICATE REQUEST-----\n")),
        ),
        ("signerName", json!("nodomain")),
        ("signerName", json!("kubernetes.io/legacy-unknown")),
        ("usages", json!([])),
        ("usages", json!(["flying"])),
        ("usages", json!(["client auth", "client auth"])),
        ("expirationSeconds", json!(599)),
    ] {
        let mut object = good.clone();
        object["spec"][field] = value.clone();
        let answer = post(&server, "root", object).await;
        assert_eq!(answer.code, 422, "{field} {value}: {:?}", answer.body);
    }
    assert_eq!(post(&server, "root", good).await.code, 201);
}
