//! Tests that no output contains a secret. The tests collect the `Debug` output of all public types, and the error
//! messages for files with many kinds of mistakes.

use std::error::Error as StdError;
use std::fmt::Debug;

use pintle_kubeconfig::{Environment, Error, Files, Kubeconfig, Overrides, in_cluster, infer};
use pintle_meta::{ApiError, Secret};
use serde_json::{Value, json};

/// The values of all secrets in these tests, as plain text and as base64.
const CANARIES: [&str; 2] = ["hush-0815", "aHVzaC0wODE1"];

#[derive(Default)]
struct Shown {
    text: String,
    types: String,
}

impl Shown {
    fn debug<T: Debug>(&mut self, what: &T) {
        self.text += &format!("{what:?}\n");
        self.types += &format!("{} ", std::any::type_name::<T>());
    }

    /// Adds the messages of an error, its sources, and the errors that it can be converted to.
    fn error(&mut self, error: Error) {
        for error in std::iter::successors(Some(&error as &dyn StdError), |error| StdError::source(*error)) {
            self.text += &format!("{error}\n{error:?}\n");
        }
        if let Error::Invalid(problems) = &error {
            for problem in problems {
                self.text += &format!("{problem}\n");
                self.debug(problem);
            }
        }
        self.debug(&error);
        let above = ApiError::from(error);
        self.text += &format!("{above}\n{above:?}\n");
    }

    fn of<T: Debug>(&mut self, result: Result<T, Error>) -> Option<T> {
        match result {
            Ok(value) => {
                self.debug(&value);
                Some(value)
            }
            Err(error) => {
                self.error(error);
                None
            }
        }
    }

    fn kubeconfig(&mut self, text: &str) {
        let Some(config) = self.of(Kubeconfig::parse(text)) else { return };
        for (user, cluster) in config.users.values().zip(config.clusters.values()) {
            self.debug(user);
            self.debug(cluster);
            self.debug(&user.client_key_data);
            self.debug(&user.auth_provider);
            self.debug(&user.exec);
            user.exec.iter().flat_map(|exec| &exec.env).for_each(|variable| self.debug(variable));
        }
        config.contexts.values().for_each(|context| self.debug(context));
        for view in [config.redacted(), config.shortened()] {
            self.text += &view.to_yaml().unwrap_or_default();
        }
        self.of(config.validate());
        self.of(config.flattened());
        self.of(config.minified());
        self.of(config.client_config(&Overrides::default()));
        let overrides = overrides();
        self.debug(&overrides);
        self.of(config.client_config(&overrides));
    }

    fn check(&self) {
        for line in self.text.lines() {
            assert!(!CANARIES.iter().any(|canary| line.contains(canary)), "{line}");
        }
    }
}

fn overrides() -> Overrides {
    let [url, proxy] = ["https", "http"].map(|scheme| Some(format!("{scheme}://me:{}@host", CANARIES[0])));
    Overrides {
        server: url,
        proxy_url: proxy,
        token: Some(Secret::new(CANARIES[0])),
        username: Some("me".into()),
        password: Some(Secret::new(CANARIES[0])),
        ..Overrides::default()
    }
}

/// Returns a valid configuration that contains one of the [`CANARIES`] in each field that may be secret.
fn full() -> Value {
    let [text, base64] = CANARIES;
    let extensions = json!([{"name": "client.authentication.k8s.io/exec", "extension": {"key": text}}]);
    let cluster = json!({
        "server": format!("https://me:{text}@a"), "proxy-url": format!("http://me:{text}@p"), "tls-server-name": "a",
        "insecure-skip-tls-verify": true, "disable-compression": true, "extensions": extensions, "tokn": text,
    });
    let user = |members: Value| {
        let mut user = json!({"extensions": extensions, "tokn": text, "as": "you"});
        user.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        user
    };
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": "login", "args": [text], "tokn": text,
        "env": [{"name": "A", "value": text}], "interactiveMode": "Never", "provideClusterInfo": true,
    });
    let login = json!({
        "idp-issuer-url": format!("https://me:{text}@issuer"), "client-id": "k", "client-secret": text,
        "id-token": text, "refresh-token": text, "idp-certificate-authority-data": base64,
    });
    json!({
        "current-context": "c", "extensions": extensions, "tokn": text,
        "clusters": [{"name": "eu", "cluster": cluster}],
        "contexts": [{"name": "c", "context": {"cluster": "eu", "user": "me", "extensions": extensions, "tokn": text}}],
        "users": [
            {"name": "me", "user": user(json!({"token": text, "client-key-data": base64}))},
            {"name": "basic", "user": user(json!({"username": "me", "password": text, "exec": exec}))},
            {"name": "old", "user": user(json!({"auth-provider": {"name": "oidc", "config": login}}))},
        ],
    })
}

