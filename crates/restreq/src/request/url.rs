//! The URLs of requests, both for sending and for errors and logs.

use std::borrow::Cow;
use std::sync::Arc;

use percent_encoding::{CONTROLS, utf8_percent_encode};
use pintle_meta::RequestLine;
use serde::Serialize;
use serde_json::Value;

use super::Request;
use crate::path;

/// The Kubernetes query parameters whose values may appear in errors and logs.
const PUBLIC_PARAMS: [&str; 32] = [
    "allowWatchBookmarks",
    "container",
    "continue",
    "dryRun",
    "fieldManager",
    "fieldSelector",
    "fieldValidation",
    "follow",
    "force",
    "labelSelector",
    "limit",
    "limitBytes",
    "ports",
    "pretty",
    "previous",
    "propagationPolicy",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "sinceSeconds",
    "sinceTime",
    "stderr",
    "stdin",
    "stdout",
    "stream",
    "tailLines",
    "timeout",
    "timeoutSeconds",
    "timestamps",
    "tty",
    "watch",
];

impl Request {
    /// Returns the complete URL of the request.
    ///
    /// The format is `prefix[/namespaces/NAMESPACE][/resource][/name/subresource/suffix][?params]`. An empty namespace
    /// is omitted. The resource is converted to lower case, and the parameters are sorted by key.
    /// [`timeout`](Request::timeout) adds the parameter `timeout`.
    pub fn url(&self) -> String {
        let origin = &self.parts.shared.base.origin;
        let target = self.with_query(path::encode_path(self.path()));
        [origin.scheme(), "://", &origin.authority, &target].concat()
    }

    /// Returns the URL without the scheme and the host. The path is taken from `line`, which must be the request line
    /// of this request.
    pub(crate) fn target(&self, line: &RequestLine) -> String {
        let origin = &self.parts.shared.base.origin;
        let beneath = &line.url[origin.scheme().len() + "://".len() + origin.authority.len()..];
        self.with_query(beneath.split('?').next().unwrap_or_default().into())
    }

    fn with_query(&self, mut text: String) -> String {
        let timeout = self.parts.timeout.map(path::duration_text);
        let query = path::encode_query(self.pairs(timeout.as_deref()));
        if !query.is_empty() {
            text.push('?');
            text.push_str(&query);
        }
        text
    }

    pub(crate) fn line(&self) -> Arc<RequestLine> {
        let origin = &self.parts.shared.base.origin;
        let timeout = self.parts.timeout.map(path::duration_text);
        let mut target = path::encode_path(self.path());
        let mut separator = '?';
        for (key, value) in self.pairs(timeout.as_deref()) {
            target.push(std::mem::replace(&mut separator, '&'));
            // Escape control characters, which could start a new log line, and characters outside of ASCII. Other ASCII
            // characters are not escaped, so that they stay readable.
            target.extend(utf8_percent_encode(key, CONTROLS));
            target.push('=');
            let value = if PUBLIC_PARAMS.contains(&key) { value } else { "[redacted]" };
            target.extend(utf8_percent_encode(value, CONTROLS));
        }
        let url = [origin.scheme(), "://", &origin.authority, &target].concat();
        Arc::new(RequestLine { method: self.parts.method.as_str().into(), url: url.into() })
    }

    /// Returns the URL template of the request in the format of client-go. Object names, namespaces, parameter values,
    /// and paths outside of the Kubernetes API are replaced by placeholders. A program therefore uses only a small
    /// number of distinct templates.
    pub(crate) fn template(&self) -> String {
        #[cfg(test)]
        RENDERED.set(RENDERED.get() + 1);
        let (path, base) = (self.path(), &*self.parts.shared.base.path);
        let beneath = path.strip_prefix(base).unwrap_or(&path);
        let mut parts: Vec<&str> = beneath.split('/').filter(|part| !part.is_empty()).collect();
        // The index of the path segment with the resource, which follows the group and version.
        let resource = match parts[..] {
            [] | [_] => None,
            ["api", ..] => Some(2),
            ["apis", ..] => Some(3),
            _ => return "/{prefix}".into(),
        };
        let is_subresource = |part: &str| matches!(part, "status" | "finalize");
        match resource.and_then(|at| parts.get_mut(at..)).unwrap_or_default() {
            [_, name] => *name = "{name}",
            [_, name, part] if is_subresource(part) => *name = "{name}",
            [_, namespace, _] => *namespace = "{namespace}",
            [_, namespace, _, name, ..] => {
                *namespace = "{namespace}";
                if !is_subresource(name) {
                    *name = "{name}";
                }
            }
            _ => {}
        }
        let timeout = self.parts.timeout.map(|_| "");
        let mut keys: Vec<&str> = self.pairs(timeout).map(|(key, _)| key).collect();
        keys.dedup();
        let query: Vec<String> = keys.iter().map(|key| format!("{key}={{value}}")).collect();
        let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
        format!("{base}/{}{query}", parts.join("/"))
    }

    /// Returns the subresource in the path, such as `eviction`, even if the path was set as a whole.
    pub(crate) fn subresource_of_path(&self) -> Option<String> {
        let path = self.path();
        let beneath = path.strip_prefix(&*self.parts.shared.base.path)?;
        let parts: Vec<&str> = beneath.split('/').filter(|part| !part.is_empty()).collect();
        let resource = match *parts.first()? {
            "api" => 2,
            "apis" => 3,
            _ => return None,
        };
        let object = match parts.get(resource..)? {
            ["namespaces", _, object @ ..] => object,
            object => object,
        };
        object.get(2).map(|subresource| (*subresource).to_owned())
    }

