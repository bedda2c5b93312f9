//! Compares the scanner with `serde_json`.

use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::*;

fn scanner() -> Scanner {
    let projection = Projection::default().without(&["spec", "containers", "env"]).without(&["status"]);
    Scanner::new(&projection.without(&["spec", "a\"b"]))
}

/// Returns an object's JSON without the fields that the scanner cuts.
fn pruned(json: &[u8]) -> Option<Vec<u8>> {
    Some(scanner().scan(json)?.pruned(json).into_owned())
}

/// Removes from the object all fields that the scanner should cut.
fn prune(object: &mut Value) {
    fn remove(value: &mut Value, path: &[&str]) {
        match (value, path) {
            (Value::Array(items), _) => items.iter_mut().for_each(|item| remove(item, path)),
            (Value::Object(members), [name]) => _ = members.remove(*name),
            (Value::Object(members), [name, rest @ ..]) => {
                members.get_mut(*name).into_iter().for_each(|member| remove(member, rest));
            }
            _ => {}
        }
    }
    if object["metadata"].is_object() {
        remove(object, Projection::MANAGED_FIELDS);
        remove(object, Projection::LAST_APPLIED);
    }
    remove(object, &["spec", "containers", "env"]);
    remove(object, &["spec", "a\"b"]);
    remove(object, &["status"]);
}

