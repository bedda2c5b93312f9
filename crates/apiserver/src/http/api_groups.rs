//! Serves `/api`, `/apis`, the discovery documents below them, `/version` and `/`.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderValue, Method};
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::request::accept::{self, Media};
use pintle_discovery::{DocumentScope, Listing};
use pintle_json::Json;
use pintle_kinds::{Kinds, Routing};
use pintle_serving::offload;

use super::call::RequestHead;
use super::encode::Reply;
use super::healthz;
use super::negotiate::{self, ResponseFormat};
use crate::registry::{Registry, Transform};

pub(super) async fn serve(registry: &Arc<Registry>, head: &RequestHead, parts: &[String]) -> Outcome<Reply> {
    let parts: Vec<_> = parts.iter().map(String::as_str).collect();
    let kinds = registry.kinds();
    match parts[..] {
        ["" | "index.html"] => {
            let (_, body) = all(registry, &kinds, Listing::Paths, &as_json(true)).await?;
            Ok(Reply::Raw { code: 200, headers: of_type(Media::Json.content_type()), body })
        }
        ["version"] => version(head),
        ["api"] => {
            only_get(head)?;
            match aggregated(registry, &kinds, head, true).await? {
                Some(reply) => Ok(reply),
                None => document(head, Routing::PerMethod, &pintle_discovery::api_versions(head.header("host"))),
            }
        }
        ["apis"] => match aggregated(registry, &kinds, head, false).await? {
            Some(reply) => Ok(reply),
            None => {
                let format = negotiate::document(head, Routing::CatchAll)?;
                let (_, body) = all(registry, &kinds, Listing::Groups, &format).await?;
                Ok(Reply::Raw { code: 200, headers: of_type(format.media.content_type()), body })
            }
        },
        ["apis", group] => {
            let found = pintle_discovery::group(&kinds, group).or_else(|| registry.delegated_group(group));
            let found = found.ok_or_else(Failure::page_not_found)?;
            document(head, Routing::CatchAll, &found)
        }
        ["api", version] => resources(&kinds, head, "", version),
        ["apis", group, version] => match registry.unavailable(group, version) {
            Some(unavailable) => Err(unavailable),
            None => resources(&kinds, head, group, version),
        },
        _ => Err(Failure::page_not_found()),
    }
}

fn resources(kinds: &Kinds, head: &RequestHead, group: &str, version: &str) -> Outcome<Reply> {
    let Some(found) = pintle_discovery::resource_list(kinds, group, version) else {
        return Err(match kinds.routing(group) {
            Some(Routing::PerMethod) => Failure::no_such_resource(),
            _ => Failure::page_not_found(),
        });
    };
    only_get(head)?;
    document(head, kinds.routing(group).unwrap_or(Routing::CatchAll), &found)
}

fn document(head: &RequestHead, routing: Routing, document: &Json) -> Outcome<Reply> {
    let format = negotiate::document(head, routing)?;
    let headers = of_type(format.media.content_type());
    Ok(Reply::Raw { code: 200, headers, body: super::encode::encode(&format, document) })
}

/// Returns a discovery document for all API groups, with its ETag. Only the JSON form of the document is cached. The
/// server encodes less common formats again for each request.
async fn all(
    registry: &Registry,
    kinds: &Arc<Kinds>,
    listing: Listing,
    format: &ResponseFormat,
) -> Outcome<(Arc<str>, Bytes)> {
    let found =
        registry.documents.find(kinds, DocumentScope::Listing(listing)).await?.ok_or_else(Failure::page_not_found)?;
    let is_cached = format.media == Media::Json && format.pretty == (listing == Listing::Paths);
    if is_cached {
        return Ok((found.tag, found.bytes));
    }
    offload::work_on(found.bytes.len()).await;
    Ok((found.tag, super::encode::encode(format, &listing.value(kinds))))
}

fn version(head: &RequestHead) -> Outcome<Reply> {
    only_get(head)?;
    let clauses = accept::clauses(head.header(ACCEPT));
    if !clauses.iter().any(|clause| clause.media() == Some(Media::Json)) {
        let message = "406: Not Acceptable\n\nAvailable representations: application/json";
        let failure = Failure::new(406, pintle_meta::Reason::NotAcceptable, message);
        return Err(failure.with(pintle_meta::StatusDetails::default()));
    }
    Ok(json(&healthz::version(), true))
}

fn json(value: &Json, pretty: bool) -> Reply {
    let body = super::encode::encode(&as_json(pretty), value);
    Reply::Raw { code: 200, headers: of_type(Media::Json.content_type()), body }
}

fn as_json(pretty: bool) -> ResponseFormat {
    ResponseFormat { media: Media::Json, pretty, transform: Transform::None }
}

fn of_type(content_type: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))])
}

async fn aggregated(registry: &Registry, kinds: &Arc<Kinds>, head: &RequestHead, core: bool) -> Outcome<Option<Reply>> {
    let clauses = accept::clauses(head.header(ACCEPT));
    let media = clauses.iter().find_map(|clause| {
        let requested = clause.transform();
        let wanted = requested.name == "APIGroupDiscoveryList"
            && requested.group == "apidiscovery.k8s.io"
            && requested.version == "v2";
        clause.media().filter(|_| wanted).map(|media| (media, clause.pretty()))
    });
    let Some((media, pretty)) = media else { return Ok(None) };
    let format = ResponseFormat { media, pretty: pretty || negotiate::is_pretty(head), transform: Transform::None };
    let (tag, body) = all(registry, kinds, Listing::Aggregated { core }, &format).await?;
    let tag = format!("\"{tag}\"");
    let mut headers = HeaderMap::new();
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    if head.header(IF_NONE_MATCH) == tag {
        return Ok(Some(Reply::Raw { code: 304, headers, body: Bytes::new() }));
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
    Ok(Some(Reply::Raw { code: 200, headers, body }))
}

pub(super) fn only_get(head: &RequestHead) -> Outcome<()> {
    if head.method == Method::GET { Ok(()) } else { Err(Failure::method_not_allowed()) }
}
