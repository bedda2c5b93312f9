//! `/api`, `/apis` and what hangs below them.

use std::sync::Arc;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};

use super::Call;
use super::encode::Reply;
use super::health;
use super::negotiate;
use crate::api::Api;
use crate::failure::{Failure, Outcome};

/// Serves a path that names no resource.
pub(super) fn serve(api: &Arc<Api>, call: &Call, parts: &[String]) -> Outcome<Reply> {
    let parts: Vec<_> = parts.iter().map(String::as_str).collect();
    let kinds = api.kinds();
    let document = match parts[..] {
        ["version"] => {
            only_get(call)?;
            let mut bytes = serde_json::to_vec_pretty(&health::version()).unwrap_or_default();
            bytes.push(b'\n');
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            return Ok(Reply::Raw { code: 200, headers, body: bytes.into() });
        }
        ["api"] => {
            only_get(call)?;
            let clients = json!([{"clientCIDR": "0.0.0.0/0", "serverAddress": call.header("host")}]);
            json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": clients})
        }
        ["apis"] => {
            let groups: Vec<_> =
                kinds.groups().into_iter().filter(|(group, _)| !group.is_empty()).map(group_json).collect();
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        }
        ["apis", group] => {
            let found = kinds.groups().into_iter().find(|(known, _)| *known == group);
            let mut document = group_json(found.ok_or_else(Failure::page_not_found)?);
            document["kind"] = "APIGroup".into();
            document["apiVersion"] = "v1".into();
            document
        }
        ["api", version] => resources(api, call, "", version)?,
        ["apis", group, version] => resources(api, call, group, version)?,
        _ => return Err(Failure::page_not_found()),
    };
    let format = negotiate::negotiate(call, negotiate::Offer::Transient, true)?;
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(format.media.content_type()));
    Ok(Reply::Raw { code: 200, headers, body: super::encode::encode(&format, &document) })
}

fn only_get(call: &Call) -> Outcome<()> {
    if call.method == Method::GET { Ok(()) } else { Err(Failure::method_not_allowed()) }
}

fn group_json((group, versions): (&str, Vec<&str>)) -> Value {
    let versions: Vec<_> = versions
        .iter()
        .map(|version| json!({"groupVersion": format!("{group}/{version}"), "version": version}))
        .collect();
    json!({"name": group, "preferredVersion": versions.first(), "versions": versions})
}

fn resources(api: &Api, call: &Call, group: &str, version: &str) -> Outcome<Value> {
    only_get(call)?;
    let kinds = api.kinds();
    let known = kinds.version(group, version);
    if known.is_empty() {
        return Err(if group.is_empty() { Failure::no_such_resource() } else { Failure::page_not_found() });
    }
    let mut resources = Vec::new();
    for kind in known {
        resources.push(json!({
            "name": kind.plural,
            "singularName": kind.singular,
            "namespaced": kind.namespaced(),
            "kind": kind.kind,
            "verbs": kind.verbs,
            "shortNames": kind.short_names,
            "categories": kind.categories,
        }));
        for subresource in &kind.subresources {
            let name = subresource.kind.as_ref().map_or(&kind.kind, |gvk| &gvk.kind);
            resources.push(json!({
                "name": format!("{}/{}", kind.plural, subresource.name),
                "singularName": "",
                "namespaced": kind.namespaced(),
                "kind": name,
                "verbs": subresource.verbs,
            }));
        }
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Ok(json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": resources}))
}
