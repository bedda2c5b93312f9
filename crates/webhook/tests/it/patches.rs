//! Tests of mutating webhooks' patches.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pintle_meta::ObjectMeta;
use pintle_webhook::{Admission, Denial, Webhook, Webhooks};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::support::{Website, ask, review, site};

const PATH: &str = "/mutate/example.com/v1/websites";

async fn patch_of<T, F>(object: &Value, change: F) -> Result<Value, Value>
where
    T: pintle_meta::Resource + Serialize + serde::de::DeserializeOwned,
    F: Fn(&mut T) + Clone + Send + Sync + 'static,
{
    let webhook = Webhook::mutate(move |request: Admission<T>| {
        let mut object = request.object;
        change(&mut object);
        async { Ok::<_, Denial>(object) }
    });
    let response = ask(&Webhooks::new().add(webhook), PATH, &review("CREATE", object.clone(), Value::Null)).await;
    if response["allowed"] != true {
        return Err(response["status"].clone());
    }
    match response.get("patch") {
        None => Ok(Value::Null),
        Some(patch) => Ok(serde_json::from_slice(&STANDARD.decode(patch.as_str().unwrap()).unwrap()).unwrap()),
    }
}

fn apply(object: &Value, patch: &Value) -> Value {
    let mut patched = object.clone();
    if !patch.is_null() {
        json_patch::patch(&mut patched, &serde_json::from_value::<json_patch::Patch>(patch.clone()).unwrap()).unwrap();
    }
    patched
}

#[tokio::test]
async fn unchanged_object_has_no_patch() {
    // The type serializes `replicas: 0`, but the sent object does not contain `replicas`.
    assert_eq!(patch_of(&site("a"), |_: &mut Website| ()).await.unwrap(), Value::Null);
}

