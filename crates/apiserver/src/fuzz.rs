//! What fuzzing puts bytes through, for programs in `fuzz/` and for the tests below: each function panics at what must not be.

#![allow(clippy::unwrap_used, reason = "it is to panic")]

use pintle_json::Json;

use crate::crd;
use crate::request::duration::go_duration;
use crate::request::path::Target;
use crate::request::query::Query;
use crate::request::{accept, options};
use crate::{kinds, registry, server};

fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// A continue token: the place that it names is written so that it is read alike.
pub fn continue_token(bytes: &[u8]) {
    registry::fuzz_token(&text(bytes));
}

/// A JSONPath in the first line, and JSON after it.
pub fn json_path(bytes: &[u8]) {
    let text = text(bytes);
    let (path, json) = text.split_once('\n').unwrap_or((&text, "null"));
    let value: Json = serde_json::from_str(json).unwrap_or_default();
    crd::json_path::lookup(path, &value);
    if let Ok(steps) = crd::json_path::parse(path) {
        crd::json_path::find(&steps, &value);
    }
}

/// A certificate request in DER, and as PEM.
pub fn certificate_request(bytes: &[u8]) {
    kinds::fuzz_certification_request(bytes);
}

/// The path of a request, its query and its `Accept`, a line each.
pub fn request_head(bytes: &[u8]) {
    let text = text(bytes);
    let mut lines = text.splitn(3, '\n');
    let mut line = || lines.next().unwrap_or_default();
    Target::parse(line());
    let query = Query::parse(line());
    let _ = (options::ListOptions::parse(&query), go_duration(query.text("timeout")));
    for clause in accept::clauses(line()) {
        clause.media();
        clause.transform();
    }
}

/// The bytes of a connection, as far as they are headers of HTTP/2: however they are cut, they come to the same.
pub fn header_blocks(bytes: &[u8]) {
    server::fuzz_header_blocks(bytes);
}

#[cfg(test)]
mod tests {
    use pintle_testing::replay_corpus;

    use super::*;

    fn replay(name: &str, check: fn(&[u8])) {
        replay_corpus(format!("{}/../../fuzz/corpus/{name}", env!("CARGO_MANIFEST_DIR")), 1_000, check);
    }

    #[test]
    fn no_continue_token_is_read_otherwise_once_it_is_written() {
        replay("continue_token", continue_token);
    }

    #[test]
    fn no_json_path_is_beyond_reading() {
        replay("json_path", json_path);
    }

    #[test]
    fn no_certificate_request_is_beyond_reading() {
        replay("certificate_request", certificate_request);
    }

    #[test]
    fn no_head_of_a_request_is_beyond_reading() {
        replay("request_head", request_head);
    }

    #[test]
    fn no_block_of_headers_is_another_for_how_it_is_cut() {
        replay("header_blocks", header_blocks);
    }
}