/// Returns copies of a valid configuration, each with one invalid field.
fn spoilt() -> Vec<Value> {
    fn pointers(value: &Value, at: String, all: &mut Vec<String>) {
        let members: Vec<(String, &Value)> = match value {
            Value::Object(members) => members.iter().map(|(key, value)| (key.replace('/', "~1"), value)).collect(),
            Value::Array(items) => items.iter().enumerate().map(|(at, item)| (at.to_string(), item)).collect(),
            _ => Vec::new(),
        };
        members.into_iter().for_each(|(key, value)| pointers(value, format!("{at}/{key}"), all));
        all.push(at);
    }
    let whole = full();
    let mut all = Vec::new();
    pointers(&whole, String::new(), &mut all);
    let text = CANARIES[0];
    let mut spoilt = Vec::new();
    for pointer in &all {
        // Error messages may contain names and URLs without user names, because these are not secret.
        let is_name = |text: &str| text.contains('@') || !CANARIES.iter().any(|canary| text.contains(canary));
        let as_text = !whole.pointer(pointer).unwrap().as_str().is_some_and(is_name);
        for other in [json!(text), json!([text]), json!({"x": text}), json!([{"name": "x", "user": text}])] {
            if as_text || !other.is_string() {
                let mut config = whole.clone();
                *config.pointer_mut(pointer).unwrap() = other;
                spoilt.push(config);
            }
        }
    }
    spoilt
}

#[test]
fn public_types_and_errors_show_no_secret() {
    let mut shown = Shown::default();
    for config in std::iter::once(full()).chain(spoilt()) {
        shown.kubeconfig(&serde_json::to_string_pretty(&config).unwrap());
        for user in ["basic", "old", "gone"] {
            let mut config = config.clone();
            if let Some(name) = config.pointer_mut("/contexts/0/context/user") {
                *name = user.into();
            }
            shown.kubeconfig(&config.to_string());
        }
    }
    let yaml = Kubeconfig::parse(&full().to_string()).unwrap().to_yaml().unwrap();
    for (at, _) in yaml.char_indices() {
        // Collect only the errors: the truncated URL `https://me:…` could also be a host and a port, which may
        // appear in output.
        Kubeconfig::parse(&yaml[..at]).map_or_else(|error| shown.error(error), drop);
    }
    for (at, _) in yaml.match_indices(CANARIES[0]) {
        for with in ["*", "&", "!", "{", "[", "\"", "'", "\t", "%", "@", ": ", "\n", "\u{7}", "? ", "- ", "!!int "] {
            shown.of(Kubeconfig::parse(&format!("{}{with}{}", &yaml[..at], &yaml[at..])));
        }
    }
    let text = &shown.text;
    for expected in
        ["https://a", "http://p", "tokn", "REDACTED", "invalid type", "line ", "base64", "login", "[redacted]"]
    {
        assert!(text.contains(expected), "the test does not reach {expected:?}");
    }
    shown.check();
}

#[test]
fn file_and_pod_configurations_show_no_secret() {
    let mut shown = Shown::default();
    let folder = tempfile::tempdir().unwrap();
    let (good, bad, gone) = (folder.path().join("good"), folder.path().join("bad"), folder.path().join("gone"));
    std::fs::write(&good, full().to_string()).unwrap();
    std::fs::write(&bad, format!("users: [{{name: a, user: {{token: [{}]}}}}]", CANARIES[0])).unwrap();
    let account = folder.path().join("var/run/secrets/kubernetes.io/serviceaccount");
    std::fs::create_dir_all(&account).unwrap();
    std::fs::write(account.join("token"), CANARIES[0]).unwrap();
    let pod = Environment {
        root: folder.path().into(),
        service_host: Some("10.0.0.1".into()),
        service_port: Some("443".into()),
        ..Environment::default()
    };
    shown.debug(&pod);
    for files in [Files::explicit(&good), Files::explicit(&bad), Files::explicit(&gone), Files::explicit(folder.path())]
    {
        shown.debug(&files);
        shown.of(files.load());
        shown.of(files.modify(|config| config.current_context = "d".into()));
    }
    for overrides in [Overrides::default(), overrides()] {
        for path in [None, Some(good.clone()), Some(bad.clone()), Some(gone.clone())] {
            shown.of(infer(path, &overrides, &pod));
        }
        shown.of(in_cluster(&pod));
        shown.of(in_cluster(&Environment::default()));
    }
    shown.check();
}

/// A new public type of this crate must also be added to the tests above.
#[test]
fn secret_test_covers_every_public_type() {
    let mut shown = Shown::default();
    shown.kubeconfig(&full().to_string());
    shown.kubeconfig("contexts: [{name: c}]");
    shown.debug(&Environment::default());
    shown.debug(&Files::new(&Environment::default()));
    let library = include_str!("../../src/lib.rs");
    let exported = library.split("\npub use ").skip(1).filter_map(|rest| rest.split_once(';'));
    let mut names = exported.flat_map(|(names, _)| names.split(|c: char| !c.is_alphanumeric() && c != '_'));
    let is_shown = |name: &str| shown.types.split(|c: char| !c.is_alphanumeric() && c != '_').any(|seen| seen == name);
    let missing = names.find(|name| name.starts_with(char::is_uppercase) && !is_shown(name));
    assert_eq!(missing, None, "show it in these tests, with a secret in each of its fields");
}
