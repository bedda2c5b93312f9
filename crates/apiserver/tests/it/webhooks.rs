//! Tests of admission webhooks and conversion webhooks. These tests cover Services, clocks, cancelled requests and
//! concurrent writes. `crates/conformance` contains recorded cases of webhook calls.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use pintle_apiserver::{ApiServer, ApiServerConfig, eventually};
use pintle_json::{Json, json};
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use crate::support::{self, CONFIG_MAPS, PATIENCE};

/// Computes the `response` of a review from its `request`. If the response has no uid, the uid of the request is added.
type Respond = Arc<dyn Fn(&Json) -> Json + Send + Sync>;

pub(super) struct Webhook {
    address: SocketAddr,
    ca_bundle: String,
    requests: Arc<Mutex<Vec<Json>>>,
    _tasks: tokio::task::JoinSet<()>,
}

impl Webhook {
    pub(super) async fn start(names: &[&str], respond: impl Fn(&Json) -> Json + Send + Sync + 'static) -> Self {
        Self::start_with_gate(names, Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)), respond).await
    }

    /// Starts a webhook that acquires a permit from `gate` before each response.
    pub(super) async fn start_with_gate(
        names: &[&str],
        gate: Arc<Semaphore>,
        respond: impl Fn(&Json) -> Json + Send + Sync + 'static,
    ) -> Self {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let rcgen::CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(names).expect("a certificate");
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.expect("versions").with_no_client_auth();
        let config = config.with_single_cert(vec![cert.der().clone()], key).expect("a certificate with its key");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (requests, respond): (Arc<Mutex<Vec<Json>>>, Respond) = (Arc::default(), Arc::new(respond));
        let recorded = requests.clone();
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (acceptor, recorded, gate, respond) =
                    (acceptor.clone(), recorded.clone(), gate.clone(), respond.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(socket).await else { return };
                    let service =
                        service_fn(move |request| answer(request, recorded.clone(), gate.clone(), respond.clone()));
                    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
                });
            }
        });
        Self { address, ca_bundle: STANDARD.encode(cert.pem()), requests, _tasks: tasks }
    }

    pub(super) fn requests(&self) -> Vec<Json> {
        self.requests.lock().expect("no panic").clone()
    }

    pub(super) fn client_config(&self) -> Json {
        json!({"url": format!("https://{}/", self.address), "caBundle": self.ca_bundle})
    }
}

async fn answer(
    request: Request<Incoming>,
    recorded: Arc<Mutex<Vec<Json>>>,
    gate: Arc<Semaphore>,
    respond: Respond,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let body = request.into_body().collect().await?.to_bytes();
    let review: Json = serde_json::from_slice(&body).expect("a review");
    let request = review["request"].clone();
    recorded.lock().expect("no panic").push(request.clone());
    gate.acquire().await.expect("the gate is open").forget();
    let mut response = respond(&request);
    response.set_default("uid", request["uid"].clone());
    let review = json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response});
    Ok(Response::new(Full::new(review.to_string().into())))
}

pub(super) async fn register(server: &ApiServer, kind: &str, client_config: Json, extra: Json) {
    let mut webhook = json!({
        "name": "maps.example.com",
        "clientConfig": client_config,
        "rules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"],
        }],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    });
    extra.members("").for_each(|(name, value)| webhook.set(name.as_str(), value.clone()));
    let path = format!("/apis/admissionregistration.k8s.io/v1/{}s", kind.to_lowercase());
    let object = json!({"kind": kind, "metadata": {"name": "maps"}, "webhooks": [webhook]});
    let answer = support::call(server, Method::POST, &path, object).await;
    assert_eq!(answer.code, 201, "{:?}", answer.body);
}

pub(super) const VALIDATING: &str = "ValidatingWebhookConfiguration";
pub(super) const MUTATING: &str = "MutatingWebhookConfiguration";

pub(super) fn patched(operations: &Json) -> Json {
    json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())})
}

async fn create(server: &ApiServer, name: &str) -> support::Answer {
    support::call(server, Method::POST, CONFIG_MAPS, json!({"metadata": {"name": name}, "data": {}})).await
}

