//! Tests of the rules for metadata in writes. The error messages must be the same as in kube-apiserver.

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, Map, json};

use crate::support::*;

async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig::default()).await.expect("a server")
}

#[tokio::test]
async fn status_writes_of_some_kinds_ignore_metadata() {
    let server = server().await;
    let claim = json!({"metadata": {"name": "a"}, "spec": {"devices": {}}});
    create(&server, "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", claim).await;
    let attachment = json!({"metadata": {"name": "a"}, "spec": {"attacher": "x", "nodeName": "n", "source": {"persistentVolumeName": "p"}}});
    create(&server, "/apis/storage.k8s.io/v1/volumeattachments", attachment).await;
    let policy = json!({
        "metadata": {"name": "a"},
        "spec": {
            "validations": [{"expression": "true"}],
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
        },
    });
    create(&server, "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", policy).await;
    for path in [
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/a",
        "/apis/storage.k8s.io/v1/volumeattachments/a",
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/a",
        "/apis/apiregistration.k8s.io/v1/apiservices/v1.",
        "/apis/networking.k8s.io/v1/servicecidrs/kubernetes",
        "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/exempt",
        "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations/exempt",
    ] {
        let patch = json!({"metadata": {"labels": {"x": "y"}}});
        let written = call(&server, Method::PATCH, &format!("{path}/status"), patch.clone()).await;
        let metadata = &written.body["metadata"];
        assert_eq!((written.code, &metadata["labels"]["x"]), (200, &Json::Null), "{path}");
        assert!(!metadata["managedFields"].to_string().contains("f:x"), "{path}");
        let written = call(&server, Method::PATCH, path, patch).await;
        assert_eq!((written.code, &written.body["metadata"]["labels"]["x"]), (200, &json!("y")), "{path}");
    }
}

#[tokio::test]
async fn pod_status_write_cannot_set_a_deletion_timestamp() {
    let server = server().await;
    let pods = "/api/v1/namespaces/default/pods";
    create(&server, pods, json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}))
        .await;
    let patch = json!({"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}, "status": {"message": "m"}});
    let written = call(&server, Method::PATCH, &format!("{pods}/a/status"), patch).await;
    assert_eq!(written.code, 200, "{:?}", written.body);
    assert_eq!(written.body["status"]["message"], "m");
    assert_eq!(written.body["metadata"]["deletionTimestamp"], Json::Null);
}

/// Returns data with many keys. The managed fields of the data are about as large as the data itself, because they
/// contain all keys.
fn large() -> Json {
    let keys = (0..9_999).map(|at| (format!("{}-{at}", "a-long-key".repeat(7)), json!("A")));
    keys.collect::<Map>().into()
}

#[tokio::test]
async fn managed_fields_are_dropped_when_they_exceed_the_limit() {
    let server = server().await;
    create(&server, CONFIG_MAPS, json!({"metadata": {"name": "made"}, "data": large()})).await;
    for (name, method) in [("put", Method::PUT), ("patched", Method::PATCH)] {
        create_map(&server, name, json!({})).await;
        let object = json!({"metadata": {"name": name}, "data": large()});
        let written = call(&server, method, &format!("{CONFIG_MAPS}/{name}"), object).await;
        assert_eq!(written.code, 200, "{name}: {}", written.body["message"]);
    }
    for name in ["made", "put", "patched"] {
        let path = format!("{CONFIG_MAPS}/{name}");
        assert_eq!(get(&server, &path).await.body["metadata"]["managedFields"], Json::Null, "{name}");
        // The apply request fails, because it must write managed fields, and the object is too large for them.
        let wish = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}).to_string();
        let headers = [("content-type", "application/apply-patch+yaml")];
        let applied = send(&server, Method::PATCH, &format!("{path}?fieldManager=m"), &headers, &wish).await;
        let applied = read(applied).await;
        assert_eq!(
            (applied.code, &applied.body["message"]),
            (500, &json!("etcdserver: request is too large")),
            "{name}"
        );
    }
}

