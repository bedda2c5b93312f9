//! Client configuration.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::redacted::redacted_url;

/// A client's configuration for one API server, like client-go's `rest.Config`.
///
/// The configuration can come from a kubeconfig file, a pod's service account or the embedded server. `Debug` prints
/// secrets as `[redacted]` and omits the user and password in URLs.
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
    /// The server's URL, such as `https://10.0.0.1:6443`. The URL may contain a path prefix.
    pub server: String,
    /// The default namespace for requests. An empty string means `default`.
    pub namespace: String,
    /// The certificates and other TLS settings.
    pub tls: TlsClientConfig,
    /// A bearer token. If `token_file` is also set, this token applies only until the client has read the file.
    pub token: Option<Secret>,
    /// The path of a bearer token file. The client reads the file again when its content changes.
    pub token_file: Option<PathBuf>,
    /// The credentials for basic authentication.
    pub basic: Option<BasicAuth>,
    /// A program that prints credentials.
    pub exec: Option<ExecConfig>,
    /// An OpenID Connect login, whose tokens the client refreshes. If `token` or `basic` is also set, the client uses
    /// that credential instead.
    pub oidc: Option<OidcConfig>,
    /// The credential programs that [`exec`](Self::exec) may run. By default, all programs may run.
    pub plugin_policy: PluginPolicy,
    /// The user to impersonate. The authenticated user needs permission to impersonate this user.
    pub impersonate: Option<Impersonate>,
    /// The URL of the proxy for all requests, with the scheme `http`, `https` or `socks5`. `None` uses the proxy
    /// environment variables.
    pub proxy_url: Option<String>,
    /// Whether to request uncompressed responses.
    pub disable_compression: bool,
    /// The `User-Agent` header. `None` means the program's name and version.
    pub user_agent: Option<String>,
    /// The client's maximum number of requests per second. `None`, or a value of 0 or less, means no limit. client-go's
    /// default is 5. Servers apply their own limits.
    pub qps: Option<f32>,
    /// The number of requests that the client may send at once before `qps` limits the rate. `None` means client-go's
    /// default, 10.
    pub burst: Option<u32>,
    /// The timeout for a whole request, including the response body. Watches ignore this timeout. `None` means no
    /// timeout.
    pub timeout: Option<Duration>,
    /// The maximum size of one object in a list or a watch, in bytes. The client skips a larger object without
    /// buffering it, and reports it as [`RawObject::Oversized`](crate::RawObject::Oversized). All other objects in the
    /// list or watch are delivered. An informer treats an oversized object like an undecodable one. `None` means 16
    /// MiB. etcd accepts up to 1.5 MiB per object, but an aggregated server's objects can be larger.
    pub max_object: Option<usize>,
}

impl ClientConfig {
    /// Creates a configuration for the URL `server` without credentials.
    pub fn new(server: impl Into<String>) -> Self {
        Self { server: server.into(), ..Self::default() }
    }

    /// Returns a configuration for the same server without credentials, like client-go's `AnonymousClientConfig`. The
    /// result contains no token, password, client certificate, credential program, login or impersonation.
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
        // A list of the fields to keep cannot leak a credential field that is added later.
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

    /// Returns the namespace for requests without an explicit namespace.
    pub fn default_namespace(&self) -> &str {
        match self.namespace.as_str() {
            "" => "default",
            namespace => namespace,
        }
    }
}

crate::debug_fields!(ClientConfig {
    server => redacted_url, namespace, tls, token, token_file, basic, exec, oidc, plugin_policy, impersonate,
    proxy_url => |url: &Option<String>| url.as_deref().map(redacted_url), disable_compression, user_agent, qps,
    burst, timeout, max_object,
});

/// The TLS settings of a [`ClientConfig`].
#[derive(Clone, Debug, Default)]
pub struct TlsClientConfig {
    /// The certificate authorities for verifying the server's certificate. `None` uses the operating system's
    /// certificate authorities.
    pub ca: Option<PemSource>,
    /// The client certificate, including its chain.
    pub certificate: Option<PemSource>,
    /// The client certificate's private key.
    pub key: Option<PemSource>,
    /// The server name for SNI and for verifying the server's certificate. `None` means the host in the server's URL.
    pub server_name: Option<String>,
    /// Whether to accept any server certificate. Cannot be combined with `ca`.
    pub insecure_skip_verify: bool,
}

