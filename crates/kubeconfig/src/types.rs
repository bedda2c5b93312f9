//! The kubeconfig types.

mod debug;

use std::collections::BTreeMap;
use std::path::PathBuf;

use pintle_meta::__private::or_empty;
use pintle_meta::Secret;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::data::{Data, optional_data};
use crate::de::{self, named_list, optional_path, text_lists, texts};

/// A kubeconfig: clusters, users, and the contexts that combine them.
///
/// A `Kubeconfig` contains clusters, users and contexts as maps, and a file contains them as lists of named entries.
/// Reading and writing a file keeps unknown fields, and loses only comments, anchors, repeated keys and the order of
/// fields. The `Debug` output shows no secrets. Use [`redacted`](Self::redacted) to print a configuration as YAML
/// without secrets.
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
#[serde(default, rename_all = "kebab-case")]
pub struct Kubeconfig {
    /// The API version: `v1`, or an empty string, because some programs omit `apiVersion`.
    #[serde(rename = "apiVersion", deserialize_with = "or_empty")]
    pub api_version: String,
    /// The kind: `Config`, or an empty string, because some programs omit `kind`.
    #[serde(deserialize_with = "or_empty")]
    pub kind: String,
    /// The clusters by name.
    #[serde(with = "clusters")]
    pub clusters: BTreeMap<String, ClusterInfo>,
    /// The contexts by name.
    #[serde(with = "contexts")]
    pub contexts: BTreeMap<String, Context>,
    /// The name of the current context, or an empty string if there is none.
    #[serde(deserialize_with = "or_empty")]
    pub current_context: String,
    /// The users by name.
    #[serde(with = "users")]
    pub users: BTreeMap<String, AuthInfo>,
    /// The extensions, which contain data of other programs.
    #[serde(with = "extensions", skip_serializing_if = "BTreeMap::is_empty")]
    pub extensions: BTreeMap<String, Value>,
    /// The fields that this type does not declare, such as `preferences`. Writing a kubeconfig keeps these fields.
    #[serde(flatten)]
    pub other: Map<String, Value>,
    /// The file that sets the current context. The field `origin` is not part of the kubeconfig format.
    #[serde(skip)]
    pub origin: Option<PathBuf>,
}

/// The server URL and the connection settings of a cluster. The `Debug` output omits the user names and passwords in
/// URLs.
#[derive(Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct ClusterInfo {
    /// The URL of the API server.
    #[serde(deserialize_with = "or_empty")]
    pub server: String,
    /// The host name to expect in the server's certificate. If `tls_server_name` is empty, the client expects the host in the
    /// server URL.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "or_empty")]
    pub tls_server_name: String,
    /// Whether to accept any server certificate without verifying it.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "or_empty")]
    pub insecure_skip_tls_verify: bool,
    /// The path of a file with the CA certificates that are trusted for the server.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "optional_path")]
    pub certificate_authority: Option<PathBuf>,
    /// The CA certificates as PEM text. Set either this field or the path `certificate_authority`, not both.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "optional_data")]
    pub certificate_authority_data: Option<Data>,
    /// The proxy's URL.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "or_empty")]
    pub proxy_url: String,
    /// Whether to request uncompressed responses.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "or_empty")]
    pub disable_compression: bool,
    /// The extensions, which contain data of other programs.
    #[serde(with = "extensions", skip_serializing_if = "BTreeMap::is_empty")]
    pub extensions: BTreeMap<String, Value>,
    /// The fields that this type does not declare. Writing a kubeconfig keeps these fields.
    #[serde(flatten)]
    pub other: Map<String, Value>,
    /// The file that contains this cluster. The field `origin` is not part of the kubeconfig format.
    #[serde(skip)]
    pub origin: Option<PathBuf>,
}

