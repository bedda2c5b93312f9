//! Tests that writes follow the rules of kube-apiserver.

use pintle_meta::{
    ApiError, DeleteOptions, ErrorKind, ObjectApi, ObjectKey, ObjectMeta, Patch, Preconditions, WriteOptions,
};
use serde_json::json;

use crate::support::{State, Website, available, from, key, now, site, sites, themed};

fn post() -> WriteOptions {
    WriteOptions::default()
}

fn answer(error: &ApiError) -> (u16, String, String, String) {
    let status = error.status().unwrap_or_else(|| panic!("no status: {error}"));
    let details = status.details.clone().unwrap_or_default();
    let reason = status.reason.as_ref().map(ToString::to_string).unwrap_or_default();
    let about = [details.kind, details.group, details.name].join(" ");
    (status.code, reason, status.message.clone(), about)
}

#[test]
fn writes_get_next_revision_and_noops_get_none() {
    let sites = sites(&[]);
    let mut site = now(sites.create(&themed("a", "dark"), &post())).unwrap();
    assert_eq!(now(sites.update(&site, &post())).unwrap(), site);
    site.spec.theme = "light".into();
    let site = now(sites.update(&site, &post())).unwrap();
    assert_eq!((site.metadata.resource_version.as_str(), sites.revision()), ("2", 2));
    let same = Patch::Merge(json!({"spec": {"theme": "light"}}));
    assert_eq!(now(sites.patch(&key("a"), &same, &post())).unwrap(), site);
    now(sites.delete(&key("a"), &DeleteOptions::default())).unwrap();
    assert_eq!(sites.revision(), 3);
    let mut events = now(pintle_meta::ListWatch::watch(&sites, &from(1))).unwrap();
    assert_eq!(available(&mut events), ["MODIFIED a@2", "DELETED a@3"]);
}

#[test]
fn update_with_stale_resource_version_conflicts() {
    let sites = sites(&["a"]);
    let old = now(sites.get(&key("a"))).unwrap();
    sites.put(themed("a", "dark"));
    let error = now(sites.update(&old, &post())).unwrap_err();
    let message = "Operation cannot be fulfilled on websites.example.com \"a\": \
                   the object has been modified; please apply your changes to the latest version and try again";
    let expected = (409, "Conflict".into(), message.into(), "websites example.com a".into());
    assert_eq!(answer(&error), expected);
    assert!(now(sites.update_status(&old, &post())).unwrap_err().is_conflict());
    let patch = Patch::Merge(json!({"metadata": {"resourceVersion": "1"}, "spec": {"theme": "light"}}));
    assert!(now(sites.patch(&key("a"), &patch, &post())).unwrap_err().is_conflict());
    assert_eq!(sites.object(&key("a")).unwrap().spec.theme, "dark");
}

#[test]
fn update_with_wrong_uid_conflicts() {
    let sites = sites(&["a"]);
    let mut old = now(sites.get(&key("a"))).unwrap();
    sites.remove(&key("a"));
    sites.put(site("a"));
    old.metadata.resource_version = String::new();
    assert!(now(sites.update(&old, &post())).unwrap_err().is_conflict());
    old.metadata.uid = String::new();
    assert_eq!(
        now(sites.update(&old, &post())).unwrap().metadata.uid,
        "uid-websites-3",
        "without uid and resourceVersion, any object matches"
    );
}

#[test]
fn existing_and_missing_names_return_server_errors() {
    let sites = sites(&["a"]);
    let error = now(sites.create(&site("a"), &post())).unwrap_err();
    let expected = (
        409,
        "AlreadyExists".into(),
        "websites.example.com \"a\" already exists".into(),
        "websites example.com a".into(),
    );
    assert_eq!(answer(&error), expected);
    assert!(error.is_already_exists());

    let missing = "websites.example.com \"b\" not found";
    let expected = (404, "NotFound".into(), missing.into(), "websites example.com b".into());
    for error in [
        now(sites.get(&key("b"))).unwrap_err(),
        now(sites.update(&site("b"), &post())).unwrap_err(),
        now(sites.update_status(&site("b"), &post())).unwrap_err(),
        now(sites.patch(&key("b"), &Patch::Merge(json!({})), &post())).unwrap_err(),
        now(sites.delete(&key("b"), &DeleteOptions::default())).unwrap_err(),
    ] {
        assert_eq!(answer(&error), expected);
    }
    assert_eq!(sites.revision(), 1, "a rejected write uses no revision");
}