#[tokio::test]
async fn service_of_a_webhook_is_reached_at_its_address() {
    let webhook = Webhook::start(&["hooks.system.svc"], |_| json!({"allowed": false})).await;
    let services = BTreeMap::from([("system/hooks:443".to_owned(), webhook.address)]);
    let config = ApiServerConfig { services, ..ApiServerConfig::default() };
    let server = ApiServer::start(config).await.expect("a server");
    let service = json!({"namespace": "system", "name": "hooks", "path": "/check"});
    register(&server, VALIDATING, json!({"service": service, "caBundle": webhook.ca_bundle}), Json::Null).await;
    let denied = create(&server, "a").await;
    let message = "admission webhook \"maps.example.com\" denied the request without explanation";
    assert_eq!((denied.code, &denied.body["message"]), (400, &json!(message)));
    assert_eq!(webhook.requests()[0]["name"], "a");
}

#[tokio::test]
async fn service_without_an_address_is_not_called() {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    register(&server, VALIDATING, json!({"service": {"namespace": "system", "name": "hooks"}}), Json::Null).await;
    let created = create(&server, "a").await;
    assert_eq!(created.code, 201);
    let warning = created.headers["warning"].to_str().expect("text");
    assert!(warning.contains("was not called: the Service system/hooks:443 has no address"), "{warning}");
}

#[tokio::test(start_paused = true)]
async fn paused_clock_waits_for_webhooks() {
    let webhook = Webhook::start(&["127.0.0.1"], |_| json!({"allowed": true})).await;
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let service = server.in_process();
    register_in_process(&service, VALIDATING, webhook.client_config()).await;
    let before = tokio::time::Instant::now();
    let code = post_in_process(&service, CONFIG_MAPS, json!({"metadata": {"name": "a"}})).await;
    assert_eq!(code, 201);
    assert!(before.elapsed() < Duration::from_secs(1), "the clock jumped by {:?}", before.elapsed());
    assert_eq!(webhook.requests().len(), 1);
}

async fn register_in_process(service: &pintle_apiserver::InProcess, kind: &str, client_config: Json) {
    let webhook = json!({
        "name": "maps.example.com",
        "clientConfig": client_config,
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    });
    let path = format!("/apis/admissionregistration.k8s.io/v1/{}s", kind.to_lowercase());
    let object = json!({"kind": kind, "metadata": {"name": "maps"}, "webhooks": [webhook]});
    assert_eq!(post_in_process(service, &path, object).await, 201);
}

async fn post_in_process(service: &pintle_apiserver::InProcess, path: &str, object: Json) -> u16 {
    use tower_service::Service;
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(Full::new(Bytes::from(object.to_string()))).expect("a request");
    service.clone().call(request).await.expect("an answer").status().as_u16()
}

/// If another client changes the object during the webhook call, the server must call the webhook again with the new
/// object.
#[tokio::test]
async fn concurrent_change_is_reviewed_again() {
    let gate = Arc::new(Semaphore::new(0));
    let webhook = Webhook::start_with_gate(&["127.0.0.1"], gate.clone(), |_| json!({"allowed": true})).await;
    let server = Arc::new(ApiServer::start(ApiServerConfig::default()).await.expect("a server"));
    support::create_map(&server, "a", json!({})).await;
    let conditions = json!([{"name": "wanted", "expression": "'wanted' in object.data"}]);
    register(&server, VALIDATING, webhook.client_config(), json!({"matchConditions": conditions})).await;
    let patching = server.clone();
    let patch = tokio::spawn(async move { support::patch_map(&patching, "a", json!({"data": {"wanted": "1"}})).await });
    let is_called = async |count: usize| {
        let called = eventually(PATIENCE, async || webhook.requests().len() == count).await;
        assert!(called, "{count} calls are expected: {:?}", webhook.requests());
    };
    is_called(1).await;
    support::patch_map(&server, "a", json!({"metadata": {"labels": {"other": "1"}}})).await;
    gate.add_permits(1);
    is_called(2).await;
    gate.add_permits(1);
    patch.await.expect("no panic");
    assert_eq!(webhook.requests()[1]["oldObject"]["metadata"]["labels"]["other"], "1");
    let stored = support::get(&server, &format!("{CONFIG_MAPS}/a")).await.body;
    assert_eq!((&stored["data"]["wanted"], &stored["metadata"]["labels"]["other"]), (&json!("1"), &json!("1")));
}

