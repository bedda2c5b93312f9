//! A simulated source with several servers, some of which are out of date. A sequence of random numbers (the tape)
//! determines the responses.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pintle_informer::reflector::{Command, Input};
use pintle_meta::{ApiError, Bookmark, List, ListMeta, ListOptions, Reason, WatchEvent, WatchOptions};

use super::{Pod, cut, expired, failure, pod_at, refused, too_large, too_many_requests};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// A sequence of random decisions. At the end of the tape, faults and changes stop.
pub(crate) struct Tape(pub(crate) std::vec::IntoIter<u8>);

impl Tape {
    fn pick(&mut self, many: u8) -> u8 {
        self.0.next().map_or(many - 1, |byte| byte % many)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.0.len() == 0
    }
}

pub(crate) struct Replicas {
    pub(crate) tape: Tape,
    /// For each revision, starting at 1, the change and the number of the changed pod.
    log: Vec<(WatchEvent<()>, usize)>,
    compacted: usize,
    watch: Option<Stream>,
}

struct Stream {
    /// Events to send before the events of the log, in reverse order.
    first: Vec<WatchEvent<Pod>>,
    received: usize,
    lag: usize,
    last: Option<WatchEvent<Pod>>,
}

impl Replicas {
    pub(crate) fn new(tape: Vec<u8>) -> Self {
        // Begin with one change of each pod, so that every server has at least one revision.
        let log = (0..NAMES.len()).map(|name| (WatchEvent::Added(()), name)).collect();
        Self { tape: Tape(tape.into_iter()), log, compacted: 0, watch: None }
    }

    pub(crate) fn head(&self) -> usize {
        self.log.len()
    }

    pub(crate) fn state_at(&self, revision: usize) -> BTreeMap<String, usize> {
        let mut state = BTreeMap::new();
        for (at, (event, name)) in self.log[..revision].iter().enumerate() {
            match event {
                WatchEvent::Deleted(()) => _ = state.remove(NAMES[*name]),
                _ => _ = state.insert(NAMES[*name].to_owned(), at + 1),
            }
        }
        state
    }

    pub(crate) fn change(&mut self) {
        match self.tape.pick(4) {
            0 => self.write(),
            1 if self.tape.pick(4) == 0 => self.compacted = self.head(),
            _ => {}
        }
    }

    pub(crate) fn write(&mut self) {
        let name = usize::from(self.tape.pick(4));
        let is_there = self.state_at(self.head()).contains_key(NAMES[name]);
        let event = match (is_there, self.tape.pick(3)) {
            (false, _) => WatchEvent::Added(()),
            (true, 0) => WatchEvent::Deleted(()),
            (true, _) => WatchEvent::Modified(()),
        };
        self.log.push((event, name));
    }

    pub(crate) fn answer(&mut self, now: &mut Instant, command: &Command) -> Input<Pod> {
        match command {
            Command::List(options) => {
                self.watch = None;
                Input::Listed(self.list(options))
            }
            Command::Watch(options) => {
                self.watch = None;
                Input::Opened(self.open(options))
            }
            Command::Read { until } => {
                *now += Duration::from_millis(if self.tape.has_ended() { 5000 } else { 300 });
                match self.read() {
                    Some(event) => Input::Received(event),
                    None => {
                        *now = (*now).max(*until);
                        Input::TimedOut
                    }
                }
            }
            Command::Sleep(delay) => {
                self.watch = None;
                *now += *delay;
                Input::Woke
            }
        }
    }

    /// Returns the revision of the server that responds to the request. The tape determines how far this server is
    /// behind.
    fn visible(&mut self) -> usize {
        let lag = [3, 2, 1, 0, 0, 0][usize::from(self.tape.pick(6))];
        self.head().saturating_sub(lag)
    }

    /// Returns the revision of the response to a request. A request for the newest state includes the writes of all
    /// servers.
    fn visible_to(&mut self, resource_version: &str) -> usize {
        if resource_version.is_empty() { self.head() } else { self.visible() }
    }