#[tokio::test]
async fn duplicate_owners_in_a_patch_warn_after_admission() {
    let server = server().await;
    let owner = create(&server, CONFIG_MAPS, json!({"metadata": {"name": "o"}})).await;
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": owner["metadata"]["uid"]});
    let metadata = json!({"name": "a", "ownerReferences": [owner, owner]});
    let warning = |answer: &Answer| answer.headers["warning"].to_str().expect("text").to_owned();
    let made = call(&server, Method::POST, CONFIG_MAPS, json!({"metadata": metadata})).await;
    assert!(warning(&made).contains("contains duplicate entries; API server"), "{}", warning(&made));
    let patched = call(&server, Method::PATCH, &format!("{CONFIG_MAPS}/a"), json!({"metadata": metadata})).await;
    let after = "contains duplicate entries after mutating admission happens; API server";
    assert!(warning(&patched).contains(after), "{}", warning(&patched));
}

#[tokio::test]
async fn duplicate_yaml_keys_are_reported_as_one_error() {
    let server = server().await;
    let twice = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: b\n  a: c\n  d: e\n  d: f\n";
    let duplicates =
        "yaml: unmarshal errors:\n  line 6: key \"a\" already set in map\n  line 8: key \"d\" already set in map";
    let unknown = format!("zz: 1\n{twice}bb: 1\n");
    let strict = "fieldValidation=Strict&fieldManager=m";
    let message = async |method: Method, path: String, media: &str, body: &str| {
        let answer = read(send(&server, method, &path, &[("content-type", media)], body).await).await;
        answer.body["message"].as_str().unwrap_or_default().to_owned()
    };
    let posted = message(Method::POST, format!("{CONFIG_MAPS}?{strict}"), "application/yaml", &unknown).await;
    let (later, fields) = (
        duplicates.replace("line 6", "line 7").replace("line 8", "line 9"),
        "unknown field \"bb\", unknown field \"zz\"",
    );
    assert!(posted.ends_with(&format!("strict decoding error: {later}, {fields}")), "{posted}");
    let applied =
        message(Method::PATCH, format!("{CONFIG_MAPS}/a?{strict}"), "application/apply-patch+yaml", twice).await;
    assert_eq!(applied, format!("error strict decoding YAML: error converting YAML to JSON: {duplicates}"));
}

