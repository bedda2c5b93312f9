//! A TLS server on loopback that serves the webhooks of a case. The server records each review, and sends the response
//! that the case specifies.
//!
//! Each case has its own responder, so concurrent cases do not see each other's calls.

mod authority;
mod behaviour;
mod convert;
mod template;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

use crate::json::Json;
use behaviour::Behaviour;

/// The maximum size of a review. kube-apiserver limits objects to 3 MiB, but a ConversionReview can contain a whole
/// list.
const LARGEST_REVIEW: usize = 64 << 20;

const RECORDED_HEADERS: [&str; 4] = ["content-type", "accept", "user-agent", "authorization"];

/// The webhook server of a case, which closes its port and all connections on drop.
pub(crate) struct Responder {
    address: SocketAddr,
    /// The CA certificate (PEM) that signed the responder's certificate.
    authority: String,
    /// A different CA certificate (PEM), which did not sign the responder's certificate.
    other_authority: String,
    webhooks: Arc<Webhooks>,
    accepting: JoinHandle<()>,
}

pub(crate) struct Call {
    pub(crate) path: String,
    pub(crate) headers: Json,
    /// The review, or an empty object if the request body was not JSON.
    pub(crate) body: Json,
}

#[derive(Default)]
struct Webhooks {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The behaviours for each path, in the order of calls. If a path has more calls than behaviours, the further calls
    /// get the last behaviour.
    behaviours: BTreeMap<String, Vec<Arc<Behaviour>>>,
    /// The recorded calls that no step has read yet. The deadline of the case limits the length of this list.
    calls: Vec<Call>,
    /// The number of calls at each path, excluding reviews of probes.
    counts: BTreeMap<String, usize>,
    /// The paths that have received the review of a probe.
    probed: BTreeSet<String>,
}