#[test]
fn cut_field_includes_its_comma() {
    for (json, expected) in [
        (r#"{"metadata":{"managedFields":[{"a":"]"}],"name":"a"}}"#, r#"{"metadata":{"name":"a"}}"#),
        (r#"{"metadata":{"name":"a","managedFields":[]},"kind":"Pod"}"#, r#"{"metadata":{"name":"a"},"kind":"Pod"}"#),
        (r#"{"metadata": { "managedFields" : null } }"#, r#"{"metadata": {  } }"#),
        (r#"{"status":1,"metadata":{"managedFields":"\"","managedFields":{}},"status":{}}"#, r#"{"metadata":{}}"#),
        (r#"{"metadata":{"uid":"u" , "managedFields":7 , "name":"a"}}"#, r#"{"metadata":{"uid":"u"  , "name":"a"}}"#),
        (
            r#"{"spec":{"containers":[{"env":[]},{"a":1,"env":{}},[{"env":1}],2]}}"#,
            r#"{"spec":{"containers":[{},{"a":1},[{}],2]}}"#,
        ),
        (r#"{"spec":[{"a\"b":1}],"stat\u0075s":2}"#, r#"{"spec":[{}]}"#),
        (
            r#"{"spec":{"status":1,"env":2,"metadata":{"managedFields":3}}}"#,
            r#"{"spec":{"status":1,"env":2,"metadata":{"managedFields":3}}}"#,
        ),
        (r#"{"metadata":[{"managedFields":1}]}"#, r#"{"metadata":[{"managedFields":1}]}"#),
        ("{}", "{}"),
    ] {
        let pruned = pruned(json.as_bytes()).map(|pruned| String::from_utf8(pruned).unwrap());
        assert_eq!(pruned.as_deref(), Some(expected), "{json}");
    }
}

#[test]
fn object_key_comes_from_its_own_metadata() {
    let named = |json: &str| {
        let json = json.as_bytes();
        let outline = scanner().scan(json).unwrap();
        let text = |text: Option<Cow<'_, str>>| text.unwrap_or_else(|| "-".into()).into_owned();
        let key = outline.key(json).map_or_else(|| "-".into(), |key| key.to_string());
        format!("{key} {} {}", text(outline.uid(json)), text(outline.resource_version(json)))
    };
    for (json, expected) in [
        (r#"{"metadata":{"name":"a","namespace":"b","uid":"u","resourceVersion":"7"}}"#, "b/a u 7"),
        (
            r#"{"spec":{"metadata":{"name":"x"}},"metadata":{"ownerReferences":[{"name":"x"}],"n\u0061me":"\u0061"}}"#,
            "a - -",
        ),
        (r#"{"name":"x","metadata":{"uid":7,"namespace":null,"name":["x"]}}"#, "- - -"),
        (r#"{"metadata":[{"name":"x"}]}"#, "- - -"),
        (r#"{"metadata":null}"#, "- - -"),
    ] {
        assert_eq!(named(json), expected, "{json}");
    }
}

#[test]
fn invalid_json_is_left_to_the_decoder() {
    let deep = format!(r#"{{"spec":{}"#, "[".repeat(100_000));
    for json in [
        "",
        "7",
        "[{}]",
        "{",
        r#"{"a""#,
        r#"{"a":"#,
        r#"{"a":}"#,
        r#"{"a":1 "b":2}"#,
        r#"{"a\"#,
        r#"{"status":1,}"#,
        &deep,
    ] {
        assert!(pruned(json.as_bytes()).is_none(), "{json}");
    }
}

#[test]
fn scan_ends_after_the_metadata() {
    let json = br#"{"metadata":{"name":"a","managedFields":1},"spec":"#;
    let outline = Scanner::new(&Projection::default()).scan(json).unwrap();
    assert_eq!(&*outline.pruned(json), br#"{"metadata":{"name":"a"},"spec":"#);
}

/// Returns objects with field names that the scanner handles. The field names occur at the paths that the scanner looks
/// for and at other paths.
fn object() -> impl Strategy<Value = Value> {
    let names = [
        "metadata",
        "managedFields",
        "annotations",
        "name",
        "uid",
        "spec",
        "containers",
        "env",
        "status",
        "a\"b",
        "kubectl.kubernetes.io/last-applied-configuration",
        "x",
    ];
    let name = prop::sample::select(names.map(str::to_owned).to_vec());
    let leaf = prop_oneof![
        Just(json!(null)),
        Just(json!(-1.5e3)),
        Just(json!(true)),
        "[a-z\\[\\]{}:,\"\\\\\u{7}\u{e4}]{0,40}".prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(5, 40, 5, move |inner| {
        let member = (name.clone(), inner.clone());
        prop_oneof![
            1 => prop::collection::vec(inner, 0..4).prop_map(Value::from),
            4 => prop::collection::vec(member, 0..5).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    });
    value.prop_filter("an object", Value::is_object)
}

/// Serializes the object in unusual forms: with indentation, or with escaped letters in field names.
fn written(object: &Value, is_pretty: bool, escapes: bool) -> Vec<u8> {
    let text = if is_pretty { serde_json::to_string_pretty(object) } else { serde_json::to_string(object) };
    let text = text.unwrap();
    if escapes { text.replace("ta", "\\u0074a").replace("env", "\\u0065nv").into() } else { text.into() }
}

proptest! {
    #[test]
    fn pruned_json_equals_serde_without_the_fields(object in object(), is_pretty in any::<bool>(), escapes in any::<bool>()) {
        let text = written(&object, is_pretty, escapes);
        let left = pruned(&text).unwrap();
        let mut expected: Value = serde_json::from_slice(&text).unwrap();
        let metadata = expected["metadata"].clone();
        prune(&mut expected);
        prop_assert_eq!(serde_json::from_slice::<Value>(&left).unwrap(), expected);
        let outline = scanner().scan(&text).unwrap();
        let name = outline.key(&text).map(|key| key.name().to_owned());
        prop_assert_eq!(outline.uid(&text).map(Cow::into_owned), metadata["uid"].as_str().map(str::to_owned));
        prop_assert_eq!(name, metadata["name"].as_str().map(str::to_owned));
    }

    #[test]
    fn pruned_json_stays_json_and_nothing_panics(
        object in object(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(b"{}[]:,\"\\ 0e\xff".to_vec()), any::<bool>()), 0..4),
    ) {
        let mut text = written(&object, false, false);
        for (place, byte, puts_in) in edits {
            let at = place.index(text.len());
            if puts_in { text.insert(at, byte) } else { text[at] = byte }
        }
        let left = pruned(&text);
        if serde_json::from_slice::<IgnoredAny>(&text).is_ok() {
            let is_object = text.trim_ascii_start().first() == Some(&b'{');
            if text.is_ascii() {
                prop_assert_eq!(left.is_some(), is_object, "{}", String::from_utf8_lossy(&text));
            }
            if let Some(left) = left {
                prop_assert!(serde_json::from_slice::<IgnoredAny>(&left).is_ok(), "{}", String::from_utf8_lossy(&left));
            }
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic_the_scanner(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let json = [br#"{"metadata":{"name":"#.as_slice(), &bytes].concat();
        _ = pruned(&json).map(|left| assert!(left.len() <= json.len()));
        _ = pruned(&bytes);
    }
}

/// Returns the newest writer in `managedFields`, with and without a projection that drops the field.
fn newest(managed_fields: &str) -> Vec<String> {
    let json = format!(r#"{{"metadata":{{"name":"a","managedFields":{managed_fields},"uid":"u"}}}}"#);
    let projections = [Projection::default(), Projection::whole()];
    let newest = projections.iter().map(|projection| {
        let outline = Scanner::new(projection).scan(json.as_bytes()).unwrap();
        assert_eq!(outline.uid(json.as_bytes()).as_deref(), Some("u"), "{json}");
        let writer = outline.last_write(json.as_bytes()).writer(LastWrite::default());
        writer.map_or_else(|| "-".into(), |writer| writer.to_string())
    });
    newest.collect()
}

#[test]
fn newest_writer_has_the_latest_time() {
    for (managed_fields, expected) in [
        (
            r#"[{"manager":"a","operation":"Apply","time":"2026-01-01T00:00:02Z"},{"manager":"b","operation":"Update","time":"2026-01-01T00:00:01Z"}]"#,
            "a (Apply)",
        ),
        (
            r#" [ { "manager" : "a" , "operation" : "Apply" , "time" : "2026-01-01T00:00:01Z" } , { "time":"2026-01-01T00:00:01Z", "operation":"Update","manager":"b", "subresource":"status" , "fieldsV1" : {"f:a":{}} } ] "#,
            "b (Update, status)",
        ),
        (r#"[{"manager":"a","operation":"Update"}]"#, "a (Update)"),
        (r#"[{"manager":"a\"\u0041","operation":"Update"}]"#, "a\"A (Update)"),
        (r#"[{"manager":"a","operation":"Update","time":"2"},{"manager":"b","operation":"Update"}]"#, "a (Update)"),
        (r#"[{"operation":"Update","time":"2"}]"#, "-"),
        ("[]", "-"),
        ("null", "-"),
        ("7", "-"),
        (r#"{"manager":"a"}"#, "-"),
        (r#"["a",{"manager":"b","operation":"Update"}]"#, "-"),
        (r#"[{"manager":["b"],"operation":"Update"}]"#, "-"),
        (r#"[{"manager":"b" "operation":"Update"}]"#, "-"),
    ] {
        assert_eq!(newest(managed_fields), [expected, expected], "{managed_fields}");
    }
    let long = "x".repeat(10_000);
    assert_eq!(newest(&format!(r#"[{{"manager":"{long}","operation":"Update"}}]"#)), ["-", "-"]);
}

#[test]
fn partly_dropped_managed_fields_have_no_writer() {
    let json = br#"{"metadata":{"managedFields":[{"manager":"a","fieldsV1":{}}],"name":"a"}}"#;
    let outline =
        Scanner::new(&Projection::whole().without(&["metadata", "managedFields", "fieldsV1"])).scan(json).unwrap();
    assert_eq!(&*outline.pruned(json), br#"{"metadata":{"managedFields":[{"manager":"a"}],"name":"a"}}"#);
    assert_eq!(outline.last_write(json), LastWrite::default());
}

#[test]
fn many_writers_of_one_second_are_bounded() {
    let entries: Vec<_> = (0..9).map(|n| format!(r#"{{"manager":"m{n}","operation":"Update","time":"1"}}"#)).collect();
    let all = |range: std::ops::Range<usize>| {
        let json = format!(r#"{{"metadata":{{"managedFields":[{}]}}}}"#, entries[range].join(","));
        scanner().scan(json.as_bytes()).unwrap().last_write(json.as_bytes())
    };
    assert_eq!(all(0..9), all(5..9));
    assert_ne!(all(5..9), all(6..9));
}
