//! Tests OpenID Connect logins. The issuer is a server on the loopback interface.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use futures_util::FutureExt;
use pintle_kubeconfig::{Files, Overrides};
use pintle_meta::{ClientConfig, ErrorKind, OidcConfig, PemSource, Secret, TokenStore};
use pintle_restreq::{AuthError, RestClient};
use serde_json::{Value, json};

use crate::support::{Reply, Seen, Server, skip, soon, steady_clock, until};
use crate::tls::{Authority, settings, trusting};

fn id_token(name: &str, seconds: i64) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() as i64;
    let claims = json!({"sub": name, "exp": now + seconds}).to_string();
    format!("e30.{}.c2ln", BASE64_URL_SAFE_NO_PAD.encode(claims))
}

fn subject(token: &str) -> String {
    let claims = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    serde_json::from_slice::<Value>(&claims).unwrap()["sub"].as_str().unwrap().into()
}

/// A function that returns the issuer's reply to a request, given the number of previous requests.
type Issuer = fn(&Seen, usize) -> Reply;

const DESCRIPTION: &str = "/realms/a/.well-known/openid-configuration";

fn described(seen: &Seen) -> Option<Reply> {
    let host = seen.header("host").unwrap();
    let endpoint = format!("https://{host}/realms/a/token?kind=x");
    (seen.uri == DESCRIPTION).then(|| Reply::json(200, json!({"token_endpoint": endpoint}).to_string()))
}

/// Returns new tokens that contain the number of previous requests.
fn giving(seen: &Seen, before: usize) -> Reply {
    described(seen).unwrap_or_else(|| {
        let tokens = json!({"id_token": id_token(&format!("i{before}"), 600), "refresh_token": format!("r{before}")});
        Reply::json(200, tokens.to_string())
    })
}

struct Setup {
    issuer: Server,
    server: Server,
    config: ClientConfig,
}

impl Setup {
    async fn new(issuer: Issuer, replies: impl IntoIterator<Item = Reply>) -> Self {
        let authority = Authority::new();
        let tls = || Some(settings(&authority.issue("127.0.0.1"), &[], None));
        let issuer = Server::start_with([], Reply::By(issuer), tls()).await;
        let server = Server::start_with(replies, Reply::ok(), tls()).await;
        let mut config = trusting(&server, &authority);
        config.oidc = Some(OidcConfig {
            issuer_url: format!("{}/realms/a/", issuer.url()),
            client_id: "kubernetes".into(),
            refresh_token: Some(Secret::new("r")),
            ca: Some(PemSource::Inline(authority.pem().into())),
            ..OidcConfig::default()
        });
        Self { issuer, server, config }
    }

    fn oidc(&mut self) -> &mut OidcConfig {
        self.config.oidc.as_mut().unwrap()
    }

    fn client(&self) -> RestClient {
        RestClient::new(self.config.clone()).unwrap()
    }

    fn shown(&self) -> Vec<String> {
        let token = |seen: &Seen| subject(seen.header("authorization").unwrap().strip_prefix("Bearer ").unwrap());
        self.server.seen().iter().map(token).collect()
    }

    fn asked(&self) -> Vec<String> {
        let forms = self.issuer.seen().into_iter().filter(|seen| seen.uri != DESCRIPTION);
        forms.map(|seen| String::from_utf8(seen.body.to_vec()).unwrap()).collect()
    }
}

/// An in-memory token store whose first calls of `store` fail.
#[derive(Default)]
struct Kept {
    tokens: Mutex<Vec<[String; 2]>>,
    failures: Mutex<u32>,
}

impl TokenStore for Kept {
    fn store(&self, id_token: &Secret, refresh_token: &Secret) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let mut failures = self.failures.lock().unwrap();
        if *failures > 0 {
            *failures -= 1;
            return Err("another program is writing".into());
        }
        self.tokens.lock().unwrap().push([subject(id_token.expose()), refresh_token.expose().into()]);
        Ok(())
    }
}

