//! Entry points for the fuzz targets in `crates/fuzz/` and for the corpus tests in this module. Each function panics if
//! the input violates an invariant.

#![allow(clippy::unwrap_used, reason = "failed checks panic")]

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use pintle_meta::{RawObject, WatchEvent};
use serde::de::IgnoredAny;

use crate::api::lines;
use crate::auth::{exec, token};
use crate::base::Base;
use crate::list::splitter::{Fault, ListSplitter};
use crate::mapper;
use crate::retry::{Outcome, Repetition, Retry, retry_after};
use crate::status::{self, Subject};
use crate::warning::parse::parse_all;
use crate::watch::FrameSplitter;

/// Checks a watch. The events must not depend on how the input is split into chunks, and no byte may be lost.
/// `FrameSplitter` must find the same events as the JSON parser.
pub fn frames(bytes: &[u8]) {
    fn all<T>(bytes: &[u8], step: usize, next: impl Fn(&mut FrameSplitter) -> Option<T>) -> (Vec<T>, bool) {
        let mut splitter = FrameSplitter::new(1 << 20);
        let mut found = Vec::new();
        for chunk in bytes.chunks(step) {
            splitter.push(Bytes::copy_from_slice(chunk));
            found.extend(std::iter::from_fn(|| next(&mut splitter)));
        }
        (found, splitter.is_between_frames())
    }
    let split = |step| all(bytes, step, |splitter| splitter.next_frame().map(Result::unwrap));
    let events = |step| all(bytes, step, |splitter| splitter.next_event().map(Result::ok)).0;
    let step = bytes.len().max(1);
    let (frames, found) = (split(step), events(step));
    for step in [1, 7] {
        assert_eq!((split(step), events(step)), (frames.clone(), found.clone()), "chunks of {step} bytes");
    }
    let dense = |bytes: &[u8]| bytes.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect::<Vec<_>>();
    let joined = dense(&frames.0.concat());
    assert_eq!(joined, dense(bytes)[..joined.len()]);
    assert_eq!(found.len(), frames.0.len());
    for (frame, event) in frames.0.iter().zip(found) {
        if let Ok(parsed) = WatchEvent::parse(frame) {
            assert_eq!(event, Some(parsed));
        }
    }
}

/// Checks a list. The items must not depend on how the input is split into chunks. `ListSplitter` must accept every
/// body that serde accepts as JSON.
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
        assert_eq!(split(step), whole, "chunks of {step} bytes");
    }
    if serde_json::from_slice::<IgnoredAny>(bytes).is_ok() {
        let envelope = whole.1.unwrap();
        serde_json::from_slice::<IgnoredAny>(&envelope).unwrap();
        for item in whole.0 {
            let RawObject::Json(item) = item else { panic!("no item is above the limit") };
            serde_json::from_slice::<IgnoredAny>(&item).unwrap();
        }
    }
}

/// Checks `Warning` headers. The input contains one header per line. An invalid warning must not affect valid warnings
/// that precede it.
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

const SECRET: &str = "hush";

/// Checks a credential plugin's output. Errors may quote only the kind and the version, because the output contains
/// credentials.
pub fn exec_output(bytes: &[u8]) {
    if let Some(error) = exec::complaint(bytes) {
        let said = error.to_string();
        assert!(said.contains(": it printed \"") || !said.contains(SECRET), "{said}");
    }
}

/// Checks a token file. Parsing must return a header whose `Debug` output does not contain the token, or an error
/// without the token.
pub fn token_file(bytes: &[u8]) {
    match token::header(bytes) {
        Ok(header) => {
            assert!(header.is_sensitive());
            let token = header.as_bytes().strip_prefix(b"Bearer ").unwrap();
            assert!(!token.is_empty() && bytes.windows(token.len()).any(|part| part == token));
        }
        Err(why) => assert!(!why.contains(SECRET), "{why}"),
    }
}

