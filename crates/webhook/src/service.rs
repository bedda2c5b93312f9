//! The HTTP interface of the webhooks.

use std::convert::Infallible;
use std::error::Error;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use pintle_meta::DecodeError;
use serde::Deserialize;
use serde::Serialize;
use tokio::time::timeout;
use tower_service::Service;

use crate::budget::{Budget, Charged, Dropped};
use crate::objects::Objects;
use crate::review::{
    ADMISSION, AdmissionRequest, AdmissionReview, CONVERSION, ConversionReview, SentConversion, SentReview,
};
use crate::shortened::{NAME, PROBLEM, shortened};
use crate::webhooks::{Route, Webhooks};

/// The maximum body size of an admission review. An object is at most 3 MiB large, and the review of an update
/// contains the old and the new object.
const ADMISSION_BYTES: usize = 8 << 20;
/// The maximum body size of a conversion review. A conversion review contains all objects of a list.
const CONVERSION_BYTES: usize = 64 << 20;
/// The maximum size of an admission review without the objects. The decoded user and options can need many times the
/// memory of their JSON.
const REVIEW_BYTES: usize = 1 << 20;
/// The timeout for receiving a request body, including the wait for memory.
const BODY: Duration = Duration::from_secs(10);
/// The timeout of conversions, as in kube-apiserver.
const CONVERSION_TIME: Duration = Duration::from_secs(30);

/// The maximum length of `request.uid`, which the response repeats. The API server sends 36 bytes.
const UID: usize = 128;

type Answer = Response<Vec<u8>>;

impl<B> Service<Request<B>> for Webhooks
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    /// Always returns `Poll::Ready`, because the future from `call` waits for the body's memory.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let route = self.routes.get(request.uri().path()).cloned();
        let budget = self.budget.clone();
        Box::pin(async move {
            let answer = match route {
                Some(route) => respond(&route, request, &budget).await.unwrap_or_else(|refusal| refusal),
                None => text(StatusCode::NOT_FOUND, "no webhook has this path\n".into()),
            };
            // The response uses its memory until the last byte is sent.
            Ok(answer.map(|body| Full::new(Bytes::from_owner(budget.charge(body)))))
        })
    }
}

async fn respond<B>(route: &Route, request: Request<B>, budget: &Budget) -> Result<Answer, Answer>
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    if request.method() != Method::POST {
        let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "only POST is allowed\n".into());
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        return Err(answer);
    }
    let limit = request.uri().query().and_then(time_limit);
    let size = match route {
        Route::Admission(_) => ADMISSION_BYTES,
        Route::Conversion(_) => CONVERSION_BYTES,
    };
    let Ok(body) = timeout(BODY, read(request.into_body(), size, budget)).await else {
        return Err(text(StatusCode::REQUEST_TIMEOUT, format!("the body did not arrive within {BODY:?}\n")));
    };
    respond_to(route, &body?, limit).await
}

pub(crate) async fn respond_to(route: &Route, body: &[u8], limit: Option<Duration>) -> Result<Answer, Answer> {
    match route {
        Route::Admission(webhook) => {
            let SentReview::<AdmissionRequest> { api_version, kind, request } = decode(body)?;
            is_version((&api_version, &kind), ADMISSION)?;
            let request = request.ok_or_else(|| bad_review("it has no request"))?;
            has_uid(&request.uid)?;
            let objects = [&request.object, &request.old_object].into_iter().flatten();
            if body.len() - objects.map(|object| object.get().len()).sum::<usize>() > REVIEW_BYTES {
                return Err(bad_review(&format!("it has more than {REVIEW_BYTES} bytes without the objects")));
            }
            let response = Some(webhook.respond(request, limit).await);
            json(&AdmissionReview { api_version, kind, request: None, response })
        }
        Route::Conversion(conversion) => {
            let SentReview::<SentConversion<'_>> { api_version, kind, request } = decode(body)?;
            is_version((&api_version, &kind), CONVERSION)?;
            let SentConversion { uid, desired_api_version, objects } =
                request.ok_or_else(|| bad_review("it has no request"))?;
            has_uid(&uid)?;
            let objects = objects.map_or_else(|| Some(Objects::empty()), Objects::new);
            let objects = objects.ok_or_else(|| bad_review("request.objects is not a list"))?;
            let limit = limit.map_or(CONVERSION_TIME, |limit| limit.min(CONVERSION_TIME));
            let response = Some(conversion.respond(uid, &desired_api_version, objects, limit).await);
            json(&ConversionReview { api_version, kind, request: None, response })
        }
    }
}

