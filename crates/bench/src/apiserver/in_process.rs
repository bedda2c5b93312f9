//! Measures the throughput of writes and reads within one process, without sockets.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use pintle::apiserver::{ApiServer, ApiServerConfig, InProcess};
use tower_service::Service as _;

use super::{Setting, config_map, each, runtime};
use crate::meter::{Sample, Tally, measure};

const AT_ONCE: usize = 64;
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

pub(super) fn writes(setting: &Setting) -> Sample {
    run(setting.size(100_000), 0, |service, i| call(service, Method::POST, MAPS.to_owned(), Some(i)))
}

pub(super) fn reads(setting: &Setting) -> Sample {
    const OBJECTS: usize = 1_000;
    let get = |service, i| call(service, Method::GET, format!("{MAPS}/c{}", i % OBJECTS), None);
    run(setting.size(400_000), OBJECTS, get)
}

fn run<F>(n: usize, objects: usize, request: impl Fn(InProcess, usize) -> F + Clone + Send + 'static) -> Sample
where
    F: Future<Output = ()> + Send,
{
    let runtime = runtime();
    let server = runtime.block_on(ApiServer::start(ApiServerConfig::default())).expect("cannot start the server");
    let service = server.in_process();
    runtime.block_on(async {
        for i in 0..objects {
            call(service.clone(), Method::POST, MAPS.to_owned(), Some(i)).await;
        }
    });
    measure(|| {
        runtime.block_on(each(n, AT_ONCE, move |i| request(service.clone(), i)));
        Tally::operations(n)
    })
}

async fn call(mut service: InProcess, method: Method, path: String, made: Option<usize>) {
    let body = made.map_or_else(String::new, |i| config_map(&format!("c{i}"), "value").to_string());
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let request = request.body(Full::new(Bytes::from(body))).expect("a valid request");
    let answer = service.call(request).await.expect("the server answers");
    assert!(answer.status().is_success(), "{}", answer.status());
    answer.into_body().collect().await.expect("a complete body");
}