#[tokio::test]
async fn id_token_is_refreshed_shortly_before_expiry() {
    let mut setup = Setup::new(giving, []).await;
    let kept = Arc::new(Kept::default());
    setup.oidc().token_store = Some(kept.clone());
    setup.oidc().id_token = Some(Secret::new(id_token("first", 600)));
    let client = setup.client();
    for (skipped, questions) in [(0, 0), (500, 0), (91, 1), (0, 1), (500, 1), (91, 2)] {
        skip(skipped).await;
        soon(client.get().send()).await.unwrap();
        assert_eq!(setup.asked().len(), questions);
    }
    assert_eq!(setup.shown(), ["first", "first", "i1", "i1", "i1", "i3"]);
    let form = |token: &str| format!("grant_type=refresh_token&refresh_token={token}&client_id=kubernetes");
    assert_eq!(setup.asked(), [form("r"), form("r1")]);
    assert_eq!(setup.issuer.seen()[1].uri, "/realms/a/token?kind=x");
    let pairs = [["i1", "r1"], ["i3", "r3"]].map(|pair| pair.map(String::from));
    assert_eq!(*kept.tokens.lock().unwrap(), pairs);
}

#[tokio::test]
async fn concurrent_requests_share_one_refresh() {
    for old in [None, Some(id_token("old", 5)), Some(id_token("old", -600)), Some("no token".into())] {
        let mut setup = Setup::new(giving, []).await;
        setup.oidc().id_token = old.map(Secret::new);
        let client = setup.client();
        let requests = futures_util::future::join_all((0..10).map(|_| {
            let request = client.get();
            async move { request.send().await.unwrap() }
        }));
        soon(requests).await;
        assert_eq!((setup.asked().len(), setup.shown()), (1, vec!["i1".to_owned(); 10]));
        assert_eq!(setup.issuer.connections(), 1, "both requests use the same settings");
    }
}

#[tokio::test]
async fn rejected_token_is_refreshed_once_with_a_refresh_token() {
    let mut setup = Setup::new(giving, [Reply::json(401, "")]).await;
    setup.oidc().id_token = Some(Secret::new(id_token("first", 600)));
    soon(setup.client().post().body("x").send()).await.unwrap();
    assert_eq!(setup.shown(), ["first", "i1"]);

    let mut setup = Setup::new(giving, [Reply::json(401, "")]).await;
    setup.oidc().id_token = Some(Secret::new(id_token("first", 600)));
    setup.oidc().refresh_token = None;
    let error = soon(setup.client().get().send()).await.unwrap_err();
    assert_eq!(error.status().unwrap().code, 401);
    assert!(setup.issuer.seen().is_empty());
}

