//! Answers as bytes.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER, VARY};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use pintle_json::{Json, json};
use pintle_meta::Status;
use pintle_schema::protobuf::Enveloped;

use super::Call;
use super::body::{self, ResponseBody};
use super::gzip::{ZIPPED_FROM, gzip, takes_gzip};
use super::list_body::ListBody;
use super::negotiate::{self, ResponseFormat};
use crate::failure::Failure;
use crate::faults::Answer;
use crate::kinds::Kind;
use crate::object::Ordered;
use crate::offload;
use crate::registry::{ListReply, Registry, Served, Transform};
use crate::request::accept::Media;
use crate::watch::Watcher;

/// What a request is answered with.
pub(crate) enum Reply {
    /// One object. `kind` is what makes a table of it.
    Object { code: u16, kind: Arc<Kind>, object: Served, format: ResponseFormat },
    /// Several.
    List { kind: Arc<Kind>, list: ListReply, format: ResponseFormat },
    /// That it was done.
    Status { status: Box<Status>, format: ResponseFormat },
    /// A stream of events.
    Watch { watcher: Box<Watcher> },
    /// Anything else.
    Raw { code: u16, headers: HeaderMap, body: Bytes },
    /// What a scripted fault answers.
    Fault(Answer),
}

impl Reply {
    /// A text.
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
    let mut response = Response::new(body::full(body));
    *response.status_mut() = status_code(code);
    *response.headers_mut() = headers;
    response
}

pub(super) async fn reply(registry: &Registry, call: &Call, reply: Reply) -> Response<ResponseBody> {
    let now = registry.clock.now();
    match reply {
        Reply::Object { code, kind, object, format } => {
            if let Err(failure) = format.transform.check(call.query.text("includeObject")) {
                return self::failure(call, &failure).await;
            }
            let is_plain = format.media == Media::Json && !format.pretty && format.transform.is_none();
            if !is_plain {
                offload::work_on(object.weight()).await;
            }
            if format.media == Media::Protobuf {
                return match format.transform.enveloped(&object) {
                    Ok(enveloped) => respond(call, code, Media::Protobuf, enveloped.body().into()).await,
                    Err(failure) => self::failure(call, &failure).await,
                };
            }
            let mut json = Vec::new();
            format.transform.write_one(&object, &kind, true, now, &mut json);
            if format.media == Media::Json && !format.pretty {
                json.push(b'\n');
                return respond(call, code, Media::Json, json.into()).await;
            }
            value(call, code, &format, &serde_json::from_slice(&json).unwrap_or_default()).await
        }
        Reply::List { kind, list, format } => {
            if let Err(failure) = format.transform.check(call.query.text("includeObject")) {
                return self::failure(call, &failure).await;
            }
            let ResponseFormat { media, pretty, transform } = format;
            let list = match media {
                Media::Json => ListBody::json(kind, list, transform, now, pretty),
                Media::Yaml => ListBody::yaml(kind, list, transform, now),
                Media::Protobuf => match ListBody::protobuf(kind, list, transform).await {
                    Ok(list) => list,
                    Err(failure) => return self::failure(call, &failure).await,
                },
            };
            send(registry, call, list, media).await
        }
        Reply::Status { status, format } => {
            if let Err(failure) = format.transform.check(call.query.text("includeObject")) {
                return self::failure(call, &failure).await;
            }
            let code = if status.code == 0 { 200 } else { status.code };
            value(call, code, &format, &pintle_json::to_json(&*status).unwrap_or_default()).await
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
                None => failure(call, &Reply::of_fault(&answer)).await,
            };
            if let Some(seconds) = answer.retry_after {
                response.headers_mut().insert(RETRY_AFTER, seconds.into());
            }
            response
        }
    }
}

/// How a request is answered that took too long.
pub(super) const TIMED_OUT: u16 = 504;

/// The same in full. The outermost layer says so, in JSON whatever was asked for.
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

/// A failure, negotiated as far as it can be.
pub(super) async fn failure(call: &Call, failure: &Failure) -> Response<ResponseBody> {
    if let Some(text) = &failure.text {
        return text_response(failure.code(), text.to_string().into());
    }
    let (media, pretty) = negotiate::for_errors(call);
    let pretty = pretty || failure.code() == 406;
    let format = ResponseFormat { media, pretty, transform: Transform::None };
    let mut response = value(call, failure.code(), &format, &failure.value()).await;
    if let Some(seconds) = failure.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    if failure.code() == 403 || failure.early {
        response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    }
    response
}

/// A document in the representation that was chosen.
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
                tracing::error!(%error, "a document has no form in protobuf");
                Bytes::new()
            }
        },
    }
}

async fn value(call: &Call, code: u16, format: &ResponseFormat, value: &Json) -> Response<ResponseBody> {
    respond(call, code, format.media, encode(format, value)).await
}

/// A list, sent as it is made unless it is short.
async fn send(registry: &Registry, call: &Call, mut list: ListBody, media: Media) -> Response<ResponseBody> {
    let first = list.next().await;
    if list.is_over() {
        return respond(call, 200, media, first).await;
    }
    let zipped = takes_gzip(call);
    answer(200, media, zipped, list.stream(&registry.offload_permits, first, zipped))
}

async fn respond(call: &Call, code: u16, media: Media, bytes: Bytes) -> Response<ResponseBody> {
    if bytes.len() <= ZIPPED_FROM || !takes_gzip(call) {
        return answer(code, media, false, body::full(bytes));
    }
    offload::work_on(bytes.len()).await;
    let zipped = gzip(&bytes);
    answer(code, media, zipped.is_some(), body::full(zipped.unwrap_or(bytes)))
}

fn answer(code: u16, media: Media, zipped: bool, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status_code(code);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media.content_type()));
    if zipped {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    response
}

fn status_code(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
