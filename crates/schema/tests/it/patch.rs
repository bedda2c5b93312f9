//! Tests of the results and errors of patches.

use std::time::Duration;

use pintle_json::{Json, json};
use pintle_schema::patch::*;
use pintle_schema::*;
use rustix::time::{ClockId, clock_gettime};

fn json_patch(object: &Json, patch: Json) -> Result<Json, PatchError> {
    let schema = Schema::custom("X", &Json::Null);
    PatchBody::json(patch.to_string().as_bytes()).and_then(|patch| patch.apply(object, &schema))
}

#[test]
fn json_patch_operations_match_gos_library() {
    let object = json!({"a": {"b": [1, 2, 3]}, "s": "x", "n": 3});
    for (patch, result) in [
        (
            json!([{"op": "add", "path": "/a/c", "value": 1}]),
            Some(json!({"a": {"b": [1, 2, 3], "c": 1}, "s": "x", "n": 3})),
        ),
        (json!([{"op": "add", "path": "/a/c"}]), Some(json!({"a": {"b": [1, 2, 3], "c": null}, "s": "x", "n": 3}))),
        (
            json!([{"op": "add", "path": "/a/b/-", "value": 4}]),
            Some(json!({"a": {"b": [1, 2, 3, 4]}, "s": "x", "n": 3})),
        ),
        (
            json!([{"op": "add", "path": "/a/b/3", "value": 4}]),
            Some(json!({"a": {"b": [1, 2, 3, 4]}, "s": "x", "n": 3})),
        ),
        (
            json!([{"op": "add", "path": "/a/b/-1", "value": 4}]),
            Some(json!({"a": {"b": [1, 2, 3, 4]}, "s": "x", "n": 3})),
        ),
        (json!([{"op": "add", "path": "/a/b/4", "value": 4}]), None),
        (json!([{"op": "remove", "path": "/a/b/-1"}]), Some(json!({"a": {"b": [1, 2]}, "s": "x", "n": 3}))),
        (json!([{"op": "remove", "path": "/a/b/01"}]), Some(json!({"a": {"b": [1, 3]}, "s": "x", "n": 3}))),
        (json!([{"op": "remove", "path": "/a/b/-"}]), None),
        (json!([{"op": "remove", "path": "/x"}]), None),
        (
            json!([{"op": "replace", "path": "/x", "value": 1}]),
            Some(json!({"a": {"b": [1, 2, 3]}, "s": "x", "n": 3, "x": 1})),
        ),
        (json!([{"op": "replace", "path": "/x/y", "value": 1}]), None),
        (json!([{"op": "replace", "path": "", "value": {}}]), Some(json!({}))),
        (
            json!([{"op": "copy", "from": "/a/none", "path": "/s"}]),
            Some(json!({"a": {"b": [1, 2, 3]}, "s": null, "n": 3})),
        ),
        (
            json!([{"op": "move", "from": "/a/b", "path": "/b"}]),
            Some(json!({"a": {}, "b": [1, 2, 3], "s": "x", "n": 3})),
        ),
        (json!([{"op": "move", "from": "/a", "path": "/a/x"}]), None),
        (json!([{"op": "test", "path": "/n", "value": 3}]), Some(object.clone())),
        (json!([{"op": "test", "path": "/n", "value": 3.5}]), None),
        (json!([{"op": "test", "path": "/none", "value": null}]), Some(object.clone())),
        (json!([{"op": "test", "path": "/none/x", "value": null}]), None),
        (json!([{"op": "replace", "path": "x/n", "value": 4}]), Some(json!({"a": {"b": [1, 2, 3]}, "s": "x", "n": 4}))),
        (json!([{"op": "replace", "path": "n", "value": 4}]), None),
        (json!([{"op": "add", "path": "/s/x", "value": 4}]), None),
        (json!([{"op": "Add", "path": "/s", "value": 4}]), None),
        (json!([{}]), None),
        (json!([]), Some(object.clone())),
        (json!(null), Some(object.clone())),
    ] {
        let patched = json_patch(&object, patch.clone());
        let is_refusal = |error: &PatchError| matches!(error, PatchError::Inapplicable(_) | PatchError::TestFailed(_));
        assert!(patched.as_ref().err().is_none_or(is_refusal), "{patch}: {patched:?}");
        assert_eq!(patched.ok(), result, "{patch}");
    }
    assert_eq!(unescaped("/a~1b/c~0d~01"), json!({"a/b": {"c~d~1": 1}}));
}

