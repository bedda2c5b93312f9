//! The types of a kubeconfig and its entries.

mod debug;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use pintle_meta::Secret;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::de::{self, null_default, optional_data, optional_path, text_lists, texts};

/// A kubeconfig: clusters, users, and the contexts that combine them.
///
/// In the file format, clusters, users and contexts are lists of named entries. In this struct, they are maps with the
/// names as keys. Unknown fields are kept. If a file is read and written again, only comments and the order of the
/// fields are lost. `Debug` shows no secrets. To print a configuration as YAML without secrets, use
/// [`redacted`](Self::redacted).
///
/// # Examples
///
/// ```
/// use pintle_kubeconfig::{AuthInfo, ClusterInfo, Context, Kubeconfig, Overrides};
/// use pintle_meta::Secret;
///
/// let mut kubeconfig = Kubeconfig { current_context: "blue".into(), ..Kubeconfig::default() };
/// kubeconfig.clusters.insert("eu".into(), ClusterInfo { server: "https://10.0.0.1:6443".into(), ..ClusterInfo::default() });
/// kubeconfig.users.insert("me".into(), AuthInfo { token: Some(Secret::new("hush")), ..AuthInfo::default() });
/// let context = Context { cluster: "eu".into(), user: "me".into(), ..Context::default() };
/// kubeconfig.contexts.insert("blue".into(), context);
///
/// kubeconfig.validate()?;
/// assert_eq!(kubeconfig.client_config(&Overrides::default())?.server, "https://10.0.0.1:6443");
/// assert_eq!(Kubeconfig::parse(&kubeconfig.to_yaml()?)?.users, kubeconfig.users);
/// # Ok::<(), pintle_kubeconfig::Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Kubeconfig {
    /// The version: `v1`. Some programs omit it.
    #[serde(default, rename = "apiVersion", deserialize_with = "null_default")]
    pub api_version: String,
    /// The kind: `Config`. Some programs omit it.
    #[serde(default, deserialize_with = "null_default")]
    pub kind: String,
    /// The clusters.
    #[serde(default, with = "de::clusters")]
    pub clusters: BTreeMap<String, ClusterInfo>,
    /// The contexts.
    #[serde(default, with = "de::contexts")]
    pub contexts: BTreeMap<String, Context>,
    /// The name of the default context. An empty string means that there is no default context.
    #[serde(default, deserialize_with = "null_default")]
    pub current_context: String,
    /// The users.
    #[serde(default, with = "de::users")]
    pub users: BTreeMap<String, AuthInfo>,
    /// Data that other programs have stored in the kubeconfig.
    #[serde(default, with = "de::extensions", skip_serializing_if = "BTreeMap::is_empty")]
    pub extensions: BTreeMap<String, Value>,
    /// Unknown fields, such as `preferences`.
    #[serde(flatten)]
    pub other: Map<String, Value>,
    /// The file that the current context was read from. This field is not written.
    #[serde(skip)]
    pub origin: Option<PathBuf>,
}

/// A cluster: the address of a server, and how to connect to it. `Debug` shows the URLs of a cluster without user names
/// and passwords.
#[derive(Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ClusterInfo {
    /// The URL of the API server.
    #[serde(default, deserialize_with = "null_default")]
    pub server: String,
    /// The name that the server's certificate must contain. If the string is empty, the certificate must contain the
    /// host name of the URL.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "null_default")]
    pub tls_server_name: String,
    /// Whether to accept any server certificate without verification.
    #[serde(default, skip_serializing_if = "is_false", deserialize_with = "null_default")]
    pub insecure_skip_tls_verify: bool,
    /// The path of a file with CA certificates that verify the server.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional_path")]
    pub certificate_authority: Option<PathBuf>,
    /// The CA certificates that verify the server, as PEM text. Set either the file or the data, not both.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional_data")]
    pub certificate_authority_data: Option<Data>,
    /// The proxy's URL.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "null_default")]
    pub proxy_url: String,
    /// Whether to disable the compression of responses.
    #[serde(default, skip_serializing_if = "is_false", deserialize_with = "null_default")]
    pub disable_compression: bool,
    /// Data of other programs.
    #[serde(default, with = "de::extensions", skip_serializing_if = "BTreeMap::is_empty")]
    pub extensions: BTreeMap<String, Value>,
    /// Unknown fields.
    #[serde(flatten)]
    pub other: Map<String, Value>,
    /// The file that this entry was read from. This field is not written.
    #[serde(skip)]
    pub origin: Option<PathBuf>,
}

