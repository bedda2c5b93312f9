//! Tests that events contain the field managers of the changes.

use std::sync::Arc;

use pintle_informer::{
    Compact, DecodePolicy, EventObject, InformerConfig, Projection, ResourceEvent, SharedInformer, Subscription,
};
use pintle_meta::{DynamicObject, Object, Resource};
use pintle_testing::{Break, Collection, CollectionConfig};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::support::{Pod, expired, key, pod, settle};

fn entry(manager: &str, second: u32) -> Value {
    let fields = json!({"f:metadata": {"f:labels": {"f:manager": {}}}});
    let time = format!("2026-01-01T00:00:{second:02}Z");
    json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "time": time, "fieldsType": "FieldsV1", "fieldsV1": fields})
}

fn object(name: &str, node: &str, managers: &[Value]) -> Value {
    json!({"metadata": {"namespace": "ns", "name": name, "uid": name, "managedFields": managers}, "node": node})
}

fn source<T: Object + DeserializeOwned>() -> Collection<T> {
    Collection::dynamic(Pod::api_resource(), CollectionConfig::default())
}

/// Returns the kind and the writer of each queued event.
async fn writers<T: Object>(events: &mut Subscription<T>) -> Vec<String> {
    settle().await;
    let writer = |event: &ResourceEvent<T>| event.writer().map_or_else(|| "-".into(), |writer| writer.to_string());
    let named = |event: ResourceEvent<T>| match &event {
        ResourceEvent::Added { is_initial: true, .. } => format!("initial {}", writer(&event)),
        ResourceEvent::Added { .. } => format!("added {}", writer(&event)),
        ResourceEvent::Updated { .. } => format!("updated {}", writer(&event)),
        ResourceEvent::Deleted { .. } => format!("deleted {}", writer(&event)),
    };
    std::iter::from_fn(|| events.try_next()).map(named).collect()
}

async fn events_name_their_writers<T: Object + DeserializeOwned>(config: InformerConfig<T>) {
    let source = source::<T>();
    source.put_raw(object("a", "1", &[entry("kubectl-create", 1)]));
    let informer = SharedInformer::new(source.clone(), config);
    let mut events = informer.subscribe();
    informer.start();
    assert_eq!(writers(&mut events).await, ["initial -"]);
    source.put_raw(object("b", "1", &[entry("scheduler", 1)]));
    assert_eq!(writers(&mut events).await, ["added scheduler (Update)"]);
    let mut status = entry("kubelet", 3);
    (status["subresource"], status["operation"]) = (json!("status"), json!("Apply"));
    source.put_raw(object("a", "2", &[status.clone(), entry("kubectl-create", 1)]));
    assert_eq!(writers(&mut events).await, ["updated kubelet (Apply, status)"]);
    // A slow subscriber receives one event with the writer of the newest state.
    source.put_raw(object("a", "3", &[status.clone(), entry("first", 4)]));
    settle().await;
    source.put_raw(object("a", "4", &[status, entry("first", 4), entry("second", 5)]));
    assert_eq!(writers(&mut events).await, ["updated second (Update)"]);
    let mut deleted = object("a", "4", &[entry("second", 5)]);
    source.put_raw(deleted.clone());
    assert_eq!(writers(&mut events).await, ["updated -"], "the write has removed fields of other writers");
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:06Z");
    source.put_raw(deleted.clone());
    assert_eq!(writers(&mut events).await, ["updated -"]);
    deleted["metadata"]["managedFields"] = json!([entry("finisher", 7)]);
    source.put_raw(deleted);
    assert_eq!(writers(&mut events).await, ["updated finisher (Update)"]);
    source.put_raw(object("a", "5", &[]));
    assert_eq!(writers(&mut events).await, ["updated -"]);
    source.remove(&key("b"));
    assert_eq!(writers(&mut events).await, ["deleted -"]);
    let mut late = informer.subscribe();
    assert_eq!(writers(&mut late).await, ["initial -"]);
}

#[tokio::test(start_paused = true)]
async fn events_of_objects_decoded_on_arrival_name_their_writers() {
    events_name_their_writers::<Pod>(InformerConfig::default()).await;
    events_name_their_writers::<DynamicObject>(InformerConfig::default()).await;
    events_name_their_writers::<Compact<Pod>>(InformerConfig::default()).await;
    let transform = Arc::new(|pod: &mut Pod| pod.node.clear());
    events_name_their_writers(InformerConfig { transform: Some(transform), ..InformerConfig::default() }).await;
}

#[tokio::test(start_paused = true)]
async fn events_of_objects_decoded_on_read_name_their_writers() {
    let decode = DecodePolicy::OnRead;
    events_name_their_writers::<Pod>(InformerConfig { decode, ..InformerConfig::default() }).await;
    events_name_their_writers::<DynamicObject>(InformerConfig { decode, ..InformerConfig::default() }).await;
}

