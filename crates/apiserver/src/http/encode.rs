//! Response encoding.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER, VARY};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use pintle_apimachinery::failure::Failure;
use pintle_apimachinery::object::Ordered;
use pintle_apimachinery::request::accept::Media;
use pintle_json::{Json, json};
use pintle_kinds::Kind;
use pintle_meta::Status;
use pintle_schema::protobuf::Enveloped;
use pintle_serving::body::{ResponseBody, full};
use pintle_serving::gzip::{GZIP_THRESHOLD, accepts_gzip, gzip};
use pintle_serving::offload;

use super::body;
use super::call::RequestHead;
use super::list_body::ListBody;
use super::negotiate::{self, ResponseFormat};
use crate::faults::Answer;
use crate::registry::{ListReply, Registry, Served, Transform};
use crate::watch::Watcher;

pub(crate) enum Reply {
    /// One object. The object's `kind` determines the columns of a table.
    Object {
        code: u16,
        kind: Arc<Kind>,
        object: Served,
        format: ResponseFormat,
    },
    List {
        kind: Arc<Kind>,
        list: ListReply,
        format: ResponseFormat,
    },
    Status {
        status: Box<Status>,
        format: ResponseFormat,
    },
    Watch {
        watcher: Box<Watcher>,
    },
    Raw {
        code: u16,
        headers: HeaderMap,
        body: Bytes,
    },
    /// The response of a scripted fault, which replaces the real response.
    Fault(Answer),
}

impl Reply {
    pub(crate) fn text(code: u16, text: impl Into<Bytes>) -> Self {
        Self::Raw { code, headers: text_headers(), body: text.into() }
    }
}

pub(super) fn text_headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    headers
}

fn text_response(code: u16, text: Bytes) -> Response<ResponseBody> {
    raw(code, text_headers(), text)
}

fn raw(code: u16, headers: HeaderMap, body: Bytes) -> Response<ResponseBody> {
    let mut response = Response::new(full(body));
    *response.status_mut() = status_code(code);
    *response.headers_mut() = headers;
    response
}

pub(super) async fn reply(registry: &Registry, head: &RequestHead, reply: Reply) -> Response<ResponseBody> {
    let now = registry.clock.now();
    match reply {
        Reply::Object { code, kind, object, format } => {
            if let Err(failure) = format.transform.check(head.query.text("includeObject")) {
                return self::failure(head, &failure).await;
            }
            let is_plain = format.media == Media::Json && !format.pretty && format.transform.is_none();
            if !is_plain {
                offload::work_on(object.weight()).await;
            }
            if format.media == Media::Protobuf {
                return match format.transform.enveloped(&object) {
                    Ok(enveloped) => respond(head, code, Media::Protobuf, enveloped.body().into()).await,
                    Err(failure) => self::failure(head, &failure).await,
                };
            }
            let mut json = Vec::new();
            format.transform.write_one(&object, &kind, true, now, &mut json);
            if format.media == Media::Json && !format.pretty {
                json.push(b'\n');
                return respond(head, code, Media::Json, json.into()).await;
            }
            value(head, code, &format, &serde_json::from_slice(&json).unwrap_or_default()).await
        }
        Reply::List { kind, list, format } => {
            if let Err(failure) = format.transform.check(head.query.text("includeObject")) {
                return self::failure(head, &failure).await;
            }
            let ResponseFormat { media, pretty, transform } = format;
            let list = match media {
                Media::Json => ListBody::json(kind, list, transform, now, pretty),
                Media::Yaml => ListBody::yaml(kind, list, transform, now),
                Media::Protobuf => match ListBody::protobuf(kind, list, transform).await {
                    Ok(list) => list,
                    Err(failure) => return self::failure(head, &failure).await,
                },
            };
            send(registry, head, list, media).await
        }
        Reply::Status { status, format } => {
            if let Err(failure) = format.transform.check(head.query.text("includeObject")) {
                return self::failure(head, &failure).await;
            }
            let code = if status.code == 0 { 200 } else { status.code };
            value(head, code, &format, &pintle_json::to_json(&*status).unwrap_or_default()).await
        }
        Reply::Watch { watcher } => {
            let media = watcher.media();
            let mut response = Response::new(body::frames(*watcher));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media.stream_type()));
            response
        }
        Reply::Raw { code, headers, body } => raw(code, headers, body),
        Reply::Fault(answer) => {
            let mut response = match &answer.body {
                Some(text) => text_response(answer.code, text.clone().into()),
                None => failure(head, &Reply::of_fault(&answer)).await,
            };
            if let Some(seconds) = answer.retry_after {
                response.headers_mut().insert(RETRY_AFTER, seconds.into());
            }
            response
        }
    }
}