#[test]
fn error_of_a_json_patch_names_operation_and_path() {
    let object = json!({"data": {"x": 1}, "list": [1, 2]});
    for (operation, error) in [
        (
            json!({"op": "remove", "path": "/data/y"}),
            "error in remove for path: '/data/y': Unable to remove nonexistent key: y: missing value",
        ),
        (
            json!({"op": "add", "path": "/none/y", "value": 1}),
            "add operation does not apply: doc is missing path: \"/none/y\": missing value",
        ),
        (
            json!({"op": "add", "path": "/list/7", "value": 1}),
            "error in add for path: '/list/7': Unable to access invalid index: 7: invalid index referenced",
        ),
        (
            json!({"op": "add", "path": "/list/x", "value": 1}),
            "error in add for path: '/list/x': value was not a proper array index: 'x'",
        ),
        (
            json!({"op": "replace", "path": "/list/7", "value": 1}),
            "replace operation does not apply: doc is missing key: /list/7: missing value",
        ),
        (
            json!({"op": "move", "from": "/data/y", "path": "/z"}),
            "error in move for path: 'y': Unable to remove nonexistent key: y: missing value",
        ),
        (
            json!({"op": "copy", "from": "/none/y", "path": "/z"}),
            "copy operation does not apply: doc is missing from path: /none/y: missing value",
        ),
        (json!({"op": "remove"}), "remove operation failed to decode path: missing value"),
        (json!({"op": "Add", "path": "/z"}), "Unexpected kind: Add"),
    ] {
        let patched = json_patch(&object, json!([operation]));
        assert_eq!(patched, Err(PatchError::Inapplicable(error.into())), "{operation}");
    }
    let test = json!([{"op": "test", "path": "/data/x", "value": 2}]);
    assert_eq!(json_patch(&object, test), Err(PatchError::TestFailed("/data/x".into())));
}

fn unescaped(path: &str) -> Json {
    json_patch(&json!({"a/b": {}}), json!([{"op": "add", "path": path, "value": 1}])).unwrap()
}

#[test]
fn number_of_placed_values_is_limited() {
    let moves = |times: u32| -> Json {
        let places = (0..times).map(|at| if at % 2 == 0 { ("/a", "/b") } else { ("/b", "/a") });
        places.map(|(from, to)| json!({"op": "move", "from": from, "path": to})).collect()
    };
    let object = json!({"a": vec![0; 100_000]});
    assert!(json_patch(&object, moves(98)).is_ok_and(|patched| patched == object));
    let error = json_patch(&object, moves(102)).unwrap_err();
    assert!(matches!(error, PatchError::Excessive(_)) && error.to_string().contains("10000000 values"), "{error}");
}

#[test]
fn operation_that_nests_too_deeply_is_rejected() {
    let lists = |depth: usize| (0..depth).fold(json!(0), |inner, _| json!([inner]));
    let objects = |depth: usize| (0..depth).fold(json!(0), |inner, _| json!({"": inner}));
    // The object and its member `s` add two nesting levels.
    let object = json!({"s": {}, "l": lists(125), "o": objects(125), "more": lists(126)});
    for (from, deepest) in [("/l", true), ("/o", true), ("/more", false)] {
        for op in ["copy", "move"] {
            let patch = json!([{"op": op, "from": from, "path": "/s/x"}]);
            assert_eq!(json_patch(&object, patch).is_ok(), deepest, "{op} {from}");
        }
    }
    // If an existing value is nested too deeply, operations on other values still succeed.
    let deep = json!({"l": lists(140)});
    assert!(json_patch(&deep, json!([{"op": "add", "path": "/a", "value": 1}])).is_ok());
    let copy = json!([{"op": "test", "path": "/b", "value": null}, {"op": "copy", "from": "/l", "path": "/a"}]);
    let why = "operation 1 of the patch would nest a value deeper than 127 lists and objects";
    assert_eq!(json_patch(&deep, copy), Err(PatchError::Excessive(why.into())));
}

