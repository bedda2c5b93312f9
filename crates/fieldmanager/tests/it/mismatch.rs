//! Tests of the owners of custom resources that do not match their schema.

use pintle_fieldmanager::{apply, track_update};
use pintle_json::json;
use pintle_schema::Schema;

use super::{context, owners};

#[test]
fn mismatched_custom_resource_has_no_owners() {
    let fields = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
    let structural = json!({"type": "object", "properties": {"spec": fields, "status": fields}});
    let schema = Schema::custom("Widget", &structural);
    let context = context(&schema, "e.com/v1", "a");
    let widget = json!({"apiVersion": "e.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 1}});
    let mut created = widget.clone();
    created.set("status", json!({"size": "x"}));
    track_update(None, &mut created, &context);
    assert_eq!(owners(&created), []);

    let mut valid = widget;
    track_update(None, &mut valid, &context);
    assert_eq!(owners(&valid), [("a".into(), json!({"f:spec": {".": {}, "f:size": {}}}))]);
}

#[test]
fn value_without_a_type_keeps_its_owners() {
    let properties = json!({"a": {"type": "string"}});
    let typeless = json!({"x-kubernetes-preserve-unknown-fields": true, "properties": properties});
    let either = json!({"x-kubernetes-int-or-string": true, "properties": properties});
    for of_x in [typeless, either] {
        let spec = json!({"type": "object", "properties": {"x": of_x}});
        let schema = Schema::custom("Widget", &json!({"type": "object", "properties": {"spec": spec}}));
        let widget =
            |x| json!({"apiVersion": "e.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"x": x}});
        let by = |manager| context(&schema, "e.com/v1", manager);
        let mut live = widget(json!({"a": "b"}));
        track_update(None, &mut live, &by("a"));
        assert_eq!(owners(&live), [("a".into(), json!({"f:spec": {".": {}, "f:x": {".": {}, "f:a": {}}}}))]);
        for value in [json!("text"), json!([1]), json!([{"a": 1}]), json!(1)] {
            let mut created = widget(value.clone());
            track_update(None, &mut created, &by("a"));
            assert_eq!(owners(&created), [("a".into(), json!({"f:spec": {".": {}, "f:x": {}}}))], "{value}");
            let applied = apply(None, &widget(value.clone()), false, &by("a")).unwrap().object;
            assert_eq!(owners(&applied), [("a".into(), json!({"f:spec": {"f:x": {}}}))], "{value}");
            let forced = apply(Some(&live), &widget(value.clone()), true, &by("b")).unwrap().object;
            assert_eq!(forced["spec"]["x"], value);
        }
        let mut mismatched = widget(json!({"a": 1}));
        track_update(None, &mut mismatched, &by("a"));
        assert_eq!(owners(&mismatched), []);
    }
}

#[test]
fn string_with_a_format_accepts_any_scalar() {
    for (format, value, owner_count) in [
        ("date-time", json!(1), 1),
        ("other", json!(true), 1),
        ("date-time", json!([1]), 0),
        ("date-time", json!({"a": 1}), 0),
        ("byte", json!(1), 0),
        ("", json!(1), 0),
    ] {
        let spec = json!({"type": "object", "properties": {"at": {"type": "string", "format": format}}});
        let schema = Schema::custom("Widget", &json!({"type": "object", "properties": {"spec": spec}}));
        let mut created = json!({"apiVersion": "e.com/v1", "kind": "Widget", "metadata": {"name": "a"},
            "spec": {"at": value}});
        track_update(None, &mut created, &context(&schema, "e.com/v1", "a"));
        assert_eq!(owners(&created).len(), owner_count, "{format} {value}");
    }
}
