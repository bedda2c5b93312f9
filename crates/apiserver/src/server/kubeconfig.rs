//! Creates a kubeconfig file for clients of the server.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pintle_json::json;
use pintle_meta::Secret;

pub(super) fn render(url: &str, ca: Option<&str>, token: Option<&Secret>) -> String {
    let mut cluster = json!({"server": url});
    if let Some(ca) = ca {
        cluster["certificate-authority-data"] = STANDARD.encode(ca).into();
    }
    // A server without authentication accepts any token. Without a token, kubectl would prompt for a user name and a
    // password.
    let user = json!({"token": token.map_or("admin", Secret::expose)});
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "pintle", "cluster": cluster}],
        "users": [{"name": "admin", "user": user}],
        "contexts": [{"name": "pintle", "context": {"cluster": "pintle", "user": "admin"}}],
        "current-context": "pintle",
    });
    pintle_schema::write_yaml(&config)
}