#[test]
fn invalid_json_patch_is_rejected() {
    for body in ["", "{}", "7", "[1]", "[{\"op\": 1}]", "[{\"path\": 1}]", "["] {
        assert!(matches!(PatchBody::json(body.as_bytes()), Err(PatchError::BadRequest(_))), "{body}");
    }
    let many = format!("[{}]", vec!["{}"; 10_001].join(","));
    assert!(matches!(PatchBody::json(many.as_bytes()), Err(PatchError::TooLarge(_))));
    let patch = PatchBody::json(br#"[{"op": "test", "path": "/a", "foo": 1, "path": "/a"}]"#).unwrap();
    let message: Vec<_> = patch.findings().iter().map(ToString::to_string).collect();
    assert_eq!(message, ["json patch unknown field \"[0].foo\"", "json patch duplicate field \"[0].path\""]);
}

#[test]
fn merge_patch_deletes_by_null_and_replaces_lists() {
    for (object, patch, result) in [
        (json!({"a": 1, "b": {"c": 1, "d": 2}}), json!({"a": null, "b": {"c": null}}), json!({"b": {"d": 2}})),
        (json!({"l": [1, 2]}), json!({"l": [3, null]}), json!({"l": [3, null]})),
        (json!({}), json!({"new": {"x": null, "y": 1, "l": [{"z": null}]}}), json!({"new": {"y": 1, "l": [{}]}})),
        (json!({"a": 1}), json!({"a": {"x": null}}), json!({"a": {}})),
        (json!({"a": {"x": 1}}), json!({"a": 1}), json!({"a": 1})),
    ] {
        assert_eq!(merge(&object, &patch), result, "{object} {patch}");
    }
    for body in ["[]", "null", "1", "", "{"] {
        assert!(matches!(PatchBody::merge(body.as_bytes(), true), Err(PatchError::BadRequest(_))), "{body}");
        let message = PatchBody::merge(body.as_bytes(), false).map_err(|error| error.to_string());
        assert_eq!(message.err().as_deref(), (body != "[]").then_some("Invalid JSON Patch"), "{body}");
    }
}

fn pod(containers: Json) -> Json {
    json!({"spec": {"containers": containers}})
}

fn smp(object: &Json, patch: Json) -> Result<Json, PatchError> {
    strategic(object, &patch, &Schema::builtin("v1", "Pod").unwrap())
}

#[test]
fn strategic_patch_merges_keyed_lists_in_order() {
    let named = |names: &[&str]| pod(names.iter().map(|name| json!({"name": name})).collect());
    for (live, patch, merged) in [
        (&["a"][..], &["b"][..], &["b", "a"][..]),
        (&["a", "b", "c"], &["z", "b", "c"], &["z", "a", "b", "c"][..]),
        (&["a", "b", "c"], &["c", "a"], &["b", "c", "a"][..]),
    ] {
        let merged_names = smp(&named(live), named(patch)).unwrap();
        assert_eq!(merged_names, named(merged), "{live:?} {patch:?}");
    }
    let ordered = json!({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}});
    assert_eq!(smp(&named(&["a", "b"]), ordered).unwrap(), named(&["b", "a"]));
}

#[test]
fn order_check_takes_linear_time() {
    let parts = |parts: usize| {
        let order: Json = (0..parts * 100).map(|at| json!({"name": at})).collect();
        let items = json!([{"name": "n".repeat(parts * 10_000)}]);
        json!({"spec": {"$setElementOrder/containers": order, "containers": items}})
    };
    let effort = |patch: &Json| {
        let began = cpu_time();
        assert!(matches!(smp(&pod(json!([])), patch.clone()), Err(PatchError::Directive(_))));
        cpu_time().saturating_sub(began)
    };
    // With a quadratic algorithm, the larger patch would take 64 times as long as the smaller patch. Compare the
    // minimum CPU time of this thread in several runs, because other threads can slow down memory access.
    let (part, whole) = (parts(10), parts(80));
    let (mut least_part, mut least_whole) = (Duration::MAX, Duration::MAX);
    for _ in 0..8 {
        least_part = least_part.min(effort(&part));
        least_whole = least_whole.min(effort(&whole));
    }
    assert!(least_whole < least_part * 24, "{least_part:?}, and {least_whole:?}");
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap())
}

