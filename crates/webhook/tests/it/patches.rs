//! Tests of the patches that mutating webhooks return.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pintle_meta::ObjectMeta;
use pintle_webhook::{Admission, Denial, Webhook, Webhooks};
use proptest::collection::{btree_map, btree_set, hash_set, vec};
use proptest::option;
use proptest::prelude::*;
use serde::{Deserialize, Deserializer, Serialize};
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
    // The type serializes `replicas: 0`, although the sent object does not contain `replicas`.
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
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    tags: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "HashSet::is_empty")]
    zones: HashSet<String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    routes: BTreeSet<Route>,
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "sorted")]
    groups: Vec<BTreeSet<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    backends: Vec<Backend>,
    #[serde(default, skip_serializing_if = "Resources::is_empty")]
    resources: Resources,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
struct Resources {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    limits: BTreeMap<String, String>,
}

impl Resources {
    fn is_empty(&self) -> bool {
        self.limits.is_empty()
    }
}

/// A list element without an identifying field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
struct Backend {
    host: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
struct Route {
    to: String,
    port: u8,
}

fn sorted<'de, D: Deserializer<'de>, T: Ord + Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let mut list = Vec::deserialize(deserializer)?;
    list.sort();
    Ok(list)
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
struct Container {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    image: Option<String>,
    #[serde(default)]
    ports: Vec<u16>,
    #[serde(default, skip_serializing_if = "HashSet::is_empty")]
    capabilities: HashSet<String>,
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
    Container { name: name.into(), image: Some("i".into()), ports: Vec::new(), capabilities: HashSet::new() }
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
async fn element_keeps_unknown_fields_when_its_identity_changes() {
    let sent = pod(json!([{"name": "A", "tty": true}, {"name": "b", "tty": false}, {"name": "C", "tty": true}]));
    let patch = patch_of(&sent, |pod: &mut Pod| {
        pod.spec.containers.swap(0, 1);
        pod.spec.containers.iter_mut().for_each(|container| container.name = container.name.to_lowercase());
    });
    let patched = apply(&sent, &patch.await.unwrap());
    let expected = json!([
        {"name": "b", "tty": false},
        // The container `a` is new: no old container has this name, and the old container at this position has
        // moved.
        {"name": "a", "ports": []},
        {"name": "c", "tty": true},
    ]);
    assert_eq!(patched["spec"]["containers"], expected);
}

#[tokio::test]
async fn replaced_element_inherits_no_unknown_fields() {
    let privileged = json!({"privileged": true});
    let sent = pod(json!([
        {"name": "a", "image": "i"},
        {"name": "b", "image": "old", "securityContext": privileged},
        {"name": "c", "image": "i", "securityContext": privileged},
    ]));
    let patch = patch_of(&sent, |pod: &mut Pod| {
        pod.spec.containers[1] = container("x");
        pod.spec.containers[2].name = "y".into();
    });
    let patched = apply(&sent, &patch.await.unwrap());
    let expected = json!([
        {"name": "a", "image": "i"},
        {"name": "x", "image": "i", "ports": []},
        {"name": "y", "image": "i", "securityContext": privileged},
    ]);
    assert_eq!(patched["spec"]["containers"], expected);
}

#[tokio::test]
async fn moved_elements_without_identity_keep_their_unknown_fields() {
    let sent = spec(
        json!({"backends": [{"host": "b", "timeout": 1}, {"host": "a", "timeout": 2}, {"host": "C", "timeout": 3}]}),
    );
    let patch = patch_of(&sent, |pod: &mut Pod| {
        pod.spec.backends.iter_mut().for_each(|backend| backend.host = backend.host.to_lowercase());
        pod.spec.backends.sort();
    });
    let expected = json!([{"host": "a", "timeout": 2}, {"host": "b", "timeout": 1}, {"host": "c", "timeout": 3}]);
    assert_eq!(apply(&sent, &patch.await.unwrap())["spec"]["backends"], expected);

    let patch = patch_of(&sent, |pod: &mut Pod| {
        pod.spec.backends.remove(0);
        pod.spec.backends.push(Backend { host: "d".into() });
    });
    let expected = json!([{"host": "a", "timeout": 2}, {"host": "C", "timeout": 3}, {"host": "d"}]);
    assert_eq!(apply(&sent, &patch.await.unwrap())["spec"]["backends"], expected);
}

#[tokio::test]
async fn removed_field_leaves_its_unknown_neighbours() {
    let sent = json!({"metadata": {"name": "blog"}, "spec": {"mode": {"type": "On", "level": 3, "colour": "red"}}});
    let patch = patch_of(&sent, |pod: &mut Pod| pod.spec.mode = Mode::Off).await.unwrap();
    assert_eq!(apply(&sent, &patch)["spec"]["mode"], json!({"type": "Off", "colour": "red"}));
}

#[tokio::test]
async fn emptied_struct_keeps_its_unknown_fields() {
    for (resources, expected) in [
        (json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}), json!({"requests": {"cpu": "1"}})),
        (json!({"limits": {"cpu": "1"}}), Value::Null),
    ] {
        let sent = json!({"metadata": {"name": "blog"}, "spec": {"resources": resources}});
        let patch = patch_of(&sent, |pod: &mut Pod| pod.spec.resources.limits.clear()).await.unwrap();
        assert_eq!(apply(&sent, &patch)["spec"]["resources"], expected);
    }
}

