//! Tests of the methods that change a collection directly.

use std::time::Duration;

use pintle_meta::{ApiError, ApiResource, DynamicObject, ErrorKind, ListOptions, ObjectApi, ObjectMeta, Scope};
use pintle_testing::{Collection, CollectionConfig, SteppedClock};
use serde_json::json;

use crate::support::{State, Website, key, now, page, site, sites, themed};

#[test]
fn put_replaces_existing_objects() {
    let sites = sites(&[]);
    let first = sites.put(themed("a", "dark"));
    assert_eq!((first.metadata.resource_version.as_str(), first.metadata.uid.as_str()), ("1", "uid-websites-1"));
    let mut again = site("a");
    again.metadata.resource_version = "99".into();
    let again = sites.put(again);
    assert_eq!((again.metadata.resource_version.as_str(), again.metadata.uid), ("2", first.metadata.uid.clone()));
    assert!(sites.remove(&key("a")) && !sites.remove(&key("a")));
    let other = sites.put(site("a"));
    assert_ne!(other.metadata.uid, first.metadata.uid, "a new object with the same name");
    assert_eq!(sites.objects(), [other]);
}

#[test]
fn put_keeps_the_given_values() {
    let sites = sites(&[]);
    let mut brought = site("a");
    brought.metadata.uid = "mine".into();
    brought.metadata.generation = 7;
    let put = sites.put(brought);
    assert_eq!((put.metadata.uid.as_str(), put.metadata.generation), ("mine", 7));
    assert_eq!(sites.change(&key("a"), |site| site.spec.theme = "dark".into()).metadata.generation, 8);
    assert_eq!(sites.change(&key("a"), |site| site.metadata.generation = 3).metadata.generation, 3);
    let ready = sites.change(&key("a"), |site| site.status = Some(State { ready: true }));
    assert_eq!((ready.status, ready.metadata.generation), (Some(State { ready: true }), 3));
}

#[test]
fn change_retries_after_a_concurrent_write() {
    let sites = sites(&["a"]);
    let mut tries = 0;
    let changed = sites.change(&key("a"), |site| {
        tries += 1;
        if tries == 1 {
            sites.put(themed("a", "dark"));
        }
        site.metadata.labels.insert("try".into(), tries.to_string());
    });
    assert_eq!((changed.spec.theme.as_str(), changed.metadata.labels["try"].as_str()), ("dark", "2"));
}

#[test]
fn undecodable_object_does_not_affect_others() {
    let sites = sites(&["a"]);
    sites.put_raw(json!({"metadata": {"namespace": "ns", "name": "broken"}, "spec": 7}));
    let error: ApiError = now(sites.get(&key("broken"))).unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Decode(_)) && error.to_string().contains("ns/broken"), "{error}");
    assert_eq!(page(&sites, &ListOptions::default()).0, "at 2 a@1 broken@2");
}

#[test]
#[should_panic(expected = "websites.example.com are namespaced, but \"a\" has no namespace")]
fn put_with_invalid_key_panics() {
    sites(&[]).put(Website { metadata: ObjectMeta::new("", "a"), ..Website::default() });
}

#[test]
#[should_panic(expected = "object ns/b does not exist")]
fn change_of_a_missing_object_panics() {
    sites(&["a"]).change(&key("b"), |_| {});
}

#[test]
fn objects_at_works_after_compaction() {
    let sites = sites(&["a", "b"]);
    sites.remove(&key("a"));
    sites.compact();
    let names = |revision| {
        let sites = sites.objects_at(revision);
        sites.iter().map(|site| site.metadata.name.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!([0, 1, 2, 3, 9].map(names), ["", "a", "a b", "b", "b"]);
}

#[test]
fn timestamps_come_from_the_clock() {
    let clock = SteppedClock::new();
    let config = CollectionConfig { clock: clock.clone(), ..CollectionConfig::default() };
    let sites = Collection::new(config);
    let created = |name| sites.put(site(name)).metadata.creation_timestamp.unwrap().to_string();
    assert_eq!(created("a"), "2027-01-15T08:00:00Z");
    clock.advance(Duration::from_secs(90));
    assert_eq!(created("b"), "2027-01-15T08:01:30Z");
    assert_eq!(created("a"), "2027-01-15T08:00:00Z", "the object was not recreated");
}

#[test]
fn dynamic_objects_have_their_kind() {
    let resource = ApiResource::new("v1", "Node", "nodes", Scope::Cluster);
    let nodes = Collection::<DynamicObject>::dynamic(resource, CollectionConfig::default());
    let node = nodes.put(DynamicObject { metadata: ObjectMeta::new("", "a"), ..DynamicObject::default() });
    assert_eq!((node.types.api_version.as_str(), node.types.kind.as_str()), ("v1", "Node"));
    assert_eq!(node.metadata.generation, 0, "the object has no spec");
}
