//! Tests of the methods that read and modify values.

use pintle_json::{Json, json};

#[test]
fn absent_value_or_wrong_type_reads_as_empty() {
    let pod = json!({"spec": {"nodeName": "a", "tty": true, "n": 3, "half": 0.5, "null": null, "list": [{"x": 1}, 2]}});
    assert_eq!(
        [pod.text("/spec/nodeName"), pod.text("/spec/n"), pod.text("/a/b"), pod["spec"]["nodeName"].text("")],
        ["a", "", "", "a"]
    );
    assert_eq!([pod.integer("/spec/n"), pod.integer("/spec/half"), pod.integer("/spec")], [Some(3), None, None]);
    assert_eq!([pod.is_true("/spec/tty"), pod.is_true("/spec/n"), pod.is_true("/x")], [true, false, false]);
    assert_eq!([pod.has("/spec/n"), pod.has("/spec/null"), pod.has("/spec/x")], [true, false, false]);
    assert_eq!([pod.list("/spec/list").count(), pod.list("/spec").count(), pod.list("/x").count()], [2, 0, 0]);
    assert_eq!(json!({"all": ["a", 1, "b"]}).texts("/all").collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!([pod.members("/spec").count(), pod.members("/spec/list").count(), pod.members("/x").count()], [6, 0, 0]);
    assert_eq!(pod.at("/spec/list/0/x"), Some(&json!(1)));
    assert_eq!([&pod["spec"]["list"][1], &pod["x"]["y"], &pod["spec"][7]], [&json!(2), &Json::Null, &Json::Null]);
}

#[test]
fn changes_create_absent_members_and_keep_other_types() {
    let mut object = json!({"a": null, "list": [{}, 1]});
    object.set_default("a", 1);
    object.set_default("a", 2);
    object.set("b", "x");
    object.set("c", "x");
    object.unset("c");
    object.unset("c");
    object.member("status").unwrap().set("phase", "Running");
    object.member("status").unwrap().set("ready", true);
    assert_eq!(object.member("a"), None);
    object.items_mut("list").for_each(|item| item.set("seen", true));
    object.items_mut("a").for_each(|item| item.set("seen", true));
    object["metadata"]["name"] = json!("n");
    object["list"][1] = json!(2);
    assert_eq!(
        object.to_string(),
        r#"{"a":1,"b":"x","list":[{"seen":true},2],"metadata":{"name":"n"},"status":{"phase":"Running","ready":true}}"#
    );

    let mut text = json!("x");
    text.set("a", 1);
    text.set_default("a", 1);
    assert_eq!(text.member("a"), None);
    text.unset("a");
    assert_eq!(text, json!("x"));
}

#[test]
fn null_and_empty_values_are_empty() {
    let empty = [json!(null), json!(""), json!([]), json!({})];
    assert!(empty.iter().all(Json::is_empty));
    let not = [json!(0), json!(false), json!(" "), json!([null]), json!({"a": null})];
    assert!(!not.iter().any(Json::is_empty));
}

#[test]
fn values_compare_with_rust_values() {
    let object = json!({"s": "x", "n": 3, "b": true, "f": 0.5});
    assert_eq!(object["s"], "x");
    assert_eq!("x", object["s"]);
    assert_eq!(&object["n"], 3);
    assert_eq!(object["n"], 3u64);
    assert_eq!(
        (object["b"] == true, object["f"] == 0.5, object["n"] == -1, object["s"] == *"x"),
        (true, true, false, true)
    );
    assert_ne!(json!(1), json!(1.0), "as in serde_json");
}
