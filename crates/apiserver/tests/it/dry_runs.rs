//! Tests of answers that kube-apiserver builds before it reaches its store. The expected values are from
//! kube-apiserver 1.36.1.

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use crate::support::*;

const JSON: &str = "application/json";

async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig::default()).await.expect("a server")
}

async fn sent(server: &ApiServer, request: (Method, &str), headers: &[(&str, &str)], body: &str) -> Answer {
    read(send(server, request.0, request.1, headers, body).await).await
}

#[tokio::test]
async fn uid_conflict_of_a_dry_run_has_no_prefix() {
    let server = server().await;
    create_map(&server, "a", json!({})).await;
    let path = format!("{CONFIG_MAPS}/a");
    let map = json!({"metadata": {"name": "a", "uid": "x"}});
    for (query, key) in [("?dryRun=All", "Key: /configmaps/default/a,"), ("", "Key: /registry/configmaps/default/a,")] {
        let answer = call(&server, Method::PUT, &format!("{path}{query}"), map.clone()).await;
        assert!(answer.body.text("/message").contains(key), "{query}: {:?}", answer.body);
    }
}

#[tokio::test]
async fn only_a_dry_run_returns_the_self_link() {
    let server = server().await;
    create_map(&server, "a", json!({})).await;
    let path = format!("{CONFIG_MAPS}/a");
    let map = json!({"metadata": {"name": "a", "selfLink": "/x"}});
    for (query, link) in [("?dryRun=All", "/x"), ("", "")] {
        let answer = call(&server, Method::PUT, &format!("{path}{query}"), map.clone()).await;
        assert_eq!((answer.code, answer.body.text("/metadata/selfLink")), (200, link), "{query}");
    }
}

