//! `/openapi/v2` and `/openapi/v3`.

use bytes::Bytes;
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, EXPIRES, IF_NONE_MATCH, LOCATION, VARY,
};
use http::{HeaderMap, HeaderValue};
use pintle_meta::GroupVersion;

use super::Call;
use super::encode::Reply;
use super::gzip;
use crate::apart;
use crate::discovery::{Document, DocumentScope, openapi};
use crate::failure::{Failure, Outcome};
use crate::registry::Registry;
use crate::request::accept;

const PROTO_V2: [&str; 2] =
    ["com.github.proto-openapi.spec.v2@v1.0+protobuf", "com.github.proto-openapi.spec.v2.v1.0+protobuf"];
const PROTO_V3: [&str; 2] =
    ["com.github.proto-openapi.spec.v3@v1.0+protobuf", "com.github.proto-openapi.spec.v3.v1.0+protobuf"];

pub(super) async fn serve(registry: &Registry, call: &Call, rest: &[String]) -> Outcome<Reply> {
    let rest: Vec<_> = rest.iter().map(String::as_str).collect();
    let scope = match rest[..] {
        ["v2"] => DocumentScope::All,
        ["v3"] if !call.path.ends_with('/') => DocumentScope::Index,
        ["v3", "api", version] => DocumentScope::Version(GroupVersion::new("", version)),
        ["v3", "apis", group, version] => DocumentScope::Version(GroupVersion::new(group, version)),
        ["v3", ..] => return Ok(nothing(404)),
        _ => return Err(Failure::page_not_found()),
    };
    let kinds = registry.kinds();
    let Some(document) = registry.documents.find(&kinds, scope.clone()).await? else { return Ok(nothing(404)) };
    Ok(match scope {
        DocumentScope::All => {
            apart::work_on(document.text.len()).await;
            v2(call, document)
        }
        DocumentScope::Index | DocumentScope::Listing(_) => index(document),
        DocumentScope::Version(of) => {
            let custom = !kinds.is_built_in(&of.group, &of.version);
            v3(call, document, custom)
        }
    })
}

fn index(document: Document) -> Reply {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    whole(headers, document.text)
}

fn v3(call: &Call, document: Document, custom: bool) -> Reply {
    let Document { tag: hash, text: mut body } = document;
    let proto = accepts(call, &PROTO_V3) && !accepts_first(call, "json");
    if !proto && !accepts(call, &["json"]) {
        return nothing(406);
    }
    let asked = call.query.text("hash");
    let mut headers = HeaderMap::new();
    insert(&mut headers, ETAG, &format!("\"{hash}\""));
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if proto {
        const MEDIA: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA));
        body = empty_proto("3.0.0", openapi::title(custom), (6, openapi::version(custom)));
    }
    if !asked.is_empty() && asked != &*hash {
        insert(&mut headers, LOCATION, &format!("{}?hash={hash}", call.path));
        return Reply::Raw { code: 301, headers, body: Bytes::new() };
    }
    if asked == &*hash {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
        headers.insert(EXPIRES, HeaderValue::from_static("Thu, 31 Dec 2099 23:59:59 GMT"));
    }
    if matches_tag(call, &hash) {
        headers.remove(CONTENT_TYPE);
        return Reply::Raw { code: 304, headers, body: Bytes::new() };
    }
    whole(headers, body)
}

fn v2(call: &Call, document: Document) -> Reply {
    let Document { tag: hash, text: document } = document;
    let proto = accepts(call, &PROTO_V2) && !accepts_first(call, "json");
    if !proto && !accepts(call, &["json"]) {
        return nothing(406);
    }
    let mut headers = HeaderMap::new();
    insert(&mut headers, ETAG, &format!("\"{hash}\""));
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    if matches_tag(call, &hash) {
        return Reply::Raw { code: 304, headers, body: Bytes::new() };
    }
    let (media, body) = match proto {
        true => {
            let body = empty_proto("2.0", openapi::title(false), (2, openapi::version(false)));
            ("application/com.github.proto-openapi.spec.v2.v1.0+protobuf", body)
        }
        false => ("application/json", document),
    };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    match gzip::takes_gzip(call).then(|| gzip::gzip(&body)).flatten() {
        None => whole(headers, body),
        Some(zipped) => {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            Reply::Raw { code: 200, headers, body: zipped }
        }
    }
}

/// A document that, unlike other long answers, says how long it is.
fn whole(mut headers: HeaderMap, body: Bytes) -> Reply {
    headers.insert(CONTENT_LENGTH, body.len().into());
    Reply::Raw { code: 200, headers, body }
}

/// A document that describes nothing but itself: the number of a document's version in its `info` is not that of all releases of
/// OpenAPI. A client that finds its kind in none leaves validation to the server.
fn empty_proto(openapi: &str, title: &str, (number, version): (u8, &str)) -> Bytes {
    let field = |number: u8, bytes: &[u8]| {
        let length = u8::try_from(bytes.len()).unwrap_or(u8::MAX);
        [&[number << 3 | 2, length], bytes].concat()
    };
    let info = [field(1, title.as_bytes()), field(number, version.as_bytes())].concat();
    [field(1, openapi.as_bytes()), field(2, &info)].concat().into()
}

fn accepts(call: &Call, subtypes: &[&str]) -> bool {
    let clauses = accept::clauses(call.header(ACCEPT));
    clauses.iter().any(|clause| {
        (clause.kind == "*" || clause.kind == "application")
            && (clause.subtype == "*" || subtypes.contains(&clause.subtype.as_str()))
    })
}

fn accepts_first(call: &Call, subtype: &str) -> bool {
    let clauses = accept::clauses(call.header(ACCEPT));
    clauses.first().is_some_and(|clause| clause.subtype == subtype || clause.subtype == "*")
}

/// `If-None-Match` as RFC 9110 has it: a list, weak tags, or a star.
fn matches_tag(call: &Call, hash: &str) -> bool {
    let header = call.header(IF_NONE_MATCH);
    header
        .split(',')
        .map(|tag| tag.trim().trim_start_matches("W/").trim_matches('"'))
        .any(|tag| tag == hash || tag == "*")
}

fn nothing(code: u16) -> Reply {
    Reply::Raw { code, headers: HeaderMap::new(), body: Bytes::new() }
}

fn insert(headers: &mut HeaderMap, name: http::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
