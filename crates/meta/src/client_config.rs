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
/// secrets as `[redacted]` and omits user names and passwords in URLs.
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
    /// A bearer token. If `token_file` is also set, this token is used only until the client has read the file.
    pub token: Option<Secret>,
    /// The path of a bearer token file. The client reads the file again when it changes.
    pub token_file: Option<PathBuf>,
    /// The credentials for basic authentication.
    pub basic: Option<BasicAuth>,
    /// A program that prints credentials.
    pub exec: Option<ExecConfig>,
    /// An OpenID Connect login, whose tokens the client refreshes. If `token` or `basic` is also set, the client uses
    /// `token` or `basic` instead of the login.
    pub oidc: Option<OidcConfig>,
    /// The credential plugins that [`exec`](Self::exec) may run. By default, all plugins are allowed.
    pub plugin_policy: PluginPolicy,
    /// The user to impersonate. The authenticated user needs permission to impersonate this user.
    pub impersonate: Option<Impersonate>,
    /// The URL of the proxy for all requests. The scheme is `http`, `https` or `socks5`. If `None`, the proxy
    /// environment variables are used.
    pub proxy_url: Option<String>,
    /// Whether to request uncompressed responses.
    pub disable_compression: bool,
    /// The `User-Agent` header. If `None`, the name and version of the program are sent.
    pub user_agent: Option<String>,
    /// The maximum number of requests per second that the client sends. `None` and values of 0 or less disable the
    /// limit. The default of client-go is 5 requests per second. The server may also limit the requests of clients.
    pub qps: Option<f32>,
    /// The number of requests that the client may send in a burst before `qps` limits the rate. If `None`, the burst is
    /// 10 requests, as in client-go.
    pub burst: Option<u32>,
    /// The timeout for an entire request, including the response body. Watches ignore this timeout. `None` means no
    /// timeout.
    pub timeout: Option<Duration>,
    /// The maximum size of one object in a list or a watch, in bytes. The client skips larger objects without buffering
    /// them, and reports each as [`RawObject::Oversized`](crate::RawObject::Oversized). The client still delivers the
    /// other objects of the list or watch. An informer treats an oversized object like an object that cannot be
    /// decoded. `None` means 16 MiB, because aggregated API servers may store larger objects than etcd, whose limit is
    /// 1.5 MiB.
    pub max_object: Option<usize>,
}

impl ClientConfig {
    /// Creates a configuration without credentials for the server URL `server`.
    pub fn new(server: impl Into<String>) -> Self {
        Self { server: server.into(), ..Self::default() }
    }

    /// Returns a configuration without credentials for the same server, like client-go's `AnonymousClientConfig`. The
    /// returned configuration contains no token, password, client certificate, credential plugin, login or
    /// impersonation.
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
        // List the fields to keep, so that a credential field that is added later is not copied by mistake.
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

    /// Returns the namespace for requests that do not specify a namespace.
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
    /// The certificate authorities that the client trusts to sign the server's certificate. If `None`, the client uses
    /// the operating system's certificate authorities.
    pub ca: Option<PemSource>,
    /// The client certificate with its chain.
    pub certificate: Option<PemSource>,
    /// The client certificate's private key.
    pub key: Option<PemSource>,
    /// The server name for SNI and for verifying the server's certificate. If `None`, the host in the server URL is
    /// used.
    pub server_name: Option<String>,
    /// Whether to accept any server certificate without verifying it. Cannot be combined with `ca`.
    pub insecure_skip_verify: bool,
}

/// Certificates or keys as PEM text, or the path of a PEM file. The client reads a file again when it changes. `Debug`
/// prints the path, but never the PEM text. Dropping a `PemSource` erases inline PEM text from memory.
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

/// A secret string. `Debug` never prints the string, and dropping the `Secret` erases it from memory.
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

    /// Returns the secret text. Use the text only to authenticate to a server.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// A credential plugin, as defined by the API group `client.authentication.k8s.io`. Dropping an `ExecConfig` erases its