    pub(crate) fn path(&self) -> String {
        let resource = self.parts.resource.as_deref().unwrap_or_default();
        let is_lower = resource.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
        let resource = if is_lower { Cow::Borrowed(resource) } else { Cow::Owned(resource.to_lowercase()) };
        let namespace = self.parts.namespace.as_deref().unwrap_or_default();
        let parts = [
            if namespace.is_empty() { "" } else { "namespaces" },
            namespace,
            &resource,
            self.parts.name.as_deref().unwrap_or_default(),
            self.parts.subresource.as_deref().unwrap_or_default(),
            &self.parts.subpath,
        ];
        if parts.iter().all(|part| part.is_empty()) {
            // Without other segments, keep the trailing slash of the prefix.
            return if self.parts.prefix.starts_with('/') {
                self.parts.prefix.to_string()
            } else {
                format!("/{}", self.parts.prefix)
            };
        }
        path::join(["/", &*self.parts.prefix].into_iter().chain(parts))
    }

    fn pairs<'a>(&'a self, timeout: Option<&'a str>) -> impl Iterator<Item = (&'a str, &'a str)> {
        const TIMEOUT: &str = "timeout";
        let given = self.parts.params.iter().filter(move |(key, _)| timeout.is_none() || *key != TIMEOUT);
        let given = given.flat_map(|(key, values)| values.iter().map(move |value| (key.as_str(), value.as_str())));
        let mut pairs: Vec<_> = given.chain(timeout.map(|text| (TIMEOUT, text))).collect();
        pairs.sort_by_key(|(key, _)| *key);
        pairs.into_iter()
    }
}

#[cfg(test)]
thread_local! {
    static RENDERED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
pub(crate) fn templates_rendered() -> usize {
    RENDERED.get()
}

pub(super) fn option_pairs(options: &impl Serialize) -> Result<Vec<(String, String)>, String> {
    let value = serde_json::to_value(options).map_err(|error| error.to_string())?;
    let Value::Object(members) = value else { return Err("it is not an object".into()) };
    let mut pairs = Vec::new();
    for (key, value) in members {
        let values = match value {
            Value::Array(values) => values,
            value => vec![value],
        };
        for value in values {
            match value {
                Value::Null => {}
                Value::String(text) => pairs.push((key.clone(), text)),
                Value::Bool(_) | Value::Number(_) => pairs.push((key.clone(), value.to_string())),
                Value::Array(_) | Value::Object(_) => {
                    return Err(format!("member {key:?} is not a string, number, boolean or list of these"));
                }
            }
        }
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use pintle_meta::ClientConfig;

    use crate::RestClient;

    #[test]
    fn error_shows_its_request_on_one_line() {
        let client = RestClient::new(ClientConfig::new("http://host")).unwrap();
        let request =
            client.get().abs_path(["/a\nb"]).param("labelSelector", "app in (a, b)\nWARN forged\u{2028}\u{85}");
        let line = request.param("k\r", "hush").line();
        assert!(!line.to_string().contains(|c: char| c.is_control() || !c.is_ascii()), "{line}");
        assert!(line.url.contains("labelSelector=app in (a, b)%0AWARN forged%E2%80%A8%C2%85"), "{line}");
        assert!(line.url.contains("k%0D=[redacted]") && line.url.contains("/a%0Ab"), "{line}");
    }

    #[test]
    fn template_replaces_names_namespaces_and_values() {
        let template = |server: &str, uri: &str| {
            let client = RestClient::new(ClientConfig::new(server)).unwrap();
            let request = client.get().request_uri(uri);
            let url = request.url();
            let template = request.template();
            assert_eq!(request.url(), url);
            template
        };
        for (uri, expected) in [
            ("/", "/"),
            ("/version", "/version"),
            ("/version?timeout=1s", "/version?timeout={value}"),
            ("/healthz/ping", "/{prefix}"),
            ("/pre1/namespaces/ns/r1/n1?a=b", "/{prefix}"),
            ("/api/v1", "/api/v1"),
            ("/api/v1/nodes", "/api/v1/nodes"),
            ("/api/v1/nodes/n1", "/api/v1/nodes/{name}"),
            ("/api/v1/nodes/n1/status", "/api/v1/nodes/{name}/status"),
            ("/api/v1/namespaces/ns", "/api/v1/namespaces/{name}"),
            ("/api/v1/namespaces/ns/finalize", "/api/v1/namespaces/{name}/finalize"),
            ("/api/v1/namespaces/ns/pods", "/api/v1/namespaces/{namespace}/pods"),
            ("/api/v1/namespaces/ns/pods/p", "/api/v1/namespaces/{namespace}/pods/{name}"),
            (
                "/api/v1/namespaces/ns/pods/p/log?a=1&b=2&b=3",
                "/api/v1/namespaces/{namespace}/pods/{name}/log?a={value}&b={value}",
            ),
            ("/api/v1/namespaces/ns/pods/status", "/api/v1/namespaces/{namespace}/pods/status"),
            ("/api/v1/namespaces/namespaces/namespaces/namespaces", "/api/v1/namespaces/{namespace}/namespaces/{name}"),
            ("/apis/apps", "/apis/apps"),
            ("/apis/apps/v1", "/apis/apps/v1"),
            ("/apis/apps/v1/deployments", "/apis/apps/v1/deployments"),
            ("/apis/g/v1/namespaces/ns/r/n", "/apis/g/v1/namespaces/{namespace}/r/{name}"),
            ("/apis/g/v1/r/n?watch=true", "/apis/g/v1/r/{name}?watch={value}"),
        ] {
            assert_eq!(template("http://host", uri), expected, "{uri}");
            let beneath = if expected == "/{prefix}" { expected.into() } else { format!("/base{expected}") };
            assert_eq!(template("http://host/base", uri), beneath, "{uri}");
        }
    }
}
