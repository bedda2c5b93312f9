//! What a client has to know to reach a server.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::redacted_url;

/// All that a client has to know to reach one API server: client-go's `rest.Config`.
///
/// kubeconfig files, a pod's service account and the embedded server all give one of these; a client is made from it. It is
/// safe to print: secrets show as `[redacted]`, and URLs without user and password.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use pintle_meta::{ClientConfig, Secret};
///
/// let mut config = ClientConfig::new("https://10.0.0.1:6443");
/// config.token = Some(Secret::new("s3cret"));
/// config.timeout = Some(Duration::from_secs(30));
/// assert_eq!(config.default_namespace(), "default");
/// assert!(!format!("{config:?}").contains("s3cret"));
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct ClientConfig {
    /// The server's URL, with an optional path prefix: `https://10.0.0.1:6443`.
    pub server: String,
    /// The namespace to use where none is named; empty stands for `default`.
    pub namespace: String,
    /// How the two sides prove who they are beneath HTTP.
    pub tls: TlsClientConfig,
    /// A bearer token. A token file, once read, wins over it.
    pub token: Option<Secret>,
    /// A file that holds the bearer token and is read again as it changes.
    pub token_file: Option<PathBuf>,
    /// User name and password.
    pub basic: Option<BasicAuth>,
    /// A program that prints credentials.
    pub exec: Option<ExecConfig>,
    /// A login by OpenID Connect, whose tokens are refreshed. A token or a password comes before it.
    pub oidc: Option<OidcConfig>,
    /// Which programs may be run for [`exec`](Self::exec).
    pub plugin_policy: PluginPolicy,
    /// As whom to act, where the credentials' own user may.
    pub impersonate: Option<Impersonate>,
    /// A proxy for all requests: `http`, `https` or `socks5`. None: as the environment says.
    pub proxy_url: Option<String>,
    /// Ask for no compressed answers.
    pub disable_compression: bool,
    /// The `User-Agent`. None: the program's name and version.
    pub user_agent: Option<String>,
    /// Requests a second that the client allows itself. None, or 0 or less: no limit, since servers protect themselves; client-go's
    /// default is 5.
    pub qps: Option<f32>,
    /// Requests that may come at once before `qps` binds. None: client-go's 10.
    pub burst: Option<u32>,
    /// The deadline of a whole exchange, watches excepted. None: none.
    pub timeout: Option<Duration>,
    /// The most to hold of one object of a list or a watch, in bytes. What is larger is read over in bounded memory, and told as
    /// [`RawObject::Oversized`](crate::RawObject::Oversized): an informer shows it as an entry that cannot be decoded, and the
    /// others go on. None: 16 MiB. A cluster's own store takes one and a half; an aggregated server may have more.
    pub max_object: Option<usize>,
}

impl ClientConfig {
    /// A configuration that reaches `server` without credentials.
    pub fn new(server: impl Into<String>) -> Self {
        Self { server: server.into(), ..Self::default() }
    }

    /// The same server, reached in the same way, by nobody in particular: without token, password, certificate, credential program,
    /// login or impersonation. client-go's `AnonymousClientConfig`.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_meta::{ClientConfig, Secret};
    ///
    /// let mut config = ClientConfig::new("https://10.0.0.1:6443");
    /// config.token = Some(Secret::new("s3cret"));
    /// let anonymous = config.anonymous();
    /// assert!(anonymous.server == config.server && anonymous.token.is_none());
    /// ```
    #[must_use]
    pub fn anonymous(&self) -> Self {
        // What is there in future stays out until it is listed here.
        Self {
            server: self.server.clone(),
            namespace: self.namespace.clone(),
            tls: TlsClientConfig {
                ca: self.tls.ca.clone(),
                server_name: self.tls.server_name.clone(),
                insecure_skip_verify: self.tls.insecure_skip_verify,
                certificate: None,
                key: None,
            },
            proxy_url: self.proxy_url.clone(),
            disable_compression: self.disable_compression,
            user_agent: self.user_agent.clone(),
            qps: self.qps,
            burst: self.burst,
            timeout: self.timeout,
            max_object: self.max_object,
            ..Self::default()
        }
    }