/// The credentials of a user, and the user to impersonate.
#[derive(Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct AuthInfo {
    /// The path of the file with the client's certificate chain.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional_path")]
    pub client_certificate: Option<PathBuf>,
    /// The client's certificate chain as PEM text. Set either the file or the data, not both.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional_data")]
    pub client_certificate_data: Option<Data>,
    /// The path of the file with the private key of the client's certificate.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional_path")]
    pub client_key: Option<PathBuf>,
    /// The private key as PEM text. Set either the file or the data, not both.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional_data")]
    pub client_key_data: Option<Data>,
    /// A bearer token.
    #[serde(default, with = "de::secret", skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,
    /// The path of a file that contains the bearer token. If the file changes, the client reads it again.
    #[serde(
        default,
        rename = "tokenFile",
        skip_serializing_if = "Option::is_none",
        deserialize_with = "optional_path"
    )]
    pub token_file: Option<PathBuf>,
    /// The name of the user that the client impersonates. An empty string disables impersonation.
    #[serde(default, rename = "as", skip_serializing_if = "String::is_empty", deserialize_with = "null_default")]
    pub impersonate: String,
    /// The UID to impersonate.
    #[serde(default, rename = "as-uid", skip_serializing_if = "String::is_empty", deserialize_with = "null_default")]
    pub impersonate_uid: String,
    /// The groups to impersonate.
    #[serde(default, rename = "as-groups", skip_serializing_if = "Vec::is_empty", deserialize_with = "texts")]
    pub impersonate_groups: Vec<String>,
    /// The extra attributes to impersonate. Authorizers can use them.
    #[serde(
        default,
        rename = "as-user-extra",
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "text_lists"
    )]
    pub impersonate_extra: BTreeMap<String, Vec<String>>,
    /// The user name for basic authentication.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "null_default")]
    pub username: String,
    /// The password for basic authentication.
    #[serde(default, with = "de::secret", skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// A built-in login method. Only `oidc` is supported. Other authentication methods are kept in the file but never
    /// used, because [`exec`](Self::exec) has replaced them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_provider: Option<AuthProvider>,
    /// A credential plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec: Option<Exec>,
    /// Data of other programs.
    #[serde(default, with = "de::extensions", skip_serializing_if = "BTreeMap::is_empty")]
    pub extensions: BTreeMap<String, Value>,
    /// Unknown fields.
    #[serde(flatten)]
    pub other: Map<String, Value>,
    /// The file that this entry was read from. This field is not written.
    #[serde(skip)]
    pub origin: Option<PathBuf>,
}

/// A cluster, a user and a namespace.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Context {
    /// The name of the cluster.
    #[serde(default, deserialize_with = "null_default")]
    pub cluster: String,
    /// The name of the user. If this name is empty, the client sends no credentials.
    #[serde(default, deserialize_with = "null_default")]
    pub user: String,
    /// The default namespace. An empty string means `default`.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "null_default")]
    pub namespace: String,
    /// Data of other programs.
    #[serde(default, with = "de::extensions", skip_serializing_if = "BTreeMap::is_empty")]
    pub extensions: BTreeMap<String, Value>,
    /// Unknown fields.
    #[serde(flatten)]
    pub other: Map<String, Value>,
    /// The file that this entry was read from. This field is not written.
    #[serde(skip)]
    pub origin: Option<PathBuf>,
}

/// A credential plugin: a program that prints credentials to its standard output.
#[derive(Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Exec {
    /// `client.authentication.k8s.io/v1` or `/v1beta1`.
    #[serde(default, deserialize_with = "null_default")]
    pub api_version: String,
    /// The program to run: a path, or a name that is looked up on `PATH`.
    #[serde(default, deserialize_with = "null_default")]
    pub command: String,
    /// The arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub args: Vec<String>,
    /// The environment variables to set for the program in addition to the variables of this process.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub env: Vec<ExecEnv>,
    /// A message that is shown to the user if the program is not installed.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "null_default")]
    pub install_hint: String,
    /// Whether to pass a description of the cluster to the program.
    #[serde(default, skip_serializing_if = "is_false", deserialize_with = "null_default")]
    pub provide_cluster_info: bool,
    /// Whether the program may read from standard input: `Always`, `IfAvailable` or `Never`.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "null_default")]
    pub interactive_mode: String,
    /// Unknown fields.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// An environment variable for a credential plugin.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct ExecEnv {
    /// The name.
    #[serde(default, deserialize_with = "null_default")]
    pub name: String,
    /// The value.
    #[serde(default, with = "de::secret")]
    pub value: Option<Secret>,
}

/// A built-in login method.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct AuthProvider {
    /// The name of the authentication method, such as `oidc`.
    #[serde(default, deserialize_with = "null_default")]
    pub name: String,
    /// The settings.
    #[serde(default, with = "de::secrets", skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, Secret>,
}

/// The bytes of a certificate or a key that a kubeconfig stores as base64. `Debug` shows only the number of bytes. When
/// the bytes are dropped, their memory is wiped.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Data(pub Vec<u8>);

impl Drop for Data {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl ZeroizeOnDrop for Data {}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} bytes]", self.0.len())
    }
}

impl Kubeconfig {
    /// Returns whether the kubeconfig has no cluster, user, context, current context or extension.
    pub fn is_empty(&self) -> bool {
        self.clusters.is_empty()
            && self.contexts.is_empty()
            && self.users.is_empty()
            && self.current_context.is_empty()
            && self.extensions.is_empty()
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}
