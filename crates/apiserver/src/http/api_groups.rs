//! `/api`, `/apis`, what hangs below them, `/version` and `/`.

use std::sync::Arc;

use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderValue, Method};
use pintle_json::Json;

use super::encode::Reply;
use super::negotiate::{self, ResponseFormat};
use super::{Call, healthz};
use crate::discovery;
use crate::failure::{Failure, Outcome};
use crate::kinds::{Kinds, Routing};
use crate::registry::{Registry, Transform};
use crate::request::accept::{self, Media};

/// Serves a path that names no resource.
pub(super) fn serve(registry: &Arc<Registry>, call: &Call, parts: &[String]) -> Outcome<Reply> {
    let parts: Vec<_> = parts.iter().map(String::as_str).collect();
    let kinds = registry.kinds();
    match parts[..] {
        ["" | "index.html"] => Ok(json(&discovery::paths(&kinds), true)),
        ["version"] => version(call),
        ["api"] => {
            only_get(call)?;
            match aggregated(&kinds, call, true) {
                Some(reply) => Ok(reply),
                None => document(call, Routing::PerMethod, &discovery::api_versions(call.header("host"))),
            }
        }
        ["apis"] => match aggregated(&kinds, call, false) {
            Some(reply) => Ok(reply),
            None => document(call, Routing::CatchAll, &discovery::group_list(&kinds)),
        },
        ["apis", group] => {
            let found = discovery::group(&kinds, group).or_else(|| registry.group_elsewhere(group));
            let found = found.ok_or_else(Failure::page_not_found)?;
            document(call, Routing::CatchAll, &found)
        }
        ["api", version] => resources(&kinds, call, "", version),
        ["apis", group, version] => match registry.unavailable(group, version) {
            Some(unavailable) => Err(unavailable),
            None => resources(&kinds, call, group, version),
        },
        _ => Err(Failure::page_not_found()),
    }
}

fn resources(kinds: &Kinds, call: &Call, group: &str, version: &str) -> Outcome<Reply> {
    let Some(found) = discovery::resource_list(kinds, group, version) else {
        return Err(match kinds.routing(group) {
            Some(Routing::PerMethod) => Failure::no_such_resource(),
            _ => Failure::page_not_found(),
        });
    };
    only_get(call)?;
    document(call, kinds.routing(group).unwrap_or(Routing::CatchAll), &found)
}

fn document(call: &Call, routing: Routing, document: &Json) -> Outcome<Reply> {
    let format = negotiate::document(call, routing)?;
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(format.media.content_type()));
    Ok(Reply::Raw { code: 200, headers, body: super::encode::encode(&format, document) })
}

fn version(call: &Call) -> Outcome<Reply> {
    only_get(call)?;
    let clauses = accept::clauses(call.header(ACCEPT));
    if !clauses.iter().any(|clause| clause.media() == Some(Media::Json)) {
        let message = "406: Not Acceptable\n\nAvailable representations: application/json";
        let failure = Failure::new(406, pintle_meta::Reason::NotAcceptable, message);
        return Err(failure.with(pintle_meta::StatusDetails::default()));
    }
    Ok(json(&healthz::version(), true))
}

fn json(value: &Json, pretty: bool) -> Reply {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let format = ResponseFormat { media: Media::Json, pretty, transform: Transform::None };
    Reply::Raw { code: 200, headers, body: super::encode::encode(&format, value) }
}

/// Everything in one document, if the client takes it: a clause that asks for it wins wherever it stands.
fn aggregated(kinds: &Kinds, call: &Call, core: bool) -> Option<Reply> {
    let clauses = accept::clauses(call.header(ACCEPT));
    let media = clauses.iter().find_map(|clause| {
        let asked = clause.transform();
        let wanted =
            asked.name == "APIGroupDiscoveryList" && asked.group == "apidiscovery.k8s.io" && asked.version == "v2";
        clause.media().filter(|_| wanted).map(|media| (media, clause.pretty()))
    });
    let (media, pretty) = media?;
    let value = discovery::aggregated(kinds, core);
    let tag = format!("\"{}\"", discovery::etag(value.to_string().as_bytes()));
    let mut headers = HeaderMap::new();
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    if call.header(IF_NONE_MATCH) == tag {
        return Some(Reply::Raw { code: 304, headers, body: Vec::new().into() });
    }
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static(match media {
            Media::Json => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            Media::Yaml => "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            Media::Protobuf => {
                "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            }
        }),
    );
    let pretty = pretty || negotiate::is_pretty(call);
    let format = ResponseFormat { media, pretty, transform: Transform::None };
    Some(Reply::Raw { code: 200, headers, body: super::encode::encode(&format, &value) })
}

fn only_get(call: &Call) -> Outcome<()> {
    if call.method == Method::GET { Ok(()) } else { Err(Failure::method_not_allowed()) }
}
