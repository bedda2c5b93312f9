//! A reconciler that records its requests and returns planned results.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pintle_controller::{
    Action, Controller, ControllerConfig, ControllerError, ReconcileError, ReconcileRequest, Reconciler, RequestKey,
};
use pintle_metrics::{InMemoryProvider, Provider};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

#[derive(Clone)]
pub(crate) struct Recorder {
    start: Instant,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    calls: Vec<(f64, String)>,
    running: Vec<String>,
    dropped: Vec<String>,
    most_running: usize,
    plans: HashMap<String, Plan>,
    takes: Duration,
}

pub(crate) type Plan = Arc<dyn Fn(&ReconcileRequest) -> Result<Action, ReconcileError> + Send + Sync>;

impl Recorder {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), state: Arc::default() }
    }

    pub(crate) fn taking(seconds: f64) -> Self {
        let recorder = Self::new();
        recorder.state.lock().unwrap().takes = Duration::from_secs_f64(seconds);
        recorder
    }

    pub(crate) fn plan(
        &self,
        name: &str,
        plan: impl Fn(&ReconcileRequest) -> Result<Action, ReconcileError> + Send + Sync + 'static,
    ) {
        self.state.lock().unwrap().plans.insert(format!("ns/{name}"), Arc::new(plan));
    }

    pub(crate) fn take(&self) -> Vec<String> {
        self.take_timed().into_iter().map(|(_, name)| name).collect()
    }

    pub(crate) fn take_sorted(&self) -> Vec<String> {
        let mut names = self.take();
        names.sort();
        names
    }

    pub(crate) fn take_timed(&self) -> Vec<(f64, String)> {
        let calls = std::mem::take(&mut self.state.lock().unwrap().calls);
        calls.into_iter().map(|(time, key)| (time, key.trim_start_matches("ns/").to_owned())).collect()
    }

    pub(crate) fn running(&self) -> usize {
        self.state.lock().unwrap().running.len()
    }

    pub(crate) fn most_running(&self) -> usize {
        self.state.lock().unwrap().most_running
    }

    /// Resets the maximum concurrency to the current number of requests in progress.
    pub(crate) fn forget_most_running(&self) {
        let mut state = self.state.lock().unwrap();
        state.most_running = state.running.len();
    }

    pub(crate) fn dropped(&self) -> Vec<String> {
        self.state.lock().unwrap().dropped.clone()
    }
}

impl Reconciler for Recorder {
    fn reconcile(&self, request: ReconcileRequest) -> impl Future<Output = Result<Action, ReconcileError>> + Send {
        let key = request.key.to_string();
        let takes = {
            let mut state = self.state.lock().unwrap();
            assert!(!state.running.contains(&key), "{key} is reconciled twice at once");
            state.calls.push((self.start.elapsed().as_secs_f64(), key.clone()));
            state.running.push(key.clone());
            state.most_running = state.most_running.max(state.running.len());
            state.takes
        };
        let mut call = Call { recorder: self.clone(), key, ended: false };
        async move {
            tokio::time::sleep(takes).await;
            call.ended = true;
            let plan = call.recorder.state.lock().unwrap().plans.get(&call.key).cloned();
            plan.map_or(Ok(Action::await_change()), |plan| plan(&request))
        }
    }
}

/// A single call, which records whether it was completed when it is dropped.
struct Call {
    recorder: Recorder,
    key: String,
    ended: bool,
}

impl Drop for Call {
    fn drop(&mut self) {
        let mut state = self.recorder.state.lock().unwrap();
        state.running.retain(|running| *running != self.key);
        if !self.ended {
            state.dropped.push(self.key.clone());
        }
    }
}

pub(crate) struct Running {
    pub(crate) stop: CancellationToken,
    pub(crate) task: JoinHandle<Result<(), ControllerError>>,
}

pub(crate) async fn run<K: RequestKey>(controller: &Controller<K>) -> Running {
    let (controller, stop) = (controller.clone(), CancellationToken::new());
    let task = tokio::spawn({
        let stop = stop.clone();
        async move { controller.run(&stop).await }
    });
    pass(0.001).await;
    Running { stop, task }
}

impl Running {
    pub(crate) async fn stop(self) -> Result<(), ControllerError> {
        self.stop.cancel();
        self.task.await.unwrap()
    }
}

pub(crate) async fn pass(seconds: f64) {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
}

#[derive(Clone, Default)]
pub(crate) struct TestMetrics(pub(crate) InMemoryProvider);

impl TestMetrics {
    pub(crate) fn provider(&self) -> Option<Arc<dyn Provider>> {
        Some(Arc::new(self.0.clone()))
    }

    pub(crate) fn config(&self) -> ControllerConfig {
        ControllerConfig { metrics: self.provider(), ..Default::default() }
    }

    /// Returns the values of metrics, summed over all labels. `names` are the names without the prefix
    /// `controller_runtime_`.
    pub(crate) fn numbers<const N: usize>(&self, names: [&str; N]) -> [f64; N] {
        names.map(|name| self.0.value(&format!("controller_runtime_{name}"), &[]).unwrap())
    }

    pub(crate) fn results(&self) -> [f64; 3] {
        let of = |result| self.0.value("controller_runtime_reconcile_total", &[("result", result)]).unwrap();
        ["success", "requeue_after", "error"].map(of)
    }
}