#[tokio::test]
async fn finalizer_warning_appears_only_when_finalizers_change() {
    let server = server().await;
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let definition = json!({
        "metadata": {"name": "anys.probe.io"},
        "spec": {
            "group": "probe.io", "scope": "Cluster", "names": {"plural": "anys", "kind": "Any"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    create(&server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    server.settle().await;
    let any = json!({"apiVersion": "probe.io/v1", "kind": "Any", "metadata": {"name": "a", "finalizers": ["x.io"]}});
    let made = call(&server, Method::POST, "/apis/probe.io/v1/anys", any).await;
    assert!(made.headers.contains_key("warning"), "{:?}", made.body);
    let patch = async |metadata: Json| {
        let patched = call(&server, Method::PATCH, "/apis/probe.io/v1/anys/a", json!({"metadata": metadata})).await;
        assert_eq!(patched.code, 200, "{:?}", patched.body);
        patched.headers.get_all("warning").iter().count()
    };
    assert_eq!(patch(json!({"labels": {"a": "b"}})).await, 0);
    assert_eq!(patch(json!({"finalizers": ["x.io", "y.io"]})).await, 1);
}

#[tokio::test]
async fn error_messages_match_kube_apiserver() {
    let server = server().await;
    create(&server, CONFIG_MAPS, json!({"metadata": {"name": "a"}})).await;
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"resourceVersion": "1"}});
    let refused = call(&server, Method::DELETE, &format!("{CONFIG_MAPS}/a"), options).await;
    assert!(refused.body.text("/message").ends_with("The object might have been modified"), "{:?}", refused.body);

    let terminating = json!({"metadata": {"name": "term", "finalizers": ["x.io/f"]}});
    create(&server, "/api/v1/namespaces", terminating).await;
    delete(&server, "/api/v1/namespaces/term").await;
    let generated = json!({"metadata": {"generateName": "cleanup-"}});
    let refused = call(&server, Method::POST, "/api/v1/namespaces/term/configmaps", generated).await;
    let found = (refused.body.text("/message"), refused.body.text("/details/name"));
    let why = "configmaps \"cleanup-\" is forbidden: unable to create new content in namespace term because it is being terminated";
    assert_eq!(found, (why, "cleanup-"));
}

#[tokio::test]
async fn cause_fields_match_kube_apiserver() {
    let server = server().await;
    let fields = async |path: &str, object: Json| {
        let refused = call(&server, Method::POST, path, object).await;
        assert_eq!(refused.code, 422, "{:?}", refused.body);
        refused.body.list("/details/causes").map(|cause| cause.text("/field").to_owned()).collect::<Vec<_>>()
    };
    let expression = json!({"key": "a", "operator": "In", "values": ["a b"]});
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": {"matchExpressions": [expression]}, "template": template});
    let workload = json!({"metadata": {"name": "a"}, "spec": spec});
    let value = "spec.selector.matchExpressions[0].values[0]";
    assert_eq!(
        fields("/apis/apps/v1/namespaces/default/deployments", workload.clone()).await,
        [value, "spec.selector"]
    );
    assert_eq!(fields("/apis/apps/v1/namespaces/default/daemonsets", workload).await, [value]);

    let webhook =
        json!({"admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": {"url": "https://a/x"}});
    let hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    assert_eq!(fields(hooks, json!({"metadata": {"name": "a"}, "webhooks": [webhook]})).await, ["webhooks[0].name"]);
    assert_eq!(fields(CONFIG_MAPS, json!({"metadata": {"generateName": "A-"}})).await, ["metadata.name"]);
}

/// The declarative validation of some kinds ignores `generateName`.
#[tokio::test]
async fn kind_that_accepts_any_prefix_can_be_updated() {
    let server = server().await;
    let path = "/apis/resource.k8s.io/v1/deviceclasses";
    let class = json!({"metadata": {"name": "a", "generateName": "A-"}, "spec": {}});
    let created = call(&server, Method::POST, path, class).await;
    assert_eq!(created.code, 201, "{:?}", created.body);
    let mut class = created.body;
    class["metadata"]["labels"] = json!({"a": "b"});
    let updated = call(&server, Method::PUT, &format!("{path}/a"), class).await;
    assert_eq!((updated.code, updated.body.text("/metadata/labels/a")), (200, "b"), "{:?}", updated.body);
}

#[tokio::test]
async fn generated_names_made_of_other_fields_are_checked() {
    let server = server().await;
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let definition = json!({
        "group": "q.example.com",
        "names": {"plural": "as", "kind": "A"},
        "scope": "Cluster",
        "versions": [version],
    });
    let service = json!({"group": "q.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1});
    for (path, spec, name) in [
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition, "as.q.example.com"),
        ("/apis/apiregistration.k8s.io/v1/apiservices", service, "v1.q.example.com"),
    ] {
        for (metadata, expected) in [
            (json!({}), &["metadata.name"][..]),
            (json!({"name": "b"}), &["metadata.name"]),
            (json!({"generateName": "b"}), &["metadata.generateName", "metadata.name"]),
            (json!({"generateName": name}), &["metadata.name"]),
            (json!({"name": name, "generateName": "b"}), &["metadata.generateName"]),
        ] {
            let refused = call(&server, Method::POST, path, json!({"metadata": metadata, "spec": spec})).await;
            let causes = refused.body["details"]["causes"].as_array().cloned().unwrap_or_default();
            let fields: Vec<_> = causes.iter().map(|cause| cause["field"].as_str().unwrap_or_default()).collect();
            assert_eq!((refused.code, &fields[..]), (422, expected), "{path} {metadata}");
        }
    }
}
