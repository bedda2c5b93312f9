//! Tests that `Debug` output, errors, their sources and log lines never contain secrets.

use std::collections::BTreeSet;
use std::error::Error as StdError;
use std::fmt::Debug;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use pintle_meta::{
    ApiError, ApiResource, BasicAuth, ClientConfig, DeleteOptions, DynamicObject, ExecConfig, Flow, InteractiveMode,
    ListOptions, ListWatch, OidcConfig, PartialObject, PemSource, ResponseInfo, Scope, Secret, WatchOptions,
};
use pintle_restreq::{
    Api, AuthError, BoundObjectReference, DeadlineExceeded, Deletion, DiscoveredResource, FrameSplitter, Http2Config,
    IgnoreWarnings, InvalidRequest, LogOptions, LogSource, LogWarnings, OperationResult, Phase, ResponseTooLarge,
    RestClient, RestClientConfig, RestMapper, Table, TableColumn, TableRow, Timeouts, TokenRequest, Warning,
    WatcherEvent, extract_managed_fields,
};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tracing::Level;
use tracing_subscriber::fmt::MakeWriter;

use crate::support::{End, Reply, Server, closed_port, soon};

const CANARY: &str = "hush-0815";

/// The printed text, and the names of the printed types.
#[derive(Clone, Default)]
struct Shown(Arc<Mutex<Vec<u8>>>, Arc<Mutex<BTreeSet<&'static str>>>);

impl Write for Shown {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Shown {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Shown {
    fn debug<T: Debug>(&self, what: &T) {
        writeln!(self.clone(), "{what:?}\n{what:#?}").unwrap();
        self.1.lock().unwrap().insert(std::any::type_name::<T>());
    }

    fn error<T: StdError + 'static>(&self, error: &T) {
        for error in std::iter::successors(Some(error as &dyn StdError), |error| StdError::source(*error)) {
            writeln!(self.clone(), "{error}\n{error:?}").unwrap();
        }
        self.debug(error);
    }

    fn failure(&self, error: ApiError) {
        error.cause::<AuthError>().into_iter().for_each(|cause| self.error(cause));
        error.cause::<InvalidRequest>().into_iter().for_each(|cause| self.error(cause));
        self.error(&error);
    }

    fn knows(&self, name: &str) -> bool {
        let types = self.1.lock().unwrap();
        types.iter().any(|path| path.split(|c: char| !c.is_alphanumeric() && c != '_').any(|part| part == name))
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }

    /// Creates a client, if possible, and prints the client and the results of requests.
    async fn requests(&self, config: ClientConfig) {
        self.debug(&config);
        let config = RestClientConfig { logged_body: Some(1 << 20), ..config.into() };
        self.debug(&config);
        let client = match RestClient::new(config) {
            Ok(client) => client,
            Err(error) => {
                self.error(&error);
                return self.error(&ApiError::from(error));
            }
        };
        let name = CANARY;
        let requests = [
            client.get().resource("pods").param("access_token", name).max_retries(0),
            client
                .put()
                .max_retries(1)
                .header("authorization", &format!("Bearer {name}"))
                .header("cookie", name)
                .body(name),
            client.get().request_uri(&format!("https://me:{name}@host/%ff")),
        ];
        for request in requests {
            self.debug(&request);
            let show = |error| self.failure(error);
            soon(request.send()).await.map_or_else(show, |answer| self.debug(&answer));
            soon(request.object::<u32>()).await.map_or_else(show, drop);
            match soon(request.list()).await {
                Ok(mut list) => {
                    self.debug(&list);
                    while let Some(part) = soon(list.next()).await {
                        part.map_or_else(show, |part| self.debug(&part));
                    }
                    self.debug(&list);
                }
                Err(error) => show(error),
            }
            match soon(request.watch::<DynamicObject>()).await {
                Ok(mut watch) => {
                    while let Some(event) = soon(watch.next()).await {
                        event.map_or_else(show, |event| self.debug(&event.event_type()));
                    }
                    self.debug(&watch);
                }
                Err(error) => show(error),
            }
        }
    }

    async fn kinds(&self) {
        let token = json!({"token": CANARY, "expirationTimestamp": "2026-11-20T08:30:00Z"});
        let server = Server::start([
            Reply::json(200, json!({"metadata": {"name": "a"}}).to_string()),
            Reply::json(201, json!({"status": token}).to_string()),
            Reply::json(201, json!({"status": {"token": CANARY, "expirationTimestamp": CANARY}}).to_string()),
        ])
        .await;
        let config = RestClientConfig { logged_body: Some(1 << 20), ..server.config().into() };
        let client = RestClient::new(config).unwrap();
        let api = |kind, plural| {
            let resource = ApiResource::new("v1", kind, plural, Scope::Namespaced);
            Api::<DynamicObject>::dynamic(client.clone(), resource, Some("a")).unwrap()
        };
        let scale = soon(api("Deployment", "deployments").scale("a").get()).await.unwrap();
        self.debug(&(scale.spec, scale.status.clone(), scale));
        let bound_object = Some(BoundObjectReference::default());
        let request = TokenRequest { bound_object: bound_object.clone(), ..TokenRequest::default() };
        self.debug(&(&request, bound_object));
        let accounts = api("ServiceAccount", "serviceaccounts");
        self.debug(&soon(accounts.create_token("a", &request)).await.unwrap());
        self.error(&soon(accounts.create_token("a", &request)).await.unwrap_err());
        let pods = api("Pod", "pods");
        self.debug(&soon(pods.evict("a", &DeleteOptions::default())).await.unwrap());
        self.debug(&(LogOptions::default(), LogSource::Stdout));
        self.debug(&soon(pods.log_lines("a", &LogOptions::default())).await.unwrap());
        self.debug(&(pods.watcher(&ListOptions::default()), WatcherEvent::<PartialObject>::Init));
        self.debug(&pods.watcher(&ListOptions::default()).touched());
    }

    #[cfg(feature = "ws")]
    async fn streams(&self) {
        use pintle_restreq::{ExecOptions, TerminalSize};
        use tokio::io::AsyncReadExt;

        use crate::websocket_server::{Peer, V5, pods};

        for options in [ExecOptions::terminal(), ExecOptions::with_stdin()] {
            let (pods, server) = pods(async |peer: Peer| {
                let mut socket = peer.accept(V5).await;
                socket.send(1, CANARY).await;
                socket.send(2, CANARY).await;
                socket.end(r#"{"status":"Failure","message":"m"}"#).await;
            })
            .await;
            let mut process = soon(pods.exec("a", [CANARY], &options)).await.unwrap();
            self.debug(&(&process, options, &process.stdin, &process.stdout, &process.stderr, &process.terminal));
            self.debug(&TerminalSize { width: 1, height: 1 });
            drop(soon(process.stdin.as_mut().unwrap().write_all(CANARY.as_bytes())).await);
            let output = soon(process.wait_with_output()).await.unwrap();
            self.debug(&output);
            self.error(&output.status.unwrap_err());
            server.await.unwrap();
        }
        let (pods, server) = pods(async |peer: Peer| drop(peer.accept("v4.channel.k8s.io").await)).await;
        let mut port = soon(pods.port_forward("a", 80)).await.unwrap();
        self.debug(&port);
        self.error(&soon(port.read_u8()).await.unwrap_err());
        server.await.unwrap();
    }

    async fn handles(&self, client: RestClient) {
        let pods = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
        let api: Api<DynamicObject> = Api::dynamic(client.clone(), pods, Some("a")).unwrap();
        self.debug(&(client.clone(), api.clone()));
        let show = |error: ApiError| self.error(&error);
        let mut pages = api.pages(&ListOptions::default());
        if let Some(Err(error)) = soon(pages.next()).await {
            show(error);
        }
        self.debug(&pages);
        match soon(ListWatch::list(&api, &ListOptions::default())).await {
            Ok(page) => self.debug(&page),
            Err(error) => show(error),
        }
        match soon(ListWatch::watch(&api, &WatchOptions::default())).await {
            Ok(events) => self.debug(&events),
            Err(error) => show(error),
        }
        match soon(api.watch(&WatchOptions::default())).await {
            Ok(events) => self.debug(&events),
            Err(error) => show(error),
        }
        match soon(client.get().resource("pods").raw_watch()).await {
            Ok(events) => self.debug(&events),
            Err(error) => self.error(&error),
        }
        match soon(client.get().resource("pods").stream()).await {
            Ok(bytes) => self.debug(&bytes),
            Err(error) => self.error(&error),
        }
        let mapper = RestMapper::new(client);
        self.debug(&mapper);
        match soon(mapper.named("pods")).await {
            Ok(resource) => self.debug(&resource),
            Err(error) => self.error(&error),
        }
        self.debug(&api.subresource::<Value>("a", "status"));
        let from = WatchOptions { resource_version: "7".into(), ..WatchOptions::default() };
        self.debug(&api.retry_watch(&from).unwrap());
        let fields = json!({"f:data": {format!("v:{CANARY}"): {}}});
        let entry = json!({"manager": "me", "operation": "Apply", "fieldsV1": fields});
        let object = json!({"data": [CANARY], "metadata": {"managedFields": [entry]}});
        self.error(&extract_managed_fields(&object, "me", "").unwrap_err());
        let mut frames = FrameSplitter::new(4);
        frames.push(format!(r#"{{"type":"ADDED","object":{{"data":"{CANARY}"}}}}"#).into());
        self.debug(&frames);
        while let Some(frame) = frames.next_frame() {
            frame.map_or_else(|error| self.error(&error), drop);
        }
    }
}

/// Returns configurations with different credentials. All credentials contain [`CANARY`].
fn configs(url: &str) -> Vec<ClientConfig> {
    let secret = || Secret::new(CANARY);
    let basic = |password| Some(BasicAuth { username: "me".into(), password });
    let exec = |command: &str, argument: &str| {
        Some(ExecConfig {
            api_version: "client.authentication.k8s.io/v1".into(),
            command: command.into(),
            args: vec![argument.into()],
            env: [("TOKEN".to_owned(), CANARY.to_owned())].into(),
            install_hint: None,
            provide_cluster_info: true,
            cluster_extension: Some(CANARY.into()),
            interactive_mode: InteractiveMode::Never,
        })
    };
    let printed = |token: Value| {
        json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": token}})
            .to_string()
    };
    let mut configs = Vec::new();
    let mut add = |change: &dyn Fn(&mut ClientConfig)| {
        let mut config = ClientConfig::new(url);
        change(&mut config);
        configs.push(config);
    };
    add(&|config| config.token = Some(Secret::new(format!("{CANARY}\n"))));
    add(&|config| config.basic = basic(Secret::new(format!("{CANARY}\0"))));
    add(&|config| (config.token, config.basic) = (Some(secret()), basic(secret())));
    for (command, argument) in [
        ("echo", &*printed(CANARY.into())),
        ("echo", &*printed(json!([CANARY]))),
        ("echo", CANARY),
        ("false", CANARY),
        ("pintle-no-such-program", CANARY),
    ] {
        add(&|config| config.exec = exec(command, argument));
    }
    for (issuer, ca) in [("https", None), ("https", Some(CANARY)), ("http", None)] {
        add(&|config| {
            config.oidc = Some(OidcConfig {
                issuer_url: format!("{issuer}://me:{CANARY}@127.0.0.1:1/realm"),
                client_id: "me".into(),
                client_secret: Some(secret()),
                id_token: Some(secret()),
                refresh_token: Some(secret()),
                ca: ca.map(|ca: &str| PemSource::Inline(ca.into())),
                token_store: None,
            });
        });
    }
    let certificate = rcgen::generate_simple_self_signed(["me".to_owned()]).unwrap().cert.pem();
    let (begin, end) = ("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----");
    for key in [
        CANARY.to_owned(),
        // A private key without line breaks.
        format!("{begin}{CANARY}{end}"),
        format!("{begin} {CANARY}\n{end}\n"),
        format!("-----BEGIN {CANARY}\n{end}\n"),
        format!("{begin}\n{CANARY}\n{end}\n"),
        format!("{begin}\n{}\n{end}\n", BASE64_STANDARD.encode(CANARY)),
        format!("{begin}\n{CANARY}\n"),
    ] {
        add(&|config| {
            config.tls.certificate = Some(PemSource::Inline(certificate.clone().into()));
            config.tls.key = Some(PemSource::Inline(key.clone().into()));
        });
    }
    add(&|config| config.tls.ca = Some(PemSource::Inline(format!("{begin}{CANARY}").into())));
    configs
}

const STREAMS: [&str; 9] = [
    "AttachedProcess",
    "CommandOutput",
    "ExecError",
    "ExecOptions",
    "PortForward",
    "ProcessInput",
    "ProcessOutput",
    "Terminal",
    "TerminalSize",
];

async fn refusing() -> (std::net::SocketAddr, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let task = tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            drop(client.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await);
        }
    });
    (addr, task)
}

#[tokio::test]
async fn configuration_secrets_are_never_shown() {
    let shown = Shown::default();
    // tracing caches per call site whether an event is enabled. If the process has only one subscriber, the first
    // thread that reaches the call site determines the cached value, even without a subscriber. If there is a
    // second subscriber, tracing checks the subscriber of each thread.
    let _another =
        tracing::Dispatch::new(tracing_subscriber::fmt().with_max_level(Level::TRACE).with_writer(io::sink).finish());
    let log = tracing_subscriber::fmt().with_max_level(Level::TRACE).with_writer(shown.clone()).finish();
    let _guard = tracing::subscriber::set_default(log);

    let object = json!({"kind": "Secret", "metadata": {"name": "a", "labels": CANARY}, "data": CANARY}).to_string();
    let frame: &str = format!(r#"{{"type":"ADDED","object":{object}}}"#).leak();
    let list: &str = format!(r#"{{"items":[{object}]}}"#).leak();
    let user = format!("me:{CANARY}");
    let mut urls = Vec::new();
    let mut servers = Vec::new();
    for reply in [
        Reply::json(401, ""),
        // Proxies and servers other than kube-apiserver do not send `Status` objects.
        Reply::json(403, json!({"kind": "Secret", "data": {"token": CANARY}}).to_string()),
        Reply::json(500, CANARY),
        Reply::later(503, 0),
        Reply::Hang,
        Reply::json(200, object.clone()).header("set-cookie", CANARY),
        Reply::json(200, format!("{CANARY:?}")),
        Reply::watch(&[list], End::Proper),
        Reply::watch(&[frame], End::Cut),
    ] {
        let server = Server::always(reply).await;
        urls.push((format!("http://{user}@{}", server.addr), None));
        servers.push(server);
    }
    let (refusing, _refusing) = refusing().await;
    let nobody = closed_port().await;
    let bad = ["https://me:/hush-0815@host".to_owned(), format!("{user}@host/path"), format!("ftp://{user}@host")];
    urls.extend(bad.map(|url| (url, None)));
    urls.extend([nobody, servers[0].addr].map(|addr| (format!("https://{user}@{addr}"), None)));
    for scheme in ["http", "socks5", "https", "nonsense"] {
        for (url, proxy) in [("https", refusing), ("http", refusing), ("https", nobody)] {
            urls.push((format!("{url}://host.invalid"), Some(format!("{scheme}://{user}@{proxy}"))));
        }
    }
    let mut all = configs(&urls[0].0);
    all.extend(configs(&format!("https://{user}@{nobody}")));
    for (url, proxy) in urls {
        let mut config = ClientConfig::new(url);
        config.proxy_url = proxy;
        config.token = Some(Secret::new(CANARY));
        all.push(config.clone());
        config.token = None;
        config.basic = Some(BasicAuth { username: "me".into(), password: Secret::new(CANARY) });
        all.push(config);
    }
    for config in all {
        shown.requests(config).await;
    }

    // Test the typed methods only with the last four servers, which respond immediately.
    for server in &servers[servers.len() - 4..] {
        let mut config = ClientConfig::new(format!("http://{user}@{}", server.addr));
        config.token = Some(Secret::new(CANARY));
        shown.handles(RestClient::new(config).unwrap()).await;
    }
    shown.kinds().await;
    #[cfg(feature = "ws")]
    shown.streams().await;
    shown.debug(&(Timeouts::default(), LogWarnings, IgnoreWarnings, OperationResult::Created, Http2Config::default()));
    shown.debug(&(Table::default(), TableColumn::default(), TableRow::default()));
    shown.debug(&Deletion::Object(Box::new(PartialObject::default())));
    shown.debug(&Vec::<DiscoveredResource>::new());
    shown.debug(&Warning { code: 299, agent: "-".into(), text: "what the server says to humans".into() });
    shown.debug(&Flow { flow_schema: "a uid".into(), priority_level: "another".into() });
    shown.debug(&(Phase::Idle, DeadlineExceeded { phase: Phase::Idle, after: Duration::ZERO }));
    shown.debug(&ResponseTooLarge { limit: 1 });
    let response = ResponseInfo { audit_id: None, flow: None, body: CANARY.into() };
    shown.debug(&ApiError { response: Some(Arc::new(response)), ..ApiError::transport("cut") });
    #[cfg(feature = "tower")]
    {
        let noted = shown.clone();
        let layer = tower_layer::layer_fn(move |transport: pintle_restreq::TransportService| {
            noted.debug(&transport);
            transport
        });
        let transport_layer = Some(pintle_restreq::TransportLayer::new(layer));
        shown.debug(&(&transport_layer, pintle_restreq::TransportBody::new(CANARY.to_owned())));
        let mut config = ClientConfig::new(format!("https://{user}@{nobody}"));
        config.token = Some(Secret::new(CANARY));
        RestClient::new(RestClientConfig { transport_layer, ..config.into() }).unwrap();
    }
    check_exports(&shown);

    let text = shown.text();
    for expected in [
        "pintle_restreq::body",
        "401",
        "not an ExecCredential",
        "invalid type",
        "[redacted]",
        "DEBUG",
        "no PEM key",
        "proxy_url",
    ] {
        assert!(text.contains(expected), "the test does not reach {expected:?}");
    }
    check_canaries(&text);
}

/// Checks that `shown` contains the debug output of every exported type.
fn check_exports(shown: &Shown) {
    let library = include_str!("../../src/lib.rs");
    let exported = library.split("\npub use ").skip(1).filter_map(|rest| rest.split_once(';'));
    for name in exported.flat_map(|(names, _)| names.split(|c: char| !c.is_alphanumeric() && c != '_')) {
        // Skip traits, and types of features that are disabled.
        let is_other = name == "WarningHandler"
            || !cfg!(feature = "tower") && name.starts_with("Transport")
            || !cfg!(feature = "ws") && STREAMS.contains(&name);
        let is_type = name.starts_with(char::is_uppercase) && !is_other;
        assert!(!is_type || shown.knows(name), "show {name} here, with a secret in each of its fields");
    }
}

fn check_canaries(text: &str) {
    let encoded = [CANARY.to_owned(), format!("me:{CANARY}")].map(|text| BASE64_STANDARD.encode(text));
    let bytes = format!("{:?}", CANARY.as_bytes());
    let canaries =
        [CANARY, encoded[0].trim_end_matches('='), encoded[1].trim_end_matches('='), bytes.trim_matches(['[', ']'])];
    for line in text.lines() {
        assert!(!canaries.iter().any(|canary| line.contains(canary)), "{line}");
    }
}