#[tokio::test(start_paused = true)]
async fn events_of_whole_objects_name_their_writers() {
    let config = || InformerConfig { projection: Projection::whole(), ..InformerConfig::default() };
    events_name_their_writers::<Pod>(config()).await;
    events_name_their_writers::<Pod>(InformerConfig { decode: DecodePolicy::OnRead, ..config() }).await;
}

#[tokio::test(start_paused = true)]
async fn relist_names_the_writers_of_changed_objects() {
    let source = source::<Pod>();
    source.put_raw(object("a", "1", &[entry("kubectl-create", 1)]));
    source.put_raw(object("b", "1", &[entry("kubectl-create", 1)]));
    let informer = SharedInformer::new(source.clone(), InformerConfig::default());
    let mut events = informer.subscribe();
    informer.start();
    assert_eq!(writers(&mut events).await, ["initial -", "initial -"]);
    source.break_watches(Break::Silent);
    source.put_raw(object("a", "2", &[entry("kubectl-create", 1), entry("kubectl-edit", 2)]));
    source.put_raw(object("c", "1", &[entry("scheduler", 2)]));
    source.compact();
    source.break_watches(Break::Fails(expired()));
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    let mut found = writers(&mut events).await;
    found.sort();
    assert_eq!(found, ["added scheduler (Update)", "updated kubectl-edit (Update)"]);
}

#[tokio::test(start_paused = true)]
async fn resync_has_no_writer() {
    let source = source::<Pod>();
    let informer = SharedInformer::new(source.clone(), InformerConfig::default());
    let mut events = informer.subscribe();
    informer.start();
    settle().await;
    source.put_raw(object("a", "1", &[entry("kubectl-create", 1)]));
    assert_eq!(writers(&mut events).await, ["added kubectl-create (Update)"]);
    events.set_resync(Some(std::time::Duration::from_secs(10)));
    tokio::time::sleep(std::time::Duration::from_secs(11)).await;
    assert_eq!(writers(&mut events).await, ["updated -"]);
}

/// Two controllers that revert each other's changes often write several times within a second.
#[tokio::test(start_paused = true)]
async fn writers_of_one_second_are_distinguished() {
    let source = source::<Pod>();
    let informer = SharedInformer::new(source.clone(), InformerConfig::default());
    let mut events = informer.subscribe();
    informer.start();
    settle().await;
    let with = |manager: &str, fields: Value| {
        let mut entry = entry(manager, 1);
        entry["fieldsV1"] = fields;
        entry
    };
    let (one, two) = (json!({"f:x": {}}), json!({"f:x": {}, "f:y": {}}));
    for (managers, expected) in [
        ([Some(with("a", one.clone())), None], "added a"),
        ([Some(with("a", one.clone())), Some(with("b", one.clone()))], "updated b"),
        ([Some(with("a", two.clone())), None], "updated a"),
        ([Some(with("a", one.clone())), Some(with("b", two.clone()))], "updated b"),
        ([Some(with("a", two.clone())), Some(with("b", one.clone()))], "updated a"),
        ([Some(with("a", one.clone())), Some(with("b", two.clone()))], "updated b"),
        ([Some(with("a", one.clone())), Some(with("b", two.clone()))], "updated -"),
        ([Some(with("b", one.clone())), None], "updated b"),
        ([Some(with("b", two)), None], "updated b"),
        ([Some(with("b", one)), None], "updated -"),
    ] {
        let managers: Vec<_> = managers.into_iter().flatten().collect();
        source.put_raw(object("a", "1", &managers));
        let expected = if expected.ends_with('-') { expected.to_owned() } else { format!("{expected} (Update)") };
        assert_eq!(writers(&mut events).await, [expected], "{managers:?}");
    }
}

/// kube-apiserver records no new time for scales and removals, so the newest entry comes from an earlier
/// write.
#[tokio::test(start_paused = true)]
async fn scale_and_removals_have_no_writer() {
    let source = source::<Pod>();
    let informer = SharedInformer::new(source.clone(), InformerConfig::default());
    let mut events = informer.subscribe();
    informer.start();
    settle().await;
    source.put_raw(object("a", "1", &[entry("ours", 1), entry("user", 5)]));
    assert_eq!(writers(&mut events).await, ["added user (Update)"]);
    let mut scale = entry("autoscaler", 0);
    scale["subresource"] = json!("scale");
    scale.as_object_mut().unwrap().remove("time");
    source.put_raw(object("a", "2", &[entry("ours", 1), entry("user", 5), scale]));
    assert_eq!(writers(&mut events).await, ["updated -"]);
    source.put_raw(object("a", "3", &[entry("ours", 1)]));
    assert_eq!(writers(&mut events).await, ["updated -"], "another writer has removed all fields of `user`");
}

#[test]
fn events_without_an_informer_have_no_writer() {
    let object = EventObject::from(pod("a", "1"));
    assert_eq!(ResourceEvent::Added { object: object.clone(), is_initial: false }.writer(), None);
    assert_eq!(ResourceEvent::Updated { old: object, new: pod("a", "2").into() }.writer(), None);
}