#[test]
fn directives_delete_replace_and_retain() {
    let live = json!({"metadata": {"labels": {"a": "1"}, "finalizers": ["x", "y"]}, "spec": {
        "containers": [{"name": "a", "image": "i"}, {"name": "b"}], "volumes": [{"name": "v", "emptyDir": {}}]}});
    for (patch, pointer, result) in [
        (
            json!({"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}),
            "/spec/containers",
            json!([{"name": "b"}]),
        ),
        (
            json!({"spec": {"containers": [{"$patch": "replace"}, {"name": "c"}]}}),
            "/spec/containers",
            json!([{"name": "c"}]),
        ),
        (json!({"metadata": {"labels": {"$patch": "replace", "b": "2"}}}), "/metadata/labels", json!({"b": "2"})),
        (json!({"metadata": {"labels": {"$patch": "delete"}}}), "/metadata/labels", json!({})),
        (json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x"]}}), "/metadata/finalizers", json!(["y"])),
        (json!({"metadata": {"finalizers": ["z"]}}), "/metadata/finalizers", json!(["z", "x", "y"])),
        (
            json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "secret"], "secret": {}}]}}),
            "/spec/volumes",
            json!([{"name": "v", "secret": {}}]),
        ),
        (json!({"spec": {"tolerations": [{"key": "t"}]}}), "/spec/tolerations", json!([{"key": "t"}])),
    ] {
        assert_eq!(smp(&live, patch.clone()).unwrap().at(pointer), Some(&result), "{patch}");
    }
}

#[test]
fn delete_list_applies_to_lists_of_every_strategy() {
    let live = json!({"metadata": {"finalizers": ["x", "y"]}, "spec": {
        "containers": [{"name": "a", "args": ["a", "b", "c"]}], "tolerations": [{"key": "t"}]}});
    let args = pod(json!([{"name": "a", "$deleteFromPrimitiveList/args": ["b"]}]));
    assert_eq!(smp(&live, args).unwrap().at("/spec/containers/0/args"), Some(&json!(["a", "c"])));
    let unmerged = json!({"spec": {"$deleteFromPrimitiveList/tolerations": [{"key": "t"}]}});
    let message = "cannot merge lists without merge key for struct";
    assert_eq!(smp(&live, unmerged), Err(PatchError::Directive(message.into())));
    let mixed = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [1]}});
    let message = "list element types are not identical: [[x y] [1]]";
    assert_eq!(smp(&live, mixed), Err(PatchError::Directive(message.into())));
    let unslashed = json!({"metadata": {"$deleteFromPrimitiveListfinalizers": []}});
    let message = "invalid patch format of primitive list";
    assert_eq!(smp(&live, unslashed), Err(PatchError::BadRequest(message.into())));
}

#[test]
fn added_map_with_a_patch_directive_is_dropped() {
    let live = json!({"metadata": {}, "spec": {"containers": [{"name": "a"}]}});
    let ports = pod(json!([{"name": "a", "ports": [{"$patch": "replace"}]}]));
    for (patch, pointer, result) in [
        (json!({"metadata": {"labels": {"$patch": "replace", "x": "y"}}}), "/metadata/labels", None),
        (json!({"spec": {"affinity": {"$patch": "unknown", "podAffinity": {}}}}), "/spec/affinity", None),
        (json!({"spec": {"affinity": {"$patch": null, "podAffinity": null}}}), "/spec/affinity", Some(json!({}))),
        (ports, "/spec/containers/0/ports", Some(json!([]))),
        (json!({"spec": {"affinity": {"$retainKeys": []}}}), "/spec/affinity", Some(json!({"$retainKeys": []}))),
    ] {
        assert_eq!(smp(&live, patch.clone()).unwrap().at(pointer), result.as_ref(), "{patch}");
    }
}