    /// The namespace to use where none is named.
    pub fn default_namespace(&self) -> &str {
        match self.namespace.as_str() {
            "" => "default",
            namespace => namespace,
        }
    }
}

impl fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, namespace, tls, token, token_file, basic, exec, impersonate, .. } = self;
        let Self { plugin_policy, proxy_url, disable_compression, user_agent, qps, burst, timeout, .. } = self;
        let Self { max_object, oidc, .. } = self;
        f.debug_struct("ClientConfig")
            .field("server", &redacted_url(server))
            .field("namespace", namespace)
            .field("tls", tls)
            .field("token", token)
            .field("token_file", token_file)
            .field("basic", basic)
            .field("exec", exec)
            .field("oidc", oidc)
            .field("plugin_policy", plugin_policy)
            .field("impersonate", impersonate)
            .field("proxy_url", &proxy_url.as_deref().map(redacted_url))
            .field("disable_compression", disable_compression)
            .field("user_agent", user_agent)
            .field("qps", qps)
            .field("burst", burst)
            .field("timeout", timeout)
            .field("max_object", max_object)
            .finish()
    }
}

/// The TLS half of a [`ClientConfig`].
#[derive(Clone, Debug, Default)]
pub struct TlsClientConfig {
    /// The authorities that may have signed the server's certificate, in place of the system's.
    pub ca: Option<PemSource>,
    /// The client's certificate chain.
    pub certificate: Option<PemSource>,
    /// The key of the client's certificate.
    pub key: Option<PemSource>,
    /// The name to ask for and to verify, in place of the URL's host.
    pub server_name: Option<String>,
    /// Trust any certificate. Not together with `ca`.
    pub insecure_skip_verify: bool,
}

/// Where PEM text comes from. A file is read again as it changes; `Debug` shows a file's path and never any content, whose memory is wiped
/// when it is dropped.
#[derive(Clone)]
pub enum PemSource {
    /// The text itself.
    Inline(Vec<u8>),
    /// A file that holds it.
    File(PathBuf),
}

impl Drop for PemSource {
    fn drop(&mut self) {
        if let Self::Inline(text) = self {
            text.zeroize();
        }
    }
}

impl ZeroizeOnDrop for PemSource {}

impl fmt::Debug for PemSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inline(_) => f.write_str("[inline]"),
            Self::File(path) => path.fmt(f),
        }
    }
}

/// User name and password.
#[derive(Clone, Debug)]
pub struct BasicAuth {
    /// The user.
    pub username: String,
    /// The password.
    pub password: Secret,
}

/// A text that is never printed, and whose memory is wiped when it is dropped.
///
/// # Examples
///
/// ```
/// use pintle_meta::Secret;
///
/// let token = Secret::new("s3cret");
/// assert_eq!(format!("{token:?}"), "[redacted]");
/// assert_eq!(format!("Bearer {}", token.expose()), "Bearer s3cret");
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Zeroizing<Box<str>>);

impl ZeroizeOnDrop for Secret {}

impl Secret {
    /// Hides `text`.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The text, for the one place that has to send it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// A program that prints credentials, as `client.authentication.k8s.io` describes it. The memory of its arguments and variables is wiped when
/// it is dropped.
#[derive(Clone)]
pub struct ExecConfig {
    /// `client.authentication.k8s.io/v1` or `/v1beta1`.
    pub api_version: String,
    /// The program: a name to look up on PATH, or a path.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables to set beside the inherited ones.
    pub env: BTreeMap<String, String>,
    /// What to tell a user who lacks the program.
    pub install_hint: Option<String>,
    /// Whether the program is told about the cluster.
    pub provide_cluster_info: bool,
    /// Extra data about the cluster for the program, from the cluster's extension `client.authentication.k8s.io/exec`.
    pub cluster_extension: Option<serde_json::Value>,
    /// Whether the program may talk to the user.
    pub interactive_mode: InteractiveMode,
}

impl Drop for ExecConfig {
    /// Arguments and variables may hold secrets: their memory is wiped.
    fn drop(&mut self) {
        self.args.zeroize();
        self.env.values_mut().for_each(Zeroize::zeroize);
    }
}

impl ZeroizeOnDrop for ExecConfig {}

impl fmt::Debug for ExecConfig {
    /// Arguments and variables may hold secrets: only their number and names show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecConfig")
            .field("api_version", &self.api_version)
            .field("command", &self.command)
            .field("args", &format_args!("[{} redacted]", self.args.len()))
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("interactive_mode", &self.interactive_mode)
            .finish_non_exhaustive()
    }
}