#[tokio::test]
async fn patch_has_only_the_changes() {
    let sent = site("a");
    let patch = patch_of(&sent, |site: &mut Website| {
        site.spec.replicas = 2;
        site.metadata.labels.insert("team".into(), "a".into());
    });
    let expected = json!([
        {"op": "add", "path": "/metadata/labels", "value": {"team": "a"}},
        {"op": "add", "path": "/spec/replicas", "value": 2},
    ]);
    assert_eq!(patch.await.unwrap(), expected);
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
struct Pod {
    metadata: ObjectMeta,
    spec: PodSpec,
}
pintle_meta::resource!(Pod, "example.com/v1", "Website", "websites", Namespaced);

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
struct PodSpec {
    #[serde(default, alias = "oldImages")]
    images: Vec<String>,
    #[serde(default)]
    containers: Vec<Container>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    limits: BTreeMap<String, Limit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<i64>,
    #[serde(default)]
    mode: Mode,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
struct Container {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    image: Option<String>,
    #[serde(default)]
    ports: Vec<u16>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
struct Limit {
    soft: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hard: Option<u8>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(tag = "type")]
enum Mode {
    #[default]
    Off,
    On {
        level: u8,
    },
}

fn pod(containers: Value) -> Value {
    json!({"metadata": {"name": "blog", "selfLink": "/old"}, "spec": {"containers": containers, "nodeName": "n"}})
}

fn container(name: &str) -> Container {
    Container { name: name.into(), image: Some("i".into()), ports: Vec::new() }
}

#[tokio::test]
async fn unknown_fields_of_list_elements_survive() {
    let sent = pod(json!([{"name": "a", "tty": true, "image": "old"}, {"name": "b", "tty": false}]));
    let patch = patch_of(&sent, |pod: &mut Pod| {
        pod.spec.containers.insert(0, container("sidecar"));
        pod.spec.containers.swap(1, 2);
        pod.spec.containers[2].image = Some("new".into());
    });
    let patched = apply(&sent, &patch.await.unwrap());
    let expected = json!([
        {"name": "sidecar", "image": "i", "ports": []},
        {"name": "b", "tty": false},
        {"name": "a", "tty": true, "image": "new"},
    ]);
    assert_eq!(patched["spec"]["containers"], expected);
    assert_eq!((&patched["spec"]["nodeName"], &patched["metadata"]["selfLink"]), (&json!("n"), &json!("/old")));
}

#[tokio::test]
async fn removed_field_leaves_its_unknown_neighbours() {
    let sent = json!({"metadata": {"name": "blog"}, "spec": {"mode": {"type": "On", "level": 3, "colour": "red"}}});
    let patch = patch_of(&sent, |pod: &mut Pod| pod.spec.mode = Mode::Off).await.unwrap();
    assert_eq!(apply(&sent, &patch)["spec"]["mode"], json!({"type": "Off", "colour": "red"}));
}

#[tokio::test]
async fn field_with_two_names_is_an_error() {
    let sent = json!({"metadata": {"name": "blog"}, "spec": {"oldImages": ["a"]}});
    let status = patch_of(&sent, |pod: &mut Pod| pod.spec.images.push("b".into())).await.unwrap_err();
    assert_eq!(status["code"], 500);
    assert!(status["message"].as_str().unwrap().contains("spec; does the field have two names?"), "{status}");
}

prop_compose! {
    fn any_container()(name in "[a-d]", image in option::of("[xy]"), ports in vec(0u16..4, 0..3)) -> Container {
        Container { name, image, ports }
    }
}

prop_compose! {
    fn any_limit()(soft in option::of(0u8..3), hard in option::of(0u8..3)) -> Limit {
        Limit { soft, hard }
    }
}

prop_compose! {
    fn any_pod()(
        labels in btree_map("[a-c/~]{1,2}", "[xy]", 0..3),
        images in vec("[a-c]", 0..4),
        containers in vec(any_container(), 0..4),
        limits in btree_map("[a-c]", any_limit(), 0..3),
        priority in option::of(any::<i64>()),
        mode in prop_oneof![Just(Mode::Off), (0u8..3).prop_map(|level| Mode::On { level })],
    ) -> Pod {
        let metadata = ObjectMeta { labels, ..ObjectMeta::new("team-a", "blog") };
        Pod { metadata, spec: PodSpec { images, containers, limits, priority, mode } }
    }
}

/// Adds an unknown field to each object, but not to maps.
fn with_unknown(value: &mut Value, is_map: bool) {
    match value {
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                with_unknown(member, name == "labels" || name == "limits");
            }
            if !is_map {
                members.insert("unknown".into(), json!({"kept": [1]}));
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(|element| with_unknown(element, false)),
        _ => (),
    }
}

fn names(pod: &Pod) -> Option<Vec<&str>> {
    let names: Vec<_> = pod.spec.containers.iter().map(|container| container.name.as_str()).collect();
    let distinct: std::collections::BTreeSet<_> = names.iter().collect();
    (distinct.len() == names.len()).then_some(names)
}

proptest! {
    #[test]
    fn patched_object_decodes_as_the_returned_one(sent in any_pod(), returned in any_pod()) {
        let mut object = serde_json::to_value(&sent).unwrap();
        with_unknown(&mut object, false);
        let unknown = object["unknown"].clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let change = { let returned = returned.clone(); move |pod: &mut Pod| {
            let other = pod.metadata.other.take();
            *pod = returned.clone();
            pod.metadata.other = other;
        }};
        let patch = runtime.block_on(patch_of(&object, change)).unwrap();
        let patched = apply(&object, &patch);

        let mut decoded: Pod = serde_json::from_value(patched.clone()).unwrap();
        prop_assert_eq!(decoded.metadata.other.take().unwrap()["unknown"].clone(), unknown.clone());
        prop_assert_eq!(&decoded, &returned);
        for survivor in [&patched, &patched["metadata"], &patched["spec"], &patched["spec"]["mode"]] {
            prop_assert_eq!(&survivor["unknown"], &unknown);
        }
        for (name, limit) in patched["spec"]["limits"].as_object().into_iter().flatten() {
            prop_assert_eq!(limit.get("unknown").is_some(), sent.spec.limits.contains_key(name), "{}", name);
        }
        if let (Some(before), Some(after)) = (names(&sent), names(&returned)) {
            for (at, name) in after.iter().enumerate() {
                let container = &patched["spec"]["containers"][at];
                prop_assert_eq!(container.get("unknown").is_some(), before.contains(name), "{}", name);
            }
        }
    }

    #[test]
    fn equal_objects_have_no_patch(sent in any_pod()) {
        let mut object = serde_json::to_value(&sent).unwrap();
        with_unknown(&mut object, false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        prop_assert_eq!(runtime.block_on(patch_of(&object, |_: &mut Pod| ())).unwrap(), Value::Null);
    }
}
