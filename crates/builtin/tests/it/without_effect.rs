//! Tests of the features that have no effect.

use pintle_json::json;

use pintle_kinds::without_effect::matches_served;

#[test]
fn rule_matches_resources_served_in_its_group_version() {
    let kinds = pintle_builtin::kinds();
    for (groups, versions, resources, expected) in [
        (json!(["apps"]), json!(["v1"]), json!(["deployments"]), true),
        (json!(["none", "apps"]), json!(["v7", "v1"]), json!(["pods", "deployments/scale"]), true),
        (json!(["apps"]), json!(["v1"]), json!(["pods"]), false),
        (json!(["apps"]), json!(["v2"]), json!(["deployments"]), false),
        (json!([""]), json!(["v1"]), json!(["pods"]), true),
        (json!(["*"]), json!(["v1"]), json!(["deployments"]), true),
        (json!(["*"]), json!(["*"]), json!(["gadgets"]), false),
        (json!(["apps"]), json!(["*"]), json!(["*/status"]), true),
        (json!(["apps"]), json!(["v2"]), json!(["*"]), false),
        (json!([]), json!(["*"]), json!(["*"]), false),
    ] {
        let rule = json!({"apiGroups": groups, "apiVersions": versions, "resources": resources});
        assert_eq!(matches_served(&kinds, &rule), expected, "{rule}");
    }
}