async fn read<B>(body: B, limit: usize, budget: &Budget) -> Result<Charged, Answer>
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let too_large = || text(StatusCode::PAYLOAD_TOO_LARGE, format!("the body has more than {limit} bytes\n"));
    let hint = body.size_hint();
    if hint.lower() > limit as u64 {
        return Err(too_large());
    }
    let (mut body, mut arriving) = (pin!(body), budget.begin(hint.upper(), limit));
    loop {
        let frame = tokio::select! {
            biased;
            dropped = arriving.is_dropped() => return Err(dropped.into()),
            frame = data(body.as_mut()) => frame?,
        };
        let Some(data) = frame else { return Ok(arriving.end()?) };
        if data.remaining() > limit - arriving.len() {
            return Err(too_large());
        }
        arriving.add(data).await?;
    }
}

/// Returns the next data of a body, or `None` at its end.
async fn data<B>(mut body: Pin<&mut B>) -> Result<Option<B::Data>, Answer>
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    while let Some(frame) = body.frame().await {
        match frame.map(Frame::into_data) {
            Ok(Ok(data)) => return Ok(Some(data)),
            Ok(Err(_trailers)) => {}
            Err(error) => {
                let problem = format!("cannot read the body: {}\n", error.into());
                return Err(text(StatusCode::BAD_REQUEST, problem));
            }
        }
    }
    Ok(None)
}

impl From<Dropped> for Answer {
    fn from(_: Dropped) -> Self {
        text(StatusCode::REQUEST_TIMEOUT, "the body was dropped to free memory for other bodies\n".into())
    }
}

fn decode<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Answer> {
    serde_json::from_slice(body).map_err(|error| bad_review(&DecodeError::from(error).to_string()))
}

fn is_version(sent: (&str, &str), expected: (&str, &str)) -> Result<(), Answer> {
    if sent == expected {
        return Ok(());
    }
    let (version, kind) = (shortened(sent.0, NAME), shortened(sent.1, NAME));
    Err(bad_review(&format!("it is {version} {kind}, expected {} {}", expected.0, expected.1)))
}

fn has_uid(uid: &str) -> Result<(), Answer> {
    match uid.len() {
        0 => Err(bad_review("request.uid is empty")),
        1..=UID => Ok(()),
        _ => Err(bad_review(&format!("request.uid has more than {UID} bytes"))),
    }
}

fn bad_review(problem: &str) -> Answer {
    text(StatusCode::BAD_REQUEST, format!("the body is no valid review: {}\n", shortened(problem, PROBLEM)))
}

/// Returns the timeout in a query string such as `timeout=10s`. kube-apiserver sends whole seconds.
fn time_limit(query: &str) -> Option<Duration> {
    let value = query.split('&').find_map(|pair| pair.strip_prefix("timeout="))?;
    let seconds: u32 = value.strip_suffix('s')?.parse().ok()?;
    (seconds > 0).then(|| Duration::from_secs(seconds.into()))
}

fn json<T: Serialize>(review: &T) -> Result<Answer, Answer> {
    match serde_json::to_vec(review) {
        Ok(body) => Ok(response(StatusCode::OK, "application/json", body)),
        Err(error) => Err(text(StatusCode::INTERNAL_SERVER_ERROR, format!("cannot write the review: {error}\n"))),
    }
}

fn text(status: StatusCode, body: String) -> Answer {
    response(status, "text/plain; charset=utf-8", body.into_bytes())
}

fn response(status: StatusCode, content_type: &'static str, body: Vec<u8>) -> Answer {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_limit_is_read_in_seconds() {
        let seconds = |count| Some(Duration::from_secs(count));
        for (query, expected) in [
            ("timeout=10s", seconds(10)),
            ("a=b&timeout=30s&c", seconds(30)),
            ("timeout=0s", None),
            ("timeout=-1s", None),
            ("timeout=1m0s", None),
            ("timeout=99999999999s", None),
            ("timeout=", None),
            ("", None),
        ] {
            assert_eq!(time_limit(query), expected, "{query}");
        }
    }
}
