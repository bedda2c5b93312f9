//! Tests of requests that a `Plan` forwards to a cluster that responds late, incompletely, or never.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use pintle_apiserver::{ApiServer, ApiServerConfig, InProcess, InProcessBody, Plan};
use tokio::time::Instant;
use tower_service::Service;

const LOG: &str = "/api/v1/namespaces/default/pods/p/log";
const METRICS: &str = "/apis/metrics.k8s.io/v1beta1/namespaces/watch/pods";
const LONG: Duration = Duration::from_secs(600);

type Answer = Response<UnsyncBoxBody<Bytes, io::Error>>;

/// A cluster that delays its response to a forwarded request, and then sends a single line. The cluster responds to
/// other requests without a delay.
#[derive(Clone)]
struct Slow {
    inner: InProcess,
    /// The delays before the response head and before the line in the body. The body does not end after this line.
    head: Duration,
    line: Duration,
}

impl Service<Request<Full<Bytes>>> for Slow {
    type Response = Answer;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Answer>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        let path = request.uri().path();
        if !path.ends_with("/log") && !path.starts_with("/apis/metrics.k8s.io") {
            let answered = self.inner.call(request);
            return Box::pin(async move { Ok(answered.await?.map(BodyExt::boxed_unsync)) });
        }
        let Self { head, line, .. } = self.clone();
        Box::pin(async move {
            tokio::time::sleep(head).await;
            let (sender, mut lines) = tokio::sync::mpsc::channel(1);
            tokio::spawn(async move {
                tokio::time::sleep(line).await;
                drop(sender.send(Ok(Frame::data(Bytes::from("a line\n")))).await);
                sender.closed().await;
            });
            let body = StreamBody::new(futures_util::stream::poll_fn(move |context| lines.poll_recv(context)));
            Ok(Response::new(body.boxed_unsync()))
        })
    }
}

async fn plan(head: Duration, line: Duration) -> (ApiServer, Plan) {
    let live = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let slow = Slow { inner: live.in_process(), head, line };
    let plan = Plan::start(slow, ApiServerConfig::default()).await.expect("a plan");
    (live, plan)
}

async fn send_in_process(plan: &Plan, method: Method, path: &str) -> Response<InProcessBody> {
    let request = Request::builder().method(method).uri(path).body(Full::new(Bytes::new())).expect("a request");
    plan.server().in_process().call(request).await.expect("an answer")
}

async fn next(answer: &mut Response<InProcessBody>) -> io::Result<Bytes> {
    let frame = answer.body_mut().frame().await.expect("it does not end");
    frame.map(|frame| frame.into_data().unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn forwarded_logs_have_no_timeout() {
    let (_live, plan) = plan(LONG, LONG).await;
    let began = Instant::now();
    for path in [LOG.to_owned(), format!("{LOG}?follow=true")] {
        let mut answer = send_in_process(&plan, Method::GET, &path).await;
        assert_eq!((answer.status().as_u16(), next(&mut answer).await.expect("a line")), (200, "a line\n".into()));
    }
    assert_eq!(began.elapsed().as_secs(), 4 * LONG.as_secs());
}

#[tokio::test(start_paused = true)]
async fn forwarded_watch_has_a_timeout_only_for_its_head() {
    let watch = format!("{METRICS}?watch=1");
    let (_live, late) = plan(LONG, Duration::ZERO).await;
    let began = Instant::now();
    assert_eq!(
        (send_in_process(&late, Method::GET, &watch).await.status().as_u16(), began.elapsed().as_secs()),
        (504, 60)
    );
    let (_live, slow) = plan(Duration::ZERO, LONG).await;
    assert_eq!(next(&mut send_in_process(&slow, Method::GET, &watch).await).await.expect("a line"), "a line\n");
}

#[tokio::test(start_paused = true)]
async fn other_forwarded_reads_time_out_as_a_whole() {
    for path in [METRICS.to_owned(), format!("{METRICS}/p?watch=1"), format!("{METRICS}/watch/x")] {
        let (_live, late) = plan(LONG, Duration::ZERO).await;
        let began = Instant::now();
        assert_eq!(
            (send_in_process(&late, Method::GET, &path).await.status().as_u16(), began.elapsed().as_secs()),
            (504, 60)
        );
        let (_live, endless) = plan(Duration::from_secs(20), Duration::from_secs(20)).await;
        let began = Instant::now();
        let mut answer = send_in_process(&endless, Method::GET, &path).await;
        assert_eq!(next(&mut answer).await.expect("a line"), "a line\n");
        let error = next(&mut answer).await.expect_err("the body never ends");
        assert_eq!((error.kind(), began.elapsed().as_secs()), (io::ErrorKind::TimedOut, 60), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn read_bodies_are_ignored_and_review_bodies_time_out() {
    let (_live, plan) = plan(Duration::ZERO, Duration::ZERO).await;
    let call = |method: Method, path: &str| {
        let never = StreamBody::new(futures_util::stream::pending::<Result<Frame<Bytes>, Infallible>>());
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        plan.server().in_process().call(request.body(never).expect("a request"))
    };
    for path in [LOG, METRICS] {
        assert_eq!(call(Method::GET, path).await.expect("an answer").status(), 200);
    }
    let began = Instant::now();
    let response = call(Method::POST, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").await;
    assert_eq!((response.expect("an answer").status().as_u16(), began.elapsed().as_secs()), (504, 60));
}