/// A large body does not count towards the processing limit while its request waits for the webhook.
#[tokio::test]
async fn slow_webhook_does_not_block_large_bodies() {
    let gate = Arc::new(Semaphore::new(0));
    let webhook = Webhook::start_with_gate(&["127.0.0.1"], gate.clone(), |_| json!({"allowed": false})).await;
    let server = Arc::new(ApiServer::start(ApiServerConfig::default()).await.expect("a server"));
    register(&server, MUTATING, webhook.client_config(), Json::Null).await;
    let mut creates = tokio::task::JoinSet::new();
    for number in 0..4 {
        let server = server.clone();
        let map = json!({"metadata": {"name": format!("m{number}")}, "data": {"k": "v".repeat(1_400_000)}});
        creates.spawn(async move { support::call(&server, Method::POST, CONFIG_MAPS, map).await.code });
    }
    assert!(eventually(PATIENCE, async || webhook.requests().len() == 4).await, "all creates reach the webhook");
    gate.add_permits(4);
    assert_eq!(creates.join_all().await, [400; 4]);
}

#[tokio::test]
async fn slow_webhook_on_patches_does_not_block_large_bodies() {
    let gate = Arc::new(Semaphore::new(0));
    let webhook = Webhook::start_with_gate(&["127.0.0.1"], gate.clone(), |_| json!({"allowed": false})).await;
    let server = Arc::new(ApiServer::start(ApiServerConfig::default()).await.expect("a server"));
    for number in 0..4 {
        support::create_map(&server, &format!("m{number}"), json!({})).await;
    }
    register(&server, MUTATING, webhook.client_config(), Json::Null).await;
    let mut patches = tokio::task::JoinSet::new();
    for number in 0..4 {
        let server = server.clone();
        let (path, patch) = (format!("{CONFIG_MAPS}/m{number}"), json!({"data": {"k": "v".repeat(1_400_000)}}));
        patches.spawn(async move { support::call(&server, Method::PATCH, &path, patch).await.code });
    }
    assert!(eventually(PATIENCE, async || webhook.requests().len() == 4).await, "all patches reach the webhook");
    gate.add_permits(4);
    assert_eq!(patches.join_all().await, [400; 4]);
}

/// The decoded object is as large as the body, and the server keeps the object until the request ends.
#[tokio::test]
async fn body_budget_stays_in_use_during_webhook_calls() {
    let gate = Arc::new(Semaphore::new(0));
    let webhook = Webhook::start_with_gate(&["127.0.0.1"], gate.clone(), |_| json!({"allowed": false})).await;
    let config = ApiServerConfig { body_bytes: 1_000_000, ..ApiServerConfig::default() };
    let server = Arc::new(ApiServer::start(config).await.expect("a server"));
    support::create_map(&server, "a", json!({})).await;
    register(&server, MUTATING, webhook.client_config(), Json::Null).await;
    let map = format!("{CONFIG_MAPS}/a");
    let writes =
        [(Method::POST, CONFIG_MAPS, "b"), (Method::PUT, map.as_str(), "a"), (Method::PATCH, map.as_str(), "a")];
    for (number, (method, path, name)) in writes.into_iter().enumerate() {
        let object = json!({"metadata": {"name": name}, "data": {"k": "v".repeat(900_000)}});
        let write = async {
            let answer = support::call(&server, method.clone(), path, object).await;
            assert_eq!(answer.code, 400, "{method}: {:?}", answer.body);
        };
        let secret = json!({"metadata": {"name": format!("s{number}")}, "stringData": {"k": "v".repeat(200_000)}});
        let create_secret = async || {
            support::call(&server, Method::POST, "/api/v1/namespaces/default/secrets", secret.clone()).await.code
        };
        let others = async {
            assert!(eventually(PATIENCE, async || webhook.requests().len() > number).await, "{method} is reviewed");
            assert_eq!(create_secret().await, 429, "{method}");
            gate.add_permits(1);
        };
        tokio::join!(write, others);
        assert_eq!(create_secret().await, 201, "{method}");
    }
}

#[test]
fn hanging_webhook_does_not_occupy_the_only_blocking_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    runtime.expect("a runtime").block_on(async {
        let gate = Arc::new(Semaphore::new(0));
        let webhook = Webhook::start_with_gate(&["127.0.0.1"], gate.clone(), |_| json!({"allowed": false})).await;
        let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
        register(&server, VALIDATING, webhook.client_config(), json!({"timeoutSeconds": 30})).await;
        let reviewed = async { assert_eq!(create(&server, "a").await.code, 400) };
        let other = async {
            assert!(eventually(PATIENCE, async || webhook.requests().len() == 1).await, "the webhook is called");
            // While a webhook is registered, each write is processed on a blocking thread.
            let secret = json!({"metadata": {"name": "s"}});
            let created = support::call(&server, Method::POST, "/api/v1/namespaces/default/secrets", secret);
            let created = tokio::time::timeout(PATIENCE / 2, created).await;
            assert_eq!(created.expect("an answer before the webhook call times out").code, 201);
            gate.add_permits(1);
        };
        tokio::join!(reviewed, other);
    });
}

