//! Copies this build's CA certificates into the objects of a newer build, because certificates belong to the cluster
//! and not to a build. The condition is that the webhooks of both builds have the same server.

use http::Uri;
use serde_json::Value;

/// The default port of a webhook's client configuration.
const PORT: u64 = 443;

/// Returns the CA certificates of the client configuration `own` if `installed` has the same server but other
/// certificates.
pub(super) fn replacement<'a>(own: &'a Value, installed: &Value) -> Option<&'a Value> {
    let bundle = own.get("caBundle")?;
    (server(own)? == server(installed)? && installed.get("caBundle") != Some(bundle)).then_some(bundle)
}

/// Returns the address of the webhook server, without the path.
fn server(config: &Value) -> Option<String> {
    if let Some(service) = config.get("service") {
        let text = |name: &str| service[name].as_str();
        let port = service["port"].as_u64().unwrap_or(PORT);
        return Some(format!("{}/{}:{port}", text("namespace")?, text("name")?));
    }
    let url: Uri = config["url"].as_str()?.parse().ok()?;
    Some(format!("{}:{}", url.host()?, url.port_u16().map_or(PORT, u64::from)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn certificates_are_replaced_for_the_same_server() {
        let service = |name: &str| json!({"namespace": "a", "name": name, "path": "/x"});
        let own = json!({"service": {"namespace": "a", "name": "b", "port": 443, "path": "/y"}, "caBundle": "own"});
        let at_url = json!({"url": "https://b.example/y", "caBundle": "own"});
        for (own, installed, expected) in [
            (&own, json!({"service": service("b"), "caBundle": "old"}), true),
            (&own, json!({"service": service("b")}), true),
            (&own, json!({"service": service("b"), "caBundle": "own"}), false),
            (&own, json!({"service": service("c"), "caBundle": "old"}), false),
            (&own, json!({"url": "https://b.example/x"}), false),
            (&at_url, json!({"url": "https://b.example:443/x", "caBundle": "old"}), true),
            (&at_url, json!({"url": "https://b.example:8443/x", "caBundle": "old"}), false),
            (&at_url, json!({"url": "https://c.example/x"}), false),
            (&json!({"url": "https://b.example/y"}), json!({"url": "https://b.example/y", "caBundle": "old"}), false),
        ] {
            let expected = expected.then(|| json!("own"));
            assert_eq!(replacement(own, &installed), expected.as_ref(), "{installed}");
        }
    }
}
