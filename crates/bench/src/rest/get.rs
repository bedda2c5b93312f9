//! GETs of one small object, so many at once, each decoded.

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
use crate::Sample;
use crate::meter::{Tally, measure};
use crate::stopwatch::Stopwatch;

pub(super) fn get(how: &Setting, runtime: &Runtime, at_once: usize, protocol: Protocol) -> Sample {
    let api: Api<ConfigMap> = Api::namespaced(how.client(protocol), "default");
    ask(how, runtime, vec![api; at_once])
}

/// Not decoded.
pub(super) fn get_raw(how: &Setting, runtime: &Runtime, at_once: usize, protocol: Protocol) -> Sample {
    let client = how.client(protocol).for_group_version(&GroupVersion::new("", "v1"));
    ask(how, runtime, vec![client; at_once])
}

/// Who asks, one request after the other.
pub(super) trait Asker: Send + 'static {
    /// Fails if the answer is not the object.
    fn ask(&mut self) -> impl Future<Output = ()> + Send;
}

pub(super) fn check(map: &ConfigMap) {
    assert!(map.data.as_ref().is_some_and(|data| data["key"] == "value"));
}

impl Asker for Api<ConfigMap> {
    async fn ask(&mut self) {
        check(&self.get("small").await.expect("the server answers"));
    }
}

impl Asker for RestClient {
    async fn ask(&mut self) {
        let request = RestClient::get(self).namespace("default").resource("configmaps").name("small");
        let body = request.raw().await.expect("the server answers");
        assert_eq!(body.last(), Some(&b'}'));
    }
}

/// All ask at once, and those requests are counted that end within the window.
pub(super) fn ask(how: &Setting, runtime: &Runtime, askers: Vec<impl Asker>) -> Sample {
    let (is_measured, is_over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let asked = Arc::new(AtomicUsize::new(0));
    let times = Stopwatch::default();
    let mut tasks = JoinSet::new();
    for mut asker in askers {
        let (is_measured, is_over, asked) = (is_measured.clone(), is_over.clone(), asked.clone());
        let mut times = times.clone();
        let task = async move {
            while !is_over.load(Ordering::Relaxed) {
                let begin = Instant::now();
                asker.ask().await;
                if is_measured.load(Ordering::Relaxed) {
                    asked.fetch_add(1, Ordering::Relaxed);
                    times.note(begin.elapsed());
                }
            }
        };
        tasks.spawn_on(task, runtime.handle());
    }
    runtime.block_on(sleep(how.span(Duration::from_secs(1))));
    let sample = measure(|| {
        is_measured.store(true, Ordering::Relaxed);
        runtime.block_on(sleep(how.span(Duration::from_secs(3))));
        Tally::operations(asked.load(Ordering::Relaxed))
    });
    is_over.store(true, Ordering::Relaxed);
    runtime.block_on(tasks.join_all());
    sample.with("us, p99", times.quantile_us(0.99))
}
