//! The load server for the `cache` benchmark, which sends prepared pods over plain HTTP/1.1.
//!
//! | request | response |
//! |---|---|
//! | `GET /api/v1/pods` | the list in chunks; pages of `limit` pods unless `resourceVersion=0` |
//! | `GET /api/v1/pods?watch=true` | the events ordered by `/control/events`; `sendInitialEvents=true` sends all pods first |
//! | a list or a watch with `Accept: application/vnd.kubernetes.protobuf` | after `/control/protobuf`, the complete list or the events in protobuf |
//! | `GET /control/protobuf` | encodes the pods in protobuf, so that later responses only send bytes |
//! | `GET /control/stats` | the number of pods and watches, and the time of the last list request |
//! | `GET /control/events?n=200000` | sends `n` updates to each watch, starting with number `first`, as fast as the watch is read; the list stays the same |
//! | `GET /control/expire?changed=1000` | changes `changed` pods and ends each watch with 410 Expired |
//!
//! Event number `i` updates pod number `i * 7919` modulo the number of pods. The new resource version of the pod is the
//! version of the list plus `i + 1`.

mod http;

use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pintle_meta::__private::{Mutex, RwLock};
use serde_json::json;

use crate::pods::{Pods, Protobuf};
use http::{Answer, JSON, PROTOBUF, Request};

/// Serves an API with `pods` pods until the process exits.
pub fn serve(pods: usize, listener: &TcpListener) -> io::Result<()> {
    let server = Server {
        pods: RwLock::new(Pods::new(pods)),
        protobuf: OnceLock::new(),
        order: Mutex::new((0, Order::Expire)),
        ordered: Condvar::new(),
        watches: AtomicUsize::new(0),
        listed: AtomicU64::new(0),
    };
    std::thread::scope(|scope| {
        loop {
            let (stream, _) = listener.accept()?;
            let server = &server;
            // Ignore connection errors, which affect only one client.
            scope.spawn(move || _ = server.connection(stream));
        }
    })
}

struct Server {
    pods: RwLock<Pods>,
    protobuf: OnceLock<Protobuf>,
    /// The [`Order`] from the last control request, with its sequence number. All watches execute it.
    order: Mutex<(u64, Order)>,
    ordered: Condvar,
    watches: AtomicUsize,
    /// The arrival time of the last list request, in nanoseconds since 1970.
    listed: AtomicU64,
}

#[derive(Clone, Copy)]
enum Order {
    Events { first: u64, n: u64 },
    Expire,
}

/// The size of a response chunk, in bytes.
const PIECE: usize = 64 << 10;

impl Server {
    fn connection(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut connection = http::Connection::new(stream);
        while let Some(request) = connection.request()? {
            let is_watch = matches!(request.value("watch"), Some("1" | "true"));
            let protobuf = self.protobuf.get().filter(|_| request.wants_protobuf);
            match (&*request.path, protobuf) {
                ("/api/v1/pods", Some(protobuf)) if is_watch => {
                    let answer = connection.answer(200, &format!("{PROTOBUF};stream=watch"))?;
                    self.watch(&request, Encoding::Protobuf(protobuf), answer)?;
                }
                ("/api/v1/pods", Some(protobuf)) => {
                    self.listed();
                    send(protobuf.list(), connection.answer(200, PROTOBUF)?)?;
                }
                ("/api/v1/pods", None) if is_watch => {
                    self.watch(&request, Encoding::Json, connection.answer(200, JSON)?)?;
                }
                ("/api/v1/pods", None) => self.list(&request, connection.answer(200, JSON)?)?,
                ("/control/stats", _) => {
                    let stats = json!({
                        "pods": self.pods.read().len(),
                        "version": self.pods.read().version(),
                        "watches": self.watches.load(Ordering::Acquire),
                        "listed": self.listed.load(Ordering::Acquire),
                    });
                    connection.answer(200, JSON)?.whole(stats.to_string().as_bytes())?;
                }
                ("/control/protobuf", _) => {
                    self.protobuf.get_or_init(|| Protobuf::new(&self.pods.read()));
                    connection.answer(200, JSON)?.whole(b"{}")?;
                }
                ("/control/events", _) => {
                    let [first, n] = ["first", "n"].map(|name| request.number(name).unwrap_or(0) as u64);
                    self.order(Order::Events { first, n });
                    connection.answer(200, JSON)?.whole(b"{}")?;
                }
                ("/control/expire", _) => {
                    let changed = request.number("changed").unwrap_or(0);
                    self.pods.write().change(changed);
                    self.order(Order::Expire);
                    connection.answer(200, JSON)?.whole(b"{}")?;
                }
                _ => connection.answer(404, JSON)?.whole(&status(404, "NotFound"))?,
            }
        }
        Ok(())
    }

    /// Stores the time of a list request.
    fn listed(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.listed.store(now.as_nanos() as u64, Ordering::Release);
    }

