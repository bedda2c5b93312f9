//! Converts objects between the versions of a custom resource, with the operations from a case.

use serde::Deserialize;

use crate::json::Json;

/// A step in the conversion of an object. All arguments except separators and new values are JSON pointers. An
/// operation without a value at its source pointer has no effect. An operation creates missing parent objects of its
/// destination.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Operation {
    Move(String, String),
    Copy(String, String),
    Set(String, Json),
    Drop(String),
    /// Moves several strings to the last pointer, joined with a separator.
    Join(Vec<String>, String, String),
    /// Removes a string, splits it at each separator, and writes the parts to the pointers. If there are more
    /// parts than pointers, or more pointers than parts, the rest is ignored.
    Split(String, String, Vec<String>),
}

pub(super) fn convert(object: &Json, version: &str, operations: &[Operation]) -> Json {
    let mut object = object.clone();
    put(&mut object, "/apiVersion", Json::from(version));
    operations.iter().for_each(|operation| operation.apply(&mut object));
    object
}

impl Operation {
    fn apply(&self, object: &mut Json) {
        match self {
            Self::Move(from, to) => {
                if let Some(value) = take(object, from) {
                    put(object, to, value);
                }
            }
            Self::Copy(from, to) => {
                if let Some(value) = object.at(from).cloned() {
                    put(object, to, value);
                }
            }
            Self::Set(to, value) => put(object, to, value.clone()),
            Self::Drop(from) => drop(take(object, from)),
            Self::Join(from, separator, to) => {
                // If a string is absent, still remove the strings before it, as the recorder does.
                let strings: Option<Vec<String>> =
                    from.iter().map(|from| take(object, from)?.text().map(str::to_owned)).collect();
                if let Some(strings) = strings {
                    put(object, to, Json::Text(strings.join(separator)));
                }
            }
            Self::Split(from, separator, to) => {
                let Some(Json::Text(text)) = take(object, from) else { return };
                for (to, part) in to.iter().zip(text.split(separator.as_str())) {
                    put(object, to, Json::from(part));
                }
            }
        }
    }
}

/// Sets the value at a pointer and creates missing parent objects. Does nothing if a parent is not an object.
fn put(value: &mut Json, pointer: &str, new: Json) {
    let mut place = value;
    for name in names(pointer) {
        let Json::Object(members) = place else { return };
        place = members.entry(name).or_insert_with(|| Json::object([]));
    }
    *place = new;
}

fn take(value: &mut Json, pointer: &str) -> Option<Json> {
    let mut names: Vec<String> = names(pointer).collect();
    let last = names.pop()?;
    let mut place = value;
    for name in names {
        let Json::Object(members) = place else { return None };
        place = members.get_mut(&name)?;
    }
    let Json::Object(members) = place else { return None };
    members.shift_remove(&last)
}

fn names(pointer: &str) -> impl Iterator<Item = String> {
    let pointer = pointer.trim_matches('/');
    pointer.split('/').filter(|name| !name.is_empty()).map(|name| name.replace("~1", "/").replace("~0", "~"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        serde_json::from_str(text).expect("test JSON")
    }

    #[track_caller]
    fn check(operations: &str, spec: &str, converted: &str) {
        let operations: Vec<Operation> = serde_json::from_str(operations).expect("operations");
        let object = json(&format!(r#"{{"apiVersion":"g/v1","spec":{spec}}}"#));
        let expected = json(&format!(r#"{{"apiVersion":"g/v2","spec":{converted}}}"#));
        assert_eq!(convert(&object, "g/v2", &operations), expected);
    }

    #[test]
    fn values_are_moved_copied_set_and_dropped() {
        check(r#"[{"move":["/spec/a","/spec/b/c"]}]"#, r#"{"a":1}"#, r#"{"b":{"c":1}}"#);
        check(r#"[{"copy":["/spec/a","/spec/b"]}]"#, r#"{"a":[1]}"#, r#"{"a":[1],"b":[1]}"#);
        check(r#"[{"set":["/spec/a~1b",null]}]"#, "{}", r#"{"a/b":null}"#);
        check(r#"[{"drop":"/spec/a"}]"#, r#"{"a":1,"b":2}"#, r#"{"b":2}"#);
    }

    #[test]
    fn strings_are_joined_and_split() {
        let join = r#"[{"join":[["/spec/host","/spec/port"],":","/spec/addr"]}]"#;
        check(join, r#"{"host":"h","port":"80"}"#, r#"{"addr":"h:80"}"#);
        let split = r#"[{"split":["/spec/addr",":",["/spec/host","/spec/port"]]}]"#;
        check(split, r#"{"addr":"h:80"}"#, r#"{"host":"h","port":"80"}"#);
        check(split, r#"{"addr":"h"}"#, r#"{"host":"h"}"#);
        check(split, r#"{"addr":"h:80:x"}"#, r#"{"host":"h","port":"80"}"#);
    }

    #[test]
    fn operations_without_a_source_have_no_effect() {
        let all = r#"[{"move":["/spec/x","/spec/y"]},{"copy":["/spec/x/z","/spec/y"]},{"drop":"/spec/a/b"},
            {"join":[["/spec/x"],":","/spec/y"]},{"split":["/spec/x",":",["/spec/y"]]},{"set":["/spec/a/b",1]}]"#;
        check(all, r#"{"a":1}"#, r#"{"a":1}"#);
        assert_eq!(convert(&json("7"), "g/v2", &[]), json("7"));
    }

    #[test]
    fn unknown_operation_is_an_error() {
        let error = serde_json::from_str::<Operation>(r#"{"rename":["/a","/b"]}"#).expect_err("unknown");
        assert!(error.to_string().contains("rename"), "{error}");
    }
}
