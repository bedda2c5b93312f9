//! Tests of the owners of custom resources that do not match their schema.

use pintle_fieldmanager::track_update;
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