/// The webhook is registered while the body of the request arrives.
#[tokio::test]
async fn request_that_began_earlier_is_reviewed() {
    let webhook = Webhook::start(&["127.0.0.1"], |_| json!({"allowed": false})).await;
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let body = json!({"metadata": {"name": "late"}}).to_string();
    let head = format!(
        "POST {CONFIG_MAPS} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut socket = TcpStream::connect(server.url().trim_start_matches("http://")).await.expect("a connection");
    socket.write_all(head.as_bytes()).await.expect("a write");
    // The server sends this `100 Continue` when it begins to read the body.
    let mut answer = [0; 25];
    socket.read_exact(&mut answer).await.expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 100 Continue\r\n\r\n");
    register(&server, VALIDATING, webhook.client_config(), Json::Null).await;
    socket.write_all(body.as_bytes()).await.expect("a write");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert_eq!(webhook.requests().len(), 1);
}

/// All reviews of a create have the uid of the stored object, even though the server computes the object again after
/// each webhook response.
#[tokio::test]
async fn object_has_one_uid_in_all_reviews() {
    let add = json!([{"op": "add", "path": "/data/by", "value": "webhook"}]);
    let mutating = Webhook::start(&["127.0.0.1"], move |_| patched(&add)).await;
    let validating = Webhook::start(&["127.0.0.1"], |_| json!({"allowed": true})).await;
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    register(&server, MUTATING, mutating.client_config(), Json::Null).await;
    register(&server, VALIDATING, validating.client_config(), Json::Null).await;
    let map = json!({"metadata": {"generateName": "map-"}, "data": {"k": "v"}});
    let created = support::call(&server, Method::POST, CONFIG_MAPS, map).await;
    assert_eq!((created.code, &created.body["data"]["by"]), (201, &json!("webhook")));
    assert_eq!((mutating.requests().len(), validating.requests().len()), (1, 1));
    let reviewed = &validating.requests()[0]["object"]["metadata"];
    for field in ["uid", "name", "creationTimestamp"] {
        assert_eq!(reviewed[field], created.body["metadata"][field], "{field}");
    }
    assert!(mutating.requests()[0]["object"]["metadata"]["uid"].is_null());
}

/// A LimitRange without a name gets a random name, which is the same in all attempts to create it.
#[tokio::test]
async fn webhook_is_called_once_for_a_random_name() {
    let webhook = Webhook::start(&["127.0.0.1"], |_| json!({"allowed": true})).await;
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let rules =
        json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["limitranges"]}]);
    register(&server, VALIDATING, webhook.client_config(), json!({"rules": rules})).await;
    let limits = json!({"spec": {"limits": [{"type": "Pod"}]}});
    let created = support::call(&server, Method::POST, "/api/v1/namespaces/default/limitranges", limits).await;
    assert_eq!((created.code, webhook.requests().len()), (201, 1), "{:?}", created.body);
    assert_eq!(webhook.requests()[0]["object"]["metadata"]["name"], created.body["metadata"]["name"]);
}

#[tokio::test]
async fn webhook_that_accepts_no_connection_fails_within_its_timeout() {
    // The listener never accepts a connection, so the TLS handshake never ends.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    let url = format!("https://{}/", listener.local_addr().expect("an address"));
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    register(&server, VALIDATING, json!({"url": url}), json!({"timeoutSeconds": 1})).await;
    let failed = tokio::time::timeout(PATIENCE, create(&server, "a")).await.expect("an answer in time");
    let message = failed.body["message"].as_str().expect("a message");
    assert!(failed.code == 500 && message.ends_with("context deadline exceeded"), "{message}");
}

#[tokio::test]
async fn two_webhooks_with_one_url_are_both_called() {
    let webhook = Webhook::start(&["127.0.0.1"], |_| json!({"allowed": true})).await;
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    register(&server, MUTATING, webhook.client_config(), Json::Null).await;
    register(&server, VALIDATING, webhook.client_config(), Json::Null).await;
    support::create_map(&server, "a", json!({})).await;
    support::patch_map(&server, "a", json!({"metadata": {"labels": {"changed": "1"}}})).await;
    assert_eq!(webhook.requests().len(), 4);
}