/// The credentials of a user, and the user to impersonate.
#[derive(Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct AuthInfo {
    /// The path of the client certificate chain.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "optional_path")]
    pub client_certificate: Option<PathBuf>,
    /// The client certificate chain as PEM text. Set either this field or the path `client_certificate`, not both.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "optional_data")]
    pub client_certificate_data: Option<Data>,
    /// The path of the private key for the client certificate.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "optional_path")]
    pub client_key: Option<PathBuf>,
    /// The private key as PEM text. Set either this field or the path `client_key`, not both.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "optional_data")]
    pub client_key_data: Option<Data>,
    /// The bearer token for requests.
    #[serde(with = "de::secret", skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,
    /// The path of a bearer token file. The client reads the file again when it changes.
    #[serde(rename = "tokenFile", skip_serializing_if = "Option::is_none", deserialize_with = "optional_path")]
    pub token_file: Option<PathBuf>,
    /// The user to impersonate, or an empty string to disable impersonation.
    #[serde(rename = "as", skip_serializing_if = "String::is_empty", deserialize_with = "or_empty")]
    pub impersonate: String,
    /// The UID to impersonate.
    #[serde(rename = "as-uid", skip_serializing_if = "String::is_empty", deserialize_with = "or_empty")]
    pub impersonate_uid: String,
    /// The groups to impersonate.
    #[serde(rename = "as-groups", skip_serializing_if = "Vec::is_empty", deserialize_with = "texts")]
    pub impersonate_groups: Vec<String>,
    /// Extra attributes of the impersonated user, for use by authorizers.
    #[serde(rename = "as-user-extra", skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "text_lists")]
    pub impersonate_extra: BTreeMap<String, Vec<String>>,
    /// The user name for basic authentication.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "or_empty")]
    pub username: String,
    /// The password for basic authentication.
    #[serde(with = "de::secret", skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// A built-in login method. Clients support only `oidc`. Writing a kubeconfig keeps the settings of unsupported login
    /// methods. For a login method other than `oidc`, use [`exec`](Self::exec) instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_provider: Option<AuthProvider>,
    /// The credential plugin that returns the user's credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec: Option<Exec>,
    /// The extensions, which contain data of other programs.
    #[serde(with = "extensions", skip_serializing_if = "BTreeMap::is_empty")]
    pub extensions: BTreeMap<String, Value>,
    /// The fields that this type does not declare. Writing a kubeconfig keeps these fields.
    #[serde(flatten)]
    pub other: Map<String, Value>,
    /// The file that contains this user. The field `origin` is not part of the kubeconfig format.
    #[serde(skip)]
    pub origin: Option<PathBuf>,
}

/// A combination of a cluster, a user and a namespace.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Context {
    /// The cluster's name.
    #[serde(deserialize_with = "or_empty")]
    pub cluster: String,
    /// The name of the user, or an empty string if the client sends no credentials.
    #[serde(deserialize_with = "or_empty")]
    pub user: String,
    /// The default namespace for requests, or an empty string for `default`.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "or_empty")]
    pub namespace: String,
    /// The extensions, which contain data of other programs.
    #[serde(with = "extensions", skip_serializing_if = "BTreeMap::is_empty")]
    pub extensions: BTreeMap<String, Value>,
    /// The fields that this type does not declare. Writing a kubeconfig keeps these fields.
    #[serde(flatten)]
    pub other: Map<String, Value>,
    /// The file that contains this context. The field `origin` is not part of the kubeconfig format.
    #[serde(skip)]
    pub origin: Option<PathBuf>,
}

/// A credential plugin: a program that writes credentials to its standard output.
#[derive(Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Exec {
    /// The API version of the plugin protocol: `client.authentication.k8s.io/v1` or
    /// `client.authentication.k8s.io/v1beta1`.
    #[serde(deserialize_with = "or_empty")]
    pub api_version: String,
    /// The program to run: a path, or a name that is looked up in `PATH`.
    #[serde(deserialize_with = "or_empty")]
    pub command: String,
    /// The arguments of the program.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_empty")]
    pub args: Vec<String>,
    /// Additional environment variables for the program. The program also inherits the environment of this process.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_empty")]
    pub env: Vec<ExecEnv>,
    /// A hint on how to install the program, for the error message about a missing program.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "or_empty")]
    pub install_hint: String,
    /// Whether to pass cluster information, such as the server URL, to the program.
    #[serde(skip_serializing_if = "is_false", deserialize_with = "or_empty")]
    pub provide_cluster_info: bool,
    /// Whether the program may use standard input, as `Always`, `IfAvailable` or `Never`.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "or_empty")]
    pub interactive_mode: String,
    /// The fields that this type does not declare. Writing a kubeconfig keeps these fields.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// An environment variable for a credential plugin.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct ExecEnv {
    /// The name of the environment variable.
    #[serde(default, deserialize_with = "or_empty")]
    pub name: String,
    /// The value of the environment variable.
    #[serde(default, with = "de::secret")]
    pub value: Option<Secret>,
}

/// A built-in login method with its settings.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct AuthProvider {
    /// The name of the login method, such as `oidc`.
    #[serde(default, deserialize_with = "or_empty")]
    pub name: String,
    /// The settings of the login method.
    #[serde(default, with = "de::secrets", skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, Secret>,
}

impl Kubeconfig {
    /// Returns `true` if the kubeconfig has no clusters, users, contexts, current context or extensions.
    pub fn is_empty(&self) -> bool {
        self.clusters.is_empty()
            && self.contexts.is_empty()
            && self.users.is_empty()
            && self.current_context.is_empty()
            && self.extensions.is_empty()
    }
}

named_list!(clusters, "cluster", ClusterInfo);
named_list!(contexts, "context", Context);
named_list!(users, "user", AuthInfo);
named_list!(extensions, "extension", Value);

fn is_false(flag: &bool) -> bool {
    !flag
}