/// Checks the parser for responses of an OpenID Connect issuer, and the parser for ID tokens. Errors may only quote
/// known error codes.
#[cfg(feature = "oidc")]
pub fn oidc(bytes: &[u8]) {
    use crate::oidc::{Discovery, TokenResponse, expiry, refusal};

    let faults = [Discovery::read(bytes).err(), TokenResponse::read(bytes).err()];
    for said in faults.into_iter().flatten().chain(refusal(bytes).map(str::to_owned)) {
        assert!(!said.contains(SECRET), "{said}");
    }
    let ends = |token: &str| expiry(token).is_some();
    let text = String::from_utf8_lossy(bytes);
    if ends(&text) {
        assert!(!ends(&text.replace('.', "")) && !ends(&format!("{text}.x")), "a token has three parts");
    }
}

/// Checks a server address. Formatting the address and parsing the result must return the same address.
pub fn server_url(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for tls in [false, true] {
        let Ok(base) = Base::parse(&text, tls) else { continue };
        // The path of an address may end with a space, which would be lost in a second parse without the `#`.
        let again = format!("{base}#");
        assert_eq!(Base::parse(&again, !tls).ok().as_ref(), Some(&base), "{text:?}");
        let (host, port) = base.origin.host_and_port();
        assert!(!host.is_empty() && base.origin.authority.contains(&host), "{host:?} {port}");
        HeaderValue::from_str(base.origin.host_header()).unwrap();
    }
}

/// Checks the body of an error response. The resulting status may only contain a limited part of the body.
pub fn failure_body(bytes: &[u8]) {
    for kind in [None, Some("text/plain"), Some("application/json")] {
        let headers = kind.map(|kind| (http::header::CONTENT_TYPE, HeaderValue::from_static(kind)));
        let headers = HeaderMap::from_iter(headers);
        for code in [400, 403, 409, 410, 500, 504] {
            let subject = Subject { method: &Method::POST, resource: "pods", name: "a" };
            let status = status::failure(StatusCode::from_u16(code).unwrap(), &headers, bytes, &subject);
            assert!(status.code != 0 && status.status != "Success", "{status:?}");
            assert!(code < 500 || status.code == code, "the response may come from a proxy");
            let is_own = status::failure_anywhere(bytes).is_some();
            assert!(is_own || status.message.len() < 3 * 2048 + 200, "{}", status.message.len());
            assert!(is_own || kind != Some("application/json") || !status.message.contains(SECRET), "{status:?}");
        }
    }
}

/// Checks a discovery document. Looking up a resource of the document by name must return the same resource.
pub fn discovery(bytes: &[u8]) {
    for (resource, found) in mapper::found_in(bytes) {
        let (gvr, found) = (resource.gvr(), found.unwrap().gvr());
        assert_eq!((&gvr.group, &gvr.resource), (&found.group, &found.resource));
        assert!(gvr.version == found.version || gvr.version.is_empty());
    }
}

/// Checks `Retry-After`. If the client waits, it must wait for at least the time in the header and at most one minute.
pub fn retry_after_header(bytes: &[u8]) {
    const MINUTE: Duration = Duration::from_secs(60);
    let Ok(value) = HeaderValue::from_bytes(bytes) else { return };
    let headers = HeaderMap::from_iter([(http::header::RETRY_AFTER, value)]);
    let parsed = retry_after(&headers);
    for code in [429, 500, 503, 504] {
        let outcome = Outcome::of_response(StatusCode::from_u16(code).unwrap(), &headers);
        let wait = Retry::new(10, true).next_pause(outcome, || Repetition::Harmless);
        if let Some(wait) = wait {
            assert!(parsed.is_some_and(|parsed| parsed <= wait) && wait <= MINUTE, "{wait:?} {parsed:?}");
        }
    }
}