#[test]
fn create_requires_name_and_no_resource_version() {
    let sites = sites(&[]);
    let (code, reason, message, _) = answer(&now(sites.create(&site(""), &post())).unwrap_err());
    assert_eq!((code, reason.as_str()), (422, "Invalid"));
    assert!(message.contains("metadata.name: Required value"), "{message}");

    let mut old = site("a");
    old.metadata.resource_version = "5".into();
    assert_eq!(answer(&now(sites.create(&old, &post())).unwrap_err()).0, 500);

    let mut prefix = site("");
    prefix.metadata.generate_name = "a-".into();
    let names = [(); 3].map(|()| now(sites.create(&prefix, &post())).unwrap().metadata.name);
    assert_eq!(names, ["a-bbbbc", "a-bbbbd", "a-bbbbf"]);
}

#[test]
fn key_of_the_wrong_scope_is_rejected() {
    let sites = sites(&[]);
    let everywhere = ObjectKey::cluster("a");
    let nowhere = Website { metadata: ObjectMeta::new("", "a"), ..Website::default() };
    for error in [
        now(sites.get(&everywhere)).unwrap_err(),
        now(sites.create(&nowhere, &post())).unwrap_err(),
        now(sites.delete(&everywhere, &DeleteOptions::default())).unwrap_err(),
    ] {
        assert!(matches!(error.kind, ErrorKind::InvalidRequest(_)), "{error}");
    }
}

#[test]
fn server_owned_fields_cannot_be_written() {
    let sites = sites(&[]);
    let mut forged = site("a");
    forged.metadata.uid = "mine".into();
    forged.metadata.generation = 9;
    forged.metadata.deletion_timestamp = Some(serde_json::from_str("\"2001-01-01T00:00:00Z\"").unwrap());
    forged.status = Some(State { ready: true });
    let made = now(sites.create(&forged, &post())).unwrap();
    assert_eq!((made.metadata.uid.as_str(), made.metadata.generation), ("uid-websites-1", 1));
    assert_eq!((made.metadata.deletion_timestamp, &made.status), (None, &None));
    assert!(made.metadata.creation_timestamp.is_some());

    forged.metadata.uid = made.metadata.uid.clone();
    assert_eq!(now(sites.update(&forged, &post())).unwrap(), made, "the update is not a change");
}

#[test]
fn status_and_main_resource_are_updated_separately() {
    let sites = sites(&["a"]);
    let mut both = themed("a", "dark");
    both.status = Some(State { ready: true });
    both.metadata.labels.insert("x".into(), "y".into());

    let status = now(sites.update_status(&both, &post())).unwrap();
    assert_eq!((status.status, status.spec.theme.as_str()), (Some(State { ready: true }), ""));
    assert!(status.metadata.labels.is_empty());
    both.status = Some(State { ready: false });
    let main = now(sites.update(&both, &post())).unwrap();
    assert_eq!((main.status, main.spec.theme.as_str()), (Some(State { ready: true }), "dark"));
    let patch = Patch::Merge(json!({"spec": {"theme": "light"}, "status": {"ready": false}}));
    let main = now(sites.patch(&key("a"), &patch, &post())).unwrap();
    assert_eq!((main.status, main.spec.theme.as_str()), (Some(State { ready: true }), "light"));
}

#[test]
fn generation_increases_only_with_the_desired_state() {
    let sites = sites(&[]);
    now(sites.create(&themed("a", "dark"), &post())).unwrap();
    for (patch, generation) in [
        (json!({"metadata": {"labels": {"x": "y"}}}), 1),
        (json!({"metadata": {"generation": 99}}), 1),
        (json!({"spec": {"theme": "light"}}), 2),
        (json!({"spec": {"theme": "light"}}), 2),
        (json!({"data": {"k": "v"}}), 3),
        (json!({"status": {"ready": true}}), 3),
    ] {
        let site = now(sites.patch(&key("a"), &Patch::Merge(patch.clone()), &post())).unwrap();
        assert_eq!(site.metadata.generation, generation, "{patch}");
    }
}