#[derive(Debug, Deserialize, Serialize)]
struct Volumes {
    metadata: ObjectMeta,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<HostPath>,
    #[serde(default)]
    named: BTreeMap<String, HostPath>,
    source: Option<VolumeSource>,
    #[serde(default)]
    mounts: Vec<Mount>,
}
pintle_meta::resource!(Volumes, "example.com/v1", "Website", "websites", Namespaced);

#[derive(Debug, Deserialize, Serialize)]
struct HostPath {
    path: String,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
enum VolumeSource {
    Git(HostPath),
    Http(HostPath),
}

#[derive(Debug, Deserialize, Serialize)]
struct Mount {
    #[serde(skip_serializing_if = "Option::is_none")]
    options: Option<Resources>,
}

#[tokio::test]
async fn removed_struct_is_removed_with_its_unknown_fields() {
    let path = json!({"path": "/x", "type": ""});
    let sent = json!({
        "metadata": {"name": "blog"}, "path": path, "named": {"a": path, "b": path}, "source": {"git": path},
        "mounts": [{"options": {"limits": {"cpu": "1"}, "mode": 1}, "other": 2}],
    });
    let patch = patch_of(&sent, |volumes: &mut Volumes| {
        volumes.path = None;
        volumes.named.remove("a");
        volumes.source = Some(VolumeSource::Http(HostPath { path: "/y".into() }));
        volumes.mounts[0].options = None;
    });
    let expected = json!({
        "metadata": {"name": "blog"}, "named": {"b": path}, "source": {"http": {"path": "/y"}},
        "mounts": [{"other": 2}],
    });
    assert_eq!(apply(&sent, &patch.await.unwrap()), expected);
}

#[tokio::test]
async fn field_with_two_names_is_an_error() {
    let sent = json!({"metadata": {"name": "blog"}, "spec": {"oldImages": ["a"]}});
    let status = patch_of(&sent, |pod: &mut Pod| pod.spec.images.push("b".into())).await.unwrap_err();
    assert_eq!(status["code"], 500);
    assert!(status["message"].as_str().unwrap().contains("spec; does the field have two names?"), "{status}");
}

fn spec(spec: Value) -> Value {
    json!({"metadata": {"name": "blog"}, "spec": spec})
}

#[tokio::test]
async fn removed_element_of_an_unsorted_set_is_removed() {
    let sent = spec(json!({"tags": ["b", "a"], "groups": [["d", "c"], ["b", "a"]]}));
    let patch = patch_of(&sent, |pod: &mut Pod| {
        pod.spec.tags.remove("a");
        pod.spec.groups[0].remove("a");
    });
    let patched: Pod = serde_json::from_value(apply(&sent, &patch.await.unwrap())).unwrap();
    assert_eq!(patched.spec.tags, ["b".to_owned()].into());
    assert_eq!(patched.spec.groups, [["b".to_owned()].into(), ["c".to_owned(), "d".to_owned()].into()]);
}

#[tokio::test]
async fn changed_struct_in_an_unsorted_set_is_changed() {
    let sent = spec(json!({"routes": [{"to": "b", "port": 1}, {"to": "a", "port": 2}]}));
    let patch = patch_of(&sent, |pod: &mut Pod| {
        pod.spec.routes = [Route { to: "a".into(), port: 2 }, Route { to: "b".into(), port: 3 }].into();
    });
    let patched: Pod = serde_json::from_value(apply(&sent, &patch.await.unwrap())).unwrap();
    let expected = [Route { to: "a".into(), port: 2 }, Route { to: "b".into(), port: 3 }];
    assert_eq!(patched.spec.routes, expected.into());
}

#[tokio::test]
async fn unordered_lists_do_not_cost_unknown_fields() {
    let capabilities: Vec<_> = (0..20).map(|number| number.to_string()).collect();
    let one = |name: &str| json!({"name": name, "tty": true, "ports": [], "capabilities": capabilities});
    let sent = pod(json!([one("a"), one("b")]));
    let patch = patch_of(&sent, |pod: &mut Pod| {
        pod.spec.containers[1].capabilities.insert("new".into());
    });
    let patched = apply(&sent, &patch.await.unwrap());
    let containers = &patched["spec"]["containers"];
    assert_eq!(containers[0], one("a"), "an unchanged element keeps its order");
    assert_eq!((&containers[1]["tty"], containers[1]["capabilities"].as_array().unwrap().len()), (&json!(true), 21));
}

#[tokio::test]
async fn elements_of_an_unsorted_set_keep_unknown_fields() {
    #[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
    struct Listeners {
        metadata: ObjectMeta,
        listeners: BTreeSet<Listener>,
    }
    pintle_meta::resource!(Listeners, "example.com/v1", "Website", "websites", Namespaced);
    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
    struct Listener {
        name: String,
        port: u8,
    }
    let listeners = json!([{"name": "b", "port": 1, "tls": "b"}, {"name": "a", "port": 2, "tls": "a"}]);
    let sent = json!({"metadata": {"name": "blog"}, "listeners": listeners});
    let patch = patch_of(&sent, |object: &mut Listeners| {
        object.listeners = object.listeners.iter().cloned().map(|one| Listener { port: 9, ..one }).collect();
    });
    let patched = apply(&sent, &patch.await.unwrap());
    let expected = json!([{"name": "a", "port": 9, "tls": "a"}, {"name": "b", "port": 9, "tls": "b"}]);
    assert_eq!(patched["listeners"], expected);
}

#[tokio::test]
async fn normalized_value_is_not_an_error() {
    fn lower_case<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
        Ok(String::deserialize(deserializer)?.to_lowercase())
    }
    #[derive(Deserialize, Serialize)]
    struct Domain {
        metadata: ObjectMeta,
        #[serde(deserialize_with = "lower_case")]
        domain: String,
    }
    pintle_meta::resource!(Domain, "example.com/v1", "Website", "websites", Namespaced);
    let sent = json!({"metadata": {"name": "blog"}, "domain": "A"});
    let patch = patch_of(&sent, |object: &mut Domain| object.domain = "B".into());
    assert_eq!(apply(&sent, &patch.await.unwrap())["domain"], "B");
}