/// Checks WebSocket messages. Each reader must receive all data of its channel. In the input, each message is preceded
/// by one byte that contains its size.
#[cfg(feature = "ws")]
pub fn channel_messages(bytes: &[u8]) {
    use crate::channels::{CloseSignal, Layout, received};

    let mut rest = bytes;
    let mut messages = Vec::new();
    while let Some((size, after)) = rest.split_first() {
        let (message, after) = after.split_at(after.len().min((*size).into()));
        // Repeat the data of long messages, because the size byte of the fuzz input limits a message to 255 bytes.
        let repeat = if message.len() > 250 { 300 } else { 1 };
        messages.push(Bytes::from(
            [&message[..message.len().min(1)], &message[message.len().min(1)..].repeat(repeat)].concat(),
        ));
        rest = after;
    }
    let layouts = [
        Layout { inputs: &[1, 2], error: 3, preamble: 0, close_signal: CloseSignal::Message },
        Layout { inputs: &[1, 2], error: 3, preamble: 0, close_signal: CloseSignal::Unsupported },
        Layout { inputs: &[0], error: 1, preamble: 2, close_signal: CloseSignal::Flush },
    ];
    for layout in layouts {
        let (inputs, error) = received(layout, &messages);
        let closes = |message: &&Bytes, channel| {
            layout.close_signal == CloseSignal::Message && message.starts_with(&[255, channel])
        };
        for (channel, found) in layout.inputs.iter().zip(inputs) {
            let open = messages.iter().take_while(|message| !closes(message, *channel));
            let data = open.filter(|message| message.starts_with(&[*channel])).flat_map(|message| &message[1..]);
            assert_eq!(found, data.copied().skip(layout.preamble).collect::<Vec<u8>>(), "channel {channel}");
        }
        assert!(error.len() <= 3 * (64 << 10) && !error.contains('\n'), "{} bytes", error.len());
    }
}

/// Checks a log. The lines must not depend on how the input is split into chunks, and no byte may be lost.
pub fn log_lines(bytes: &[u8]) {
    let whole = lines(bytes, bytes.len().max(1));
    for step in [1, 7] {
        assert_eq!(lines(bytes, step), whole, "chunks of {step} bytes");
    }
    let text = whole.join(&b'\n');
    assert_eq!(text, bytes.strip_suffix(b"\n").unwrap_or(bytes));
}

#[cfg(test)]
mod tests {
    use pintle_testing::replay_corpus;

    use super::*;

    fn replay(name: &str, check: fn(&[u8])) {
        replay_corpus(format!("{}/../fuzz/corpus/{name}", env!("CARGO_MANIFEST_DIR")), 1_000, check);
    }

    #[test]
    fn any_frames_are_split_correctly() {
        replay("frames", frames);
    }

    #[test]
    fn any_list_is_split_correctly() {
        replay("list", list);
    }

    #[test]
    fn warnings_before_an_invalid_one_are_kept() {
        replay("warnings", warnings);
    }

    #[test]
    fn errors_do_not_quote_plugin_output() {
        replay("exec_output", exec_output);
    }

    #[test]
    fn errors_do_not_quote_a_token_file() {
        replay("token_file", token_file);
    }

    #[cfg(feature = "oidc")]
    #[test]
    fn errors_do_not_quote_an_issuer_response() {
        replay("oidc", oidc);
    }

    #[test]
    fn parsed_server_url_round_trips() {
        replay("server_url", server_url);
    }

    #[test]
    fn failure_never_becomes_a_success() {
        replay("failure_body", failure_body);
    }

    #[test]
    fn every_discovered_resource_is_found() {
        replay("discovery", discovery);
    }

    #[cfg(feature = "ws")]
    #[test]
    fn any_channel_message_reaches_its_reader() {
        replay("channel_messages", channel_messages);
    }

    #[test]
    fn any_log_is_split_into_lines() {
        replay("log_lines", log_lines);
    }

    #[test]
    fn any_retry_after_is_read_without_panic() {
        replay("retry_after", retry_after_header);
    }
}
