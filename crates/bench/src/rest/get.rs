//! Measures many concurrent GET requests for a small object. The client decodes each response.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use pintle_meta::GroupVersion;
use pintle_restreq::{Api, RestClient};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{Protocol, Setting};
use crate::meter::{Sample, Tally, measure};
use crate::stopwatch::Stopwatch;

pub(super) fn get(setting: &Setting, runtime: &Runtime, at_once: usize, protocol: Protocol) -> Sample {
    let api: Api<ConfigMap> = Api::namespaced(protocol.client(setting), "default");
    run(setting, runtime, vec![api; at_once])
}

pub(super) fn get_raw(setting: &Setting, runtime: &Runtime, at_once: usize, protocol: Protocol) -> Sample {
    let client = protocol.client(setting).for_group_version(&GroupVersion::new("", "v1"));
    run(setting, runtime, vec![client; at_once])
}

pub(super) trait Getter: Send + 'static {
    /// Requests the object once, and panics if the response does not contain the expected object.
    fn get_once(&mut self) -> impl Future<Output = ()> + Send;
}

pub(super) fn check(map: &ConfigMap) {
    assert!(map.data.as_ref().is_some_and(|data| data["key"] == "value"));
}

impl Getter for Api<ConfigMap> {
    async fn get_once(&mut self) {
        check(&self.get("small").await.expect("the server answers"));
    }
}

impl Getter for RestClient {
    async fn get_once(&mut self) {
        let request = RestClient::get(self).namespace("default").resource("configmaps").name("small");
        let body = request.raw().await.expect("the server answers");
        assert_eq!(body.last(), Some(&b'}'));
    }
}

/// Runs all `getters` concurrently, and counts the requests completed within the measured time.
pub(super) fn run(setting: &Setting, runtime: &Runtime, getters: Vec<impl Getter>) -> Sample {
    let (is_measured, is_over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let completed = Arc::new(AtomicUsize::new(0));
    let times = Stopwatch::default();
    let mut tasks = JoinSet::new();
    for mut getter in getters {
        let (is_measured, is_over, completed) = (is_measured.clone(), is_over.clone(), completed.clone());
        let mut times = times.clone();
        let task = async move {
            while !is_over.load(Ordering::Relaxed) {
                let begin = Instant::now();
                getter.get_once().await;
                if is_measured.load(Ordering::Relaxed) {
                    completed.fetch_add(1, Ordering::Relaxed);
                    times.note(begin.elapsed());
                }
            }
        };
        tasks.spawn_on(task, runtime.handle());
    }
    runtime.block_on(sleep(setting.span(Duration::from_secs(1))));
    let sample = measure(|| {
        is_measured.store(true, Ordering::Relaxed);
        runtime.block_on(sleep(setting.span(Duration::from_secs(3))));
        Tally::operations(completed.load(Ordering::Relaxed))
    });
    is_over.store(true, Ordering::Relaxed);
    runtime.block_on(tasks.join_all());
    sample.with("us, p99", times.quantile_us(0.99))
}