#[tokio::test]
async fn field_that_is_only_decoded_survives() {
    #[derive(Deserialize, Serialize)]
    struct Account {
        metadata: ObjectMeta,
        #[serde(skip_serializing)]
        secret: String,
        tags: BTreeSet<String>,
    }
    pintle_meta::resource!(Account, "example.com/v1", "Website", "websites", Namespaced);
    let sent = json!({"metadata": {"name": "blog"}, "secret": "s", "tags": ["b", "a"]});
    let patch = patch_of(&sent, |object: &mut Account| {
        assert_eq!(object.secret, "s");
        object.tags.remove("a");
    });
    let patched = apply(&sent, &patch.await.unwrap());
    assert_eq!((&patched["secret"], &patched["tags"]), (&json!("s"), &json!(["b"])));
}

#[tokio::test]
async fn patch_that_cannot_be_right_is_an_error() {
    fn upper_case<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, u8>, D::Error> {
        let map = BTreeMap::<String, u8>::deserialize(deserializer)?;
        Ok(map.into_iter().map(|(name, value)| (name.to_uppercase(), value)).collect())
    }
    #[derive(Deserialize, Serialize)]
    struct Limits {
        metadata: ObjectMeta,
        #[serde(deserialize_with = "upper_case")]
        limits: BTreeMap<String, u8>,
    }
    pintle_meta::resource!(Limits, "example.com/v1", "Website", "websites", Namespaced);
    let sent = json!({"metadata": {"name": "blog"}, "limits": {"a": 1}});
    let status = patch_of(&sent, |object: &mut Limits| object.limits = [("A".into(), 2)].into()).await.unwrap_err();
    assert_eq!(status["code"], 500);
    assert!(status["message"].as_str().unwrap().contains("would decode as another object"), "{status}");
}

prop_compose! {
    fn any_container()(name in "[a-d]", image in option::of("[xy]"), ports in vec(0u16..4, 0..3), capabilities in hash_set("[a-c]", 0..3))
        -> Container
    {
        Container { name, image, ports, capabilities }
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
        (tags, zones) in (btree_set("[a-d]", 0..4), hash_set("[a-d]", 0..4)),
        routes in btree_set(any_route(), 0..4),
        mut groups in vec(btree_set("[a-d]", 0..3), 0..3),
        backends in vec("[a-c]".prop_map(|host| Backend { host }), 0..4),
    ) -> Pod {
        let metadata = ObjectMeta { labels, ..ObjectMeta::new("team-a", "blog") };
        groups.sort();
        let spec = PodSpec { images, containers, limits, priority, mode, tags, zones, routes, groups, backends, ..PodSpec::default() };
        Pod { metadata, spec }
    }
}

