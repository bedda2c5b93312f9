//! Tests of how watches convert frames to events, and of how watches and streams end.

use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt;
use pintle_meta::{DynamicObject, ErrorKind, Object, RawObject, Reason, WatchEvent};
use pintle_restreq::{DeadlineExceeded, FrameSplitter, Phase, Watch};
use proptest::prelude::*;

use crate::support::{End, Reply, Server, soon, steady_clock};

const ADDED: &str = r#"{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"a","resourceVersion":"1"}}}"#;
const MODIFIED: &str = r#"{"type":"MODIFIED","object":{"kind":"Pod","metadata":{"name":"b"}}}"#;
const DELETED: &str = r#"{"type":"DELETED","object":{"kind":"Pod","metadata":{"name":"c"}}}"#;
const BOOKMARK: &str = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}"#;
const GONE: &str =
    r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version"}}"#;

/// Returns the events of a watch as strings, such as `added a`. The last string is `end` or `error: …`.
async fn events(mut watch: Watch<DynamicObject>) -> Vec<String> {
    let mut events = Vec::new();
    loop {
        events.push(match soon(watch.next()).await {
            None => break events.push("end".into()),
            Some(Err(error)) => format!("error: {error}"),
            Some(Ok(WatchEvent::Added(object))) => format!("added {}", object.name()),
            Some(Ok(WatchEvent::Modified(object))) => format!("modified {}", object.name()),
            Some(Ok(WatchEvent::Deleted(object))) => format!("deleted {}", object.name()),
            Some(Ok(WatchEvent::Bookmark(mark))) => format!("bookmark {}", mark.resource_version),
            Some(Ok(WatchEvent::Error(status))) => format!("status {}", status.code),
        });
    }
    events
}

async fn watch(reply: Reply) -> Vec<String> {
    let server = Server::always(reply).await;
    events(soon(server.client().get().param("watch", "true").watch()).await.unwrap()).await
}

#[tokio::test]
async fn frames_become_events_in_order() {
    let frames = [ADDED, "\n", MODIFIED, DELETED, "\n\n", BOOKMARK, GONE];
    let expected = ["added a", "modified b", "deleted c", "bookmark 9", "status 410", "end"];
    assert_eq!(watch(Reply::watch(&frames, End::Proper)).await, expected);
}

#[tokio::test]
async fn frame_may_span_any_chunks() {
    for at in 1..ADDED.len() {
        let (head, tail) = ADDED.split_at(at);
        let tail: &'static str = tail;
        assert_eq!(
            watch(Reply::watch(&[head, tail, "\n", DELETED], End::Proper)).await,
            ["added a", "deleted c", "end"]
        );
    }
}

#[tokio::test]
async fn empty_watch_ends_without_error() {
    assert_eq!(watch(Reply::watch(&[], End::Proper)).await, ["end"]);
}

#[tokio::test]
async fn lost_connection_ends_the_watch_with_an_error() {
    for (frames, end) in
        [(&[ADDED][..], End::Cut), (&[ADDED, &MODIFIED[..20]], End::Cut), (&[ADDED, "{\"type\""], End::Proper)]
    {
        let events = watch(Reply::watch(frames, end)).await;
        assert_eq!((events.len(), events[0].as_str(), events[2].as_str()), (3, "added a", "end"), "{events:?}");
        assert!(events[1].starts_with("error: GET http://127.0.0.1"), "{events:?}");
    }
}