/// Whether a credential program may use standard input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InteractiveMode {
    /// It must.
    Always,
    /// It may, where there is a terminal.
    #[default]
    IfAvailable,
    /// It never does.
    Never,
}

/// A login by OpenID Connect: client-go's auth provider `oidc`. Who asks is shown by an id token, and the issuer gives another one for the
/// refresh token before that expires.
///
/// # Examples
///
/// ```
/// use pintle_meta::{ClientConfig, OidcConfig, Secret};
///
/// let mut config = ClientConfig::new("https://10.0.0.1:6443");
/// config.oidc = Some(OidcConfig {
///     issuer_url: "https://login.example.com/realms/a".into(),
///     client_id: "kubernetes".into(),
///     refresh_token: Some(Secret::new("s3cret")),
///     ..OidcConfig::default()
/// });
/// assert!(!format!("{config:?}").contains("s3cret"));
/// ```
#[derive(Clone, Default)]
pub struct OidcConfig {
    /// The URL of the issuer, by `https`. Where it refreshes tokens, it tells at `/.well-known/openid-configuration` beneath.
    pub issuer_url: String,
    /// Who the client is to the issuer.
    pub client_id: String,
    /// How it proves that, if it has to.
    pub client_secret: Option<Secret>,
    /// The last id token: it serves until shortly before the time that stands in it.
    pub id_token: Option<Secret>,
    /// What another id token is given for. Without it, the login ends with the id token. Most issuers take one once only: clients of a
    /// process that are made with the same one, at the same time, share the login, and the token store of the first.
    pub refresh_token: Option<Secret>,
    /// The authorities that may have signed the issuer's certificate, in place of the system's.
    pub ca: Option<PemSource>,
    /// Who keeps new tokens for the next start of the program: most issuers take a refresh token once only. None: nobody.
    pub token_store: Option<Arc<dyn TokenStore>>,
}

impl fmt::Debug for OidcConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { issuer_url, client_id, client_secret, id_token, refresh_token, ca, token_store } = self;
        f.debug_struct("OidcConfig")
            .field("issuer_url", &redacted_url(issuer_url))
            .field("client_id", client_id)
            .field("client_secret", client_secret)
            .field("id_token", id_token)
            .field("refresh_token", refresh_token)
            .field("ca", ca)
            .field("token_store", &token_store.as_ref().map(|_| format_args!("[a store]")))
            .finish()
    }
}

/// Keeps the tokens of a login: client-go's `AuthProviderConfigPersister`.
pub trait TokenStore: Send + Sync {
    /// Keeps new tokens in place of those before; the id token is empty if there is none. It may block: it is called on a thread of its
    /// own, under no lock, and never twice at a time for one login. Requests wait for it, but not longer than a few seconds.
    ///
    /// # Errors
    ///
    /// They cannot be kept. It is tried a few times; the client goes on with them in any case.
    fn store(&self, id_token: &Secret, refresh_token: &Secret) -> Result<(), Box<dyn Error + Send + Sync>>;
}