#[test]
fn merge_into_a_value_without_fields_is_an_error() {
    let revision = Schema::builtin("apps/v1", "ControllerRevision").unwrap();
    let request = Schema::builtin("certificates.k8s.io/v1", "CertificateSigningRequest").unwrap();
    let no_field = "unable to find api field in struct RawExtension for the json field \"a\"";
    let no_struct = "merging an object in json but data type is not struct, instead is: map";
    for (live, patch, schema, message) in [
        (json!({"data": {"a": {}}}), json!({"data": {"a": {}}}), &revision, Some(no_field)),
        (json!({"data": {"a": []}}), json!({"data": {"a": []}}), &revision, Some(no_field)),
        (json!({"data": {"a": 1}}), json!({"data": {"a": 2, "b": {}}}), &revision, None),
        (json!({"spec": {"extra": {"a": []}}}), json!({"spec": {"extra": {"a": []}}}), &request, Some(no_struct)),
        (json!({"spec": {"extra": {}}}), json!({"spec": {"extra": {"a": []}}}), &request, None),
    ] {
        let error = strategic(&live, &patch, schema).err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), message, "{patch}");
    }
}

#[test]
fn new_item_of_a_keyed_list_keeps_nested_directives() {
    let live = json!({"spec": {"containers": [{"name": "a"}], "volumes": [{"name": "v"}]}});
    let container = json!({"name": "n", "env": [{"name": "A"}, {"name": "B", "$patch": "delete"}]});
    let volume = json!({"name": "w", "$retainKeys": ["name", "emptyDir"], "emptyDir": {}});
    let patched = smp(&live, json!({"spec": {"containers": [container], "volumes": [volume]}})).unwrap();
    assert_eq!(patched.at("/spec/containers/0"), Some(&container));
    assert_eq!(patched.at("/spec/volumes/0"), Some(&volume));
}

fn ordered(live: &[&str], patch: Option<&[&str]>, order: &[&str]) -> Result<Json, PatchError> {
    let mut body = json!({"metadata": {"$setElementOrder/finalizers": order}});
    if let Some(patch) = patch {
        body["metadata"]["finalizers"] = json!(patch);
    }
    let object = if live.is_empty() { json!({"metadata": {}}) } else { json!({"metadata": {"finalizers": live}}) };
    smp(&object, body).map(|patched| patched["metadata"]["finalizers"].clone())
}

#[test]
fn empty_order_list_sorts_new_items_like_go() {
    for (live, patch, merged) in [
        (&["d", "c"][..], Some(&["e", "d"][..]), &["d", "c", "e"][..]),
        (&["c", "d"], Some(&["e", "d"]), &["c", "d", "e"]),
        (&["c"], Some(&["e", "d"]), &["c", "d", "e"]),
        (&[], Some(&["e", "d"]), &["d", "e"]),
        (&["c", "d"], None, &["c", "d"]),
    ] {
        assert_eq!(ordered(live, patch, &[]).unwrap(), json!(merged), "{live:?} {patch:?}");
    }
    assert_eq!(ordered(&["c"], Some(&[]), &["c"]).unwrap(), json!(["c"]));
    let empty = Err(PatchError::Directive("no elements in any of the given slices".into()));
    assert_eq!(ordered(&[], Some(&[]), &["c"]), empty);
    assert_eq!(ordered(&[], None, &["c"]).unwrap(), json!(null));
}

#[test]
fn added_items_take_the_positions_of_deleted_items() {
    let live = pod(json!([{"name": "a"}, {"name": "b"}, {"name": "c"}]));
    let names = |items: Json, order: Json| {
        let patch = json!({"spec": {"containers": items, "$setElementOrder/containers": order}});
        let patched = smp(&live, patch)?;
        let names = patched["spec"]["containers"].as_array().into_iter().flatten();
        Ok::<_, PatchError>(names.map(|item| item["name"].clone()).collect::<Json>())
    };
    let (a, b, d) = (json!({"name": "a"}), json!({"name": "b"}), json!({"name": "d"}));
    let deleted = |name: &str| json!({"name": name, "$patch": "delete"});
    assert_eq!(names(json!([deleted("b"), d]), json!([d, a])), Ok(json!(["c", "d", "a"])));
    assert_eq!(names(json!([deleted("a"), a]), json!([a, b])), Ok(json!(["c", "a", "b"])));
    let replace = json!({"$patch": "replace"});
    assert_eq!(names(json!([replace, d]), json!([d, a])), Ok(json!(["d"])));
    assert_eq!(names(json!([d, replace]), json!([d, a])), Ok(json!(["d"])));
    assert!(matches!(names(json!([d, replace]), json!([d])), Err(PatchError::Directive(_))));
}

