//! Replays cases against the embedded server, against a server that does not respond, and without a
//! server.

use std::time::Duration;

use pintle_conformance::{Case, Target, Trust, Verdict, embedded, load, packed_folder, replay};
use tokio::net::TcpListener;

const PLAIN: [&str; 3] =
    ["lifecycle/create-already-exists", "list/limit-divides-count", "watch/timeout-with-nothing-to-say"];

fn target(url: String) -> Target {
    Target {
        url,
        token: "admin-token".to_owned(),
        trust: Trust::Anyone,
        at_once: 4,
        limit: Duration::from_secs(30),
        patience: Duration::from_secs(10),
    }
}

fn case(text: &str) -> Case {
    serde_json::from_str(text).expect("a case")
}

async fn run(target: &Target, case: Case) -> Verdict {
    replay(target, vec![case], |_| {}).await.expect("a target").remove(0)
}

#[tokio::test]
async fn all_packed_cases_can_be_loaded() {
    let cases = load(&packed_folder()).expect("packed cases");
    assert_eq!(cases.len(), 2669);
    assert!(PLAIN.iter().all(|name| cases.iter().any(|case| case.name == *name)));
}

#[tokio::test]
async fn plain_cases_pass_against_the_embedded_server() {
    let server = embedded::start().await.expect("the embedded server");
    let cases = load(&packed_folder()).expect("packed cases");
    let cases = cases.into_iter().filter(|case| PLAIN.contains(&case.name.as_str())).collect();
    for verdict in replay(&target(server.url()), cases, |_| {}).await.expect("a target") {
        assert!(verdict.passes(), "{verdict:?}");
    }
    server.shutdown().await;
}

#[tokio::test]
async fn wrong_response_fails_its_case_with_the_path() {
    let server = embedded::start().await.expect("the embedded server");
    let case = case(
        r#"{"name":"a/b","steps":[{"do":"GET","path":"/api/v1/namespaces/${ns}","only":["/metadata/name"],
        "answer":{"status":200,"headers":{"content-type":"application/json"},"at":{"/metadata/name":"other"}}}]}"#,
    );
    let verdict = run(&target(server.url()), case).await;
    assert!(!verdict.passes());
    let differences: Vec<String> = verdict.differences.iter().map(ToString::to_string).collect();
    assert_eq!(differences, [r#"step 0 GET /api/v1/namespaces/${ns} /at//metadata/name: want "other", got "${ns}""#]);
    server.shutdown().await;
}

#[tokio::test]
async fn silent_server_fails_only_the_case() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let silent = Target { limit: Duration::from_millis(50), ..target(url) };
    let verdict = run(&silent, case(r#"{"name":"a/b","steps":[{"do":"GET","path":"/api"}]}"#)).await;
    assert!(verdict.differences[0].got.contains("no response within 50ms"), "{verdict:?}");
}

#[tokio::test]
async fn unreachable_server_fails_the_case_and_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let case = case(r#"{"name":"a/b","steps":[{"do":"GET","path":"/api"}]}"#);
    let verdict = run(&target(format!("http://{address}")), case).await;
    assert!(verdict.differences[0].got.contains(&format!("connecting to {address}")), "{verdict:?}");
}

#[tokio::test]
async fn invalid_url_fails_the_run() {
    let error = replay(&target("ftp://x".to_owned()), Vec::new(), |_| {}).await.expect_err("no such scheme");
    assert!(error.to_string().contains("is not http or https"), "{error}");
}

#[tokio::test]
async fn polling_ends_with_the_patience_of_the_target() {
    let server = embedded::start().await.expect("the embedded server");
    let hasty = Target { patience: Duration::from_millis(30), ..target(server.url()) };
    let until = r#"{"name":"a/b","steps":[{"do":"UNTIL","path":"/nosuch","status":200,"seconds":600}]}"#;
    let verdict = run(&hasty, case(until)).await;
    assert!(verdict.differences[0].got.contains("was not met within 30ms; last: 404"), "{verdict:?}");
    server.shutdown().await;
}

#[tokio::test]
async fn until_repeats_any_request_and_responses_keep_claims() {
    let server = embedded::start().await.expect("the embedded server");
    let accounts = "/api/v1/namespaces/${ns}/serviceaccounts";
    let create = format!(
        r#"{{"do":"UNTIL","seconds":600,"status":201,"request":{{"do":"POST","path":"{accounts}","body":{{"metadata":{{"name":"a"}}}}}}}}"#
    );
    let claims = r#"{"header":["alg","kid"],"claims":{"iss":"https://kubernetes.default.svc","aud":["https://kubernetes.default.svc"],
        "sub":"system:serviceaccount:${ns}:a","iat":"<seconds>","nbf":"iat+0","exp":"iat+3600","jti":"<uuid>",
        "kubernetes.io":{"namespace":"${ns}","serviceaccount":{"name":"a","uid":"<uid:1>"}}}}"#;
    let request_token = format!(
        r#"{{"do":"POST","path":"{accounts}/a/token","body":{{}},"only":["/status/token"],"claims":"/status/token","without":["content-type"],
        "answer":{{"status":201,"headers":{{}},"at":{{"/status/token":"<jwt>"}},"claims":{claims}}}}}"#
    );
    let verdict =
        run(&target(server.url()), case(&format!(r#"{{"name":"a/b","steps":[{create},{request_token}]}}"#))).await;
    assert!(verdict.passes(), "{verdict:?}");
    server.shutdown().await;
}

#[tokio::test]
async fn objects_outside_namespaces_are_deleted_after_the_case() {
    let server = embedded::start().await.expect("the embedded server");
    let create = r#"{"do":"POST","path":"/apis/scheduling.k8s.io/v1/priorityclasses","body":{"metadata":{"name":"same"},"value":1},
        "only":["/kind"],"answer":{"status":201,"headers":{"content-type":"application/json"},"at":{"/kind":"PriorityClass"}}}"#;
    for _ in 0..2 {
        let verdict = run(&target(server.url()), case(&format!(r#"{{"name":"a/b","steps":[{create}]}}"#))).await;
        assert!(verdict.passes(), "{verdict:?}");
    }
    server.shutdown().await;
}

#[tokio::test]
async fn invalid_behaviour_fails_the_case_with_its_path() {
    let server = embedded::start().await.expect("the embedded server");
    let verdict = run(&target(server.url()), case(r#"{"name":"a/b","webhooks":{"/v":{"reply":1}},"steps":[]}"#)).await;
    assert!(verdict.differences[0].got.contains("invalid behaviour of the webhook /v"), "{verdict:?}");
    server.shutdown().await;
}