    fn list(&mut self, options: &ListOptions) -> Result<List<Pod>, ApiError> {
        self.refusal()?;
        let (at, start) = match options.continue_token.split_once(':') {
            Some((at, start)) => (at.parse().unwrap(), start.parse().unwrap()),
            None => (self.visible_to(&options.resource_version), 0),
        };
        if start > 0 && (at < self.compacted || self.tape.pick(8) == 0) {
            return Err(expired());
        }
        if start == 0 && options.resource_version.parse().is_ok_and(|bound: usize| at < bound) {
            return Err(too_large());
        }
        let state = self.state_at(at);
        let limit = if options.limit == 0 { usize::MAX } else { options.limit as usize };
        let items: Vec<Pod> = state.iter().skip(start).take(limit).map(|(name, at)| pod_at(name, *at as u64)).collect();
        let end = start + items.len();
        let continue_token = if end < state.len() { format!("{at}:{end}") } else { String::new() };
        let metadata = ListMeta { resource_version: at.to_string(), continue_token, remaining_item_count: None };
        Ok(List { types: Default::default(), metadata, items })
    }

    fn open(&mut self, options: &WatchOptions) -> Result<(), ApiError> {
        self.refusal()?;
        let bound: usize = options.resource_version.parse().unwrap_or(0);
        let visible =
            if options.send_initial_events { self.visible_to(&options.resource_version) } else { self.visible() };
        let lag = self.head() - visible;
        let mut stream = Stream { first: Vec::new(), received: bound, lag, last: None };
        if options.send_initial_events {
            if self.tape.pick(8) == 0 {
                return Err(failure(422, Reason::Invalid));
            }
            if visible < bound {
                return Err(too_large());
            }
            let state = self.state_at(visible);
            stream.received = visible;
            stream.first = state.iter().map(|(name, at)| WatchEvent::Added(pod_at(name, *at as u64))).collect();
            if self.tape.pick(4) != 0 {
                let resource_version = visible.to_string();
                stream.first.push(WatchEvent::Bookmark(Bookmark { resource_version, initial_events_end: true }));
            }
            stream.first.reverse();
        } else if bound < self.compacted {
            // Servers report an expired revision either as a response or as an event.
            if self.tape.pick(2) == 0 {
                return Err(expired());
            }
            stream.first.push(error_event(expired()));
        }
        self.watch = Some(stream);
        Ok(())
    }

    /// Returns the next event. Returns `None` if the watch is silent.
    fn read(&mut self) -> Option<Option<Result<WatchEvent<Pod>, ApiError>>> {
        let fault = self.tape.pick(24);
        let visible = self.head() - self.watch.as_ref()?.lag.min(self.head());
        // A server that is behind catches up with the newest revision over time.
        let stream = self.watch.as_mut()?;
        stream.lag = stream.lag.saturating_sub(1);
        match fault {
            0 => return Some(None),
            1 => return Some(Some(Err(cut()))),
            2 => return Some(Some(Ok(error_event(too_many_requests())))),
            3 => return Some(Some(Ok(error_event(failure(500, Reason::InternalError))))),
            4 => return Some(Some(Ok(error_event(expired())))),
            5 => return Some(Some(Err(ApiError::decode("an object without a name")))),
            6 => return None,
            7 if stream.first.is_empty() && stream.last.is_some() => return Some(stream.last.clone().map(Ok)),
            _ => {}
        }
        if let Some(event) = stream.first.pop() {
            return Some(Some(Ok(event)));
        }
        if fault == 8 || stream.received >= visible {
            let resource_version = stream.received.to_string();
            let bookmark = Bookmark { resource_version, initial_events_end: false };
            return Some(Some(Ok(WatchEvent::Bookmark(bookmark))));
        }
        let (event, name) = self.log[stream.received].clone();
        stream.received += 1;
        let pod = pod_at(NAMES[name], stream.received as u64);
        let event = event.map(|()| pod);
        stream.last = Some(event.clone());
        Some(Some(Ok(event)))
    }

    fn refusal(&mut self) -> Result<(), ApiError> {
        match self.tape.pick(16) {
            0 => Err(refused()),
            1 => Err(cut()),
            2 => Err(too_many_requests()),
            3 => Err(failure(500, Reason::InternalError)),
            4 => Err(failure(404, Reason::NotFound)),
            5 => Err(expired()),
            6 => Err(too_large()),
            _ => Ok(()),
        }
    }
}

fn error_event(error: ApiError) -> WatchEvent<Pod> {
    WatchEvent::Error(Box::new(error.status().unwrap().clone()))
}
