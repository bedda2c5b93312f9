//! The entries of a recording.

use std::error::Error;
use std::io::{self, BufRead, Read};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pintle_meta::{
    ApiError, ApiResource, Bookmark, Cause, ErrorKind, GroupVersion, ListMeta, ListOptions, Oversized, RawObject,
    RequestLine, Scope, Status, WatchEvent, WatchOptions,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

#[derive(Debug, PartialEq)]
pub(crate) struct Line {
    /// The time of the entry since the start of the recording.
    pub(crate) at: Duration,
    /// The number of the entry's request, starting from 1.
    pub(crate) call: u64,
    pub(crate) record: Record,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Record {
    Source(Source),
    List(Requested),
    Watch(Requested),
    Opened,
    Item(RawObject),
    Metadata(ListMeta),
    Event(WatchEvent<RawObject>),
    Failed(Box<Failure>),
    End,
    /// The recording has ended because its file is full.
    Full,
    /// The reason why the recording has stopped, after which there are no more entries.
    Lost(String),
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Source {
    api_version: GroupVersion,
    kind: String,
    plural: String,
    namespaced: bool,
    pub(crate) namespace: Option<String>,
}

/// The options of a request, which the recording contains only for human readers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Requested {
    /// The namespace of the request, or an empty string for all namespaces. `None` means the namespace of the
    /// recorded source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
    resource_version: String,
    label_selector: String,
    field_selector: String,
    limit: u32,
    #[serde(rename = "continue")]
    continue_token: String,
    send_initial_events: bool,
    timeout_seconds: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Failure {
    kind: Kind,
    message: String,
    status: Option<Box<Status>>,
    retry_after: Option<Duration>,
    /// Absent in recordings of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    earlier: Option<Box<Failure>>,
    method: Option<String>,
    url: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
enum Kind {
    Connect,
    Refused,
    Decode,
    InvalidRequest,
    Status,
    Throttled,
    Timeout,
    Transport,
    Unauthenticated,
    Unprocessed,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct TooLarge {
    key: Option<String>,
    uid: String,
    resource_version: String,
    size: u64,
    limit: usize,
}

/// The maximum length of a header line, in bytes.
const LONGEST: u64 = 256;

/// The prefix for the type of an entry whose object is too large to be recorded.
const OVERSIZED: &str = "OVERSIZED-";

impl Line {
    /// Returns the approximate number of bytes that this entry takes in memory.
    pub(super) fn size(&self) -> usize {
        size_of::<Self>() + self.record.written().1.len()
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let Self { at, call, record } = self;
        let (what, body) = record.written();
        [format!("{} {call} {what} {}\n", at.as_micros(), body.len()).as_bytes(), &body, b"\n"].concat()
    }

    /// Reads the next entry, or returns `None` if there is no complete entry left.
    pub(crate) fn read(file: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut header = String::new();
        file.by_ref().take(LONGEST).read_line(&mut header)?;
        let is_whole = header.ends_with('\n');
        if !is_whole && (header.len() as u64) < LONGEST {
            return Ok(None);
        }
        let header = header.trim_end_matches('\n');
        let faulty = || io::Error::new(io::ErrorKind::InvalidData, format!("{header:?} is not a line of a recording"));
        let [at, call, what, length] =
            <[&str; 4]>::try_from(header.split(' ').collect::<Vec<_>>()).map_err(|_| faulty())?;
        let [at, call, length] = [at, call, length].map(|number| number.parse::<u64>());
        let (Ok(at), Ok(call), Ok(length)) = (at, call, length) else { return Err(faulty()) };
        let mut body = Vec::new();
        file.by_ref().take(length.saturating_add(1)).read_to_end(&mut body)?;
        if body.len() as u64 <= length {
            return Ok(None);
        }
        if body.pop() != Some(b'\n') {
            return Err(faulty());
        }
        let record =
            Record::read(what, body.into()).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(Some(Self { at: Duration::from_micros(at), call, record }))
    }
}

impl Record {
    fn written(&self) -> (String, Bytes) {
        let (what, body) = match self {
            Self::Source(source) => ("SOURCE", json(source)),
            Self::List(request) => ("LIST", json(request)),
            Self::Watch(request) => ("WATCH", json(request)),
            Self::Opened => ("OPENED", Bytes::new()),
            Self::Item(object) => return written("ITEM", object),
            Self::Metadata(metadata) => ("METADATA", json(metadata)),
            Self::Event(event) => match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                    return written(event.event_type().as_str(), object);
                }
                WatchEvent::Bookmark(Bookmark { resource_version, initial_events_end: false }) => {
                    ("BOOKMARK", Bytes::copy_from_slice(resource_version.as_bytes()))
                }
                WatchEvent::Bookmark(Bookmark { resource_version, .. }) => {
                    ("INITIAL-EVENTS-END", Bytes::copy_from_slice(resource_version.as_bytes()))
                }
                WatchEvent::Error(status) => ("ERROR", json(status)),
            },
            Self::Failed(failure) => ("FAILED", json(failure)),
            Self::End => ("END", Bytes::new()),
            Self::Full => ("FULL", Bytes::new()),
            Self::Lost(why) => ("LOST", Bytes::copy_from_slice(why.as_bytes())),
        };
        (what.into(), body)
    }

    fn read(what: &str, body: Bytes) -> serde_json::Result<Self> {
        let (what, object) = match what.strip_prefix(OVERSIZED) {
            Some(what) => (what, Some(read::<TooLarge>(&body)?.into())),
            None => (what, None),
        };
        let object = || object.unwrap_or(RawObject::Json(body.clone()));
        let text = || String::from_utf8_lossy(&body).into_owned();
        let mark = |initial_events_end| Bookmark { resource_version: text(), initial_events_end };
        Ok(match what {
            "SOURCE" => Self::Source(read(&body)?),
            "LIST" => Self::List(read(&body)?),
            "WATCH" => Self::Watch(read(&body)?),
            "OPENED" => Self::Opened,
            "ITEM" => Self::Item(object()),
            "METADATA" => Self::Metadata(read(&body)?),
            "ADDED" => Self::Event(WatchEvent::Added(object())),
            "MODIFIED" => Self::Event(WatchEvent::Modified(object())),
            "DELETED" => Self::Event(WatchEvent::Deleted(object())),
            "BOOKMARK" => Self::Event(WatchEvent::Bookmark(mark(false))),
            "INITIAL-EVENTS-END" => Self::Event(WatchEvent::Bookmark(mark(true))),
            "ERROR" => Self::Event(WatchEvent::Error(read(&body)?)),
            "FAILED" => Self::Failed(read(&body)?),
            "END" => Self::End,
            "FULL" => Self::Full,
            "LOST" => Self::Lost(text()),
            _ => return Err(serde::de::Error::custom(format!("unknown entry type {what:?}"))),
        })
    }
}

fn written(what: &str, object: &RawObject) -> (String, Bytes) {
    match object {
        RawObject::Json(json) => (what.into(), json.clone()),
        RawObject::Oversized(oversized) => {
            let Oversized { key, uid, resource_version, size, limit } = &**oversized;
            let key = key.as_ref().map(|key| key.as_str().to_owned());
            let (uid, resource_version) = (uid.clone(), resource_version.clone());
            let found = TooLarge { key, uid, resource_version, size: *size, limit: *limit };
            (format!("{OVERSIZED}{what}"), json(&found))
        }
    }
}

fn json(value: &impl Serialize) -> Bytes {
    // Serialization cannot fail, because the value contains only strings and numbers.
    serde_json::to_vec(value).unwrap_or_default().into()
}

fn read<T: DeserializeOwned>(body: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(body)
}

impl Source {
    pub(crate) fn new(resource: ApiResource, namespace: Option<&str>) -> Self {
        let ApiResource { group_version, kind, plural, scope } = resource;
        let (namespaced, namespace) = (scope == Scope::Namespaced, namespace.map(str::to_owned));
        Self { api_version: group_version, kind, plural, namespaced, namespace }
    }

    pub(crate) fn resource(&self) -> ApiResource {
        let scope = if self.namespaced { Scope::Namespaced } else { Scope::Cluster };
        let Self { api_version, kind, plural, .. } = self.clone();
        ApiResource { group_version: api_version, kind, plural, scope }
    }
}

impl From<&ListOptions> for Requested {
    fn from(options: &ListOptions) -> Self {
        Self {
            resource_version: options.resource_version.clone(),
            label_selector: options.label_selector.to_string(),
            field_selector: options.field_selector.to_string(),
            limit: options.limit,
            continue_token: options.continue_token.clone(),
            ..Self::default()
        }
    }
}

impl From<&WatchOptions> for Requested {
    fn from(options: &WatchOptions) -> Self {
        Self {
            resource_version: options.resource_version.clone(),
            label_selector: options.label_selector.to_string(),
            field_selector: options.field_selector.to_string(),
            send_initial_events: options.send_initial_events,
            timeout_seconds: options.timeout.map(|timeout| timeout.as_secs()),
            ..Self::default()
        }
    }
}

impl From<TooLarge> for RawObject {
    fn from(found: TooLarge) -> Self {
        let TooLarge { key, uid, resource_version, size, limit } = found;
        // Parsing should succeed, because a server accepts only valid object names.
        let key = key.and_then(|key| key.parse().ok());
        Oversized { key, uid, resource_version, size, limit }.into()
    }
}

impl From<&ApiError> for Failure {
    fn from(error: &ApiError) -> Self {
        let (kind, message) = match &error.kind {
            ErrorKind::Connect { refused: true, cause } => (Kind::Refused, cause.to_string()),
            ErrorKind::Connect { cause, .. } => (Kind::Connect, cause.to_string()),
            ErrorKind::Decode(cause) => (Kind::Decode, cause.to_string()),
            ErrorKind::InvalidRequest(cause) => (Kind::InvalidRequest, cause.to_string()),
            ErrorKind::Status(status) => (Kind::Status, status.to_string()),
            ErrorKind::Throttled(cause) => (Kind::Throttled, cause.to_string()),
            ErrorKind::Timeout(cause) => (Kind::Timeout, cause.to_string()),
            ErrorKind::Transport(cause) => (Kind::Transport, cause.to_string()),
            ErrorKind::Unauthenticated(cause) => (Kind::Unauthenticated, cause.to_string()),
            ErrorKind::Unprocessed(cause) => (Kind::Unprocessed, cause.to_string()),
            // Record an error of unknown kind as a decode error. After a decode error, the reflector lists
            // again, as after most errors.
            _ => (Kind::Decode, error.to_string()),
        };
        let line = error.request.as_deref();
        Self {
            kind,
            message,
            status: error.status().cloned().map(Box::new),
            retry_after: error.retry_after,
            earlier: error.earlier.as_deref().map(|earlier| Box::new(earlier.into())),
            method: line.map(|line| line.method.to_string()),
            url: line.map(|line| line.url.to_string()),
        }
    }
}

impl From<Failure> for ApiError {
    fn from(failure: Failure) -> Self {
        let Failure { kind, message, status, retry_after, earlier, method, url } = failure;
        let request =
            method.zip(url).map(|(method, url)| RequestLine { method: method.into(), url: url.into() }.into());
        let error = match (kind, status) {
            (Kind::Refused, _) => Self::connection_refused(message),
            (Kind::Connect, _) => ErrorKind::Connect { refused: false, cause: cause(message) }.into(),
            (Kind::InvalidRequest, _) => Self::invalid_request(message),
            (Kind::Status, Some(status)) => ErrorKind::Status(status).into(),
            (Kind::Throttled, _) => ErrorKind::Throttled(cause(message)).into(),
            (Kind::Timeout, _) => Self::timeout(message),
            (Kind::Transport, _) => Self::transport(message),
            (Kind::Unauthenticated, _) => ErrorKind::Unauthenticated(cause(message)).into(),
            (Kind::Unprocessed, _) => ErrorKind::Unprocessed(cause(message)).into(),
            (Kind::Decode | Kind::Status, _) => Self::decode(message),
        };
        let earlier = earlier.map(|earlier| Arc::new(Self::from(*earlier)));
        Self { request, retry_after, earlier, ..error }
    }
}

fn cause(message: String) -> Cause {
    Box::<dyn Error + Send + Sync>::from(message).into()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::mem::discriminant;

    use super::*;

    /// Returns at least one error of each kind.
    fn kinds() -> Vec<ErrorKind> {
        let cause = || cause("reset".into());
        vec![
            ErrorKind::Connect { refused: true, cause: cause() },
            ErrorKind::Connect { refused: false, cause: cause() },
            ErrorKind::Decode(cause()),
            ErrorKind::InvalidRequest(cause()),
            ErrorKind::Status(Box::new(Status { code: 503, message: "later".into(), ..Status::default() })),
            ErrorKind::Throttled(cause()),
            ErrorKind::Timeout(cause()),
            ErrorKind::Transport(cause()),
            ErrorKind::Unauthenticated(cause()),
            ErrorKind::Unprocessed(cause()),
        ]
    }

    #[test]
    fn recorded_errors_equal_the_original() {
        for kind in kinds() {
            for earlier in [None, Some(Arc::new(ApiError::timeout("late")))] {
                let retry_after = Some(Duration::from_secs(7));
                let error = ApiError { earlier, retry_after, ..kind.clone().into() };
                let line = json(&Failure::from(&error));
                let replayed = ApiError::from(read::<Failure>(&line).unwrap());
                assert_eq!(discriminant(&replayed.kind), discriminant(&error.kind), "{error:?}");
                assert_eq!(replayed.to_string(), error.to_string());
                assert_eq!(replayed.is_unanswered(), error.is_unanswered(), "{error:?}");
                assert_eq!(replayed.may_have_acted(), error.may_have_acted(), "{error:?}");
                assert_eq!(replayed.retry_after, retry_after);
            }
        }
    }

    /// The compiler does not report kinds that this crate does not know, because `ErrorKind` is non-exhaustive.
    #[test]
    fn every_error_kind_is_tested() {
        let source = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../meta/src/error.rs")).unwrap();
        let (_, variants) = source.split_once("pub enum ErrorKind {\n").unwrap();
        let (variants, _) = variants.split_once("\n}\n").unwrap();
        let names = |text: &str| -> String { text.chars().take_while(char::is_ascii_alphanumeric).collect() };
        let variants = variants.lines().filter_map(|line| line.strip_prefix("    "));
        let variants = variants.map(names).filter(|name| !name.is_empty());
        let mut tested: Vec<_> = kinds().iter().map(|kind| names(&format!("{kind:?}"))).collect();
        tested.dedup();
        assert_eq!(variants.collect::<Vec<_>>(), tested);
    }

    /// Otherwise, large entries could exceed the memory limit of the queue to the writer thread.
    #[test]
    fn size_of_an_entry_includes_its_text() {
        let text = "x".repeat(1_000);
        let bookmark = Bookmark { resource_version: text.clone(), initial_events_end: false };
        let oversized = Oversized { key: None, uid: text.clone(), resource_version: String::new(), size: 1, limit: 1 };
        let records = [
            Record::List((&ListOptions { continue_token: text.clone(), ..ListOptions::default() }).into()),
            Record::Item(RawObject::Json(text.clone().into())),
            Record::Item(oversized.into()),
            Record::Metadata(ListMeta { continue_token: text.clone(), ..ListMeta::default() }),
            Record::Event(WatchEvent::Bookmark(bookmark)),
            Record::Event(WatchEvent::Error(Status { message: text.clone(), ..Status::default() }.into())),
            Record::Failed(Box::new((&ApiError::timeout(text.clone())).into())),
            Record::Lost(text),
        ];
        for record in records {
            let line = Line { at: Duration::ZERO, call: 1, record };
            assert!(line.size() >= size_of::<Line>() + 1_000, "{} bytes for {:?}", line.size(), line.record);
        }
    }

    #[test]
    fn error_in_an_older_recording_has_no_doubt() {
        let line = br#"{"kind":"Timeout","message":"late","status":null,"retryAfter":null,"method":null,"url":null}"#;
        let error = ApiError::from(read::<Failure>(line).unwrap());
        assert!(matches!(error.kind, ErrorKind::Timeout(_)) && error.earlier.is_none(), "{error:?}");
    }
}