/// Which credential programs may run, so that a kubeconfig from elsewhere cannot start what it likes: client-go's policy of the same
/// name.
///
/// # Examples
///
/// ```
/// use pintle_meta::{ClientConfig, PluginPolicy};
///
/// let mut config = ClientConfig::new("https://10.0.0.1:6443");
/// config.plugin_policy = PluginPolicy::Allowlist(vec!["aws".into(), "/opt/corp/bin/login".into()]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PluginPolicy {
    /// Any.
    #[default]
    AllowAll,
    /// None.
    DenyAll,
    /// These alone: names to look up on `PATH`, or paths. A program is allowed if the configuration names it as it stands here, or if
    /// both lead to the same file. The list may not be empty, and a path has no `.`, `..` or double slash in it.
    Allowlist(Vec<PathBuf>),
}

/// As whom to act.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Impersonate {
    /// The user; required where anything else is set.
    pub user: String,
    /// The user's uid.
    pub uid: Option<String>,
    /// The user's groups.
    pub groups: Vec<String>,
    /// Whatever else authorisers may look at.
    pub extra: BTreeMap<String, Vec<String>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_anonymous_copy_keeps_how_to_reach_the_server_and_nothing_of_who_asks() {
        let mut config = with_secrets();
        config.tls.ca = Some(PemSource::File("ca".into()));
        config.tls.server_name = Some("name".into());
        config.impersonate = Some(Impersonate { user: "hush-user".into(), ..Impersonate::default() });
        config.token_file = Some("hush-file".into());
        (config.namespace, config.user_agent) = ("team-a".into(), Some("agent".into()));
        (config.qps, config.burst, config.max_object) = (Some(1.0), Some(2), Some(3));
        (config.timeout, config.disable_compression) = (Some(Duration::from_secs(4)), true);
        // The user of a proxy is one of the way there.
        let (before, after) = (format!("{config:?}"), format!("{:?}", config.anonymous()));
        let secret = ["token", "token_file", "basic", "exec", "oidc", "impersonate", "certificate", "key"];
        for part in ["ca: Some", "name", "team-a", "agent", "qps: Some(1.0)", "burst: Some(2)", "Some(4s)", "socks5"] {
            assert!(before.contains(part) && after.contains(part), "{part}: {after}");
        }
        for part in secret {
            assert!(after.contains(&format!(" {part}: None")), "{part}: {after}");
        }
    }

    #[test]
    fn what_is_secret_is_wiped() {
        fn is_wiped<T: ZeroizeOnDrop>() {}
        is_wiped::<Secret>();
        is_wiped::<PemSource>();
        is_wiped::<ExecConfig>();
    }

    #[test]
    fn printing_a_configuration_shows_no_secret() {
        let config = with_secrets();
        let shown = format!("{config:?}");
        assert!(!shown.contains("hush"), "{shown}");
        for part in ["https://10.0.0.1", "socks5://10.0.0.2", "https://10.0.0.3", "login", "VARIABLE", "a client"] {
            assert!(shown.contains(part), "{shown}");
        }
    }

    fn with_secrets() -> ClientConfig {
        let mut config = ClientConfig::new("https://me:hush-user@10.0.0.1");
        config.proxy_url = Some("socks5://me:hush-proxy@10.0.0.2".into());
        config.token = Some(Secret::new("hush-token"));
        config.basic = Some(BasicAuth { username: "me".into(), password: Secret::new("hush-password") });
        config.tls.key = Some(PemSource::Inline(b"hush-key".to_vec()));
        let secret = |text: &str| Some(Secret::new(text));
        config.oidc = Some(OidcConfig {
            issuer_url: "https://me:hush-issuer@10.0.0.3".into(),
            client_id: "a client".into(),
            client_secret: secret("hush-client"),
            id_token: secret("hush-id"),
            refresh_token: secret("hush-refresh"),
            ca: Some(PemSource::Inline(b"hush-ca".to_vec())),
            token_store: None,
        });
        config.exec = Some(ExecConfig {
            api_version: "client.authentication.k8s.io/v1".into(),
            command: "login".into(),
            args: vec!["hush-arg".into()],
            env: [("VARIABLE".to_owned(), "hush-env".to_owned())].into(),
            install_hint: None,
            provide_cluster_info: false,
            cluster_extension: Some(serde_json::json!("hush-extension")),
            interactive_mode: InteractiveMode::Never,
        });
        config
    }
}
