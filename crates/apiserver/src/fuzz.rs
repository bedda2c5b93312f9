//! Fuzz targets, called by the programs in `crates/fuzz/` and by the
//! tests in this file. Each function panics if an invariant is violated.

#![allow(clippy::unwrap_used, reason = "a fuzz target reports a violation by a panic")]

use pintle_apiextensions::json_path;
use pintle_apimachinery::request::duration::go_duration;
use pintle_apimachinery::request::path::Target;
use pintle_apimachinery::request::query::Query;
use pintle_apimachinery::request::{accept, options};
use pintle_json::Json;

fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// Decodes a continue token, encodes the decoded value, and decodes the encoded
/// token. Panics if the two decoded values differ.
pub fn continue_token(bytes: &[u8]) {
    pintle_storage::continue_token::fuzz(&text(bytes));
}

/// Evaluates a JSONPath. The first line of the input is the JSONPath, and the remaining lines are the JSON value.
pub fn json_path(bytes: &[u8]) {
    let text = text(bytes);
    let (path, json) = text.split_once('\n').unwrap_or((&text, "null"));
    let value: Json = serde_json::from_str(json).unwrap_or_default();
    json_path::lookup(path, &value);
    if let Ok(steps) = json_path::parse(path) {
        json_path::find(&steps, &value);
    }
}

/// Parses a certificate request, as DER and as PEM.
pub fn certificate_request(bytes: &[u8]) {
    pintle_builtin::fuzz_certification_request(bytes);
}

/// Parses a request's path, query and `Accept` header, which are separate lines of the input.
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

/// Reads an HTTP/2 connection's header blocks. Panics if the result depends on how the bytes are split into reads.
pub fn header_blocks(bytes: &[u8]) {
    pintle_serving::header_blocks::fuzz(bytes);
}

#[cfg(test)]
mod tests {
    use pintle_testing::replay_corpus;

    use super::*;

    fn replay(name: &str, check: fn(&[u8])) {
        replay_corpus(format!("{}/../fuzz/corpus/{name}", env!("CARGO_MANIFEST_DIR")), 1_000, check);
    }

    #[test]
    fn continue_tokens_of_the_corpus_round_trip() {
        replay("continue_token", continue_token);
    }

    #[test]
    fn json_paths_of_the_corpus_do_not_panic() {
        replay("json_path", json_path);
    }

    #[test]
    fn certificate_requests_of_the_corpus_do_not_panic() {
        replay("certificate_request", certificate_request);
    }

    #[test]
    fn request_heads_of_the_corpus_do_not_panic() {
        replay("request_head", request_head);
    }

    #[test]
    fn header_blocks_of_the_corpus_ignore_splits() {
        replay("header_blocks", header_blocks);
    }
}