#[tokio::test]
async fn get_request_that_connects_is_reviewed() {
    let webhook = Webhook::start(&["127.0.0.1"], |_| json!({"allowed": false})).await;
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
    let pods = "/api/v1/namespaces/default/pods";
    assert_eq!(support::call(&server, Method::POST, pods, pod).await.code, 201);
    let rules =
        json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CONNECT"], "resources": ["pods/exec"]}]);
    register(&server, VALIDATING, webhook.client_config(), json!({"rules": rules})).await;
    let denied = support::get(&server, &format!("{pods}/p/exec?command=ls&stdout=true")).await;
    assert_eq!(denied.code, 400, "{:?}", denied.body);
    assert_eq!(webhook.requests()[0]["operation"], "CONNECT");
}

#[tokio::test]
async fn webhook_receives_only_valid_reviews() {
    let webhook = Webhook::start(&["127.0.0.1"], |_| json!({"allowed": false})).await;
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let rules = json!([{
        "apiGroups": ["authorization.k8s.io", "authentication.k8s.io"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"],
    }]);
    register(&server, VALIDATING, webhook.client_config(), json!({"rules": rules})).await;
    let path = json!({"path": "/", "verb": "get"});
    let invalid = [
        ("authorization.k8s.io/v1/selfsubjectaccessreviews", json!({}), 422),
        ("authorization.k8s.io/v1/subjectaccessreviews", json!({"nonResourceAttributes": path}), 422),
        ("authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews", json!({"user": "a"}), 422),
        ("authorization.k8s.io/v1/selfsubjectrulesreviews", json!({}), 400),
        ("authentication.k8s.io/v1/tokenreviews", json!({}), 400),
    ];
    for (path, spec, code) in invalid {
        let answer = support::call(&server, Method::POST, &format!("/apis/{path}"), json!({"spec": spec})).await;
        assert_eq!(answer.code, code, "{path}: {:?}", answer.body);
        assert!(webhook.requests().is_empty(), "{path}");
    }
    let valid = json!({"spec": {"nonResourceAttributes": path}});
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let denied = support::call(&server, Method::POST, reviews, valid).await;
    assert_eq!((denied.code, webhook.requests().len()), (400, 1), "{:?}", denied.body);
}

/// Creates a definition with a conversion webhook. The version v1 has the field `spec.size`, and v2 has `spec.count`.
pub(super) async fn define_widgets(server: &ApiServer, webhook: &Webhook) {
    let version = |name: &str, field: &str, storage: bool| {
        let spec = json!({"type": "object", "properties": {field: {"type": "integer"}}});
        let status = json!({"type": "object", "properties": {"ready": {"type": "boolean"}}});
        let scale = json!({"specReplicasPath": format!(".spec.{field}"), "statusReplicasPath": ".status.replicas"});
        json!({
            "name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
            "subresources": {"status": {}, "scale": scale},
        })
    };
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1", "size", true), version("v2", "count", false)],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": webhook.client_config()},
            },
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let answer = support::call(server, Method::POST, definitions, definition).await;
    assert_eq!(answer.code, 201, "{:?}", answer.body);
    let served = eventually(PATIENCE, async || support::get(server, &widgets("v2")).await.code == 200).await;
    assert!(served);
}

pub(super) fn widgets(version: &str) -> String {
    format!("/apis/example.com/{version}/namespaces/default/widgets")
}

pub(super) fn renamed(request: &Json) -> Json {
    let to = request.text("/desiredAPIVersion");
    let [old, new] = if to.ends_with("/v2") { ["size", "count"] } else { ["count", "size"] };
    let converted = request.list("/objects").map(|object| {
        let mut object = object.clone();
        object.set("apiVersion", to);
        if let Some(value) = object["spec"].get(old).cloned() {
            object["spec"].unset(old);
            object["spec"].set(new, value);
        }
        object
    });
    json!({"result": {"status": "Success"}, "convertedObjects": converted.collect::<Json>()})
}

#[tokio::test]
async fn scale_of_a_converted_object_has_its_replicas() {
    let webhook = Webhook::start(&["127.0.0.1"], renamed).await;
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    define_widgets(&server, &webhook).await;
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 3}});
    assert_eq!(support::call(&server, Method::POST, &widgets("v1"), widget).await.code, 201);
    let scale = support::get(&server, &format!("{}/w/scale", widgets("v2"))).await;
    assert_eq!((scale.code, &scale.body["spec"]["replicas"]), (200, &json!(3)), "{:?}", scale.body);
}