#[test]
fn object_stays_until_its_last_finalizer_is_removed() {
    let sites = sites(&[]);
    let mut held = site("a");
    held.metadata.finalizers = vec!["x.io/one".into(), "x.io/two".into()];
    sites.put(held);
    let mut events = now(pintle_meta::ListWatch::watch(&sites, &from(1))).unwrap();
    now(sites.delete(&key("a"), &DeleteOptions::default())).unwrap();
    now(sites.delete(&key("a"), &DeleteOptions::default())).unwrap();
    let mut marked = now(sites.get(&key("a"))).unwrap();
    assert!(marked.metadata.deletion_timestamp.is_some());
    assert_eq!((marked.metadata.deletion_grace_period_seconds, marked.metadata.generation), (Some(0), 2));
    assert!(answer(&now(sites.create(&site("a"), &post())).unwrap_err()).2.starts_with("object is being deleted: "));

    marked.metadata.finalizers.push("x.io/three".into());
    let error = now(sites.update(&marked, &post())).unwrap_err();
    assert!(error.is_invalid() && error.has_cause("FieldValueForbidden"), "{error}");
    marked.metadata.finalizers = vec!["x.io/two".into()];
    let mut marked = now(sites.update(&marked, &post())).unwrap();
    marked.metadata.finalizers.clear();
    let last = now(sites.update(&marked, &post())).unwrap();
    assert!(last.metadata.finalizers.is_empty());
    assert!(now(sites.get(&key("a"))).unwrap_err().is_not_found());
    assert_eq!(
        available(&mut events),
        ["MODIFIED a@2", "MODIFIED a@3", "DELETED a@4"],
        "the second deletion changes nothing"
    );
}

#[test]
fn deletion_checks_uid_and_resource_version_preconditions() {
    let sites = sites(&["a"]);
    let meant = |uid: Option<&str>, version: Option<&str>| DeleteOptions {
        preconditions: Some(Preconditions { uid: uid.map(Into::into), resource_version: version.map(Into::into) }),
        ..DeleteOptions::default()
    };
    let error = now(sites.delete(&key("a"), &meant(Some("other"), None))).unwrap_err();
    let message = "Operation cannot be fulfilled on websites.example.com \"a\": the UID in the precondition (other) does not \
                   match the UID in record (uid-websites-1). The object might have been deleted and then recreated";
    assert_eq!(answer(&error).2, message);
    assert!(now(sites.delete(&key("a"), &meant(Some("uid-websites-1"), Some("9")))).unwrap_err().is_conflict());
    now(sites.delete(&key("a"), &meant(Some("uid-websites-1"), Some("1")))).unwrap();
}

#[test]
fn dry_run_changes_nothing() {
    let sites = sites(&["a"]);
    let dry = WriteOptions { dry_run: true, field_manager: "test".into(), ..WriteOptions::default() };
    assert_eq!(now(sites.create(&themed("b", "dark"), &dry)).unwrap().spec.theme, "dark");
    assert_eq!(now(sites.update(&themed("a", "dark"), &dry)).unwrap().spec.theme, "dark");
    let patch = json!({"apiVersion": "example.com/v1", "kind": "Website", "spec": {"theme": "dark"}});
    assert_eq!(now(sites.patch(&key("a"), &Patch::Apply(patch), &dry)).unwrap().spec.theme, "dark");
    let options = DeleteOptions { dry_run: true, ..DeleteOptions::default() };
    now(sites.delete(&key("a"), &options)).unwrap();
    assert_eq!((sites.revision(), sites.objects()[0].spec.theme.as_str()), (1, ""));
}

