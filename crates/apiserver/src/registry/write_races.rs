//! Tests of conflicting writes. In these tests, another request changes an object after a write has read the object and
//! before the write commits.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pintle_apimachinery::failure::Outcome;
use pintle_apimachinery::object::metadata;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::request::options::WriteOptions;
use pintle_json::{Json, json};
use pintle_kinds::RequestTarget;
use pintle_kinds::writer::Writer;
use pintle_storage::{Charge, Expect};

use super::admission_plugin::{AdmissionRequest, Plugin};
use super::served::Written;
use super::{Registry, UpdateSource};
use crate::config::ApiServerConfig;

const BY: &str = "another-client";

struct ConcurrentRequest {
    act: fn(&Registry, &RequestTarget),
    left: AtomicUsize,
}

impl fmt::Debug for ConcurrentRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConcurrentRequest").field("left", &self.left).finish_non_exhaustive()
    }
}

impl Plugin for ConcurrentRequest {
    fn validate(&self, registry: &Registry, request: &AdmissionRequest<'_>) -> Outcome<Vec<Charge>> {
        let is_left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        if is_left {
            let name = metadata::name(request.new.as_deref().expect("a write"));
            (self.act)(registry, &RequestTarget { name: name.into(), ..request.target.clone() });
        }
        Ok(Vec::new())
    }
}

/// Creates a registry that runs `act` during each of the next `times` writes.
fn server(act: fn(&Registry, &RequestTarget), times: usize) -> Registry {
    let mut registry = Registry::new(ApiServerConfig::default(), None);
    let namespace = json!({"metadata": {"name": "default"}});
    registry.db.put(&"namespaces".into(), "default", Expect::Absent, namespace).expect("absent");
    registry.admission_chain.push(Arc::new(ConcurrentRequest { act, left: AtomicUsize::new(times) }));
    registry
}

fn target(registry: &Registry, group: &str, plural: &str, name: &str) -> RequestTarget {
    let kinds = registry.kinds();
    RequestTarget::new(kinds.resource(group, "v1", plural).expect("a built-in kind").clone(), "default", name)
}

fn object(name: &str) -> Json {
    json!({"metadata": {"name": name, "namespace": "default", "uid": BY, "labels": {"by": BY}}})
}

fn put_first(registry: &Registry, target: &RequestTarget) {
    registry.db.put(&target.resource_key(), &target.key(), Expect::Absent, object(&target.name)).expect("absent");
}

fn label(registry: &Registry, target: &RequestTarget) {
    let stored = registry.db.get(&target.resource_key(), &target.key()).expect("the object exists");
    let mut new = stored.decode();
    new["metadata"]["labels"]["by"] = BY.into();
    registry.db.put(&target.resource_key(), &target.key(), Expect::At(stored.revision()), new).expect("as read");
}

fn remove(registry: &Registry, target: &RequestTarget) {
    let stored = registry.db.get(&target.resource_key(), &target.key()).expect("the object exists");
    registry.db.remove(&target.resource_key(), &target.key(), stored.revision()).expect("as read");
}

fn write(registry: &Registry, target: &RequestTarget, source: &UpdateSource<'_>) -> Outcome<Written> {
    let options = WriteOptions::default();
    registry.update(target, source, &Writer::new(&options, "m", registry.clock.now_text()))
}

fn apply(registry: &Registry, target: &RequestTarget) -> Outcome<Written> {
    let applied = json!({
        "apiVersion": target.kind.api_version(), "kind": target.kind.kind,
        "metadata": {"name": target.name, "labels": {"mine": "yes"}},
    });
    let options = WriteOptions::default();
    let by = Writer::new(&options, "m", registry.clock.now_text());
    let make = |live: Option<&Json>| by.apply(&target.kind, live, &applied, target.subresource);
    write(registry, target, &UpdateSource::Apply(&make))
}

#[test]
fn apply_merges_into_a_concurrently_created_object() {
    let registry = server(put_first, 1);
    let written = apply(&registry, &target(&registry, "", "configmaps", "a")).expect("no conflict");
    assert!(!written.created);
    let labels = written.object.typed()["metadata"]["labels"].clone();
    assert_eq!(labels, json!({"by": BY, "mine": "yes"}));
}

