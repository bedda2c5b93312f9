//! Measures the cost of decoding an object or event from bytes and storing it in the cache: `cache_decode PODS.jsonl`.
//! The file `PODS.jsonl` contains one pod per line.

use std::env;
use std::error::Error;
use std::fs;
use std::future::poll_fn;
use std::io::{self, Write};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_core::Stream;
use k8s_openapi::api::core::v1::Pod;
use pintle_informer::{InformerConfig, SharedInformer};
use pintle_meta::{
    ApiError, ApiResource, DynamicObject, ListMeta, ListOptions, ListPart, ListWatch, Metadata, Object, RawObject,
    Scope, WatchEvent, WatchOptions,
};
use pintle_restreq::FrameSplitter;
use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The pod fields needed to track which pods exist.
#[derive(Deserialize)]
struct Slim {
    metadata: Identity,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Identity {
    name: String,
    namespace: String,
    uid: String,
    resource_version: String,
}

impl Metadata for Identity {
    fn name(&self) -> &str {
        &self.name
    }
    fn namespace(&self) -> &str {
        &self.namespace
    }
    fn uid(&self) -> &str {
        &self.uid
    }
    fn resource_version(&self) -> &str {
        &self.resource_version
    }
}

impl Object for Slim {
    fn metadata(&self) -> &dyn Metadata {
        &self.metadata
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = env::args().nth(1).ok_or("which file of pods?")?;
    let body = Bytes::from(fs::read(path)?);
    let pods: Vec<Bytes> =
        body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(|line| body.slice_ref(line)).collect();
    let mut out = io::stdout().lock();
    writeln!(out, "{} pods of {} bytes", pods.len(), body.len() / pods.len())?;
    writeln!(
        out,
        "a frame of a watch cut: {:.1} us, and read by itself: {:.1} us",
        frames(&pods, false),
        frames(&pods, true)
    )?;
    for ticks in [false, true] {
        whole::<Pod>(&pods, "k8s-openapi", ticks, &mut out)?;
        whole::<DynamicObject>(&pods, "DynamicObject", ticks, &mut out)?;
        whole::<Slim>(&pods, "four fields", ticks, &mut out)?;
    }
    Ok(())
}

/// Splits a response body into watch frames and returns the CPU time per frame in microseconds. If `reads` is true,
/// this function also locates the object in each frame.
fn frames(pods: &[Bytes], reads: bool) -> f64 {
    let frame = |pod: &Bytes| [br#"{"type":"MODIFIED","object":"#, &**pod, b"}\n"].concat();
    let body = Bytes::from(pods.iter().flat_map(frame).collect::<Vec<u8>>());
    let begun = cpu();
    let (mut splitter, mut found) = (FrameSplitter::new(16 << 20), 0);
    for chunk in body.chunks(64 << 10) {
        splitter.push(body.slice_ref(chunk));
        while let Some(Ok(frame)) = splitter.next_frame() {
            found += usize::from(!reads || matches!(WatchEvent::parse(&frame), Ok(WatchEvent::Modified(_))));
        }
    }
    assert_eq!(found, pods.len());
    (cpu() - begun).as_secs_f64() * 1e6 / found as f64
}

/// Processes a list of all pods and one update of each pod, and prints the cost. If `ticks` is true, this function
/// also prints how long a concurrent task that is always ready waited for the thread.
fn whole<T: Object + DeserializeOwned>(
    pods: &[Bytes],
    what: &str,
    ticks: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let source: Source<T> = Source { pods: pods.to_vec(), gate: Mutex::new(None), object: PhantomData };
        let (open, gate) = tokio::sync::oneshot::channel();
        *source.gate.lock().expect("the lock is not poisoned") = Some(gate);
        let informer = SharedInformer::new(source, InformerConfig::default());
        let begun = Instant::now();
        let before = cpu();
        let mut clock = Ticks::start(ticks);
        informer.start();
        let mut synced = std::pin::pin!(informer.wait_for_sync());
        poll_fn(|context| clock.poll(context, synced.as_mut())).await.expect("the source never fails");
        clock.print(&format!("{what}: a pod of a list"), begun, before, pods.len(), out)?;

        let lister = informer.lister();
        let (begun, before) = (Instant::now(), cpu());
        let mut clock = Ticks::start(ticks);
        open.send(()).expect("the watch is open");
        let version = (VERSION + 2 * pods.len()).to_string();
        let mut done = std::pin::pin!(lister.wait_for(&version));
        poll_fn(|context| clock.poll(context, done.as_mut())).await.expect("the source never fails");
        clock.print(&format!("{what}: an event"), begun, before, pods.len(), out)
    })
}

/// Measures how long a task that is always ready waits for the thread. The wait is measured in CPU time of the thread,
/// so that it does not include other programs.
struct Ticks {
    wants_to_run: bool,
    last: Duration,
    longest: Duration,
}

impl Ticks {
    fn start(wants_to_run: bool) -> Self {
        Self { wants_to_run, last: thread_cpu(), longest: Duration::ZERO }
    }