/// PEM text or the path of a PEM file. The client reads a file again when it changes. `Debug` prints the path but never
/// PEM text. Dropping a `PemSource` wipes inline PEM text from memory.
#[derive(Clone)]
pub enum PemSource {
    /// The PEM text.
    Inline(Vec<u8>),
    /// The path of a PEM file.
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

/// Credentials for basic authentication.
#[derive(Clone, Debug)]
pub struct BasicAuth {
    /// The user name.
    pub username: String,
    /// The password.
    pub password: Secret,
}

/// A string that `Debug` never prints. Dropping a `Secret` wipes the string from memory.
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
    /// Wraps `text`.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// Returns the secret text. Only use the text to authenticate to a server.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// A credential program, as defined by the API group `client.authentication.k8s.io`. Dropping an `ExecConfig` wipes the
/// arguments and environment variables from memory.
#[derive(Clone)]
pub struct ExecConfig {
    /// `client.authentication.k8s.io/v1` or `/v1beta1`.
    pub api_version: String,
    /// The program's path, or a name to look up in `PATH`.
    pub command: String,
    /// The arguments.
    pub args: Vec<String>,
    /// Additional environment variables for the program. The program also inherits all variables of this process.
    pub env: BTreeMap<String, String>,
    /// A message that tells the user how to install the program. The error for a missing program contains this message.
    pub install_hint: Option<String>,
    /// Whether the program receives cluster information, such as the server's URL.
    pub provide_cluster_info: bool,
    /// Additional cluster data for the program, from the extension `client.authentication.k8s.io/exec` of a kubeconfig
    /// cluster.
    pub cluster_extension: Option<serde_json::Value>,
    /// Whether the program may interact with the user.
    pub interactive_mode: InteractiveMode,
}

impl Drop for ExecConfig {
    fn drop(&mut self) {
        self.args.zeroize();
        self.env.values_mut().for_each(Zeroize::zeroize);
    }
}

impl ZeroizeOnDrop for ExecConfig {}

impl fmt::Debug for ExecConfig {
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
    /// The program needs standard input.
    Always,
    /// The program may use standard input if it is a terminal.
    #[default]
    IfAvailable,
    /// The program never uses standard input.
    Never,
}

/// An OpenID Connect login, like client-go's auth provider `oidc`. The client sends the id token with each request.
/// Before the id token expires, the client uses the refresh token to request a new id token from the issuer.
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
    /// The issuer's `https` URL. The client finds the token endpoint in `/.well-known/openid-configuration` under this
    /// URL.
    pub issuer_url: String,
    /// The client ID at the issuer.
    pub client_id: String,
    /// The client secret, if the issuer requires one.
    pub client_secret: Option<Secret>,
    /// The current id token. The client replaces the token shortly before it expires.
    pub id_token: Option<Secret>,
    /// The refresh token for requesting new id tokens. If `None`, the login ends when the id token expires.
    ///
    /// Most issuers accept a refresh token only once. Clients in one process that use the same refresh token at the
    /// same time therefore share one login. The shared login uses the first client's token store.
    pub refresh_token: Option<Secret>,
    /// The certificate authorities for verifying the issuer's certificate. `None` uses the operating system's
    /// certificate authorities.
    pub ca: Option<PemSource>,
    /// Saves new tokens for the next start of the program. Most issuers accept a refresh token only once, so the next
    /// start needs the new token. `None` saves nothing.
    pub token_store: Option<Arc<dyn TokenStore>>,
}

crate::debug_fields!(OidcConfig {
    issuer_url => redacted_url, client_id, client_secret, id_token, refresh_token, ca,
    token_store => |store: &Option<_>| store.as_ref().map(|_| format_args!("[a store]")),
});

/// Saves a login's tokens, like client-go's `AuthProviderConfigPersister`.
pub trait TokenStore: Send + Sync {
    /// Replaces the stored tokens. `id_token` is empty if the issuer returned no id token.
    ///
    /// The method may block. The client calls `store` on a separate thread and holds no lock during the call. Two calls
    /// for the same login never overlap. Requests wait until `store` returns, but at most for a few seconds.
    ///
    /// # Errors
    ///
    /// Returns an error if the tokens cannot be stored. The client then still uses the new tokens, and retries `store`
    /// a few times.
    fn store(&self, id_token: &Secret, refresh_token: &Secret) -> Result<(), Box<dyn Error + Send + Sync>>;
}

/// The credential programs that may run, as in client-go. With a policy, an untrusted kubeconfig cannot start arbitrary
/// programs.
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
    /// All programs may run.
    #[default]
    AllowAll,
    /// No program may run.
    DenyAll,
    /// Only these programs may run. Each entry is a path, or a name to look up in `PATH`. A program may run if its
    /// configured name equals an entry, or if both resolve to the same file. The list must not be empty. Paths must not
    /// contain `.`, `..` or double slashes.
    Allowlist(Vec<PathBuf>),
}

/// The identity to impersonate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Impersonate {
    /// The user name. Required if any other field is set.
    pub user: String,
    /// The user's uid.
    pub uid: Option<String>,
    /// The user's groups.
    pub groups: Vec<String>,
    /// Extra fields for the authorizer.
    pub extra: BTreeMap<String, Vec<String>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_keeps_connection_settings_and_drops_credentials() {
        let mut config = with_secrets();
        config.tls.ca = Some(PemSource::File("ca".into()));
        config.tls.server_name = Some("name".into());
        config.impersonate = Some(Impersonate { user: "hush-user".into(), ..Impersonate::default() });
        config.token_file = Some("hush-file".into());
        (config.namespace, config.user_agent) = ("team-a".into(), Some("agent".into()));
        (config.qps, config.burst, config.max_object) = (Some(1.0), Some(2), Some(3));
        (config.timeout, config.disable_compression) = (Some(Duration::from_secs(4)), true);
        // `anonymous` keeps the user name in `proxy_url`, because the name authenticates the client only to the proxy.
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
    fn secrets_are_wiped_on_drop() {
        fn is_wiped<T: ZeroizeOnDrop>() {}
        is_wiped::<Secret>();
        is_wiped::<PemSource>();
        is_wiped::<ExecConfig>();
    }

    #[test]
    fn debug_of_a_configuration_shows_no_secret() {
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
