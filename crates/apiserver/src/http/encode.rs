//! Answers as bytes.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER, VARY};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use jiff::Timestamp;
use pintle_json::{Json, json};
use pintle_meta::Status;
use pintle_schema::protobuf::Enveloped;

use super::Call;
use super::body::{self, ResponseBody};
use super::gzip::{ZIPPED_FROM, gzip, takes_gzip};
use super::list_body::ListBody;
use super::negotiate::{self, ResponseFormat};
use crate::apart;
use crate::failure::Failure;
use crate::faults::Answer;
use crate::kinds::Kind;
use crate::object::Ordered;
use crate::registry::{ListReply, Served, Transform};
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
    /// That it took too long. The outermost layer says so, in JSON whatever was asked for.
    TimedOut,
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

pub(super) async fn reply(call: &Call, reply: Reply, now: Timestamp) -> Response<ResponseBody> {
    match reply {
        Reply::Object { code, kind, object, format } => {
            if let Err(failure) = format.transform.check(call.query.text("includeObject")) {
                return self::failure(call, &failure);
            }
            let is_plain = format.media == Media::Json && !format.pretty && format.transform.is_none();
            if !is_plain {
                apart::work_on(object.weight()).await;
            }
            if format.media == Media::Protobuf {
                return match format.transform.enveloped(&object) {
                    Ok(enveloped) => respond(call, code, Media::Protobuf, enveloped.body().into()),
                    Err(failure) => self::failure(call, &failure),
                };
            }
            let mut json = Vec::new();
            format.transform.write_one(&object, &kind, true, now, &mut json);
            if format.media == Media::Json && !format.pretty {
                json.push(b'\n');
                if json.len() > ZIPPED_FROM && takes_gzip(call) {
                    apart::work_on(json.len()).await;
                }
                return respond(call, code, Media::Json, json.into());
            }
            value(call, code, &format, &serde_json::from_slice(&json).unwrap_or_default())
        }
        Reply::List { kind, list, format } => {
            if let Err(failure) = format.transform.check(call.query.text("includeObject")) {
                return self::failure(call, &failure);
            }
            let ResponseFormat { media, pretty, transform } = format;
            let list = match media {
                Media::Json => ListBody::json(kind, list, transform, now, pretty),
                Media::Yaml => ListBody::yaml(kind, list, transform, now),
                Media::Protobuf => match ListBody::protobuf(kind, list, transform).await {
                    Ok(list) => list,
                    Err(failure) => return self::failure(call, &failure),
                },
            };
            send(call, list, media).await
        }
        Reply::Status { status, format } => {
            if let Err(failure) = format.transform.check(call.query.text("includeObject")) {
                return self::failure(call, &failure);
            }
            let code = if status.code == 0 { 200 } else { status.code };
            value(call, code, &format, &pintle_json::to_json(&*status).unwrap_or_default())
        }
        Reply::Watch { watcher } => {
            let media = watcher.media();
            let mut response = Response::new(body::frames(*watcher));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media.stream_type()));
            response
        }
        Reply::Raw { code, headers, body } => raw(code, headers, body),
        Reply::TimedOut => {
            let status = json!({
                "metadata": {},
                "status": "Failure",
                "message": "Timeout: request did not complete within the allotted timeout",
                "reason": "Timeout",
                "details": {},
                "code": 504,
            });
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
            raw(504, headers, format!("{status}\n").into())
        }
        Reply::Fault(answer) => {
            let mut response = match &answer.body {
                Some(text) => text_response(answer.code, text.clone().into()),
                None => failure(call, &Reply::of_fault(&answer)),
            };
            if let Some(seconds) = answer.retry_after {
                response.headers_mut().insert(RETRY_AFTER, seconds.into());
            }
            response
        }
    }
}

/// A failure, negotiated as far as it can be.
pub(super) fn failure(call: &Call, failure: &Failure) -> Response<ResponseBody> {
    if let Some(text) = &failure.text {
        return text_response(failure.code(), text.to_string().into());
    }
    let (media, pretty) = negotiate::for_errors(call);
    let pretty = pretty || failure.code() == 406;
    let format = ResponseFormat { media, pretty, transform: Transform::None };
    let mut response = value(call, failure.code(), &format, &failure.value());
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
        Media::Json if format.pretty => serde_json::to_vec_pretty(&Ordered(value)).unwrap_or_default().into(),
        Media::Json => {
            let mut json = serde_json::to_vec(&Ordered(value)).unwrap_or_default();
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

fn value(call: &Call, code: u16, format: &ResponseFormat, value: &Json) -> Response<ResponseBody> {
    respond(call, code, format.media, encode(format, value))
}

/// A list, sent as it is made unless it is short.
async fn send(call: &Call, mut list: ListBody, media: Media) -> Response<ResponseBody> {
    let first = list.next().await;
    if list.is_over() {
        return respond(call, 200, media, first);
    }
    let zipped = takes_gzip(call);
    answer(200, media, zipped, list.stream(first, zipped))
}

fn respond(call: &Call, code: u16, media: Media, bytes: Bytes) -> Response<ResponseBody> {
    let zipped = (bytes.len() > ZIPPED_FROM && takes_gzip(call)).then(|| gzip(&bytes)).flatten();
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
