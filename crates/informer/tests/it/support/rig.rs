//! A reflector and the test code that responds to its commands.

use std::time::{Duration, Instant};

use pintle_informer::reflector::{Command, Input, Output, Reflector, Step};
use pintle_informer::{InformerState, ReflectorConfig};
use pintle_meta::{ApiError, Bookmark, ErrorKind, List, ListMeta, WatchEvent};
use pintle_ratelimit::BackoffConfig;

use pintle_testing::Call;

use super::{Pod, pod_at};

pub(crate) struct Rig {
    pub(crate) reflector: Reflector<Pod>,
    pub(crate) now: Instant,
    pub(crate) command: Command,
    pub(crate) outputs: Vec<String>,
    pub(crate) errors: Vec<String>,
}

pub(crate) fn config() -> ReflectorConfig {
    ReflectorConfig { backoff: BackoffConfig { jitter: 0.0, ..BackoffConfig::default() }, ..ReflectorConfig::default() }
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(config())
    }

    pub(crate) fn streaming() -> Self {
        Self::with(ReflectorConfig { streaming_list: true, ..config() })
    }

    pub(crate) fn with(config: ReflectorConfig) -> Self {
        let mut reflector = Reflector::new(config, 1);
        let command = reflector.start();
        Self { reflector, now: Instant::now(), command, outputs: Vec::new(), errors: Vec::new() }
    }

    pub(crate) fn watching(revision: u64) -> Self {
        let mut rig = Self::new();
        rig.list(&["a"], revision);
        rig.open();
        rig.outputs.clear();
        rig
    }

    /// Describes the last command: `LIST rv=0 limit=500`, `WATCH rv=7`, `READ`, `SLEEP 800`.
    pub(crate) fn command_text(&self) -> String {
        match &self.command {
            Command::List(options) => Call::List { options: options.clone() }.to_string(),
            Command::Watch(options) => Call::Watch { options: options.clone() }.to_string(),
            Command::Read { .. } => "READ".into(),
            Command::Sleep(delay) => format!("SLEEP {}", delay.as_millis()),
        }
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    pub(crate) fn answer(&mut self, input: Input<Pod>) -> String {
        let Step { output, error, command, .. } = self.reflector.step(self.now, input);
        self.outputs.extend(output.as_ref().map(describe));
        self.errors.extend(error.map(|error| error.to_string()));
        self.command = command;
        self.command_text()
    }

    pub(crate) fn list(&mut self, names: &[&str], revision: u64) -> String {
        self.page(names, &revision.to_string(), "")
    }

    pub(crate) fn page(&mut self, names: &[&str], version: &str, continue_token: &str) -> String {
        let metadata = ListMeta {
            resource_version: version.into(),
            continue_token: continue_token.into(),
            remaining_item_count: None,
        };
        self.page_with(names, metadata)
    }

    pub(crate) fn page_with(&mut self, names: &[&str], metadata: ListMeta) -> String {
        let items = names.iter().map(|name| pod_at(name, 1)).collect();
        self.answer(Input::Listed(Ok(List { types: Default::default(), metadata, items })))
    }

    pub(crate) fn list_fails(&mut self, error: ApiError) -> String {
        self.answer(Input::Listed(Err(error)))
    }

    pub(crate) fn open(&mut self) -> String {
        self.answer(Input::Opened(Ok(())))
    }

    pub(crate) fn open_fails(&mut self, error: ApiError) -> String {
        self.answer(Input::Opened(Err(error)))
    }

    pub(crate) fn receive(&mut self, event: WatchEvent<Pod>) -> String {
        self.answer(Input::Received(Some(Ok(event))))
    }

    pub(crate) fn bookmark(&mut self, revision: u64, initial_events_end: bool) -> String {
        self.receive(WatchEvent::Bookmark(Bookmark { resource_version: revision.to_string(), initial_events_end }))
    }

    pub(crate) fn receive_error(&mut self, error: ApiError) -> String {
        match &error.kind {
            ErrorKind::Status(status) => self.receive(WatchEvent::Error(status.clone())),
            _ => self.answer(Input::Received(Some(Err(error)))),
        }
    }

    pub(crate) fn end(&mut self) -> String {
        self.answer(Input::Received(None))
    }

    pub(crate) fn until(&self) -> Instant {
        let Command::Read { until } = self.command else { panic!("expected a read, got {:?}", self.command) };
        until
    }

    pub(crate) fn time_out(&mut self) -> String {
        self.now = self.until();
        self.answer(Input::TimedOut)
    }

    pub(crate) fn wake(&mut self) -> String {
        let Command::Sleep(delay) = self.command else { panic!("expected a delay, got {:?}", self.command) };
        self.pass(delay);
        self.answer(Input::Woke)
    }

    pub(crate) fn cause(&self) -> Option<String> {
        match self.reflector.state() {
            InformerState::Degraded { cause, .. } => Some(cause.to_string()),
            _ => None,
        }
    }
}

fn describe(output: &Output<Pod>) -> String {
    let text = |pod: &Pod, reached: &str| {
        let (name, version) = (&pod.metadata.name, &pod.metadata.resource_version);
        if version == reached { format!("{name}@{version}") } else { format!("{name}@{version} at {reached}") }
    };
    match output {
        Output::Replaced { objects, resource_version } => {
            let mut names: Vec<&str> = objects.iter().map(|pod| pod.metadata.name.as_str()).collect();
            names.sort_unstable();
            format!("replaced [{}] at {resource_version}", names.join(" "))
        }
        Output::Added { object, resource_version } => format!("added {}", text(object, resource_version)),
        Output::Updated { object, resource_version } => format!("updated {}", text(object, resource_version)),
        Output::Deleted { object, resource_version } => format!("deleted {}", text(object, resource_version)),
        Output::Bookmark { resource_version } => format!("bookmark {resource_version}"),
    }
}