impl Responder {
    /// Starts a responder on a free port. The responder sends 404 for every request until
    /// [`set_behaviours`](Self::set_behaviours) is called.
    ///
    /// # Errors
    ///
    /// Returns an error if the responder cannot open a port or create its certificates.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("opening a port for webhooks")?;
        let address = listener.local_addr()?;
        let (authority, tls) = authority::issue("responder CA").context("creating the webhooks' certificate")?;
        let other_authority = authority::issue("other CA").context("creating the other certificate authority")?.0;
        let webhooks = Arc::new(Webhooks::default());
        let accepting = tokio::spawn(accept(listener, TlsAcceptor::from(tls), webhooks.clone()));
        Ok(Self { address, authority, other_authority, webhooks, accepting })
    }

    /// Returns the responder's variables for a case. `hook` is the URL of the responder, `hookaddr` is its host and
    /// port, and `ca` and `otherca` are values for `caBundle`.
    pub(crate) fn variables(&self) -> [(&'static str, String); 4] {
        [
            ("hook", format!("https://{}", self.address)),
            ("hookaddr", self.address.to_string()),
            ("ca", STANDARD.encode(&self.authority)),
            ("otherca", STANDARD.encode(&self.other_authority)),
        ]
    }

    /// Sets the behaviours of all paths from the field `webhooks` of a case.
    ///
    /// # Errors
    ///
    /// Returns an error that names the path of an invalid behaviour.
    pub(crate) fn set_behaviours(&self, webhooks: &Json) -> anyhow::Result<()> {
        self.webhooks.state().behaviours = behaviour::parse(webhooks)?;
        Ok(())
    }

    /// Removes and returns the recorded calls at `path` in arrival order. If `path` is `None`, `take_calls` returns
    /// the calls at all paths.
    pub(crate) fn take_calls(&self, path: Option<&str>) -> Vec<Call> {
        let calls = &mut self.webhooks.state().calls;
        let is_wanted = |call: &mut Call| path.is_none_or(|path| without_query(&call.path) == path);
        calls.extract_if(.., is_wanted).collect()
    }

    pub(crate) fn was_probed(&self, path: &str) -> bool {
        self.webhooks.state().probed.contains(path)
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Accepts connections until this task is aborted, which also aborts the connections.
async fn accept(listener: TcpListener, tls: TlsAcceptor, webhooks: Arc<Webhooks>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(serve(stream, tls.clone(), webhooks.clone()))),
                // Retry after a delay, because the process has too many open files.
                Err(_) => sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Serves a connection until it is closed. Ignores errors, because the tested server reports them in its response.
async fn serve(stream: TcpStream, tls: TlsAcceptor, webhooks: Arc<Webhooks>) {
    let Ok(stream) = tls.accept(stream).await else { return };
    let service = service_fn(move |request| {
        let webhooks = webhooks.clone();
        async move { webhooks.respond(request).await }
    });
    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
}

impl Webhooks {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a request and returns the response of the matching behaviour. Returning an error closes the connection.
    async fn respond(&self, request: Request<Incoming>) -> io::Result<Response<Full<Bytes>>> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let headers = recorded_headers(request.headers());
        let body = Limited::new(request.into_body(), LARGEST_REVIEW).collect().await.map_err(io::Error::other)?;
        let review = serde_json::from_slice(&body.to_bytes()).unwrap_or(Json::object([]));
        let behaviour = self.state().record(Call { path, headers, body: review.clone() });
        sleep(behaviour.delay).await;
        if behaviour.hangs_up {
            return Err(io::Error::other("the behaviour closes the connection"));
        }
        behaviour.response(&review).map_err(io::Error::other)
    }
}

impl State {
    /// Records a call and returns the matching behaviour. For a review of a probe, records only the path and returns a
    /// behaviour that allows the request.
    fn record(&mut self, call: Call) -> Arc<Behaviour> {
        let path = without_query(&call.path).to_owned();
        if is_probe(&call.body) {
            self.probed.insert(path);
            return Arc::new(Behaviour::allowing());
        }
        self.calls.push(call);
        let behaviours = self.behaviours.get(&path);
        let count = self.counts.entry(path).or_default();
        *count += 1;
        let behaviour = behaviours.and_then(|all| all.get(*count - 1).or(all.last()));
        behaviour.cloned().unwrap_or_else(|| Arc::new(Behaviour::missing()))
    }
}

fn is_probe(review: &Json) -> bool {
    let name = |pointer: &str| review.at(pointer).and_then(Json::text).filter(|name| !name.is_empty());
    let name = name("/request/name").or_else(|| name("/request/object/metadata/name"));
    name.is_some_and(|name| name.starts_with("probe-"))
}

fn recorded_headers(headers: &HeaderMap) -> Json {
    let found = RECORDED_HEADERS.iter().filter_map(|name| {
        let value = headers.get(*name)?;
        Some(((*name).to_owned(), Json::Text(String::from_utf8_lossy(value.as_bytes()).into_owned())))
    });
    Json::Object(found.collect())
}

fn without_query(path: &str) -> &str {
    path.split_once('?').map_or(path, |(path, _)| path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Answer, Client, Trust};

    const ALLOW: &str = r#"{"response":{"allowed":true}}"#;

    async fn responder(webhooks: &str) -> Responder {
        let responder = Responder::start().await.expect("a responder");
        responder.set_behaviours(&serde_json::from_str(webhooks).expect("test JSON")).expect("valid behaviours");
        responder
    }

    async fn post(responder: &Responder, path: &str, review: &str) -> anyhow::Result<Answer> {
        let trust = Trust::Authorities(responder.authority.clone().into());
        let client = Client::new(&responder.variables()[0].1, &trust, Duration::from_secs(30))?;
        let request = Request::builder().method("POST").uri(path).header("Accept", "text/html").header("X-Other", "x");
        client.send(request.body(Full::new(review.to_owned().into()))?).await
    }

    fn review(name: &str) -> String {
        format!(r#"{{"kind":"AdmissionReview","apiVersion":"v1","request":{{"uid":"u","name":"{name}"}}}}"#)
    }

    async fn body(responder: &Responder, path: &str, name: &str) -> String {
        let answer = post(responder, path, &review(name)).await.expect("a response");
        format!("{} {}", answer.status, String::from_utf8_lossy(&answer.body))
    }

    #[tokio::test]
    async fn last_behaviour_repeats_when_calls_outnumber_behaviours() {
        let responder = responder(r#"{"/v":[{"text":"one"},{"text":"two"}],"/w":{"text":"w"}}"#).await;
        for (path, expected) in [("/v", "200 one"), ("/w", "200 w"), ("/v?timeout=1s", "200 two"), ("/v", "200 two")] {
            assert_eq!(body(&responder, path, "a").await, expected);
        }
        assert!(body(&responder, "/x", "a").await.starts_with("404 "));
    }

    #[tokio::test]
    async fn calls_are_recorded_until_they_are_taken() {
        let responder = responder(&format!(r#"{{"/v":{ALLOW},"/w":{ALLOW}}}"#)).await;
        for path in ["/w", "/v?timeout=1s", "/w?x"] {
            body(&responder, path, "a").await;
        }
        let paths = |calls: Vec<Call>| calls.into_iter().map(|call| call.path).collect::<Vec<_>>();
        assert_eq!(paths(responder.take_calls(Some("/w"))), ["/w", "/w?x"]);
        let calls = responder.take_calls(None);
        assert_eq!(calls[0].headers.to_string(), r#"{"accept":"text/html"}"#);
        assert_eq!(calls[0].body.to_string(), review("a"));
        assert_eq!(paths(calls), ["/v?timeout=1s"]);
        assert_eq!(responder.take_calls(None).len(), 0);
    }

    #[tokio::test]
    async fn probes_are_allowed_and_not_counted() {
        let responder = responder(r#"{"/v":[{"status":500,"text":"one"},{"text":"two"}]}"#).await;
        assert!(!responder.was_probed("/v"));
        assert!(body(&responder, "/v?x", "probe-a").await.contains(r#""allowed": true"#));
        let generated = r#"{"request":{"name":"","object":{"metadata":{"name":"probe-b"}}}}"#;
        assert_eq!(post(&responder, "/v", generated).await.expect("a response").status, 200);
        assert!(responder.was_probed("/v"));
        assert_eq!(responder.take_calls(None).len(), 0);
        assert_eq!(body(&responder, "/v", "a").await, "500 one");
    }

    #[tokio::test]
    async fn call_is_recorded_before_the_responder_hangs_up() {
        let responder = responder(r#"{"/v":{"hang up":true}}"#).await;
        assert!(post(&responder, "/v", &review("a")).await.is_err());
        assert_eq!(responder.take_calls(None).len(), 1);
    }

    #[tokio::test]
    async fn certificate_is_signed_by_its_own_authority_only() {
        let mut responder = responder(&format!(r#"{{"/v":{ALLOW}}}"#)).await;
        assert!(post(&responder, "/v", &review("a")).await.is_ok());
        responder.authority = responder.other_authority.clone();
        let error = post(&responder, "/v", &review("a")).await.err().expect("an untrusted certificate");
        assert!(format!("{error:#}").contains("UnknownIssuer"), "{error:#}");
    }

    #[tokio::test]
    async fn body_without_json_is_recorded_as_an_empty_object() {
        let responder = responder(&format!(r#"{{"/v":{ALLOW}}}"#)).await;
        let answer = post(&responder, "/v", "no JSON").await.expect("a response");
        assert_eq!(answer.status, 200);
        assert_eq!(responder.take_calls(None)[0].body.to_string(), "{}");
    }

    #[tokio::test]
    async fn dropped_responder_closes_its_port() {
        let responder = responder("{}").await;
        let address = responder.address;
        let accepting = responder.accepting.abort_handle();
        drop(responder);
        while !accepting.is_finished() {
            tokio::task::yield_now().await;
        }
        assert!(TcpStream::connect(address).await.is_err());
    }
}