#[test]
fn invalid_directives_are_errors() {
    let live = pod(json!([{"name": "a"}]));
    for (patch, message) in [
        (json!({"$patch": "foo"}), "unknown patch type: foo in map: map[$patch:foo]"),
        (pod(json!([{"image": "i"}])), "map: map[image:i] does not contain declared merge key: name"),
        (pod(json!([{"name": "a", "$patch": "merge"}])), "merging lists cannot yet be specified in the patch"),
        (json!({"spec": {"$setElementOrder/containers": "a"}}), "expected a []interface {}, but received a string"),
        (
            json!({"spec": {"$setElementOrder/nosuch": []}}),
            "unable to find api field in struct PodSpec for the json field \"nosuch\"",
        ),
        (json!({"spec": {"$retainKeys": ["x"], "containers": []}}), "invalid patch format of retainKeys"),
        (json!({"spec": {"$setElementOrdercontainers": []}}), "invalid patch format of setElementOrder list"),
        (
            json!({"spec": {"containers": null, "$setElementOrder/containers": []}}),
            "expected a []interface {}, but received a %!s(<nil>)",
        ),
        (json!({"spec": {"$setElementOrder/nodeSelector": []}}), "expected slice or array type, but got: struct"),
        (
            json!({"spec": {"volumes": ["x"], "$setElementOrder/volumes": []}}),
            "expected a map[string]interface {}, but received a string",
        ),
        (
            json!({"spec": {"volumes": [{"emptyDir": {}}], "$setElementOrder/volumes": []}}),
            "map: map[emptyDir:map[]] does not contain declared merge key: name",
        ),
        (json!({"$patch": null}), "unknown patch type: %!s(<nil>) in map: map[$patch:<nil>]"),
        (json!({"$patch": true}), "unknown patch type: %!s(bool=true) in map: map[$patch:true]"),
        (json!({"$patch": 1.5}), "unknown patch type: %!s(float64=1.5) in map: map[$patch:1.5]"),
        (pod(json!([null])), "list element types are not identical: [[map[name:a]] [<nil>]]"),
        (pod(json!([["x"]])), "list element types are not identical: [[map[name:a]] [[x]]]"),
    ] {
        assert_eq!(smp(&live, patch.clone()).unwrap_err().to_string(), message, "{patch}");
    }
}

mod laws {
    use proptest::prelude::*;

    use super::*;

    fn json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Json::from),
            (0..9_i64).prop_map(Json::from),
            "[a-c]".prop_map(Json::from)
        ];
        let keys = prop_oneof![
            Just("spec"),
            Just("containers"),
            Just("name"),
            Just("metadata"),
            Just("labels"),
            Just("$patch"),
            Just("finalizers"),
            Just("$retainKeys"),
            Just("$setElementOrder/containers"),
            Just("ports"),
        ];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
                proptest::collection::btree_map(keys.clone().prop_map(String::from), inner, 0..4)
                    .prop_map(|map| Json::Object(map.into_iter().collect())),
            ]
        })
    }

    /// Returns the smallest merge patch that changes `from` to `to`.
    fn diff(from: &Json, to: &Json) -> Json {
        let (Json::Object(from), Json::Object(to)) = (from, to) else { return to.clone() };
        let removed = from.keys().filter(|name| !to.contains_key(name)).map(|name| (name.clone(), Json::Null));
        let changed = to
            .iter()
            .filter(|(name, value)| from.get(name) != Some(value))
            .map(|(name, value)| (name.clone(), from.get(name).map_or_else(|| value.clone(), |old| diff(old, value))));
        Json::Object(removed.chain(changed).collect())
    }

    proptest! {
        #[test]
        fn applying_a_diff_gives_the_other_object(a in json(), b in json()) {
            prop_assert_eq!(merge(&a, &diff(&a, &b)), b);
        }

        #[test]
        fn arbitrary_patches_do_not_panic(object in json(), patch in json()) {
            let _ = smp(&object, patch.clone());
            let _ = json_patch(&object, patch.clone());
            merge(&object, &patch);
        }
    }
}
