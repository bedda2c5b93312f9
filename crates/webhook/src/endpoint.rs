//! The address at which the API server calls the webhooks.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The address at which the API server calls the webhooks.
///
/// # Examples
///
/// ```
/// use pintle_webhook::Endpoint;
///
/// let in_cluster = Endpoint::service("website-system", "website-controller");
/// let on_my_machine = Endpoint::url("https://192.168.1.7:9443");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A Service in the cluster. The certificate must be valid for `NAME.NAMESPACE.svc`.
    Service {
        /// The Service's namespace.
        namespace: String,
        /// The Service's name.
        name: String,
        /// The Service's port.
        port: u16,
    },
    /// A URL without a path, such as `https://host:port`.
    Url(String),
}

impl Endpoint {
    /// Creates an endpoint for port 443 of a Service.
    pub fn service(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self::Service { namespace: namespace.into(), name: name.into(), port: 443 }
    }

    /// Creates an endpoint for a URL such as `https://host:9443`. The API server must be able to reach the URL.
    pub fn url(url: impl Into<String>) -> Self {
        Self::Url(url.into())
    }

    /// Returns the client configuration of a webhook, without a CA bundle if `ca_bundle` is empty.
    pub(crate) fn client_config(&self, path: &str, ca_bundle: &[u8]) -> Value {
        let mut config = match self {
            Self::Service { namespace, name, port } => {
                json!({"service": {"namespace": namespace, "name": name, "port": port, "path": path}})
            }
            Self::Url(url) => json!({"url": format!("{}{path}", url.trim_end_matches('/'))}),
        };
        // Without a CA bundle, the API server uses the root certificates of its operating system.
        if !ca_bundle.is_empty() {
            config["caBundle"] = STANDARD.encode(ca_bundle).into();
        }
        config
    }
}
