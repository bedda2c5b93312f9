//! Tests credential plugins. The plugin is a shell script that counts how often it runs.

use std::any::Any;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt;
use pintle_meta::{ClientConfig, ErrorKind, ExecConfig, InteractiveMode, PluginPolicy, Secret};
use pintle_metrics::{Counter, Gauge, Histogram, InMemoryProvider, Metric, Provider, Pulled};
use pintle_restreq::{AuthError, RestClient, RestClientConfig};
use tempfile::TempDir;

use crate::support::{Reply, Server, skip, soon, until};

const V1: &str = "client.authentication.k8s.io/v1";

struct Program {
    dir: TempDir,
}

impl Program {
    /// Creates a plugin that counts its runs in the file `runs`, and then executes `script`.
    fn new(script: &str) -> Self {
        let program = Self { dir: tempfile::tempdir().unwrap() };
        program.write(script);
        program
    }

    /// Creates a plugin that prints a token containing the number of the run. `more` contains additional fields of the
    /// status, as JSON.
    fn token(more: &str) -> Self {
        Self::new(&printing(V1, &format!(r#"{{"token":"t$n"{more}}}"#)))
    }

    fn write(&self, script: &str) {
        let count = r#"cd "$(dirname "$0")"; echo x >> runs; n=$(wc -l < runs | tr -d ' ')"#;
        // Linux does not execute a file that is open for writing, so write to another file and rename it.
        let beside = self.dir.path().join("beside");
        std::fs::write(&beside, format!("#!/bin/sh\n{count}\n{script}\n")).unwrap();
        std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::rename(beside, self.path()).unwrap();
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("login")
    }

    fn runs(&self) -> usize {
        std::fs::read_to_string(self.dir.path().join("runs")).unwrap_or_default().lines().count()
    }

    fn config(&self, server: &Server) -> ClientConfig {
        let mut config = server.config();
        config.exec = Some(ExecConfig {
            api_version: V1.into(),
            command: self.path().to_str().unwrap().into(),
            args: vec!["argument".into()],
            env: [("GIVEN".to_owned(), "variable".to_owned())].into(),
            install_hint: Some("install it\u{1b}[31m".into()),
            provide_cluster_info: false,
            cluster_extension: None,
            interactive_mode: InteractiveMode::Never,
        });
        config
    }
}

fn printing(version: &str, status: &str) -> String {
    format!("cat <<END\n{{\"apiVersion\":\"{version}\",\"kind\":\"ExecCredential\",\"status\":{status}}}\nEND")
}

fn shown(server: &Server) -> Vec<String> {
    server.seen().iter().map(|seen| seen.header("authorization").unwrap_or("none").replace("Bearer ", "")).collect()
}

async fn why(program: &Program, change: impl FnOnce(&mut ExecConfig)) -> String {
    let server = Server::start([]).await;
    let mut config = program.config(&server);
    change(config.exec.as_mut().unwrap());
    let error = soon(RestClient::new(config).unwrap().get().send()).await.unwrap_err();
    assert!(server.seen().is_empty(), "nothing is sent without credentials");
    assert!(matches!(error.kind, ErrorKind::Unauthenticated(_)), "{error}");
    let Some(AuthError::Exec { why, .. }) = error.cause() else { panic!("{error}") };
    why.clone()
}

#[tokio::test]
async fn credentials_are_reused_until_the_server_rejects_them() {
    let program = Program::token("");
    let server = Server::start([Reply::ok(), Reply::ok(), Reply::json(401, ""), Reply::ok()]).await;
    let client = RestClient::new(program.config(&server)).unwrap();
    for _ in 0..3 {
        soon(client.post().body("x").send()).await.unwrap();
    }
    assert_eq!(shown(&server), ["t1", "t1", "t1", "t2"]);
    assert_eq!(program.runs(), 2);
}

#[tokio::test]
async fn concurrent_requests_share_one_plugin_run() {
    let program = Program::token("");
    let server = Server::start([]).await;
    let client = RestClient::new(program.config(&server)).unwrap();
    let requests = futures_util::future::join_all((0..10).map(|_| {
        let request = client.get();
        async move { request.send().await }
    }));
    assert!(soon(requests).await.iter().all(Result::is_ok));
    assert_eq!(program.runs(), 1);
}

fn expiry(seconds: u64) -> String {
    let at = std::time::SystemTime::now() + Duration::from_secs(seconds);
    let time = pintle_meta::Time(at.try_into().unwrap());
    serde_json::to_string(&time).unwrap()
}

#[tokio::test]
async fn expiring_credentials_are_renewed_before_use() {
    let program = Program::token(&format!(r#","expirationTimestamp":{}"#, expiry(600)));
    let server = Server::start([]).await;
    let client = RestClient::new(program.config(&server)).unwrap();
    for (skipped, runs) in [(0, 1), (500, 1), (85, 1), (6, 2), (0, 2)] {
        skip(skipped).await;
        soon(client.get().send()).await.unwrap();
        assert_eq!(program.runs(), runs);
    }
}

/// The client uses a token that has already expired according to the client's clock. If the clocks of the client and
/// the plugin differ, running the plugin again would not help.
#[tokio::test]
async fn expired_on_issue_credentials_are_used_until_rejected() {
    let program = Program::token(r#","expirationTimestamp":"2001-01-01T00:00:00Z""#);
    let server = Server::start([Reply::ok(), Reply::ok(), Reply::json(401, "")]).await;
    let client = RestClient::new(program.config(&server)).unwrap();
    for _ in 0..3 {
        soon(client.get().send()).await.unwrap();
    }
    assert_eq!((shown(&server), program.runs()), (["t1", "t1", "t1", "t2"].map(String::from).to_vec(), 2));
}

#[tokio::test]
async fn unchanged_rejected_token_does_not_cause_run_storm() {
    let program = Program::new(&printing(V1, r#"{"token":"t"}"#));
    let server = Server::always(Reply::json(401, "")).await;
    let client = RestClient::new(program.config(&server)).unwrap();
    let refused = || {
        let request = client.get();
        async move { soon(request.send()).await.unwrap_err() }
    };
    let errors = futures_util::future::join_all((0..12).map(|_| refused())).await;
    assert!(errors.iter().all(|error| error.status().unwrap().code == 401));
    assert_eq!(program.runs(), 2, "one run at first, and one for all rejected requests");
    refused().await;
    assert_eq!(program.runs(), 2, "the token did not change");
    skip(11).await;
    refused().await;
    assert_eq!((program.runs(), server.seen().len()), (3, 14), "an unchanged token is not sent again");
}

#[tokio::test]
async fn plugin_run_continues_after_its_request_is_cancelled() {
    let wait = "while [ ! -e go ]; do sleep 0.01; done";
    let program = Program::new(&format!("{wait}\n{}", printing(V1, r#"{"token":"t$n"}"#)));
    let server = Server::start([]).await;
    let client = RestClient::new(program.config(&server)).unwrap();
    assert!(client.get().send().now_or_never().is_none(), "it starts a run and is cancelled");
    std::fs::write(program.dir.path().join("go"), "").unwrap();
    soon(client.get().send()).await.unwrap();
    assert_eq!((shown(&server), program.runs()), (vec!["t1".into()], 1));
}

#[tokio::test]
async fn plugin_run_ends_with_its_client() {
    let program = Program::new("echo $$ > pid; exec sleep 1000");
    let server = Server::start([]).await;
    let client = RestClient::new(program.config(&server)).unwrap();
    assert!(client.get().send().now_or_never().is_none());
    let pid = soon(async {
        loop {
            match std::fs::read_to_string(program.dir.path().join("pid")) {
                Ok(pid) if pid.ends_with('\n') => break pid.trim().to_owned(),
                _ => tokio::task::yield_now().await,
            }
        }
    })
    .await;
    drop(client);
    let is_running = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z")
    };
    soon(until(|| !is_running())).await;
}

#[tokio::test]
async fn child_process_of_plugin_does_not_delay_the_result() {
    // The child process keeps the stderr pipe open until the directory of the plugin is deleted.
    let left = "(while [ -e runs ]; do sleep 0.05; done) > /dev/null &";
    let program = Program::new(&format!("{left}\n{}", printing(V1, r#"{"token":"t"}"#)));
    let server = Server::start([]).await;
    soon(RestClient::new(program.config(&server)).unwrap().get().send()).await.unwrap();
    assert_eq!(shown(&server), ["t"]);
}

#[tokio::test]
async fn plugin_receives_its_environment() {
    let program = Program::new(&format!(
        "echo \"$1 $GIVEN $KUBERNETES_EXEC_INFO\" > received\n{}",
        printing(V1, r#"{"token":"t"}"#)
    ));
    let server = Server::start([]).await;
    let mut config = program.config(&server);
    let received = || std::fs::read_to_string(program.dir.path().join("received")).unwrap();
    soon(RestClient::new(config.clone()).unwrap().get().send()).await.unwrap();
    let plain = received();
    let info = plain.strip_prefix("argument variable ").unwrap();
    let info: serde_json::Value = serde_json::from_str(info).unwrap();
    assert_eq!(info, serde_json::json!({"apiVersion": V1, "kind": "ExecCredential", "spec": {"interactive": false}}));
    let exec = config.exec.as_mut().unwrap();
    exec.provide_cluster_info = true;
    exec.cluster_extension = Some(serde_json::json!({"audience": "x"}));
    soon(RestClient::new(config).unwrap().get().send()).await.unwrap();
    assert!(received().contains(&server.url()) && received().contains("audience"), "{}", received());
}

#[tokio::test]
async fn other_credentials_take_precedence_over_the_plugin() {
    let program = Program::token("");
    let server = Server::start([]).await;
    let mut config = program.config(&server);
    let client = RestClient::new(config.clone()).unwrap();
    soon(client.get().header("authorization", "Bearer own").send()).await.unwrap();
    config.token = Some(Secret::new("mine"));
    soon(RestClient::new(config).unwrap().get().send()).await.unwrap();
    assert_eq!((shown(&server), program.runs()), (vec!["own".into(), "mine".into()], 0));
}

#[tokio::test]
async fn plugin_failure_includes_its_command_and_stderr() {
    let failing = Program::new("echo no luck >&2; exit 73");
    let said = why(&failing, |_| {}).await;
    assert!(said.contains("73") && said.contains("no luck") && said.contains("install it"), "{said}");
    assert!(said.contains("U+001B") && !said.contains('\u{1b}'), "{said:?}");
    let talkative = Program::new("head -c 1000000 /dev/zero | tr '\\0' x >&2; echo no luck >&2; exit 1");
    let said = why(&talkative, |_| {}).await;
    assert!(said.contains("no luck") && said.len() < 5_000, "{}", said.len());
    let missing = why(&failing, |exec| exec.command = "/nonexistent/login".into()).await;
    assert!(missing.contains("not installed") && missing.contains("install it"), "{missing}");
}

#[tokio::test]
async fn failed_renewal_keeps_the_doubt_about_a_write() {
    let once = |status: &str| format!("[ $n -gt 1 ] && {{ echo no luck >&2; exit 73; }}\n{}", printing(V1, status));
    let lasting = once(r#"{"token":"t"}"#);
    // The token expires during the test, so the credentials are renewed before the second attempt.
    let expiring = once(&format!(r#"{{"token":"t","expirationTimestamp":{}}}"#, expiry(60)));
    for (script, replies, in_doubt) in [
        (&lasting, vec![Reply::later(504, 0), Reply::json(401, "")], true),
        (&lasting, vec![Reply::later(429, 0), Reply::json(401, "")], false),
        (&lasting, vec![Reply::json(401, "")], false),
        (&expiring, vec![Reply::later(504, 55)], true),
        (&expiring, vec![Reply::later(429, 55)], false),
    ] {
        let program = Program::new(script);
        let (sent, is_expiring) = (replies.len(), script == &expiring);
        let server = Server::start(replies).await;
        let request = RestClient::new(program.config(&server)).unwrap().put().body("x");
        let sending = tokio::spawn(async move { request.send().await.unwrap_err() });
        if is_expiring {
            soon(until(|| server.seen().len() == 1)).await;
            // Advance the clock repeatedly, because the test cannot detect when the pause of the client starts.
            for _ in 0..5 {
                skip(56).await;
                let ran = tokio::time::timeout(Duration::from_secs(2), until(|| program.runs() == 2)).await;
                if ran.is_ok() {
                    break;
                }
            }
        }
        let error = soon(sending).await.unwrap();
        assert_eq!((server.seen().len(), program.runs()), (sent, 2), "{error}");
        assert!(error.to_string().contains("no luck"), "{error}");
        assert!(matches!(error.kind, ErrorKind::Unauthenticated(_)), "{error}");
        let earlier = error.earlier.as_ref().map(|earlier| earlier.status().unwrap().code);
        assert_eq!((error.may_have_acted(), earlier), (in_doubt, in_doubt.then_some(504)), "{error}");
    }
}

#[tokio::test]
async fn invalid_plugin_output_is_rejected_without_being_shown() {
    for (script, word) in [
        ("echo hush".to_owned(), "not an ExecCredential"),
        (printing("client.authentication.k8s.io/v1beta1", r#"{"token":"hush"}"#), "expected"),
        (printing(V1, "null"), "no status"),
        (printing(V1, "{}"), "no token and no certificate"),
        (printing(V1, r#"{"token":""}"#), "no token and no certificate"),
        (printing(V1, r#"{"token":"hush\nhush"}"#), "line break"),
        (printing(V1, r#"{"clientCertificateData":"hush"}"#), "without its key"),
        (printing(V1, r#"{"clientKeyData":"hush"}"#), "without its certificate"),
    ] {
        let said = why(&Program::new(&script), |_| {}).await;
        assert!(said.contains(word) && !said.contains("hush"), "{word}: {said}");
    }
}

#[tokio::test]
async fn old_plugin_api_version_is_rejected_by_new() {
    let server = Server::start([]).await;
    let mut config = Program::token("").config(&server);
    config.exec.as_mut().unwrap().api_version = "client.authentication.k8s.io/v1alpha1".into();
    let error = RestClient::new(config).unwrap_err().to_string();
    assert!(error.contains("exec.api_version"), "{error}");
}

#[tokio::test]
async fn plugin_denied_by_policy_never_runs() {
    let program = Program::token("");
    let allowed = PluginPolicy::Allowlist(vec![program.path()]);
    let other = PluginPolicy::Allowlist(vec!["login".into(), "/opt/other/login".into()]);
    for (policy, runs) in [(PluginPolicy::DenyAll, 0), (other, 0), (allowed, 1)] {
        let server = Server::start([Reply::ok()]).await;
        let mut config = program.config(&server);
        config.plugin_policy = policy.clone();
        let outcome = soon(RestClient::new(config).unwrap().get().send()).await;
        assert_eq!((program.runs(), server.seen().len()), (runs, runs), "{policy:?}");
        if let Err(error) = outcome {
            assert!(error.to_string().contains("plugin_policy"), "{error}");
        }
    }
    let mut config = program.config(&Server::start([]).await);
    config.plugin_policy = PluginPolicy::Allowlist(Vec::new());
    assert!(RestClient::new(config).unwrap_err().to_string().contains("DenyAll"));
}

#[tokio::test]
async fn plugin_runs_are_counted_by_outcome() {
    let memory = InMemoryProvider::new();
    let program = Program::new(&format!("test $n = 2 && exit 73; {}", printing(V1, r#"{"token":"t$n"}"#)));
    let server = Server::start([Reply::ok(), Reply::json(401, "")]).await;
    let client = |change: &dyn Fn(&mut ClientConfig)| {
        let mut config = program.config(&server);
        change(&mut config);
        RestClient::new(RestClientConfig { metrics: Some(Arc::new(memory.clone())), ..config.into() }).unwrap()
    };
    let good = client(&|_| {});
    soon(good.get().send()).await.unwrap();
    soon(good.get().send()).await.unwrap_err();
    let missing = client(&|config| config.exec.as_mut().unwrap().command = "/nonexistent/login".into());
    soon(missing.get().send()).await.unwrap_err();
    let denied = client(&|config| config.plugin_policy = PluginPolicy::DenyAll);
    soon(denied.get().send()).await.unwrap_err();
    let runs = |code, how| {
        let labels = [("code", code), ("call_status", how)];
        memory.value("rest_client_exec_plugin_call_total", &labels)
    };
    assert_eq!(runs("0", "no_error"), Some(1.0));
    assert_eq!(runs("73", "plugin_execution_error"), Some(1.0));
    assert_eq!(runs("1", "plugin_not_found_error"), Some(1.0));
    let judged = |status| memory.value("rest_client_exec_plugin_policy_call_total", &[("status", status)]);
    assert_eq!([judged("allowed"), judged("denied")], [Some(3.0), Some(1.0)]);
}

/// A metrics provider that sends a request before recording each value.
#[derive(Debug)]
struct Curious {
    memory: InMemoryProvider,
    ask: Arc<OnceLock<RestClient>>,
}

impl Provider for Curious {
    fn counter(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Counter> {
        self.memory.counter(metric, labels)
    }

    fn gauge(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Gauge> {
        self.memory.gauge(metric, labels)
    }

    fn histogram(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Histogram> {
        if metric.name == "rest_client_exec_plugin_certificate_rotation_age" {
            let request = self.ask.get().unwrap().get();
            let (sender, answered) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                // Poll the request once, which sends it to the server on another thread.
                drop(runtime.block_on(async { request.send().now_or_never() }));
                // Ignore errors, because the receiver may already have timed out.
                sender.send(()).ok();
            });
            answered.recv_timeout(Duration::from_secs(10)).expect("a request waits for the metrics");
        }
        self.memory.histogram(metric, labels)
    }

    fn pulled(&self, metric: &'static Metric, labels: &[&str], read: Pulled) -> Box<dyn Any + Send + Sync> {
        self.memory.pulled(metric, labels, read)
    }
}

#[tokio::test]
async fn metrics_are_recorded_outside_of_locks() {
    let pairs = [1, 2].map(|_| rcgen::generate_simple_self_signed(["me".to_owned()]).unwrap());
    let status = |pair: &rcgen::CertifiedKey<rcgen::KeyPair>| {
        let (certificate, key) = (pair.cert.pem(), pair.signing_key.serialize_pem());
        serde_json::json!({"clientCertificateData": certificate, "clientKeyData": key}).to_string()
    };
    let [one, two] = pairs.each_ref().map(|pair| printing(V1, &status(pair)));
    let program = Program::new(&format!("if [ $n = 1 ]; then\n{one}\nelse\n{two}\nfi"));
    let server = Server::start([Reply::json(401, "")]).await;
    let (memory, ask) = (InMemoryProvider::new(), Arc::new(OnceLock::new()));
    let metrics: Arc<dyn Provider> = Arc::new(Curious { memory: memory.clone(), ask: ask.clone() });
    let client =
        RestClient::new(RestClientConfig { metrics: Some(metrics), ..program.config(&server).into() }).unwrap();
    ask.set(client.clone()).unwrap();
    soon(client.get().send()).await.unwrap();
    let ages = memory.distribution("rest_client_exec_plugin_certificate_rotation_age", &[]);
    assert_eq!(ages.map(|ages| ages.count()), Some(1));
}

#[cfg(feature = "yaml")]
#[tokio::test]
async fn plugin_may_print_yaml() {
    let printing = |status: &str| format!("cat <<END\napiVersion: {V1}\nkind: ExecCredential\nstatus:\n{status}\nEND");
    let program = Program::new(&printing("  token: t$n\n  expirationTimestamp: \"2126-11-20T08:30:00Z\""));
    let server = Server::start([Reply::ok()]).await;
    soon(RestClient::new(program.config(&server)).unwrap().get().send()).await.unwrap();
    assert_eq!(shown(&server), ["t1"]);
    for (script, word) in [
        (printing("  token: [hush]"), "line 4"),
        (printing("  token: 'hush"), "(line"),
        (printing(&format!("  token: &a {}", "hush".repeat(20_000))), "not an ExecCredential"),
    ] {
        let said = why(&Program::new(&script), |_| {}).await;
        assert!(said.contains(word) && !said.contains("hush"), "{word}: {said}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn plugin_that_hangs_is_killed_after_a_minute() {
    let program = Program::new("echo $$ > pid; exec sleep 1000");
    let server = Server::start([]).await;
    let request = RestClient::new(program.config(&server)).unwrap().get();
    let sending = tokio::spawn(async move { request.send().await });
    let pid = || std::fs::read_to_string(program.dir.path().join("pid")).ok().filter(|pid| pid.ends_with('\n'));
    soon(until(|| pid().is_some())).await;
    skip(61).await;
    let error = soon(sending).await.unwrap().unwrap_err().to_string();
    assert!(error.contains("did not end within 60s"), "{error}");
    let is_alive = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", pid().unwrap().trim())).unwrap_or_default();
        !status.is_empty() && !status.contains("State:\tZ")
    };
    soon(until(|| !is_alive())).await;
}