#[tokio::test]
async fn status_write_keeps_the_spec_of_a_moved_version() {
    let webhook = Webhook::start(&["127.0.0.1"], renamed).await;
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    define_widgets(&server, &webhook).await;
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 3}});
    assert_eq!(support::call(&server, Method::POST, &widgets("v1"), widget).await.code, 201);
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
    let mut moved = support::get(&server, definition).await.body;
    moved["spec"]["versions"][0].set("storage", false);
    moved["spec"]["versions"][1].set("storage", true);
    assert_eq!(support::call(&server, Method::PUT, definition, moved).await.code, 200);
    let stored = eventually(PATIENCE, async || {
        let stored = support::get(&server, definition).await.body;
        stored["status"]["storedVersions"] == json!(["v1", "v2"])
    });
    assert!(stored.await);
    let status = json!({"status": {"ready": true}});
    let path = format!("{}/w/status", widgets("v1"));
    let written = support::call(&server, Method::PATCH, &path, status).await;
    assert_eq!((written.code, &written.body["spec"]["size"]), (200, &json!(3)), "{:?}", written.body);
    for (version, field) in [("v1", "size"), ("v2", "count")] {
        let read = support::get(&server, &format!("{}/w", widgets(version))).await.body;
        assert_eq!((&read["spec"][field], &read["status"]["ready"]), (&json!(3), &json!(true)), "{version}");
    }
}

/// If the conversion of an object fails, policies must not be evaluated, because fields of the object would be missing.
/// Therefore, deletions and patches of the object fail. A patch causes no warnings, because the patched object is
/// unknown.
#[tokio::test]
async fn failed_conversion_prevents_writes() {
    let webhook =
        Webhook::start(&["127.0.0.1"], |_| json!({"result": {"status": "Failure", "message": "broken"}})).await;
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    define_widgets(&server, &webhook).await;
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 3}});
    assert_eq!(support::call(&server, Method::POST, &widgets("v1"), widget).await.code, 201);
    assert_eq!(support::delete(&server, &format!("{}/w", widgets("v2"))).await.code, 500);
    assert_eq!(support::delete(&server, &widgets("v2")).await.code, 500);
    assert_eq!(support::get(&server, &format!("{}/w", widgets("v1"))).await.code, 200);
    let patch = json!({"spec": {"unknown": 1}});
    let patched = support::call(&server, Method::PATCH, &format!("{}/w", widgets("v2")), patch).await;
    assert_eq!((patched.code, patched.headers.get("warning")), (500, None));
}

#[tokio::test]
async fn loading_rejects_objects_that_a_webhook_must_convert() {
    let webhook = Webhook::start(&["127.0.0.1"], |_| json!({"result": {"status": "Failure"}})).await;
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    define_widgets(&server, &webhook).await;
    let widget =
        |version: &str| format!("{{apiVersion: example.com/{version}, kind: Widget, metadata: {{name: {version}}}}}");
    assert_eq!(server.load(&widget("v1")).expect("the storage version"), 1);
    let refused = server.load(&widget("v2")).expect_err("another version").to_string();
    assert!(refused.contains("a webhook must convert objects of example.com/v2"), "{refused}");
    assert!(webhook.requests().is_empty());
}

/// A finalizer delays the deletion. The object is still stored in the previous storage version.
#[tokio::test]
async fn marked_object_keeps_its_stored_version() {
    let webhook = Webhook::start(&["127.0.0.1"], renamed).await;
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    define_widgets(&server, &webhook).await;
    let metadata = json!({"name": "w", "finalizers": ["example.com/f"]});
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": {"size": 3}});
    assert_eq!(support::call(&server, Method::POST, &widgets("v1"), widget).await.code, 201);
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
    let mut moved = support::get(&server, path).await.body;
    moved["spec"]["versions"][0].set("storage", false);
    moved["spec"]["versions"][1].set("storage", true);
    assert_eq!(support::call(&server, Method::PUT, path, moved).await.code, 200);
    server.settle().await;
    for query in ["?dryRun=All", ""] {
        let deleted = support::delete(&server, &format!("{}/w{query}", widgets("v1"))).await;
        assert_eq!((deleted.code, &deleted.body["spec"]), (200, &json!({"size": 3})), "{query}");
    }
    for (version, spec) in [("v1", json!({"size": 3})), ("v2", json!({"count": 3}))] {
        assert_eq!(support::get(&server, &format!("{}/w", widgets(version))).await.body["spec"], spec);
    }
}