    fn poll<F: Future>(&mut self, context: &mut Context<'_>, of: Pin<&mut F>) -> Poll<F::Output> {
        let now = thread_cpu();
        self.longest = self.longest.max(now - self.last);
        self.last = now;
        let poll = of.poll(context);
        if self.wants_to_run {
            context.waker().wake_by_ref();
        }
        poll
    }

    fn print(&self, what: &str, begun: Instant, before: Duration, n: usize, out: &mut impl Write) -> io::Result<()> {
        let each = 1e6 / n as f64;
        if self.wants_to_run {
            writeln!(out, "{what}: longest stall {:?}", self.longest)
        } else {
            let (wall, cpu) = (begun.elapsed().as_secs_f64() * each, (cpu() - before).as_secs_f64() * each);
            writeln!(out, "{what}: {wall:.1} us, {cpu:.1} us of CPU")
        }
    }
}

fn cpu() -> Duration {
    clock(ClockId::ProcessCPUTime)
}

fn thread_cpu() -> Duration {
    clock(ClockId::ThreadCPUTime)
}

fn clock(id: ClockId) -> Duration {
    let time = clock_gettime(id);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The version of the list. All resource versions in the file have the same number of digits.
const VERSION: usize = 2_000_000_000;

/// A source of pods. A list returns all pods. When `gate` receives a message, the watch sends one update per pod.
struct Source<T> {
    pods: Vec<Bytes>,
    gate: Mutex<Option<tokio::sync::oneshot::Receiver<()>>>,
    object: PhantomData<fn() -> T>,
}

impl<T: 'static> ListWatch for Source<T> {
    type Object = T;
    type Page = Each<ListPart>;
    type Events = Each<WatchEvent<RawObject>>;

    fn api_resource(&self) -> ApiResource {
        ApiResource::new("v1", "Pod", "pods", Scope::Namespaced)
    }

    fn namespace(&self) -> Option<&str> {
        None
    }

    async fn list(&self, _: &ListOptions) -> Result<Self::Page, ApiError> {
        let metadata = ListMeta { resource_version: VERSION.to_string(), ..ListMeta::default() };
        let items = self.pods.clone().into_iter().map(|pod| ListPart::Item(pod.into()));
        Ok(Each { items: Box::new(items.chain([ListPart::Metadata(metadata)])), gate: None, ends: true })
    }

    async fn watch(&self, _: &WatchOptions) -> Result<Self::Events, ApiError> {
        let count = self.pods.len();
        let changed = self
            .pods
            .clone()
            .into_iter()
            .enumerate()
            .map(move |(at, pod)| WatchEvent::Modified(at_version(&pod, VERSION + count + 1 + at).into()));
        let gate = self.gate.lock().expect("the lock is not poisoned").take();
        Ok(Each { items: Box::new(changed), gate, ends: false })
    }
}

/// Returns the pod with resource version `version`, which must have ten digits.
fn at_version(pod: &Bytes, version: usize) -> Bytes {
    const FIELD: &[u8] = br#""resourceVersion":""#;
    let mut pod = pod.to_vec();
    let at = pod.windows(FIELD.len()).position(|window| window == FIELD).expect("each pod has a version") + FIELD.len();
    pod[at..at + 10].copy_from_slice(version.to_string().as_bytes());
    pod.into()
}

/// A stream whose items all become ready when `gate` receives a message.
struct Each<I> {
    items: Box<dyn Iterator<Item = I> + Send>,
    gate: Option<tokio::sync::oneshot::Receiver<()>>,
    ends: bool,
}

impl<I> Stream for Each<I> {
    type Item = Result<I, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(gate) = &mut self.gate {
            if Pin::new(gate).poll(context).is_pending() {
                return Poll::Pending;
            }
            self.gate = None;
        }
        match self.items.next() {
            None if !self.ends => Poll::Pending,
            next => Poll::Ready(next.map(Ok)),
        }
    }
}