#[tokio::test]
async fn table_of_a_dry_run_has_no_revision() {
    let server = server().await;
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let request = (Method::POST, &*format!("{CONFIG_MAPS}?dryRun=All"));
    let headers = [("content-type", JSON), ("accept", table)];
    let answer = sent(&server, request, &headers, r#"{"metadata":{"name":"a"}}"#).await;
    assert_eq!((answer.code, &answer.body["metadata"]), (201, &json!({})));
}

#[tokio::test]
async fn metadata_of_the_wrong_shape_is_not_acceptable() {
    let server = server().await;
    create_map(&server, "a", json!({})).await;
    let one = format!("{CONFIG_MAPS}/a");
    for (method, path, wanted, found) in [
        (Method::GET, &*one, "PartialObjectMetadataList", "not a list (*core.ConfigMap)"),
        (Method::GET, CONFIG_MAPS, "PartialObjectMetadata", "a list (*core.ConfigMapList)"),
        (Method::DELETE, CONFIG_MAPS, "PartialObjectMetadata", "a list (*core.ConfigMapList)"),
    ] {
        let accept = format!("{JSON};as={wanted};v=v1;g=meta.k8s.io");
        let answer = sent(&server, (method, path), &[("accept", &accept)], "").await;
        let message = format!("you requested {wanted}, but the requested object is {found}");
        assert_eq!((answer.code, answer.body.text("/message")), (406, &*message), "{path}");
    }
}

#[tokio::test]
async fn only_lists_and_watches_offer_streams() {
    let server = server().await;
    for (method, streams) in [(Method::GET, true), (Method::DELETE, false)] {
        let answer = sent(&server, (method, CONFIG_MAPS), &[("accept", "text/plain")], "").await;
        assert_eq!(answer.body.text("/message").contains("stream=watch"), streams, "{:?}", answer.body);
    }
}

#[tokio::test]
async fn syntax_errors_are_those_of_go() {
    let server = server().await;
    let why = "invalid character 'b' looking for beginning of object key string";
    let message = format!("couldn't get version/kind; json parse error: {why}");
    let one = format!("{CONFIG_MAPS}/a");
    let answer = sent(&server, (Method::DELETE, &one), &[("content-type", JSON)], "{bad").await;
    assert_eq!(answer.body.text("/message"), message);

    let answer = get(&server, &format!("{CONFIG_MAPS}?continue=bad")).await;
    let why = "invalid character 'm' looking for beginning of value";
    let message = format!("invalid continue token: continue key is not valid: {why}");
    assert_eq!(answer.body.text("/message"), message);

    let protobuf = [("content-type", "application/vnd.kubernetes.protobuf")];
    let answer = sent(&server, (Method::POST, CONFIG_MAPS), &protobuf, "{}").await;
    let why = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] ({})";
    let message = format!("the object provided is unrecognized (must be of type ConfigMap): {why}");
    assert_eq!(answer.body.text("/message"), message);

    for (body, why) in [("", "empty data (<empty>)"), ("k8s\0", "empty body (6b387300)")] {
        let answer = sent(&server, (Method::POST, CONFIG_MAPS), &protobuf, body).await;
        let message = format!("the object provided is unrecognized (must be of type ConfigMap): {why}");
        assert_eq!(answer.body.text("/message"), message);
    }
    for (media, body, of) in [
        ("merge-patch", r#"{"a":1e400}"#, "Go value"),
        ("json-patch", r#"[{"op":"add","path":"/a","value":1e400}]"#, "Go struct field jsonPatchOp.value"),
    ] {
        let media = [("content-type", &*format!("application/{media}+json"))];
        let answer = sent(&server, (Method::PATCH, "/api/v1/namespaces/default"), &media, body).await;
        let message = format!("error decoding patch: json: cannot unmarshal number 1e400 into {of} of type float64");
        assert_eq!(answer.body.text("/message"), message);
    }
    let yaml = [("content-type", "application/yaml")];
    for (headers, body, message) in [
        (&protobuf, "k8s\0", "empty body"),
        (&protobuf, "{}", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"),
        (&yaml, "\u{1}", "yaml: control characters are not allowed"),
    ] {
        let answer = sent(&server, (Method::DELETE, &one), headers, body).await;
        assert_eq!(answer.body.text("/message"), message);
    }

    let apply = [("content-type", "application/apply-patch+yaml")];
    let answer = sent(&server, (Method::PATCH, &format!("{one}?fieldManager=a")), &apply, "[]").await;
    let message = "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go \
                   value of type map[string]interface {}";
    assert_eq!((answer.code, answer.body.text("/message")), (400, message));
}

#[tokio::test]
async fn second_controller_is_named_with_the_first() {
    let server = server().await;
    let owner = |kind: &str| json!({"apiVersion": "v1", "kind": kind, "name": "a", "uid": "u", "controller": true});
    let map = json!({"metadata": {"name": "a", "ownerReferences": [owner("Pod"), owner("Node")]}});
    let answer = call(&server, Method::POST, CONFIG_MAPS, map).await;
    let value = |kind: &str| format!(r#"{{"apiVersion":"v1","kind":"{kind}","name":"a","uid":"u","controller":true}}"#);
    let message = format!(
        "Invalid value: [{},{}]: Only one reference can have Controller set to true. Found \"true\" in references for Pod/a and Node/a",
        value("Pod"),
        value("Node")
    );
    assert_eq!((answer.code, answer.body.text("/details/causes/0/message")), (422, &*message));
}

#[tokio::test]
async fn status_write_restores_the_labels_of_a_job() {
    let server = server().await;
    let template = json!({
        "metadata": {"labels": {"a": "b"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    });
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    create(&server, jobs, json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"template": template}}))
        .await;
    let answer =
        call(&server, Method::PUT, &format!("{jobs}/a/status?dryRun=All"), json!({"metadata": {"name": "a"}})).await;
    let labels = &answer.body["metadata"]["labels"];
    assert_eq!((labels.text("/a"), labels.text("/job-name"), labels.text("/x")), ("b", "a", ""));
}

#[tokio::test]
async fn changed_endpoints_lose_the_deprecated_topology() {
    let server = server().await;
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let slice = |address: &str| {
        let endpoint = json!({"addresses": [address], "deprecatedTopology": {"a": "b"}});
        json!({"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": [endpoint]})
    };
    create(&server, slices, slice("192.0.2.1")).await;
    let answer = call(&server, Method::PUT, &format!("{slices}/a"), slice("192.0.2.2")).await;
    assert_eq!((answer.code, answer.body["endpoints"][0].get("deprecatedTopology")), (200, None));
}

#[tokio::test]
async fn immutable_text_that_is_removed_is_empty() {
    let server = server().await;
    let classes = "/apis/networking.k8s.io/v1/ingressclasses";
    create(&server, classes, json!({"metadata": {"name": "a"}, "spec": {"controller": "e.com/a"}})).await;
    let answer = call(&server, Method::PATCH, &format!("{classes}/a"), json!({"spec": null})).await;
    assert_eq!(answer.body.text("/details/causes/0/message"), "Invalid value: \"\": field is immutable");
}

#[tokio::test]
async fn selector_errors_have_the_order_of_go() {
    let server = server().await;
    let selector =
        json!({"matchExpressions": [{"operator": "In", "key": "a", "values": []}], "matchLabels": {"a": "b"}});
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"metadata": {"name": "a"}, "spec": {"selector": selector, "template": template}});
    let answer = call(&server, Method::POST, "/apis/apps/v1/namespaces/default/deployments", deployment).await;
    let value = r#"{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"a","operator":"In"}]}"#;
    let message = format!("Invalid value: {value}: invalid label selector");
    assert!(answer.body.list("/details/causes").any(|cause| cause.text("/message") == message), "{:?}", answer.body);
}

#[tokio::test]
async fn reported_resources_must_match_the_containers() {
    let server = server().await;
    let pods = "/api/v1/namespaces/default/pods";
    let resources = json!({"limits": {"e.com/x": "1"}, "requests": {"e.com/x": "1"}});
    let containers = json!([{"name": "c", "image": "i", "resources": resources}]);
    create(&server, pods, json!({"metadata": {"name": "a"}, "spec": {"containers": containers}})).await;
    let mapping = |container: &str, resource: &str| json!({"containerName": container, "resourceName": resource, "requestName": "r"});
    let claim = |mappings: Json| json!({"extendedResourceClaimStatus": {"resourceClaimName": "n", "requestMappings": mappings}});
    let allocated = |key: &str, allocated: Json| {
        let status = json!({"name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "allocatedResourcesStatus": [allocated]});
        json!({key: [status]})
    };
    for (status, errors) in [
        (claim(json!([mapping("c", "e.com/x")])), vec![]),
        (claim(json!([])), vec!["requestMappings: Required value: at least one request mapping is required"]),
        (
            claim(json!([mapping("d", "e.com/x"), mapping("c", "e.com/y")])),
            vec![
                "requestMappings[0].containerName: Invalid value: \"d\"",
                "requestMappings[1].resourceName: Invalid value: \"e.com/y\"",
            ],
        ),
        (
            claim(json!([mapping("c", "e.com/x"), mapping("c", "e.com/x")])),
            vec!["[1].containerName: Duplicate", "[1].resourceName: Duplicate", "[1].requestName: Duplicate"],
        ),
        (allocated("containerStatuses", json!({"name": "e.com/x"})), vec![]),
        (
            allocated("containerStatuses", json!({"name": "cpu", "resources": [{"resourceID": "i", "health": "Bad"}]})),
            vec!["name: Invalid value: \"cpu\"", "resources[0].health: Unsupported value: \"Bad\""],
        ),
        (
            allocated("ephemeralContainerStatuses", json!({"name": "cpu"})),
            vec!["Forbidden: must not be specified in container status"],
        ),
    ] {
        let body = json!({"status": status});
        let answer = call(&server, Method::PATCH, &format!("{pods}/a/status?dryRun=All"), body.clone()).await;
        let causes = answer.body.list("/details/causes");
        let found: Vec<_> =
            causes.map(|cause| format!("{}: {}", cause.text("/field"), cause.text("/message"))).collect();
        assert_eq!(
            (answer.code, found.len()),
            (if errors.is_empty() { 200 } else { 422 }, errors.len()),
            "{body} {found:?}"
        );
        for (found, expected) in found.iter().zip(errors) {
            assert!(found.contains(expected), "{found}");
        }
    }
    let disabled = json!({"status": {"nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "n"}]}});
    let answer = call(&server, Method::PATCH, &format!("{pods}/a/status?dryRun=All"), disabled).await;
    assert_eq!((answer.code, answer.body["status"].get("nodeAllocatableResourceClaimStatuses")), (200, None));
}

#[tokio::test]
async fn token_request_for_another_namespace_is_a_bad_request() {
    let server = server().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    create(&server, accounts, json!({"metadata": {"name": "a"}})).await;
    let request = json!({"metadata": {"namespace": "other"}, "spec": {}});
    let answer = call(&server, Method::POST, &format!("{accounts}/a/token"), request).await;
    let message = "the namespace of the provided object does not match the namespace sent on the request";
    assert_eq!((answer.code, answer.body.text("/message")), (400, message));
}

#[tokio::test]
async fn applied_bytes_that_are_not_base64_are_an_error() {
    let server = server().await;
    let headers = [("content-type", "application/apply-patch+yaml")];
    let path = format!("{CONFIG_MAPS}/a?fieldManager=m");
    let map = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"binaryData":{"q":"y"}}"#;
    let answer = sent(&server, (Method::PATCH, &path), &headers, map).await;
    let why = "error decoding from json: illegal base64 data at input byte 0";
    assert!(answer.body.text("/message").ends_with(why), "{:?}", answer.body);
}
