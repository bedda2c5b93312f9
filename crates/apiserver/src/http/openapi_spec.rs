//! Serves `/openapi/v2` and `/openapi/v3`.

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, EXPIRES,
    IF_NONE_MATCH, LOCATION, VARY,
};
use http::{HeaderMap, HeaderValue};
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::request::accept;
use pintle_discovery::{Document, DocumentForm, DocumentScope};
use pintle_meta::GroupVersion;
use pintle_serving::{gzip, offload};

use super::call::RequestHead;
use super::encode::Reply;
use crate::registry::Registry;

const JSON_DOCUMENT: &str = "application/json";
/// The media types with which clients request protobuf. The second one is also the media type of protobuf responses.
const PROTO_V2: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
];
const PROTO_V3: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
];

pub(super) async fn serve(registry: &Registry, head: &RequestHead, rest: &[String]) -> Outcome<Reply> {
    let rest: Vec<_> = rest.iter().map(String::as_str).collect();
    let proto = if rest == ["v2"] { PROTO_V2 } else { PROTO_V3 };
    let requested = requested_form(head, &proto);
    // A request for a missing document gets status 404, even if no format is acceptable.
    let form = requested.unwrap_or(DocumentForm::Json);
    let scope = match rest[..] {
        ["v2"] => DocumentScope::All(form),
        ["v3"] if !head.path.ends_with('/') => DocumentScope::Index,
        ["v3", "api", version] => DocumentScope::Version(GroupVersion::new("", version), form),
        ["v3", "apis", group, version] => DocumentScope::Version(GroupVersion::new(group, version), form),
        ["v3", ..] => return Ok(empty_reply(404)),
        _ => return Err(Failure::page_not_found()),
    };
    let Some(document) = registry.documents.find(&registry.kinds(), scope.clone()).await? else {
        return Ok(empty_reply(404));
    };
    let media = match form {
        DocumentForm::Json => JSON_DOCUMENT,
        DocumentForm::Protobuf => proto[1],
    };
    Ok(match scope {
        DocumentScope::Index | DocumentScope::Listing(_) => index_reply(document),
        _ if requested.is_none() => empty_reply(406),
        DocumentScope::All(_) => {
            offload::work_on(document.bytes.len()).await;
            v2_reply(head, document, media)
        }
        DocumentScope::Version(..) => v3_reply(head, document, media),
    })
}

fn index_reply(document: Document) -> Reply {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    reply_with_length(headers, document.bytes)
}

fn v3_reply(head: &RequestHead, document: Document, media: &'static str) -> Reply {
    let Document { tag: hash, bytes: body } = document;
    let requested = head.query.text("hash");
    let mut headers = HeaderMap::new();
    insert_header(&mut headers, ETAG, &format!("\"{hash}\""));
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    if !requested.is_empty() && requested != &*hash {
        insert_header(&mut headers, LOCATION, &format!("{}?hash={hash}", head.path));
        return Reply::Raw { code: 301, headers, body: Bytes::new() };
    }
    if requested == &*hash {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
        headers.insert(EXPIRES, HeaderValue::from_static("Thu, 31 Dec 2099 23:59:59 GMT"));
    }
    if matches_tag(head, &hash) {
        headers.remove(CONTENT_TYPE);
        return Reply::Raw { code: 304, headers, body: Bytes::new() };
    }
    reply_with_length(headers, body)
}

fn v2_reply(head: &RequestHead, document: Document, media: &'static str) -> Reply {
    let Document { tag: hash, bytes: body } = document;
    let mut headers = HeaderMap::new();
    insert_header(&mut headers, ETAG, &format!("\"{hash}\""));
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    if matches_tag(head, &hash) {
        return Reply::Raw { code: 304, headers, body: Bytes::new() };
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    match gzip::accepts_gzip(head.header(ACCEPT_ENCODING)).then(|| gzip::gzip(&body)).flatten() {
        None => reply_with_length(headers, body),
        Some(gzipped) => {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            Reply::Raw { code: 200, headers, body: gzipped }
        }
    }
}

/// Returns a document with a `Content-Length` header. Long responses of other endpoints have no `Content-Length`
/// header.
fn reply_with_length(mut headers: HeaderMap, body: Bytes) -> Reply {
    headers.insert(CONTENT_LENGTH, body.len().into());
    Reply::Raw { code: 200, headers, body }
}

/// Returns the encoding for the first supported media type in the `Accept` header. Returns `None` if no media type in
/// the header is supported.
fn requested_form(head: &RequestHead, proto: &[&str]) -> Option<DocumentForm> {
    let clauses = accept::clauses(head.header(ACCEPT));
    clauses.iter().filter(|clause| matches!(&*clause.kind, "*" | "application")).find_map(|clause| {
        let is_requested = |media: &&str| media.strip_prefix("application/") == Some(&clause.subtype);
        match () {
            () if clause.subtype == "*" || is_requested(&JSON_DOCUMENT) => Some(DocumentForm::Json),
            () if proto.iter().any(is_requested) => Some(DocumentForm::Protobuf),
            () => None,
        }
    })
}

/// Returns `true` if `If-None-Match` matches. As in RFC 9110, the header is a list of tags, which can be weak, or `*`.
fn matches_tag(head: &RequestHead, hash: &str) -> bool {
    let header = head.header(IF_NONE_MATCH);
    header
        .split(',')
        .map(|tag| tag.trim().trim_start_matches("W/").trim_matches('"'))
        .any(|tag| tag == hash || tag == "*")
}

fn empty_reply(code: u16) -> Reply {
    Reply::Raw { code, headers: HeaderMap::new(), body: Bytes::new() }
}

fn insert_header(headers: &mut HeaderMap, name: http::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