/// Like Go's oauth2 library, the client sends the client secret first in a header, and then in the body.
#[tokio::test]
async fn client_secret_is_sent_in_header_then_body() {
    let by_header = |seen: &Seen, before: usize| match seen.header("authorization") {
        Some("Basic a3ViZXJuZXRlczphJTNBYiUyMCUzRA==") => giving(seen, before),
        _ => described(seen).unwrap_or_else(|| Reply::json(400, r#"{"error":"invalid_client"}"#)),
    };
    let by_body = |seen: &Seen, before: usize| {
        if seen.body.ends_with(b"&client_id=kubernetes&client_secret=a%3Ab%20%3D") {
            return giving(seen, before);
        }
        described(seen).unwrap_or_else(|| Reply::json(401, ""))
    };
    for (issuer, questions) in [(by_header as Issuer, 1), (by_body, 2)] {
        let mut setup = Setup::new(issuer, []).await;
        setup.oidc().client_secret = Some(Secret::new("a:b ="));
        soon(setup.client().get().send()).await.unwrap();
        assert_eq!(setup.asked().len(), questions);
    }
}

#[tokio::test]
async fn token_endpoint_comes_from_the_issuer() {
    let elsewhere = |seen: &Seen, before: usize| match described(seen) {
        // The host of the token endpoint is another name of the same server, so the client must open another
        // connection.
        Some(_) => {
            let port = seen.header("host").unwrap().rsplit_once(':').unwrap().1;
            Reply::json(200, format!(r#"{{"token_endpoint":"HTTPS://me@127.0.0.1:{port}/other/"}}"#))
        }
        None => giving(seen, before),
    };
    let setup = Setup::new(elsewhere, []).await;
    soon(setup.client().get().send()).await.unwrap();
    assert_eq!((setup.issuer.seen()[1].uri.as_str(), setup.issuer.connections()), ("/other/", 2));
    assert_eq!(setup.issuer.seen()[1].header("authorization"), None, "the user of a URL is ignored");
}

async fn why(setup: &Setup) -> String {
    let error = soon(setup.client().get().send()).await.unwrap_err();
    assert!(setup.server.seen().is_empty(), "nothing is sent without credentials");
    let Some(AuthError::Oidc { issuer, why }) = error.cause() else { panic!("{error}") };
    assert_eq!(*issuer, format!("{}/realms/a/", setup.issuer.url()));
    let (why, shown) = (why.clone(), format!("{error} {error:?}"));
    assert!(!shown.contains("hush"), "{shown}");
    assert!(matches!(error.kind, ErrorKind::Unauthenticated(_)));
    why
}

#[tokio::test]
async fn failed_refresh_reports_its_cause_without_secrets() {
    fn answering(seen: &Seen, code: u16, body: &'static str) -> Reply {
        described(seen).unwrap_or_else(|| Reply::json(code, body))
    }
    let rows: [(Issuer, &str, usize); 9] = [
        (|seen, _| answering(seen, 400, r#"{"error":"invalid_grant","error_description":"hush"}"#), "log in again", 1),
        (|seen, _| answering(seen, 400, r#"{"error":"invalid_client","hush":1}"#), "invalid_client", 2),
        (|seen, _| answering(seen, 403, r#"{"error":"hush"}"#), "responded with status 403", 1),
        (|seen, _| answering(seen, 500, "hush"), "responded with status 500", 1),
        (|seen, _| answering(seen, 200, r#"{"id_token":["hush"]}"#), "contains no tokens (line 1", 1),
        (|seen, _| answering(seen, 200, r#"{"access_token":"hush"}"#), "no id token", 1),
        (|seen, _| answering(seen, 200, r#"{"id_token":"hush\nhush"}"#), "line break", 1),
        (|_, _| Reply::json(200, r#"{"token_endpoint":"http://me:hush@127.0.0.1/token"}"#), "not an https URL", 0),
        (|_, _| Reply::json(404, "hush"), "responded with status 404", 0),
    ];
    for (issuer, word, questions) in rows {
        let mut setup = Setup::new(issuer, []).await;
        setup.oidc().client_secret = Some(Secret::new("hush-client"));
        setup.oidc().refresh_token = Some(Secret::new("hush-refresh"));
        let said = why(&setup).await;
        assert!(said.contains(word), "{word}: {said}");
        assert_eq!(setup.asked().len(), questions, "{word}");
    }
    let mut setup = Setup::new(giving, []).await;
    setup.oidc().refresh_token = None;
    setup.oidc().id_token = Some(Secret::new(id_token("hush", -600)));
    assert!(why(&setup).await.contains("no refresh token"));
    // The client must not send the refresh token to a server that it cannot verify.
    let mut setup = Setup::new(giving, []).await;
    setup.oidc().ca = Some(PemSource::Inline(Authority::new().pem().into()));
    assert!(why(&setup).await.contains("certificate"));
    assert!(setup.issuer.seen().is_empty());
}

#[tokio::test]
async fn refresh_token_without_id_token_is_kept() {
    let once_alone = |seen: &Seen, before: usize| {
        if seen.body.starts_with(b"grant_type=refresh_token&refresh_token=r&") {
            return Reply::json(200, r#"{"refresh_token":"alone"}"#);
        }
        giving(seen, before)
    };
    let mut setup = Setup::new(once_alone, []).await;
    let kept = Arc::new(Kept::default());
    setup.oidc().token_store = Some(kept.clone());
    setup.oidc().id_token = Some(Secret::new(id_token("old", -600)));
    let client = setup.client();
    let error = soon(client.get().send()).await.unwrap_err();
    assert!(error.to_string().contains("no id token"), "{error}");
    assert_eq!(
        *kept.tokens.lock().unwrap(),
        [["old", "alone"].map(String::from)],
        "the refresh token is stored anyway"
    );
    skip(2).await;
    soon(client.get().send()).await.unwrap();
    let asked = setup.asked();
    assert!(asked.last().unwrap().contains("refresh_token=alone&"), "{asked:?}");
}

/// Most issuers accept each refresh token only once.
#[tokio::test]
async fn clients_share_a_login() {
    let mut setup = Setup::new(giving, []).await;
    let clients = [setup.client(), setup.client()];
    for client in &clients {
        soon(client.get().send()).await.unwrap();
    }
    // A third client starts with the refresh token that the token store has stored.
    setup.oidc().refresh_token = Some(Secret::new("r1"));
    soon(setup.client().get().send()).await.unwrap();
    assert_eq!((setup.shown(), setup.asked().len()), (vec!["i1".to_owned(); 3], 1));

    // A login at the same issuer with a different client ID or a corrected secret is independent.
    setup.oidc().client_id = "other".into();
    let other = setup.client();
    soon(other.get().send()).await.unwrap();
    setup.oidc().client_secret = Some(Secret::new("corrected"));
    soon(setup.client().get().send()).await.unwrap();
    assert_eq!(setup.asked().len(), 3);
}

#[tokio::test]
async fn failed_refresh_is_not_repeated_for_each_request() {
    let mut setup = Setup::new(giving, [(); 9].map(|()| Reply::json(401, ""))).await;
    setup.oidc().id_token = Some(Secret::new(id_token("first", 600)));
    let client = setup.client();
    for (skipped, questions) in [(0, 1), (0, 1), (5, 1), (6, 2), (0, 2)] {
        skip(skipped).await;
        soon(client.get().send()).await.unwrap_err();
        assert_eq!(setup.asked().len(), questions, "the new token was rejected");
    }

    let failing = |seen: &Seen, _| described(seen).unwrap_or_else(|| Reply::json(500, ""));
    let setup = Setup::new(failing, []).await;
    let client = setup.client();
    for questions in [1, 2] {
        let began = tokio::time::Instant::now();
        for _ in 0..2 {
            let error = soon(client.get().send()).await.unwrap_err();
            assert!(error.to_string().contains("responded with status 500"), "{error}");
            // A failed refresh must not be retried within one second. Skip this check if the test itself takes
            // longer than a second.
            let is_pause = began.elapsed() < Duration::from_secs(1);
            assert!(!is_pause || setup.asked().len() == questions, "a failed refresh is not repeated at once");
        }
        skip(2).await;
    }
}

struct Hanging {
    begun: AtomicUsize,
    gate: Mutex<mpsc::Receiver<()>>,
    kept: Kept,
}

impl TokenStore for Hanging {
    fn store(&self, id_token: &Secret, refresh_token: &Secret) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        // The token store waits here until the test sends a message or drops the sender.
        self.gate.try_lock().expect("the store is called by one thread at a time").recv().ok();
        self.kept.store(id_token, refresh_token)
    }
}

#[tokio::test]
async fn hanging_token_store_delays_requests_only_briefly() {
    let mut setup = Setup::new(giving, []).await;
    let (go, gate) = mpsc::channel();
    let store = Arc::new(Hanging { begun: AtomicUsize::new(0), gate: Mutex::new(gate), kept: Kept::default() });
    setup.oidc().token_store = Some(store.clone());
    let client = setup.client();
    for refreshed in 1..3 {
        let request = client.get();
        let mut sending = tokio::spawn(async move { request.send().await });
        soon(until(|| setup.asked().len() == refreshed && store.begun.load(Ordering::SeqCst) == 1)).await;
        // Advance the clock repeatedly, because the test cannot detect when the caller starts to wait.
        for _ in 0..4 {
            skip(6).await;
            if tokio::time::timeout(Duration::from_millis(300), until(|| sending.is_finished())).await.is_ok() {
                break;
            }
        }
        soon(&mut sending).await.unwrap().unwrap();
        skip(600).await;
    }
    go.send(()).unwrap();
    drop(go);
    let pairs = [["i1", "r1"], ["i3", "r3"]].map(|pair| pair.map(String::from));
    soon(until(|| store.kept.tokens.lock().unwrap().len() == 2)).await;
    assert_eq!(*store.kept.tokens.lock().unwrap(), pairs, "the last tokens are stored in the end");
}

#[test]
fn refresh_restarts_when_its_runtime_stalls_or_ends() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for ends in [false, true] {
        let (standing, running) = (runtime(), runtime());
        running.block_on(async {
            let setup = Setup::new(giving, []).await;
            let client = setup.client();
            let first = client.get();
            let begin = async move { first.send().now_or_never().is_none() };
            let (waits, standing) = std::thread::spawn(move || (standing.block_on(begin), standing)).join().unwrap();
            assert!(waits, "for a refresh");
            tokio::time::pause();
            let _clock = steady_clock();
            let request = client.get();
            let send = tokio::time::timeout(Duration::from_secs(600), request.send());
            let end = async {
                tokio::task::yield_now().await;
                if ends {
                    standing.shutdown_background();
                    return None;
                }
                Some(standing)
            };
            let (sent, standing) = tokio::join!(send, end);
            sent.expect("the test timed out").unwrap();
            assert_eq!(setup.shown(), ["i1"]);
            standing.into_iter().for_each(tokio::runtime::Runtime::shutdown_background);
        });
    }
}

#[tokio::test]
async fn refresh_outside_a_runtime_fails() {
    let setup = Setup::new(giving, []).await;
    let request = setup.client().get();
    let sent = std::thread::spawn(move || request.send().now_or_never()).join().unwrap();
    let error = sent.expect("it waits").unwrap_err();
    assert!(error.to_string().contains("no runtime"), "{error}");
}

#[tokio::test]
async fn tokens_that_cannot_be_stored_are_used() {
    for (failures, stored) in [(2, 1), (9, 0)] {
        let mut setup = Setup::new(giving, []).await;
        let kept = Arc::new(Kept { failures: Mutex::new(failures), ..Kept::default() });
        setup.oidc().token_store = Some(kept.clone());
        soon(setup.client().get().send()).await.unwrap();
        assert_eq!((setup.shown(), kept.tokens.lock().unwrap().len()), (vec!["i1".into()], stored));
    }
}

#[tokio::test]
async fn shared_login_uses_the_store_of_a_later_client() {
    let mut setup = Setup::new(giving, []).await;
    setup.oidc().id_token = Some(Secret::new(id_token("old", -600)));
    let without_store = setup.client();
    let kept = Arc::new(Kept::default());
    setup.oidc().token_store = Some(kept.clone());
    let with_store = setup.client();
    soon(without_store.get().send()).await.unwrap();
    assert_eq!(*kept.tokens.lock().unwrap(), [["i1".to_owned(), "r1".into()]]);
    soon(with_store.get().send()).await.unwrap();
    assert_eq!((setup.shown(), setup.asked().len()), (vec!["i1".to_owned(); 2], 1));
}

#[tokio::test]
async fn refreshed_login_is_written_to_the_kubeconfig() {
    let setup = Setup::new(giving, []).await;
    let (oidc, tls) = (setup.config.oidc.as_ref().unwrap(), &setup.config.tls);
    let pem = |source: &Option<PemSource>| match source {
        Some(PemSource::Inline(pem)) => base64::prelude::BASE64_STANDARD.encode(pem),
        _ => panic!("it is inline"),
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    let login = json!({
        "idp-issuer-url": oidc.issuer_url, "client-id": "kubernetes", "refresh-token": "r",
        "id-token": id_token("old", -600), "idp-certificate-authority-data": pem(&oidc.ca), "extra-scopes": "groups",
    });
    let kubeconfig = json!({
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "eu", "user": "me"}}],
        "clusters": [{"name": "eu", "cluster": {"server": setup.server.url(), "certificate-authority-data": pem(&tls.ca)}}],
        "users": [{"name": "me", "user": {"auth-provider": {"name": "oidc", "config": login}}}],
    });
    std::fs::write(file.path(), kubeconfig.to_string()).unwrap();
    let files = Files::explicit(file.path());
    let config = || files.load().unwrap().client_config(&Overrides::default()).unwrap();
    soon(RestClient::new(config()).unwrap().get().send()).await.unwrap();
    let left = config().oidc.unwrap();
    assert_eq!(subject(left.id_token.unwrap().expose()), "i1");
    assert_eq!(left.refresh_token.unwrap().expose(), "r1");
    // A restarted program uses the stored tokens.
    soon(RestClient::new(config()).unwrap().get().send()).await.unwrap();
    assert_eq!((setup.shown(), setup.asked().len()), (vec!["i1".to_owned(); 2], 1));
}

#[test]
fn invalid_login_is_rejected_when_client_is_created() {
    let refused = |change: &dyn Fn(&mut ClientConfig)| {
        let mut config = ClientConfig::new("https://host");
        config.oidc = Some(OidcConfig { issuer_url: "https://issuer".into(), ..OidcConfig::default() });
        change(&mut config);
        let error = RestClient::new(config).unwrap_err().to_string();
        assert!(error.contains("oidc") && !error.contains("hush"), "{error}");
    };
    for url in ["", "issuer", "http://issuer", "https://", "https://me:hush@ho st", "ftp://me:hush@issuer"] {
        refused(&|config| config.oidc.as_mut().unwrap().issuer_url = url.into());
    }
    refused(&|config| config.oidc.as_mut().unwrap().ca = Some(PemSource::Inline(b"hush".to_vec())));
    refused(&|config| config.oidc.as_mut().unwrap().id_token = Some(Secret::new("hush\n")));
}

/// The client must store the new refresh token, because the issuer may have invalidated the old refresh token.
#[tokio::test]
async fn refresh_in_flight_outlives_its_client() {
    static SENDING: Mutex<Option<tokio::task::AbortHandle>> = Mutex::new(None);
    fn cancelling(seen: &Seen, before: usize) -> Reply {
        if seen.uri != DESCRIPTION {
            // Cancel the request before the issuer responds.
            SENDING.lock().unwrap().take().inspect(|sending| sending.abort());
        }
        giving(seen, before)
    }
    let mut setup = Setup::new(cancelling, []).await;
    let kept = Arc::new(Kept::default());
    setup.oidc().token_store = Some(kept.clone());
    let request = setup.client().get();
    let sending = tokio::spawn(async move { request.send().await });
    *SENDING.lock().unwrap() = Some(sending.abort_handle());
    assert!(soon(sending).await.unwrap_err().is_cancelled());
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(setup.asked().len(), 1, "the issuer has exchanged the token");
    assert_eq!(kept.tokens.lock().unwrap().len(), 1, "the new refresh token is stored");
}
