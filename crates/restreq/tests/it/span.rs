//! Tests of request spans and body logging.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use pintle_meta::ClientConfig;
use pintle_restreq::{RestClient, RestClientConfig};
use tracing::Level;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::support::{Reply, Server, closed_port, soon};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Log {
    fn ended(&self) -> Vec<String> {
        let text = String::from_utf8(std::mem::take(&mut self.0.lock().unwrap())).unwrap();
        text.lines().filter(|line| line.contains(": close")).map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn request_span_has_stable_field_names() {
    let log = Log::default();
    let subscriber = || tracing_subscriber::fmt().with_max_level(Level::DEBUG).with_ansi(false);
    // tracing caches per call site whether a span is enabled. If the process has only one subscriber, the first thread
    // that reaches the call site determines the cached value, even without a subscriber. If there is a second
    // subscriber, tracing checks the subscriber of each thread.
    let _another = tracing::Dispatch::new(subscriber().with_writer(io::sink).finish());
    let subscriber = subscriber().with_span_events(FmtSpan::CLOSE).with_writer(log.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);

    let script = [Reply::later(429, 0), Reply::ok(), Reply::json(404, "{}"), Reply::json(200, r#"{"items":[]}"#)];
    let server = Server::start_with(script, Reply::watch(&[], crate::support::End::Proper), None).await;
    let client = server.client();
    let check = |expected: &[&str], others: &[&str]| {
        let ended = log.ended();
        let [line] = &ended[..] else { panic!("one request is one span: {ended:?}") };
        assert!(line.contains("request{") && expected.iter().all(|field| line.contains(field)), "{line}");
        assert!(!others.iter().any(|field| line.contains(field)), "{line}");
    };
    let line = format!("url.full=http://{}/api/v1/namespaces/ns/pods/a?token=[redacted]", server.addr);
    let address = format!("server.address={}", server.addr);
    let request = client.get().abs_path(["/api/v1"]).namespace("ns").resource("pods").name("a").param("token", "hush");
    soon(request.send()).await.unwrap();
    check(
        &[
            "otel.kind=\"client\"",
            "http.request.method=GET",
            &line,
            &address,
            "url.template=/api/v1/namespaces/{namespace}/pods/{name}?token={value}",
            "k8s.namespace.name=\"ns\"",
            "k8s.resource=\"pods\"",
            "http.response.status_code=200",
            "http.request.resend_count=1",
        ],
        &["error.type", "hush"],
    );
    soon(client.delete().send()).await.unwrap_err();
    let not_sent = ["resend_count", "k8s."];
    check(&["http.request.method=DELETE", "http.response.status_code=404", "error.type=404"], &not_sent);
    drop(soon(client.get().list()).await.unwrap());
    check(&["http.response.status_code=200"], &["error.type"]);
    drop(soon(client.get().raw_watch()).await.unwrap());
    check(&["http.response.status_code=200"], &["error.type"]);
    drop(soon(client.get().stream()).await.unwrap());
    check(&["http.response.status_code=200"], &["error.type"]);

    let client = RestClient::new(ClientConfig::new(format!("http://{}", closed_port().await))).unwrap();
    soon(client.get().send()).await.unwrap_err();
    check(&["error.type=\"connect\""], &["status_code"]);
}

#[tokio::test]
async fn bodies_are_logged_if_enabled_without_secrets() {
    let log = Log::default();
    let subscriber = || tracing_subscriber::fmt().with_max_level(Level::TRACE).with_ansi(false);
    let _another = tracing::Dispatch::new(subscriber().with_writer(io::sink).finish());
    let _guard = tracing::subscriber::set_default(subscriber().with_writer(log.clone()).finish());
    let logged = || {
        let text = String::from_utf8(std::mem::take(&mut log.0.lock().unwrap())).unwrap();
        text.lines().filter(|line| line.contains("pintle_restreq::body")).map(str::to_owned).collect::<Vec<_>>()
    };

    let map = r#"{"kind":"ConfigMap","data":{"a":"b","token":"hush"}}"#;
    let refusal = r#"{"kind":"Status","status":"Failure","message":"no","code":403}"#;
    let script = [Reply::json(200, map), Reply::json(200, map), Reply::json(403, refusal)];
    let server = Server::start_with(script, Reply::json(200, map), None).await;
    let at = |client: &RestClient, resource| client.post().abs_path(["/api/v1"]).resource(resource).body(map);
    soon(at(&server.client(), "configmaps").send()).await.unwrap();
    assert_eq!(logged(), [""; 0], "bodies are not logged by default");

    let config = RestClientConfig { logged_body: Some(1024), ..server.config().into() };
    let client = RestClient::new(config).unwrap();
    soon(at(&client, "configmaps").send()).await.unwrap();
    let shown = r#"body={"data":{"a":"b","token":"[redacted]"},"kind":"ConfigMap"}"#;
    let lines = logged();
    assert!(lines.len() == 2 && lines.iter().all(|line| line.contains(shown)), "{lines:?}");

    soon(at(&client, "configmaps").send()).await.unwrap_err();
    assert!(logged()[1].contains(r#""message":"no""#), "the body of a rejection");
    let by_path = |path| client.post().request_uri(path).body(map);
    for request in [
        at(&client, "secrets"),
        by_path("/api/v1/namespaces/team/secrets/a"),
        by_path("/api/v1/namespaces/team/serviceaccounts/a/token"),
    ] {
        soon(request.send()).await.unwrap();
        let lines = logged();
        let size = format!("body=[{} bytes]", map.len());
        assert!(lines.len() == 2 && lines.iter().all(|line| line.contains(&size)), "{lines:?}");
    }
}
