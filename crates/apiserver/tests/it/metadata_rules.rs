//! What becomes of metadata that a write may not bring, or that make an object too large.

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, Map, json};

use crate::support::*;

async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig::default()).await.expect("a server")
}

async fn create(server: &ApiServer, path: &str, object: Json) -> Json {
    let made = call(server, Method::POST, path, object).await;
    assert_eq!(made.code, 201, "{path}: {:?}", made.body);
    made.body
}

#[tokio::test]
async fn a_write_of_these_statuses_leaves_the_metadata_alone() {
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
async fn the_status_of_a_pod_ends_nothing() {
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

/// So many keys that who owns them takes as much as they do.
fn large() -> Json {
    let keys = (0..9_999).map(|at| (format!("{}-{at}", "a-long-key".repeat(7)), json!("A")));
    keys.collect::<Map>().into()
}

#[tokio::test]
async fn an_object_that_is_too_large_only_by_its_managers_is_stored_without_them() {
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
        // An apply stands on them.
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
async fn owners_that_a_patch_repeats_are_told_of_after_admission() {
    let server = server().await;
    let owner = create(&server, CONFIG_MAPS, json!({"metadata": {"name": "o"}})).await;
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": owner["metadata"]["uid"]});
    let metadata = json!({"name": "a", "ownerReferences": [owner, owner]});
    let told = |answer: &Answer| answer.headers["warning"].to_str().expect("text").to_owned();
    let made = call(&server, Method::POST, CONFIG_MAPS, json!({"metadata": metadata})).await;
    assert!(told(&made).contains("contains duplicate entries; API server"), "{}", told(&made));
    let patched = call(&server, Method::PATCH, &format!("{CONFIG_MAPS}/a"), json!({"metadata": metadata})).await;
    let after = "contains duplicate entries after mutating admission happens; API server";
    assert!(told(&patched).contains(after), "{}", told(&patched));
}

#[tokio::test]
async fn all_keys_that_a_body_of_yaml_repeats_are_told_as_one_fault() {
    let server = server().await;
    let twice = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: b\n  a: c\n  d: e\n  d: f\n";
    let told =
        "yaml: unmarshal errors:\n  line 6: key \"a\" already set in map\n  line 8: key \"d\" already set in map";
    let unknown = format!("zz: 1\n{twice}bb: 1\n");
    let strict = "fieldValidation=Strict&fieldManager=m";
    let ask = async |method: Method, path: String, media: &str, body: &str| {
        let answer = read(send(&server, method, &path, &[("content-type", media)], body).await).await;
        answer.body["message"].as_str().unwrap_or_default().to_owned()
    };
    let posted = ask(Method::POST, format!("{CONFIG_MAPS}?{strict}"), "application/yaml", &unknown).await;
    let (later, fields) =
        (told.replace("line 6", "line 7").replace("line 8", "line 9"), "unknown field \"bb\", unknown field \"zz\"");
    assert!(posted.ends_with(&format!("strict decoding error: {later}, {fields}")), "{posted}");
    let applied = ask(Method::PATCH, format!("{CONFIG_MAPS}/a?{strict}"), "application/apply-patch+yaml", twice).await;
    assert_eq!(applied, format!("error strict decoding YAML: error converting YAML to JSON: {told}"));
}