/// arguments and environment variables from memory.
#[derive(Clone)]
pub struct ExecConfig {
    /// `client.authentication.k8s.io/v1` or `/v1beta1`.
    pub api_version: String,
    /// The path of the program, or a name that is looked up in `PATH`.
    pub command: String,
    /// The arguments.
    pub args: Vec<String>,
    /// Additional environment variables for the program. The program also inherits the environment of this process.
    pub env: BTreeMap<String, String>,
    /// A hint for the user on how to install the program. If the program is missing, the error message contains this
    /// hint.
    pub install_hint: Option<String>,
    /// Whether to pass data about the cluster, such as the server URL, to the program.
    pub provide_cluster_info: bool,
    /// Additional cluster data for the program, from the extension `client.authentication.k8s.io/exec` of the cluster
    /// in the kubeconfig.
    pub cluster_extension: Option<serde_json::Value>,
    /// Whether the credential plugin may interact with the user.
    pub interactive_mode: InteractiveMode,
}

impl Drop for ExecConfig {
    fn drop(&mut self) {
        self.args.zeroize();
        self.env.values_mut().for_each(Zeroize::zeroize);
    }
}

impl ZeroizeOnDrop for ExecConfig {}

crate::debug_struct!(ExecConfig |self| {
    api_version, command,
    args = format_args!("[{} redacted]", self.args.len()),
    env = self.env.keys().collect::<Vec<_>>(),
    interactive_mode, ..
});

/// Whether a credential plugin may use standard input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InteractiveMode {
    /// The plugin needs standard input.
    Always,
    /// The plugin may use standard input if it is a terminal.
    #[default]
    IfAvailable,
    /// The plugin never uses standard input.
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
    /// The issuer's `https` URL. The client discovers the token endpoint at `/.well-known/openid-configuration` under
    /// this URL.
    pub issuer_url: String,
    /// The client ID that is registered with the issuer.
    pub client_id: String,
    /// The client secret, if the issuer requires one.
    pub client_secret: Option<Secret>,
    /// The current id token. The client replaces the token shortly before it expires.
    pub id_token: Option<Secret>,
    /// The refresh token, which the client uses to request new id tokens. If `refresh_token` is `None`, the login ends
    /// when the id token expires.
    ///
    /// Most issuers accept each refresh token only once. Clients in the same process that use the same refresh token
    /// therefore share one login. The shared login uses the token store of the first client.
    pub refresh_token: Option<Secret>,
    /// The certificate authorities that the client trusts to sign the issuer's certificate. If `None`, the client uses
    /// the operating system's certificate authorities.
    pub ca: Option<PemSource>,
    /// Stores new tokens, so that the program can use them after a restart. Most issuers accept each refresh token only
    /// once, so after a restart, a program needs the new tokens. If `None`, the client does not save new tokens.
    pub token_store: Option<Arc<dyn TokenStore>>,
}

crate::debug_fields!(OidcConfig {
    issuer_url => redacted_url, client_id, client_secret, id_token, refresh_token, ca,
    token_store => |store: &Option<_>| store.as_ref().map(|_| format_args!("[a store]")),
});

/// Stores the tokens of a login, like client-go's `AuthProviderConfigPersister`.
pub trait TokenStore: Send + Sync {
    /// Replaces the stored tokens. `id_token` is empty if the issuer did not return an id token.
    ///
    /// `store` may block. The client calls `store` on a separate thread, without holding a lock. Calls of `store` for
    /// one login do not overlap. Requests wait for `store` to return, but only for a few seconds.
    ///
    /// # Errors
    ///
    /// Returns an error if the tokens cannot be stored. The client then still uses the new tokens, and retries `store`
    /// a few times.
    fn store(&self, id_token: &Secret, refresh_token: &Secret) -> Result<(), Box<dyn Error + Send + Sync>>;
}

/// Which credential plugins may run, as in client-go. A policy prevents an untrusted kubeconfig from starting arbitrary
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
    /// All credential plugins may run.
    #[default]
    AllowAll,
    /// No credential plugin may run.
    DenyAll,
    /// Only the listed credential plugins may run. Each entry is a path, or a name that is looked up in `PATH`. A
    /// plugin may run if its configured name equals an entry, or if the name and the entry resolve to the same file.
    /// The list must not be empty. The paths in the list must not contain `.` or `..` components, or double slashes.
    Allowlist(Vec<PathBuf>),
}

/// The identity to impersonate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Impersonate {
    /// The user name. Required if any other field of this struct is set.
    pub user: String,
    /// The user's uid.
    pub uid: Option<String>,
    /// The user's groups.
    pub groups: Vec<String>,
    /// Additional user data for the authorizer (the `extra` field of the user).
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
        // Keep the user name in `proxy_url`, because it authenticates the client to the proxy and not to the server.
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
