//! What fuzzing puts bytes through, for programs in `fuzz/` and for the tests below: each function panics at what must not be.

#![allow(clippy::unwrap_used, reason = "it is to panic")]

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use pintle_meta::{RawObject, WatchEvent};
use serde::de::IgnoredAny;

use crate::auth::exec;
use crate::list::splitter::{Fault, ListSplitter};
use crate::retry::{Outcome, Repetition, Retry, retry_after};
use crate::transport::proxy::bypass::bypasses;
use crate::warning::parse::parse_all;
use crate::watch::FrameSplitter;

/// A watch's bytes: where they are cut makes no difference, none of them is lost, and what is found while a frame is cut is what its
/// parser finds.
pub fn frames(bytes: &[u8]) {
    let split = |step: usize| {
        let mut splitter = FrameSplitter::new(1 << 20);
        let mut frames = Vec::new();
        for chunk in bytes.chunks(step) {
            splitter.push(Bytes::copy_from_slice(chunk));
            frames.extend(std::iter::from_fn(|| splitter.next_marked()).map(|frame| frame.unwrap()));
        }
        (frames, splitter.is_between_frames())
    };
    let (whole, is_between) = split(bytes.len().max(1));
    for step in [1, 7] {
        let (parts, ended) = split(step);
        assert_eq!((&parts, ended), (&whole, is_between), "cut after every {step}");
    }
    let dense = |bytes: &[u8]| bytes.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect::<Vec<_>>();
    let found = dense(&whole.iter().map(|(frame, _)| &frame[..]).collect::<Vec<_>>().concat());
    assert_eq!(found, dense(bytes)[..found.len()]);
    for (frame, mark) in whole {
        let parsed = WatchEvent::parse(&frame);
        if let (Some(event), Ok(parsed)) = (mark.and_then(|mark| mark.event(&frame)), parsed) {
            assert_eq!(event, parsed);
        }
    }
}

/// A list's bytes: where they are cut makes no difference, and what is JSON to serde comes out whole.
pub fn list(bytes: &[u8]) {
    let split = |step: usize| -> (Vec<RawObject>, Result<Vec<u8>, Fault>) {
        let mut splitter = ListSplitter::new(1 << 20);
        let mut items = Vec::new();
        for chunk in bytes.chunks(step) {
            splitter.push(Bytes::copy_from_slice(chunk));
            loop {
                match splitter.next_item() {
                    Ok(Some(item)) => items.push(item),
                    Ok(None) => break,
                    Err(fault) => return (items, Err(fault)),
                }
            }
        }
        let envelope = splitter.finish().map(<[u8]>::to_vec);
        (items, envelope)
    };
    let whole = split(bytes.len().max(1));
    for step in [1, 7] {
        assert_eq!(split(step), whole, "cut after every {step}");
    }
    if serde_json::from_slice::<IgnoredAny>(bytes).is_ok() {
        let envelope = whole.1.unwrap();
        serde_json::from_slice::<IgnoredAny>(&envelope).unwrap();
        for item in whole.0 {
            let RawObject::Json(item) = item else { panic!("nothing here is that large") };
            serde_json::from_slice::<IgnoredAny>(&item).unwrap();
        }
    }
}

/// `Warning` headers, one on each line: good ones before a broken one are not lost.
pub fn warnings(bytes: &[u8]) {
    let mut headers = HeaderMap::new();
    let mut each = 0;
    for line in bytes.split(|byte| *byte == b'\n').take(100) {
        let Ok(value) = HeaderValue::from_bytes(line) else { continue };
        each += parse_all(&HeaderMap::from_iter([(http::header::WARNING, value.clone())])).len();
        headers.append(http::header::WARNING, value);
    }
    let warnings = parse_all(&headers);
    assert_eq!(warnings.len(), each);
    assert!(warnings.iter().all(|warning| warning.code <= 999));
}

/// What a credential program prints. No complaint quotes more of it than its kind and version: it holds credentials.
pub fn exec_output(bytes: &[u8]) {
    if let Some(error) = exec::complaint(bytes) {
        let said = error.to_string();
        assert!(said.contains("it printed") || !said.contains("hush"), "{said}");
    }
}

/// `NO_PROXY` in the first line, and hosts in the others.
pub fn no_proxy(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines();
    let list = lines.next().unwrap_or_default();
    for host in lines.take(20) {
        let found = bypasses(list, host, 443);
        assert_eq!(bypasses(&list.to_ascii_uppercase(), host, 443), found, "{list:?} {host:?} without regard to case");
        assert_eq!(bypasses(&format!("{list}, ,"), host, 443), found, "{list:?} {host:?} with empty entries");
        assert!(bypasses(&format!("{list},*"), host, 443));
    }
}

/// `Retry-After`, of an answer that asks for another try: the wait is bounded by what it says, and never passes for a date.
pub fn retry_after_header(bytes: &[u8]) {
    const MINUTE: Duration = Duration::from_secs(60);
    let Ok(value) = HeaderValue::from_bytes(bytes) else { return };
    let headers = HeaderMap::from_iter([(http::header::RETRY_AFTER, value)]);
    let told = retry_after(&headers);
    for code in [429, 500, 503, 504] {
        let outcome = Outcome::of_answer(StatusCode::from_u16(code).unwrap(), &headers);
        let wait = Retry::new(10, true).step(outcome, || Repetition::Harmless);
        if let Some(wait) = wait {
            assert!(told.is_some_and(|told| told <= wait) && wait <= MINUTE, "{wait:?} {told:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use pintle_testing::replay_corpus;

    use super::*;

    fn replay(name: &str, check: fn(&[u8])) {
        replay_corpus(format!("{}/../../fuzz/corpus/{name}", env!("CARGO_MANIFEST_DIR")), 1_000, check);
    }

    #[test]
    fn no_frames_are_cut_wrongly() {
        replay("frames", frames);
    }

    #[test]
    fn no_list_is_cut_wrongly() {
        replay("list", list);
    }

    #[test]
    fn no_warning_is_lost_behind_a_broken_one() {
        replay("warnings", warnings);
    }

    #[test]
    fn no_output_of_a_program_is_quoted() {
        replay("exec_output", exec_output);
    }

    #[test]
    fn no_list_of_exceptions_from_the_proxy_is_beyond_reading() {
        replay("no_proxy", no_proxy);
    }

    #[test]
    fn no_time_to_come_back_is_beyond_reading() {
        replay("retry_after", retry_after_header);
    }
}