pub(super) const TIMED_OUT: u16 = 504;

/// Returns the response to a request that timed out. The body is always JSON, because kube-apiserver sends this
/// response from a filter, before content negotiation.
pub(super) fn timed_out() -> Response<ResponseBody> {
    let status = json!({
        "metadata": {},
        "status": "Failure",
        "message": "Timeout: request did not complete within the allotted timeout",
        "reason": "Timeout",
        "details": {},
        "code": TIMED_OUT,
    });
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    raw(TIMED_OUT, headers, format!("{status}\n").into())
}

/// Encodes a failure in the negotiated format, or as JSON if no format is acceptable.
pub(super) async fn failure(head: &RequestHead, failure: &Failure) -> Response<ResponseBody> {
    if let Some(text) = &failure.text {
        return text_response(failure.code(), text.to_string().into());
    }
    let (media, pretty) = negotiate::for_errors(head);
    let pretty = pretty || failure.code() == 406;
    let format = ResponseFormat { media, pretty, transform: Transform::None };
    let mut response = value(head, failure.code(), &format, &failure.value()).await;
    if let Some(seconds) = failure.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    if failure.code() == 403 || failure.early {
        response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    }
    response
}

pub(super) fn encode(format: &ResponseFormat, value: &Json) -> Bytes {
    match format.media {
        Media::Yaml => pintle_schema::write_yaml(value).into(),
        Media::Json if format.pretty => pintle_json::to_vec_pretty(&Ordered(value)).unwrap_or_default().into(),
        Media::Json => {
            let mut json = pintle_json::to_vec(&Ordered(value)).unwrap_or_default();
            json.push(b'\n');
            json.into()
        }
        Media::Protobuf => match Enveloped::document(value) {
            Ok(enveloped) => enveloped.body().into(),
            Err(error) => {
                tracing::error!(%error, "cannot encode a document as protobuf");
                Bytes::new()
            }
        },
    }
}

async fn value(head: &RequestHead, code: u16, format: &ResponseFormat, value: &Json) -> Response<ResponseBody> {
    respond(head, code, format.media, encode(format, value)).await
}

/// The response body encodes a long list while it is being sent.
async fn send(registry: &Registry, head: &RequestHead, mut list: ListBody, media: Media) -> Response<ResponseBody> {
    let first = list.next().await;
    if list.is_over() {
        return respond(head, 200, media, first).await;
    }
    let gzipped = accepts_gzip(head.header(ACCEPT_ENCODING));
    answer(200, media, gzipped, list.stream(&registry.offload_permits, first, gzipped))
}

async fn respond(head: &RequestHead, code: u16, media: Media, bytes: Bytes) -> Response<ResponseBody> {
    if bytes.len() <= GZIP_THRESHOLD || !accepts_gzip(head.header(ACCEPT_ENCODING)) {
        return answer(code, media, false, full(bytes));
    }
    offload::work_on(bytes.len()).await;
    let gzipped = gzip(&bytes);
    answer(code, media, gzipped.is_some(), full(gzipped.unwrap_or(bytes)))
}

fn answer(code: u16, media: Media, gzipped: bool, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status_code(code);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media.content_type()));
    if gzipped {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    response
}

fn status_code(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