prop_compose! {
    fn any_route()(to in "[ab]", port in 0u8..3) -> Route {
        Route { to, port }
    }
}

/// Reorders the lists that decoding sorts, so that their sent order differs from the decoded order.
fn shuffle(spec: &mut Value, turn: usize) {
    for name in ["tags", "zones", "routes", "groups"] {
        if let Some(list) = spec.get_mut(name).and_then(Value::as_array_mut) {
            list.reverse();
            let middle = turn % list.len().max(1);
            list.rotate_left(middle);
            list.iter_mut().filter_map(Value::as_array_mut).for_each(|inner| inner.reverse());
        }
    }
}

/// Adds an unknown field to each object, but not to maps. In a list element, this field contains the element's
/// position.
fn with_unknown(value: &mut Value, is_map: bool, position: usize) {
    match value {
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                with_unknown(member, name == "labels" || name == "limits", 0);
            }
            if !is_map {
                members.insert("unknown".into(), json!({"of": [position]}));
            }
        }
        Value::Array(elements) => {
            elements.iter_mut().enumerate().for_each(|(at, element)| with_unknown(element, false, at));
        }
        _ => (),
    }
}

/// Returns the position that [`with_unknown`] added to a list element.
fn origin(element: &Value) -> Option<u64> {
    element.get("unknown").map(|unknown| unknown["of"][0].as_u64().unwrap())
}

/// Returns a container's fields except its name, with sorted lists.
fn content(container: &Container) -> (&Option<String>, Vec<u16>, &HashSet<String>) {
    let mut ports = container.ports.clone();
    ports.sort_unstable();
    (&container.image, ports, &container.capabilities)
}

fn names(pod: &Pod) -> Option<Vec<&str>> {
    let names: Vec<_> = pod.spec.containers.iter().map(|container| container.name.as_str()).collect();
    let distinct: std::collections::BTreeSet<_> = names.iter().collect();
    (distinct.len() == names.len()).then_some(names)
}

proptest! {
    #[test]
    fn patched_object_decodes_as_the_returned_one(sent in any_pod(), returned in any_pod(), turn in 0usize..4) {
        let mut object = serde_json::to_value(&sent).unwrap();
        shuffle(&mut object["spec"], turn);
        with_unknown(&mut object, false, 0);
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
                let renamed = || {
                    let is_replaced = before.len() == after.len() && !after.contains(&before[at]);
                    is_replaced.then_some(at).filter(|at| {
                        content(&sent.spec.containers[*at]) == content(&returned.spec.containers[*at])
                    })
                };
                let expected = before.iter().position(|old| old == name).or_else(renamed);
                let container = &patched["spec"]["containers"][at];
                prop_assert_eq!(origin(container), expected.map(|at| at as u64), "{}", name);
            }
        }
        let (before, after) = (&sent.spec.backends, &returned.spec.backends);
        let origins: Vec<_> = (0..after.len()).map(|at| origin(&patched["spec"]["backends"][at])).collect();
        let used: BTreeSet<_> = origins.iter().flatten().collect();
        prop_assert_eq!(used.len(), origins.iter().flatten().count(), "an element is used once: {:?}", &origins);
        for backend in after {
            let count = |list: &[Backend]| list.iter().filter(|one| *one == backend).count();
            let is_moved = |(at, old): &(usize, &Option<u64>)| {
                after[*at] == *backend && old.is_some_and(|old| before[old as usize] == *backend)
            };
            let moved = origins.iter().enumerate().filter(is_moved).count();
            prop_assert_eq!(moved, count(before).min(count(after)), "{:?}: {:?}", backend, &origins);
        }
        for (at, origin) in origins.iter().enumerate() {
            let is_moved = |old: u64| before[old as usize] == after[at];
            let is_used = before.get(at).is_some_and(|_| used.contains(&(at as u64)));
            match origin {
                Some(origin) if !is_moved(*origin) => {
                    prop_assert_eq!((before.len(), *origin), (after.len(), at as u64), "matched by position");
                }
                None => prop_assert!(before.len() != after.len() || is_used, "not matched by position: {:?}", &origins),
                Some(_) => (),
            }
        }
    }

    #[test]
    fn equal_objects_have_no_patch(sent in any_pod(), turn in 0usize..4) {
        let mut object = serde_json::to_value(&sent).unwrap();
        shuffle(&mut object["spec"], turn);
        with_unknown(&mut object, false, 0);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        prop_assert_eq!(runtime.block_on(patch_of(&object, |_: &mut Pod| ())).unwrap(), Value::Null);
    }
}