#[test]
fn merge_patch_merges_maps_and_replaces_lists() {
    let sites = sites(&[]);
    sites.put_raw(json!({
        "metadata": {"namespace": "ns", "name": "a", "labels": {"x": "1", "y": "2"}, "finalizers": ["x.io/y"]},
        "spec": {"theme": "dark"},
    }));
    let patch =
        json!({"metadata": {"labels": {"x": null, "z": "3"}, "finalizers": ["x.io/z"], "annotations": {"none": null}}});
    let site = now(sites.patch(&key("a"), &Patch::Merge(patch), &post())).unwrap();
    let labels: Vec<_> = site.metadata.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!((labels.join(" "), site.metadata.finalizers.join(" ")), ("y=2 z=3".into(), "x.io/z".into()));
    assert!(site.metadata.annotations.is_empty());
    for other in [json!({"metadata": {"name": "b"}}), json!({"metadata": "none"}), json!([])] {
        let error = now(sites.patch(&key("a"), &Patch::Merge(other), &post())).unwrap_err();
        assert!(error.is_bad_request(), "{error}");
    }
}

#[test]
fn apply_patch_creates_or_merges() {
    let sites = sites(&[]);
    let options = WriteOptions { field_manager: "test".into(), ..WriteOptions::default() };
    let apply = |spec: serde_json::Value| {
        Patch::Apply(json!({"apiVersion": "example.com/v1", "kind": "Website", "spec": spec}))
    };
    let made = now(sites.patch(&key("a"), &apply(json!({"theme": "dark"})), &options)).unwrap();
    assert_eq!((made.metadata.uid.as_str(), made.spec.theme.as_str()), ("uid-websites-1", "dark"));
    let site = now(sites.patch(&key("a"), &apply(json!({"theme": "light"})), &options)).unwrap();
    assert_eq!((site.metadata.resource_version.as_str(), site.spec.theme.as_str()), ("2", "light"));

    let mut old = apply(json!({"theme": "dark"})).body().clone();
    old["metadata"] = json!({"name": "b", "resourceVersion": "1"});
    now(sites.patch(&key("b"), &Patch::Apply(old), &options))
        .expect("an apply ignores the resourceVersion of a deleted object");

    let error = now(sites.patch(&key("a"), &apply(json!({})), &post())).unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("fieldManager: Required value"), "{error}");
    let kindless = Patch::Apply(json!({"spec": {}}));
    assert!(now(sites.patch(&key("a"), &kindless, &options)).unwrap_err().is_bad_request());
}

#[test]
fn unsupported_patches_are_rejected() {
    let sites = sites(&["a"]);
    for patch in [Patch::Json(json!([])), Patch::Strategic(json!({}))] {
        let error = now(sites.patch(&key("a"), &patch, &post())).unwrap_err();
        assert!(error.is_unsupported_media_type() && error.to_string().contains(patch.content_type()), "{error}");
    }
}

#[test]
fn managed_fields_are_kept_when_a_write_omits_them() {
    let sites = sites(&[]);
    let managed = json!([{"manager": "kubectl"}]);
    sites.put_raw(
        json!({"metadata": {"namespace": "ns", "name": "a", "managedFields": managed}, "spec": {"theme": ""}}),
    );
    now(sites.update(&themed("a", "dark"), &post())).unwrap();
    let mut page = now(pintle_meta::ListWatch::list(&sites, &Default::default())).unwrap();
    let item = std::iter::from_fn(|| now(page.next())).last();
    let Some(Ok(pintle_meta::ListPart::Item(item))) = item else { panic!("{item:?}") };
    assert_eq!(item.decode::<serde_json::Value>().unwrap()["metadata"]["managedFields"], managed);
}

#[tokio::test(start_paused = true)]
async fn reconciler_can_apply_through_object_api() {
    #[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
    struct Widget {
        metadata: pintle_meta::ObjectMeta,
        #[serde(default)]
        spec: serde_json::Value,
    }
    pintle_meta::resource!(Widget, "example.com/v1", "Widget", "widgets", Namespaced);
    async fn publish(api: &impl pintle_meta::ObjectApi<Widget>, size: u32) -> Widget {
        let metadata = pintle_meta::ObjectMeta::new("ns", "w");
        let widget = Widget { metadata, spec: serde_json::json!({"size": size}) };
        api.apply(&widget, &pintle_meta::WriteOptions::apply("me")).await.unwrap()
    }
    let widgets = pintle_testing::Collection::<Widget>::default();
    let made = publish(&widgets, 1).await;
    let changed = publish(&widgets, 2).await;
    assert_eq!((made.metadata.uid, changed.spec["size"].as_u64()), (changed.metadata.uid, Some(2)));
}
