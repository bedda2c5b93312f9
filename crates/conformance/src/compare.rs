//! Compares the responses of a run to the recorded responses.

use std::cmp::Ordering;
use std::fmt;

use crate::case::Step;
use crate::json::Json;

/// A difference between the response to a step and the recorded response.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The step, and the path of the differing value in its response.
    pub at: String,
    /// The recorded value.
    pub want: String,
    /// The value in the new response.
    pub got: String,
    /// Whether the values differ only in the wording of a message. A difference in wording does not fail the case.
    pub is_wording: bool,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: want {}, got {}", self.at, self.want, self.got)
    }
}

/// Returns all differences between the recorded responses and the responses of a run.
#[must_use]
pub fn compare(want: &[Step], got: &[Step]) -> Vec<Difference> {
    let mut out = Vec::new();
    compare_steps(want, got, &mut out);
    out
}

fn compare_steps(want: &[Step], got: &[Step], out: &mut Vec<Difference>) {
    for (index, (want, got)) in want.iter().zip(got).enumerate() {
        if let (Some(want), Some(got)) = (&want.steps, &got.steps) {
            // Sort the responses by path and status, because concurrent steps finish in any order.
            compare_steps(&in_order(want), &in_order(got), out);
        } else if let Some(answer) = &want.answer {
            let at = format!("step {index} {want} ");
            diff(answer, got.answer.as_ref().unwrap_or(&Json::Null), &at, out);
        }
    }
}

fn in_order(steps: &[Step]) -> Vec<Step> {
    let mut steps = steps.to_vec();
    let status = |step: &Step| step.answer.as_ref().and_then(|answer| answer.member("status")).map(Json::plain);
    steps.sort_by_key(|step| (step.path.clone(), status(step)));
    steps
}

fn diff(want: &Json, got: &Json, at: &str, out: &mut Vec<Difference>) {
    match (want, got) {
        (Json::Object(wanted), Json::Object(gotten)) => {
            for (key, member) in wanted {
                match got.member(key) {
                    Some(other) => diff(member, other, &format!("{at}/{key}"), out),
                    None => out.push(hard(&format!("{at}/{key}"), member, "absent")),
                }
            }
            for (key, member) in gotten.iter().filter(|(key, _)| want.member(key).is_none()) {
                out.push(hard(&format!("{at}/{key}"), "absent", member));
            }
        }
        (Json::Array(wanted), Json::Array(gotten)) => {
            if wanted.len() != gotten.len() {
                let count = |items: &[Json], all: &Json| format!("{} items {}", items.len(), all);
                out.push(hard(at, count(wanted, want), count(gotten, got)));
            }
            let as_set = at.ends_with("/managedFields");
            let (wanted, gotten) = (sorted(wanted, as_set), sorted(gotten, as_set));
            for (index, (want, got)) in wanted.into_iter().zip(gotten).enumerate() {
                diff(want, got, &format!("{at}/{index}"), out);
            }
        }
        _ if want == got => {}
        _ => {
            let is_wording = matches!(at.rsplit('/').next(), Some("message" | "text" | "warning"));
            out.push(Difference { is_wording, ..hard(at, want, got) });
        }
    }
}

/// Sorts the entries of managedFields, because their order is not significant.
fn sorted(items: &[Json], as_set: bool) -> Vec<&Json> {
    fn order(a: &Json, b: &Json) -> Ordering {
        let part = |item: &Json, key: &str| item.member(key).and_then(Json::text).unwrap_or("").to_owned();
        let key = |item: &Json| ["manager", "operation", "subresource", "apiVersion"].map(|name| part(item, name));
        key(a).cmp(&key(b))
    }
    let mut items: Vec<&Json> = items.iter().collect();
    if as_set {
        items.sort_by(|a, b| order(a, b));
    }
    items
}

fn hard(at: &str, want: impl fmt::Display, got: impl fmt::Display) -> Difference {
    Difference { at: at.to_owned(), want: short(want), got: short(got), is_wording: false }
}

fn short(value: impl fmt::Display) -> String {
    const LONGEST: usize = 300;
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the responses of two lists of steps. `differences` contains the path of each expected difference. The
    /// prefix `~` marks a difference that is only in the wording.
    #[track_caller]
    fn check(want: &str, got: &str, differences: &[&str]) {
        let step = |answer: &str| -> Vec<Step> {
            serde_json::from_str(&format!(r#"[{{"do":"GET","path":"/p","answer":{answer}}}]"#)).expect("a step")
        };
        let out = compare(&step(want), &step(got));
        let paths: Vec<String> = out
            .iter()
            .map(|difference| {
                let at = difference.at.trim_start_matches("step 0 GET /p ");
                if difference.is_wording { format!("~{at}") } else { at.to_owned() }
            })
            .collect();
        assert_eq!(paths, differences, "{out:?}");
    }

    #[test]
    fn differences_have_their_path() {
        check(r#"{"a":1,"b":[1,2]}"#, r#"{"b":[1,2.0],"a":1}"#, &[]);
        check(r#"{"a":1,"b":2}"#, r#"{"a":3,"c":2}"#, &["/a", "/b", "/c"]);
        check(r#"{"a":[1,2]}"#, r#"{"a":[1]}"#, &["/a"]);
        check(r#"{"a":[]}"#, r#"{"a":null}"#, &["/a"]);
    }

    #[test]
    fn differences_of_wording_are_marked() {
        check(
            r#"{"body":{"message":"x","code":1}}"#,
            r#"{"body":{"message":"y","code":2}}"#,
            &["~/body/message", "/body/code"],
        );
        check(r#"{"headers":{"warning":"x"}}"#, r#"{"headers":{"warning":"y"}}"#, &["~/headers/warning"]);
        check(r#"{"body":{"message":"x"}}"#, r#"{"body":{}}"#, &["/body/message"]);
    }

    #[test]
    fn managed_fields_are_a_set() {
        let entry = |manager: &str| format!(r#"{{"manager":"{manager}","operation":"Update"}}"#);
        let list = |a: &str, b: &str| format!(r#"{{"managedFields":[{},{}]}}"#, entry(a), entry(b));
        check(&list("a", "b"), &list("b", "a"), &[]);
        check(&list("a", "b"), &list("b", "c"), &["/managedFields/0/manager", "/managedFields/1/manager"]);
    }

    #[test]
    fn order_of_concurrent_steps_is_ignored() {
        let steps = |first: u16, second: u16| -> Vec<Step> {
            let one = |status: u16| format!(r#"{{"do":"POST","path":"/p","answer":{{"status":{status}}}}}"#);
            let text = format!(r#"[{{"do":"TOGETHER","steps":[{},{}]}}]"#, one(first), one(second));
            serde_json::from_str(&text).expect("steps")
        };
        assert_eq!(compare(&steps(201, 409), &steps(409, 201)), []);
        assert_eq!(compare(&steps(201, 409), &steps(201, 201)).len(), 1);
    }
}