    fn list(&self, request: &Request, mut answer: Answer<'_>) -> io::Result<()> {
        if request.value("continue").is_none() {
            self.listed();
        }
        let pods = self.pods.read();
        let page = match request.number("limit").filter(|_| request.value("resourceVersion") != Some("0")) {
            None | Some(0) => 0..pods.len(),
            Some(limit) => {
                let start = request.number("continue").unwrap_or(0);
                start..(start + limit).min(pods.len())
            }
        };
        let mut metadata = json!({"resourceVersion": pods.version().to_string()});
        if page.end < pods.len() {
            metadata["continue"] = page.end.to_string().into();
            metadata["remainingItemCount"] = (pods.len() - page.end).into();
        }
        answer.piece(format!(r#"{{"kind":"PodList","apiVersion":"v1","metadata":{metadata},"items":["#).as_bytes())?;
        for piece in pods.list(page).chunks(PIECE) {
            answer.piece(piece)?;
        }
        answer.piece(b"]}\n")?;
        answer.end()
    }

    fn watch(&self, request: &Request, encoding: Encoding<'_>, mut answer: Answer<'_>) -> io::Result<()> {
        let (mut known, _) = *self.order.lock();
        if request.value("sendInitialEvents") == Some("true") {
            self.initial_events(&mut answer)?;
        }
        self.watches.fetch_add(1, Ordering::AcqRel);
        let ended = self.obey(&mut known, encoding, &mut answer);
        self.watches.fetch_sub(1, Ordering::AcqRel);
        ended
    }

    fn initial_events(&self, answer: &mut Answer<'_>) -> io::Result<()> {
        let pods = self.pods.read();
        let all = (0..pods.len()).map(|pod| (pod, None));
        put_events(all, answer, |pod, version, buffer| put_json(&pods, "ADDED", pod, version, buffer))?;
        let bookmark = json!({"type": "BOOKMARK", "object": {"kind": "Pod", "apiVersion": "v1", "metadata": {
            "resourceVersion": pods.version().to_string(), "annotations": {"k8s.io/initial-events-end": "true"},
        }}});
        answer.piece(format!("{bookmark}\n").as_bytes())
    }

    /// Executes the orders from control requests on a watch, until the watch expires or the client disconnects.
    fn obey(&self, known: &mut u64, encoding: Encoding<'_>, answer: &mut Answer<'_>) -> io::Result<()> {
        const LOOK_AFTER_CLIENT: Duration = Duration::from_millis(20);
        loop {
            let order = self.order.lock();
            let wait = self.ordered.wait_timeout_while(order, LOOK_AFTER_CLIENT, |order| order.0 == *known);
            let (number, order) = *wait.unwrap_or_else(PoisonError::into_inner).0;
            if number == *known {
                if answer.has_no_reader() {
                    return Ok(());
                }
                continue;
            }
            *known = number;
            match order {
                Order::Events { first, n } => {
                    let pods = self.pods.read();
                    let event = |i: u64| ((i * 7919 % pods.len() as u64) as usize, Some(pods.version() + 1 + i));
                    let events = (first..first + n).map(event);
                    put_events(events, answer, |pod, version, buffer| match encoding {
                        Encoding::Json => put_json(&pods, "MODIFIED", pod, version, buffer),
                        Encoding::Protobuf(protobuf) => protobuf.put_update(pod, version, buffer),
                    })?;
                }
                Order::Expire => {
                    let status = status(410, "Expired");
                    answer.piece(&[br#"{"type":"ERROR","object":"#, &*status, b"}\n"].concat())?;
                    return answer.end();
                }
            }
        }
    }

    fn order(&self, order: Order) {
        let mut last = self.order.lock();
        *last = (last.0 + 1, order);
        self.ordered.notify_all();
    }
}

/// The encoding of the events of a watch.
#[derive(Clone, Copy)]
enum Encoding<'a> {
    Json,
    Protobuf(&'a Protobuf),
}

/// Sends a watch event for each pod. `put` appends an event.
fn put_events(
    events: impl Iterator<Item = (usize, Option<u64>)>,
    answer: &mut Answer<'_>,
    put: impl Fn(usize, Option<u64>, &mut Vec<u8>),
) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(2 * PIECE);
    for (pod, version) in events {
        put(pod, version, &mut buffer);
        if buffer.len() >= PIECE {
            answer.piece(&buffer)?;
            buffer.clear();
        }
    }
    answer.piece(&buffer)
}

fn put_json(pods: &Pods, kind: &str, pod: usize, version: Option<u64>, buffer: &mut Vec<u8>) {
    buffer.extend_from_slice(format!(r#"{{"type":"{kind}","object":"#).as_bytes());
    pods.put(pod, version, buffer);
    buffer.extend_from_slice(b"}\n");
}

fn send(body: &[u8], mut answer: Answer<'_>) -> io::Result<()> {
    for piece in body.chunks(PIECE) {
        answer.piece(piece)?;
    }
    answer.end()
}

fn status(code: u16, reason: &str) -> Vec<u8> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason, "message": reason, "code": code,
    });
    status.to_string().into_bytes()
}

#[cfg(test)]
mod tests;
