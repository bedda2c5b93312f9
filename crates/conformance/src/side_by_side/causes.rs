//! Groups differences by cause.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::case::Step;
use crate::compare::{Difference, compare};
use crate::json::Json;

/// The cause of one or more differences, without the document or request in which they occur.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause {
    /// The API version and kind of the document, such as `apps/v1/Deployment`.
    pub kind: String,
    /// The path of the value in the response, with `*` for list indices, as in `/body/spec/ports/*/name`.
    pub place: String,
    /// The kind of difference, or both status codes and the real server's message if the status codes differ. The
    /// kind is `missing` if only the real server sends the value, `added` if only the embedded server sends it, and
    /// `value` if the values differ.
    pub how: String,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.kind, self.place, self.how)
    }
}

/// The differences that have the same cause.
#[derive(Clone, Debug, Default)]
pub struct Sightings {
    /// The number of differences.
    pub count: usize,
    /// The requests whose responses show this difference, such as `create` or `put status`.
    pub requests: BTreeSet<String>,
    /// The documents that show this difference.
    pub documents: BTreeSet<String>,
    /// A description of the first difference with the values of both servers.
    pub example: String,
}

/// All causes with their differences.
#[derive(Clone, Debug, Default)]
pub struct Causes(pub BTreeMap<Cause, Sightings>);

impl Causes {
    /// Compares the responses of both servers for one document. If the status codes of a step differ, ignores all other
    /// differences in the step. If the status codes of the create request differ, also ignores all later steps.
    pub(super) fn add(&mut self, kind: &str, document: &str, real: &[Step], embedded: &[Step]) {
        for (real, embedded) in real.iter().zip(embedded) {
            let note = real.note.as_deref().unwrap_or_default();
            let [wanted, gotten] = [real, embedded].map(|step| part(step, "status"));
            if wanted != gotten {
                let [message, other] = [real, embedded].map(|step| part(step, "body/message"));
                let how = format!(
                    "{wanted}, embedded {gotten}: {}",
                    shape(if message.is_empty() { &other } else { &message })
                );
                let cause = Cause { kind: kind.to_owned(), place: "/status".to_owned(), how };
                self.see(cause, note, document, format!("real {wanted} {message}, embedded {gotten} {other}"));
                if note == "create" {
                    return;
                }
                continue;
            }
            for difference in compare(std::slice::from_ref(real), std::slice::from_ref(embedded)) {
                let place = difference.at.split_once(" /body").map_or_else(
                    || difference.at.rsplit(' ').next().unwrap_or_default().to_owned(),
                    |(_, place)| format!("/body{place}"),
                );
                let cause = Cause { kind: kind.to_owned(), place: pattern(&place), how: how(&difference) };
                let example = format!("real {}, embedded {}", difference.want, difference.got);
                self.see(cause, note, document, example);
            }
        }
    }

    pub(super) fn append(&mut self, other: Self) {
        for (cause, seen) in other.0 {
            let known = self.0.entry(cause).or_default();
            known.count += seen.count;
            known.requests.extend(seen.requests);
            known.documents.extend(seen.documents);
            if known.example.is_empty() {
                known.example = seen.example;
            }
        }
    }

    fn see(&mut self, cause: Cause, request: &str, document: &str, example: String) {
        let seen = self.0.entry(cause).or_default();
        seen.count += 1;
        seen.requests.insert(request.to_owned());
        seen.documents.insert(document.to_owned());
        if seen.example.is_empty() {
            seen.example = example;
        }
    }
}

fn part(step: &Step, pointer: &str) -> String {
    step.answer.as_ref().and_then(|answer| answer.at(pointer)).map(Json::plain).unwrap_or_default()
}

fn how(difference: &Difference) -> String {
    match (difference.want.as_str(), difference.got.as_str()) {
        (_, "absent") => "missing".to_owned(),
        ("absent", _) => "added".to_owned(),
        (want, _) if difference.is_wording => format!("words: {}", shape(want)),
        _ => "value".to_owned(),
    }
}

/// Generalizes a path: replaces list indices with `*`, and keys in managed fields with `k:` or `v:`.
fn pattern(place: &str) -> String {
    let general = |part: &str| match part {
        _ if part.parse::<usize>().is_ok() => "*".to_owned(),
        _ if part.starts_with("k:") || part.starts_with("v:") => part[..2].to_owned(),
        _ => part.to_owned(),
    };
    place.split('/').map(general).collect::<Vec<_>>().join("/")
}

/// Generalizes a message: replaces quoted text with `*` and numbers with `#`.
fn shape(message: &str) -> String {
    let message = message.replace("\\\"", "\"");
    let mut out = String::new();
    for (index, part) in message.split('"').enumerate() {
        if index % 2 == 1 {
            out.push('*');
            continue;
        }
        for char in part.chars() {
            match char {
                '0'..='9' if out.ends_with('#') => {}
                '0'..='9' => out.push('#'),
                _ => out.push(char),
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(note: &str, answer: &str) -> Vec<Step> {
        let text = format!(r#"[{{"do":"POST","path":"/p","note":"{note}","answer":{answer}}}]"#);
        serde_json::from_str(&text).expect("steps")
    }

    fn causes(pairs: &[(&str, &str, &str)]) -> Vec<String> {
        let mut causes = Causes::default();
        for (note, real, embedded) in pairs {
            causes.add("v1/Pod", "a.yaml#1", &steps(note, real), &steps(note, embedded));
        }
        causes.0.iter().map(|(cause, seen)| format!("{} {cause}", seen.count)).collect()
    }

    #[test]
    fn causes_ignore_indexes_and_requests() {
        let body = |inner: &str| format!(r#"{{"status":200,"body":{{"l":[{inner}]}}}}"#);
        let (one, two) = (body(r#"{"a":1}"#), body(r#"{"a":2}"#));
        assert_eq!(causes(&[("get", &one, &two), ("put", &one, &two)]), ["2 v1/Pod /body/l/*/a: value"]);
        assert_eq!(causes(&[("get", &one, &body("{}"))]), ["1 v1/Pod /body/l/*/a: missing"]);
        assert_eq!(causes(&[("get", &body("{}"), &one)]), ["1 v1/Pod /body/l/*/a: added"]);
        assert!(causes(&[("get", &one, &one)]).is_empty());
    }

    #[test]
    fn different_status_codes_are_one_difference_with_the_message() {
        let real = r#"{"status":422,"body":{"message":"spec[3]: Invalid value: \"x\"","code":422}}"#;
        let expected = "1 v1/Pod /status: 422, embedded 201: spec[#]: Invalid value: *";
        assert_eq!(causes(&[("create", real, r#"{"status":201,"body":{}}"#)]), [expected]);
    }

    #[test]
    fn messages_are_grouped_by_their_shape() {
        let body = |message: &str| format!(r#"{{"status":422,"body":{{"message":"{message}"}}}}"#);
        let pairs = [("create", &*body("a 1"), &*body("b")), ("create", &*body("a 22"), &*body("c"))];
        assert_eq!(causes(&pairs), ["2 v1/Pod /body/message: words: *"]);
    }
}
