//! Compares the JSON members that the page's script reads with the members of the real JSON.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The script's variables that refer to parts of the JSON, with JSON pointers to examples of these parts.
const VARIABLES: &[(&str, &str)] = &[
    ("status", ""),
    ("lease", "/leader"),
    ("left", "/left_out"),
    ("check", "/ready/0"),
    ("controller", "/controllers/0"),
    ("queue", "/controllers/0/queue"),
    ("blocked", "/controllers/0/blocked/0"),
    ("source", "/controllers/0/sources/0"),
    ("entry", "/controllers/0/failing/0"),
    ("call", "/controllers/0/failing/0/last_call"),
    ("cause", "/controllers/0/failing/0/causes/0"),
    ("group", "/shards/0"),
    ("shard", "/shards/0/shards/0"),
    ("explanation", "/explanation"),
];

/// Members that a shared function of the script reads through a variable with another name.
const READ_ELSEWHERE: &[(&str, &str)] = &[("explanation", "state"), ("explanation", "due_in_seconds")];

/// Returns `true` if the debug page's JSON contains an example of each section. Related sections may appear one after
/// the other, because the JSON is not a consistent snapshot.
pub(super) fn is_complete(json: &Value) -> bool {
    VARIABLES.iter().all(|(_, pointer)| json.pointer(pointer).is_some_and(Value::is_object))
        && json["informers"].as_array().unwrap().iter().any(|informer| informer["last_failure"].is_object())
}

/// Checks that each member that the script reads exists in the JSON, and that the script reads each member of the JSON.
pub(super) fn check(page: &str, json: &Value) {
    let script = page.split_once("<script>").unwrap().1.split_once("</script>").unwrap().0;
    let mut examples: BTreeMap<&str, &Value> =
        VARIABLES.iter().map(|(variable, pointer)| (*variable, json.pointer(pointer).unwrap())).collect();
    let informers = json["informers"].as_array().unwrap();
    let informer = informers.iter().find(|informer| informer["last_failure"].is_object()).unwrap();
    examples.extend([("informer", informer), ("failure", &informer["last_failure"])]);
    for (variable, example) in examples {
        let found: BTreeSet<&str> = example.as_object().unwrap().keys().map(String::as_str).collect();
        let read: BTreeSet<&str> = members(script, variable).collect();
        assert!(read.is_subset(&found), "the script reads {variable}.{:?}", read.difference(&found));
        let elsewhere = READ_ELSEWHERE.iter().filter(|(of, _)| *of == variable).map(|(_, member)| *member);
        let shown: BTreeSet<&str> = read.into_iter().chain(elsewhere).collect();
        assert!(found.is_subset(&shown), "the script ignores {variable}.{:?}", found.difference(&shown));
    }
}

/// Returns the members of `variable` that the script reads, based on the names after `variable.`.
fn members<'a>(script: &'a str, variable: &str) -> impl Iterator<Item = &'a str> {
    let access = format!("{variable}.");
    let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let starts: Vec<_> = script.match_indices(&access).map(|(start, _)| start).collect();
    starts.into_iter().filter_map(move |start| {
        let is_whole = !script[..start].ends_with(|char| is_name(char) || char == '.');
        let rest = &script[start + access.len()..];
        is_whole.then(|| &rest[..rest.find(|char| !is_name(char)).unwrap_or(rest.len())])
    })
}