#[test]
fn apply_recreates_a_concurrently_deleted_object() {
    let registry = server(remove, 1);
    let target = target(&registry, "", "configmaps", "a");
    put_first(&registry, &target);
    let written = apply(&registry, &target).expect("no conflict");
    assert!(written.created);
    assert_eq!(written.object.typed()["metadata"]["labels"], json!({"mine": "yes"}));
}

#[test]
fn apply_of_status_is_retried_after_a_conflict() {
    let registry = server(label, 1);
    let mut target = target(&registry, "", "persistentvolumeclaims", "a");
    put_first(&registry, &target);
    target.subresource = Subresource::Status;
    let applied = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"}, "status": {"phase": "Pending"},
    });
    let options = WriteOptions::default();
    let by = Writer::new(&options, "m", registry.clock.now_text());
    let make = |live: Option<&Json>| by.apply(&target.kind, live, &applied, target.subresource);
    let written = write(&registry, &target, &UpdateSource::Apply(&make)).expect("no conflict").object.typed();
    assert_eq!((&written["status"]["phase"], &written["metadata"]["labels"]["by"]), (&"Pending".into(), &BY.into()));
}

#[test]
fn put_updates_a_concurrently_created_object() {
    let registry = server(put_first, 1);
    // An update of Endpoints can omit the resourceVersion, but an update of a Lease cannot.
    let endpoints = target(&registry, "", "endpoints", "a");
    let body = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "a", "labels": {"mine": "yes"}}});
    let written = write(&registry, &endpoints, &UpdateSource::Put(&body)).expect("no conflict");
    assert!(!written.created);
    assert_eq!(written.object.typed()["metadata"]["labels"]["mine"], "yes");
    let registry = server(put_first, 1);
    let lease = target(&registry, "coordination.k8s.io", "leases", "a");
    let body = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}});
    assert_eq!(write(&registry, &lease, &UpdateSource::Put(&body)).err().map(|failure| failure.code()), Some(422));
}

#[test]
fn put_with_version_fails_after_concurrent_update_or_delete() {
    for (act, plural, expected) in [
        (label as fn(&Registry, &RequestTarget), "configmaps", Some(409)),
        (remove, "configmaps", Some(404)),
        (remove, "endpoints", None),
    ] {
        let registry = server(act, 1);
        let target = target(&registry, "", plural, "a");
        put_first(&registry, &target);
        let stored = registry.db.get(plural, "default/a").expect("the object exists");
        let mut body = object("a");
        body["metadata"].unset("uid");
        body["metadata"]["resourceVersion"] = stored.revision().to_string().into();
        body["metadata"]["labels"]["mine"] = "yes".into();
        (body["apiVersion"], body["kind"]) = ("v1".into(), target.kind.kind.as_str().into());
        let written = write(&registry, &target, &UpdateSource::Put(&body));
        assert_eq!(written.err().map(|failure| failure.code()), expected, "{plural}");
    }
}

#[test]
fn removing_a_finalizer_succeeds_if_the_object_is_gone() {
    let registry = server(remove, 1);
    let target = target(&registry, "", "configmaps", "a");
    let mut held = object("a");
    held["metadata"]["finalizers"] = json!(["example.com/f"]);
    held["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    registry.db.put(&target.resource_key(), &target.key(), Expect::Absent, held).expect("absent");
    let make = |live: Option<&Json>| {
        let mut new = live.cloned().unwrap_or_default();
        new["metadata"].unset("finalizers");
        Ok(new)
    };
    let written = write(&registry, &target, &UpdateSource::Patch(&make))
        .expect("the update succeeds although the object does not exist any more");
    assert_eq!(written.object.typed()["metadata"]["name"], "a");
}

#[test]
fn eight_generated_names_are_tried() {
    for (taken, expected) in [(7, None), (8, Some(409))] {
        let registry = server(put_first, taken);
        let options = WriteOptions::default();
        let by = Writer::new(&options, "m", registry.clock.now_text());
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}});
        let created = registry.create(&target(&registry, "", "configmaps", ""), body, &by);
        let failure = created.err().map(|failure| failure.status);
        assert_eq!(failure.as_ref().map(|status| status.code), expected);
        let Some(status) = failure else { continue };
        assert!(
            status
                .message
                .ends_with("already exists, the server was not able to generate a unique name for the object")
        );
        assert_eq!(status.details.map(|details| details.retry_after_seconds), Some(1));
    }
}