/// All previous events are valid, so a reflector can resume the watch without a new list.
#[tokio::test]
async fn end_within_a_frame_is_a_lost_connection() {
    for frames in [&[ADDED, "{\"type\""][..], &[ADDED, &MODIFIED[..60]], &[ADDED, "\n{"]] {
        let server = Server::always(Reply::watch(frames, End::Proper)).await;
        let mut watch = soon(server.client().get().raw_watch()).await.unwrap();
        assert!(matches!(soon(watch.try_next()).await.unwrap(), Some(WatchEvent::Added(_))));
        let error = soon(watch.try_next()).await.unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Transport(_)), "{error:?}");
        assert!(soon(watch.try_next()).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn invalid_frame_ends_the_watch_with_an_error() {
    for (frame, word) in [
        (r#"{"type":"NEWS","object":{}}"#, "NEWS"),
        (r#"{"type":"ADDED"}"#, "no watch frame"),
        (r#"{"type":"ADDED","object":{"metadata":{"name":7}}}"#, "ADDED"),
        ("garbage ", "no watch frame"),
        ("[1,2] ", "no watch frame"),
    ] {
        let events = watch(Reply::watch(&[frame, ADDED], End::Proper)).await;
        assert_eq!(events.len(), 2, "{events:?}");
        assert!(events[0].starts_with("error:") && events[0].contains(word), "{word}: {events:?}");
    }
}

#[tokio::test]
async fn error_message_is_not_repeated() {
    for (frame, what) in [
        ("garbage ", "cannot read"),
        (r#"{"type":"ADDED","object":7}"#, "cannot read"),
        (r#"{"type":"ADDED""#, "ended within a frame"),
    ] {
        let server = Server::always(Reply::watch(&[frame], End::Proper)).await;
        let mut watch = soon(server.client().get().watch::<DynamicObject>()).await.unwrap();
        let error = soon(watch.next()).await.unwrap().unwrap_err();
        let text = error.to_string();
        assert_eq!((text.matches(what).count(), text.matches("GET http").count()), (1, 1), "{text}");
    }
}

#[tokio::test]
async fn too_large_frame_is_rejected() {
    let server = Server::always(Reply::watch(&[ADDED], End::Proper)).await;
    let request = server.client().get().max_body(50);
    let events = events(soon(request.watch()).await.unwrap()).await;
    assert!(events[0].contains("exceeds the limit of 50"), "{events:?}");
}

#[tokio::test]
async fn raw_watch_skips_too_large_frame_and_continues() {
    let big: &str = format!(
        r#"{{"object":{{"metadata":{{"managedFields":[{{"name":"x","pad":"{}"}}],"name":"b","namespace":"ns","resourceVersion":"7"}}}},"type":"MODIFIED"}}"#,
        "x".repeat(500)
    )
    .leak();
    let (head, tail) = big.split_at(300);
    for frames in [vec![ADDED, big, DELETED], vec![ADDED, head, tail, "\n", DELETED]] {
        let server = Server::always(Reply::watch(&frames, End::Proper)).await;
        let watch = soon(server.narrow_client(200).get().raw_watch()).await.unwrap();
        let events: Vec<_> = soon(watch.try_collect()).await.unwrap();
        let [WatchEvent::Added(_), WatchEvent::Modified(RawObject::Oversized(found)), WatchEvent::Deleted(_)] =
            &*events
        else {
            panic!("{events:?}")
        };
        assert_eq!((found.key.as_ref().unwrap().as_str(), &*found.resource_version), ("ns/b", "7"));
        assert_eq!((found.size, found.limit), (big.len() as u64, 200));
    }
}

#[tokio::test]
async fn large_frame_without_event_type_ends_the_watch() {
    for (kind, object) in [
        (r#""BOOKMARK""#, r#"{"metadata":{"name":"a"}"#),
        (r#""ERROR""#, r#"{"metadata":{"name":"a"}"#),
        (r#""NEWS""#, r#"{"metadata":{"name":"a"}"#),
        (r#"["ADDED"]"#, r#"{"metadata":{"name":"a"}"#),
        (r#""ADDED""#, r#"{"metadata":{"name":"a"}]"#),
    ] {
        let frame = format!(r#"{{"type":{kind},"object":{object},"pad":"{}"}}}}"#, "x".repeat(500));
        let server = Server::always(Reply::watch(&[frame.leak(), ADDED], End::Proper)).await;
        let watch = soon(server.client().get().max_body(200).raw_watch()).await.unwrap();
        let error = soon(watch.try_collect::<Vec<_>>()).await.unwrap_err().to_string();
        assert!(error.contains("no watch frame") || error.contains("exceeds the limit of 200"), "{error}");
    }
}

/// After an invalid byte in a large frame, it is unknown where the next frame starts. A watch that continued could
/// start reading in the middle of a frame.
#[tokio::test]
async fn large_invalid_json_frame_ends_the_watch() {
    let frame = format!(r#"{{"type":"ADDED","object":{{"metadata":{{"name":"a"}},"pad":"{}"]"#, "x".repeat(500));
    let server = Server::always(Reply::watch(&[frame.leak(), "\n", DELETED], End::Proper)).await;
    let watch = soon(server.client().get().max_body(200).raw_watch()).await.unwrap();
    let error = soon(watch.try_collect::<Vec<_>>()).await.unwrap_err().to_string();
    assert!(error.contains("exceeds the limit of 200"), "{error}");
}

#[tokio::test]
async fn invalid_utf8_object_does_not_end_a_raw_watch() {
    let bad = b"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"b\"},\"text\":\"\xff\"}}";
    let headers = vec![("content-type", "application/json".into())];
    let chunks = vec![Bytes::from(ADDED), Bytes::from_static(bad), DELETED.into()];
    let server = Server::always(Reply::Answer { status: 200, headers, chunks, end: End::Proper }).await;
    let watch = soon(server.client().get().raw_watch()).await.unwrap();
    let events: Vec<_> = soon(watch.try_collect()).await.unwrap();
    let [WatchEvent::Added(a), WatchEvent::Added(b), WatchEvent::Deleted(c)] = &*events else { panic!("{events:?}") };
    assert!(a.decode::<DynamicObject>().is_ok() && c.decode::<DynamicObject>().is_ok());
    assert!(b.decode::<DynamicObject>().unwrap_err().to_string().contains("unicode"));
}

#[tokio::test]
async fn watch_requires_json_and_status_200() {
    let server = Server::start([
        Reply::watch(&[ADDED], End::Proper).header("content-type", "foobar"),
        Reply::json(206, ADDED),
        Reply::json(403, ""),
        Reply::json(403, r#"{"kind":"Status","reason":"Forbidden","message":"secrets is forbidden","code":403}"#),
        Reply::json(401, ""),
        Reply::watch(&[ADDED], End::Proper).header("content-type", "application/json;stream=watch"),
    ])
    .await;
    let client = server.client();
    let open = || async { soon(client.get().resource("secrets").watch::<DynamicObject>()).await };
    let error = open().await.unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Decode(_)) && error.to_string().contains("foobar"), "{error}");
    assert!(matches!(open().await.unwrap_err().kind, ErrorKind::Status(_)));
    assert_eq!(open().await.unwrap_err().reason(), Some(&Reason::Forbidden));
    assert!(open().await.unwrap_err().to_string().contains("secrets is forbidden"));
    assert_eq!(open().await.unwrap_err().reason(), Some(&Reason::Unauthorized));
    assert_eq!(events(open().await.unwrap()).await, ["added a", "end"]);
}

#[tokio::test]
async fn expired_revision_at_start_is_a_typed_error() {
    let server =
        Server::always(Reply::json(410, r#"{"kind":"Status","code":410,"reason":"Expired","message":"old"}"#)).await;
    let error = soon(server.client().get().watch::<DynamicObject>()).await.unwrap_err();
    assert!(error.is_expired());
}

#[tokio::test(start_paused = true)]
async fn silent_watch_ends_after_the_idle_timeout() {
    let _clock = steady_clock();
    let server = Server::always(Reply::watch(&[ADDED], End::Stall)).await;
    let request = server.client().get().idle_timeout(Duration::from_secs(40));
    let mut watch = request.watch::<DynamicObject>().await.unwrap();
    let started = tokio::time::Instant::now();
    assert!(matches!(watch.next().await, Some(Ok(WatchEvent::Added(_)))));
    let error = watch.next().await.unwrap().unwrap_err();
    assert!(error.cause::<DeadlineExceeded>().is_some_and(|late| late.phase == Phase::Idle), "{error}");
    assert!(started.elapsed() >= Duration::from_secs(40));
    assert!(watch.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn request_timeout_does_not_end_a_watch() {
    let _clock = steady_clock();
    let server = Server::always(Reply::watch(&[ADDED], End::Stall)).await;
    let request = server.client().get().timeout(Duration::from_secs(1));
    let mut watch = request.watch::<DynamicObject>().await.unwrap();
    watch.next().await.unwrap().unwrap();
    let waiting = tokio::time::timeout(Duration::from_secs(300), watch.next()).await;
    assert!(waiting.is_err(), "the watch ended: {waiting:?}");
    assert_eq!(server.seen()[0].uri, "/?timeout=1s");
}

#[tokio::test]
async fn stream_returns_chunks_as_they_arrive() {
    let server = Server::start([Reply::watch(&["one ", "two"], End::Proper), Reply::watch(&["one"], End::Cut)]).await;
    let mut stream = soon(server.client().get().stream()).await.unwrap();
    let mut whole = Vec::new();
    while let Some(chunk) = soon(stream.next()).await {
        whole.extend_from_slice(&chunk.unwrap());
    }
    assert_eq!(whole, b"one two");
    let mut stream = soon(server.client().get().stream()).await.unwrap();
    soon(stream.next()).await.unwrap().unwrap();
    soon(stream.next()).await.unwrap().unwrap_err();
    assert!(soon(stream.next()).await.is_none());
}

#[test]
fn frame_within_one_chunk_is_not_copied() {
    let chunk = Bytes::from_static(b" {\"a\":1}\n{\"b\":2}");
    let mut splitter = FrameSplitter::new(100);
    splitter.push(chunk.clone());
    for at in [1, 9] {
        let frame = splitter.next_frame().unwrap().unwrap();
        assert_eq!(frame.as_ptr(), chunk[at..].as_ptr());
    }
    assert!(splitter.next_frame().is_none() && splitter.is_between_frames());
}

#[test]
fn frame_above_the_limit_is_skipped() {
    let mut splitter = FrameSplitter::new(10);
    for chunk in ["{\"a\":1}{\"b\":\"", "0123456789", "\"}{\"c\"", ":3}"] {
        splitter.push(chunk.into());
    }
    assert_eq!(splitter.next_frame(), Some(Ok("{\"a\":1}".into())));
    let too_large = splitter.next_frame().unwrap().unwrap_err();
    assert_eq!((too_large.object.size, too_large.object.limit, too_large.event_type), (18, 10, None));
    assert_eq!(splitter.next_frame(), Some(Ok("{\"c\":3}".into())));
}

fn value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        "[\\PC\"\\\\{}\\[\\]\n]{0,8}".prop_map(Into::into),
    ];
    let nested = leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            prop::collection::btree_map("[a-z\"\\\\]{0,4}", inner, 0..4)
                .prop_map(|members| members.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    });
    // A frame must be an object or an array, because two consecutive frames `1` and `2` could not be distinguished from
    // the number 12.
    nested.prop_filter("a container", |value| value.is_object() || value.is_array())
}

/// Pushes `text` in chunks of the given sizes. Returns all frames, and whether the text ended at the end of a frame.
fn split(text: &[u8], sizes: &[usize]) -> (Vec<Bytes>, bool) {
    let mut splitter = FrameSplitter::new(usize::MAX);
    let (mut frames, mut rest, mut sizes) = (Vec::new(), text, sizes.iter().cycle());
    while !rest.is_empty() {
        let size = (*sizes.next().unwrap()).clamp(1, rest.len());
        splitter.push(Bytes::copy_from_slice(&rest[..size]));
        rest = &rest[size..];
        while let Some(frame) = splitter.next_frame() {
            frames.push(frame.unwrap());
        }
    }
    (frames, splitter.is_between_frames())
}

proptest! {
    #[test]
    fn frames_are_the_values_that_serde_json_sees(
        values in prop::collection::vec((value(), any::<bool>(), prop::sample::select(vec!["", "\n", " \r\n\t"])), 0..8),
        sizes in prop::collection::vec(prop_oneof![1..40_usize, 1..400_usize], 1..8),
    ) {
        let mut text = String::new();
        for (value, pretty, space) in &values {
            let printed = if *pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
            text.push_str(&printed.unwrap());
            text.push_str(space);
        }
        let (frames, between) = split(text.as_bytes(), &sizes);
        let frames: Vec<serde_json::Value> = frames.iter().map(|frame| serde_json::from_slice(frame).unwrap()).collect();
        let expected: Vec<serde_json::Value> = values.into_iter().map(|(value, ..)| value).collect();
        prop_assert_eq!(&frames, &expected);
        prop_assert!(between);
    }

    #[test]
    fn splitter_loses_no_bytes_and_never_panics(
        bytes in prop::collection::vec(prop_oneof![Just(b'{'), Just(b'}'), Just(b'"'), Just(b'\\'), Just(b' '), any::<u8>()], 0..200),
        sizes in prop::collection::vec(1..9usize, 1..4),
    ) {
        let (frames, between) = split(&bytes, &sizes);
        let whole = split(&bytes, &[bytes.len().max(1)]);
        prop_assert_eq!(&(frames.clone(), between), &whole, "chunk boundaries make no difference");
        let dense = |bytes: &[u8]| bytes.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect::<Vec<_>>();
        let found = dense(&frames.concat());
        prop_assert_eq!(&found, &dense(&bytes)[..found.len()]);
    }
}
