//! Tests of fields that a write drops, fills in, or reports.

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use crate::support::*;

async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig::default()).await.expect("a server")
}

#[tokio::test]
async fn create_drops_disabled_fields_and_fills_in_others() {
    let server = server().await;
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [
        {"name": "c", "image": "x", "lifecycle": {"stopSignal": "SIGTERM"}}]}});
    let container = json!({"name": "c", "image": "x", "lifecycle": {"stopSignal": "SIGTERM"}});
    let claim = |source: Json| {
        let resources = json!({"requests": {"storage": "1Gi"}});
        json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources, "dataSource": source}})
    };
    let snapshot = json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"});
    let parameters = json!({"kind": "K", "name": "n"});
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    for (path, object, field, kept) in [
        (
            "/api/v1/namespaces/default/pods",
            json!({"metadata": {"name": "a"}, "spec": {"containers": [container], "schedulingGroup": {"podGroupName": "g"}}}),
            "/spec/containers/0/lifecycle",
            Json::Null,
        ),
        (
            "/api/v1/namespaces/default/podtemplates",
            json!({"metadata": {"name": "a"}, "template": template}),
            "/template/spec/containers/0/lifecycle",
            Json::Null,
        ),
        (
            "/api/v1/namespaces/default/serviceaccounts",
            json!({"metadata": {"name": "a"}, "secrets": [{"name": "s", "namespace": "n"}]}),
            "/secrets",
            json!([{"name": "s"}]),
        ),
        (claims, claim(json!({"apiGroup": "example.com", "kind": "X", "name": "x"})), "/spec/dataSource", Json::Null),
        (claims, claim(snapshot.clone()), "/spec/dataSourceRef", snapshot),
        (
            "/apis/networking.k8s.io/v1/ingressclasses",
            json!({"metadata": {"name": "a"}, "spec": {"controller": "a.io/b", "parameters": parameters}}),
            "/spec/parameters/scope",
            json!("Cluster"),
        ),
        (
            "/apis/storage.k8s.io/v1/volumeattributesclasses",
            json!({"metadata": {"name": "a"}, "driverName": "a.io", "parameters": {"a": "b"}}),
            "/metadata/finalizers",
            json!(["kubernetes.io/vac-protection"]),
        ),
    ] {
        let made = call(&server, Method::POST, &format!("{path}?dryRun=All"), object).await;
        assert_eq!(made.code, 201, "{:?}", made.body);
        assert_eq!(made.body.at(field).unwrap_or(&Json::Null), &kept, "{path} {field}");
    }
}

#[tokio::test]
async fn managed_fields_of_templates_contain_disabled_fields() {
    let server = server().await;
    let container = json!({"name": "c", "image": "x", "lifecycle": {"stopSignal": "SIGTERM"}});
    let pod = json!({"os": {"name": "linux"}, "containers": [container], "schedulingGroup": {"podGroupName": "g"}});
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": pod});
    let selector = json!({"matchLabels": {"a": "b"}});
    let workload = json!({"metadata": {"name": "a"}, "spec": {"selector": selector, "template": template}});
    let mut job = json!({"metadata": {"name": "a"}, "spec": {"template": template}});
    job["spec"]["template"]["spec"].set("restartPolicy", "Never");
    let mut cron_job = json!({"metadata": {"name": "a"}, "spec": {"schedule": "@daily"}});
    cron_job["spec"].set("jobTemplate", json!({"spec": job["spec"]}));
    let mut controller = workload.clone();
    controller["spec"].set("selector", json!({"a": "b"}));
    for (path, object, spec) in [
        ("/apis/apps/v1/namespaces/default/deployments", &workload, "/spec/template/spec"),
        ("/apis/apps/v1/namespaces/default/statefulsets", &workload, "/spec/template/spec"),
        ("/apis/apps/v1/namespaces/default/daemonsets", &workload, "/spec/template/spec"),
        ("/apis/apps/v1/namespaces/default/replicasets", &workload, "/spec/template/spec"),
        ("/api/v1/namespaces/default/replicationcontrollers", &controller, "/spec/template/spec"),
        ("/apis/batch/v1/namespaces/default/jobs", &job, "/spec/template/spec"),
        ("/apis/batch/v1/namespaces/default/cronjobs", &cron_job, "/spec/jobTemplate/spec/template/spec"),
        (
            "/api/v1/namespaces/default/podtemplates",
            &json!({"metadata": {"name": "a"}, "template": template}),
            "/template/spec",
        ),
    ] {
        let made = create(&server, path, object.clone()).await;
        let fields = made.at("/metadata/managedFields/0/fieldsV1").map(ToString::to_string).unwrap_or_default();
        for (field, pointer) in [("schedulingGroup", "schedulingGroup"), ("stopSignal", "containers/0/lifecycle")] {
            assert!(fields.contains(&format!("\"f:{field}\"")), "{path}: {fields}");
            assert_eq!(made.at(&format!("{spec}/{pointer}")), None, "{path}");
        }
    }
}

/// kube-apiserver stores objects as protobuf, which has no empty lists.
#[tokio::test]
async fn empty_lists_are_stored_as_null() {
    let server = server().await;
    let rule =
        json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "clusterScope": true, "namespaces": []});
    let subject = json!({"kind": "User", "user": {"name": "u"}});
    let spec = json!({
        "priorityLevelConfiguration": {"name": "exempt"},
        "rules": [{"subjects": [subject], "resourceRules": [rule]}],
    });
    let drivers = json!([{"name": "a", "nodeID": "n", "topologyKeys": []}]);
    for (path, object, list) in [
        ("/api/v1/nodes", json!({"status": {"images": [{"names": []}]}}), "/status/images/0/names"),
        (
            "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
            json!({"spec": {"devices": {"requests": []}}}),
            "/spec/devices/requests",
        ),
        (
            "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
            json!({"spec": spec}),
            "/spec/rules/0/resourceRules/0/namespaces",
        ),
        ("/apis/storage.k8s.io/v1/csinodes", json!({"spec": {"drivers": drivers}}), "/spec/drivers/0/topologyKeys"),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles", json!({"rules": []}), "/rules"),
        ("/api/v1/namespaces/default/limitranges", json!({"spec": {"limits": []}}), "/spec/limits"),
    ] {
        let mut object = object;
        object.set("metadata", json!({"name": "a"}));
        for query in ["?dryRun=All", ""] {
            let made = create(&server, &format!("{path}{query}"), object.clone()).await;
            assert_eq!(made.at(list), Some(&Json::Null), "{path}{query}");
        }
        let mut stored = get(&server, &format!("{path}/a")).await.body;
        let version = version(&stored);
        *stored.at_mut(list).expect("a null") = json!([]);
        let put = call(&server, Method::PUT, &format!("{path}/a"), stored).await;
        assert_eq!(put.code, 200, "{path}: {:?}", put.body);
        assert_eq!(self::version(&put.body), version, "{path}");
    }
    let autoscalers = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let scaler = json!({"metadata": {"name": "a"}, "spec": {"maxReplicas": 3, "scaleTargetRef": target}});
    create(&server, autoscalers, scaler).await;
    let status = json!({"status": {"currentMetrics": []}});
    let patched = call(&server, Method::PATCH, &format!("{autoscalers}/a/status"), status).await;
    assert_eq!(patched.body.at("/status/currentMetrics"), Some(&Json::Null), "{:?}", patched.body);
}

#[tokio::test]
async fn volume_phase_time_stays_while_the_phase_stays() {
    let server = server().await;
    let spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}});
    let mut volume = json!({"metadata": {"name": "a"}, "spec": spec});
    let all = "/api/v1/persistentvolumes";
    let made = call(&server, Method::POST, all, volume.clone()).await;
    let since = made.body["status"]["lastPhaseTransitionTime"].clone();
    assert!(since.is_string(), "{:?}", made.body);
    volume["status"] = json!({"phase": "Pending"});
    let written = call(&server, Method::PUT, &format!("{all}/a/status"), volume).await;
    assert_eq!(written.body["status"]["lastPhaseTransitionTime"], since, "{:?}", written.body);
}

#[tokio::test]
async fn invalid_access_reviews_report_all_errors() {
    let server = server().await;
    let causes = async |review: &str, object: Json| {
        let answer = call(&server, Method::POST, &format!("/apis/authorization.k8s.io/v1/{review}"), object).await;
        let causes = answer.body.list("/details/causes").map(|cause| cause.text("/field").to_owned());
        (answer.code, causes.collect::<Vec<_>>())
    };
    let resource = json!({"verb": "get", "resource": "pods"});
    let review =
        |metadata: Json, resource: Json| json!({"metadata": metadata, "spec": {"resourceAttributes": resource}});
    let own = "selfsubjectaccessreviews";
    assert_eq!(
        causes(own, review(json!({"labels": {"a": "b"}}), resource.clone())).await,
        (422, vec!["metadata".into()])
    );
    assert_eq!(causes(own, review(json!({"uid": "1"}), resource)).await, (201, vec![]));
    let narrowed = json!({"verb": "list", "resource": "pods", "fieldSelector": {}});
    let field = "spec.resourceAttributes.fieldSelector.requirements";
    assert_eq!(causes(own, review(json!({}), narrowed)).await, (422, vec![field.into()]));
    let both = vec!["spec.resourceAttributes".into(), "spec.user".into()];
    assert_eq!(causes("subjectaccessreviews", json!({"spec": {}})).await, (422, both));
}

#[tokio::test]
async fn empty_partial_metadata_list_has_null_items() {
    let server = server().await;
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let answer = send(&server, Method::GET, "/api/v1/namespaces/default/pods", &[("accept", accept)], "").await;
    let answer = read(answer).await;
    assert_eq!((answer.code, answer.body.get("items")), (200, Some(&Json::Null)));
}

#[tokio::test]
async fn driver_generation_counts_only_changes() {
    let server = server().await;
    let drivers = "/apis/storage.k8s.io/v1/csidrivers";
    let made = call(&server, Method::POST, drivers, json!({"metadata": {"name": "d"}, "spec": {}})).await;
    assert_eq!((made.code, made.body.integer("/metadata/generation")), (201, None));
    for (patch, generation) in [
        (json!({"metadata": {"labels": {"a": "b"}}}), None),
        (json!({"spec": {"requiresRepublish": true}}), Some(1)),
        (json!({"metadata": {"generation": 7}}), Some(1)),
        (json!({"spec": {"requiresRepublish": false}}), Some(2)),
    ] {
        let patched = call(&server, Method::PATCH, &format!("{drivers}/d"), patch.clone()).await;
        assert_eq!(patched.body.integer("/metadata/generation"), generation, "{patch}");
    }
}

#[tokio::test]
async fn priority_class_generation_stays_one() {
    let server = server().await;
    let all = "/apis/scheduling.k8s.io/v1/priorityclasses";
    call(&server, Method::POST, all, json!({"metadata": {"name": "a"}, "value": 1})).await;
    let changed = call(&server, Method::PATCH, &format!("{all}/a"), json!({"description": "x"})).await;
    assert_eq!((changed.body.text("/description"), changed.body.integer("/metadata/generation")), ("x", Some(1)));
}

#[tokio::test]
async fn definitions_report_conversion_errors_and_unknown_formats() {
    let server = server().await;
    let fields = json!({"a": {"type": "boolean", "format": "x"}, "b": {"type": "integer", "format": "int64"}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": fields}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
    let define = async |conversion: Json, is_nullable: bool| {
        let mut version = version.clone();
        version["schema"]["openAPIV3Schema"]["nullable"] = is_nullable.into();
        let names = json!({"plural": "ws", "kind": "W"});
        let spec = json!({"group": "example.com", "scope": "Cluster", "names": names, "versions": [version], "conversion": conversion});
        let all = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All";
        call(&server, Method::POST, all, json!({"metadata": {"name": "ws.example.com"}, "spec": spec})).await
    };
    let made = define(json!({"strategy": "None"}), false).await;
    let warned: Vec<_> = made.headers.get_all("warning").iter().collect();
    assert!(made.code == 201 && warned.len() == 1, "{:?} {warned:?}", made.body);
    for (conversion, field) in [
        (json!({"strategy": ""}), "spec.conversion.strategy"),
        (
            json!({"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}}),
            "spec.conversion.conversionReviewVersions",
        ),
    ] {
        assert_eq!(define(conversion, false).await.body.text("/details/causes/0/field"), field);
    }
    let nullable = define(json!({"strategy": "None"}), true).await;
    assert_eq!(nullable.body.text("/details/causes/0/field"), "spec.validation.openAPIV3Schema.nullable");
}

#[tokio::test]
async fn invalid_replicas_are_also_reported_for_the_scale() {
    let server = server().await;
    let spec = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    let scale = json!({"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"});
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {"scale": scale}});
    let names = json!({"plural": "ws", "kind": "W"});
    let definition = json!({"metadata": {"name": "ws.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]}});
    let all = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(call(&server, Method::POST, all, definition).await.code, 201);
    for (spec, fields) in [
        (json!({"n": "a"}), vec!["spec.n", ".spec.n"]),
        (json!("a"), vec!["spec", ".spec.n"]),
        (json!({"n": -1}), vec![".spec.n"]),
    ] {
        let object = json!({"apiVersion": "example.com/v1", "kind": "W", "metadata": {"name": "a"}, "spec": spec});
        let answer = call(&server, Method::POST, "/apis/example.com/v1/ws", object).await;
        let found: Vec<_> = answer.body.list("/details/causes").map(|cause| cause.text("/field")).collect();
        assert_eq!(found, fields, "{:?}", answer.body);
    }
}

#[tokio::test]
async fn null_in_a_scale_path_has_the_wrong_type() {
    let server = server().await;
    let nullable = |of: &str| json!({"type": of, "nullable": true});
    let part = json!({"type": "object", "properties": {"n": nullable("integer"), "s": nullable("string")}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": part, "status": part}}});
    let paths =
        json!({"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n", "labelSelectorPath": ".status.s"});
    let version = |subresources: Json| json!([{"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": subresources}]);
    let names = json!({"plural": "ws", "kind": "W"});
    let definition = json!({"metadata": {"name": "ws.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster", "names": names, "versions": version(json!({"status": {}}))}});
    let all = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(call(&server, Method::POST, all, definition).await.code, 201);
    let ws = "/apis/example.com/v1/ws";
    let object = |name: &str, spec: Json| json!({"apiVersion": "example.com/v1", "kind": "W", "metadata": {"name": name}, "spec": spec});
    assert_eq!(call(&server, Method::POST, ws, object("old", json!({"n": null}))).await.code, 201);
    let versions = json!({"spec": {"versions": version(json!({"status": {}, "scale": paths}))}});
    assert_eq!(call(&server, Method::PATCH, &format!("{all}/ws.example.com"), versions).await.code, 200);
    server.settle().await;

    let wrong = |path: &str, of: &str| format!("{path} accessor error: <nil> is of the type <nil>, expected {of}");
    let of_spec = format!("W.example.com \"a\" is invalid: .spec.n: Invalid value: 0: {}", wrong(".spec.n", "int64"));
    let created = call(&server, Method::POST, ws, object("a", json!({"n": null}))).await;
    assert_eq!((created.code, created.body.text("/message")), (422, &*of_spec));
    assert_eq!(call(&server, Method::POST, ws, object("a", json!({"n": 1}))).await.code, 201);
    let mut replacement = get(&server, &format!("{ws}/a")).await.body;
    replacement["spec"] = json!({"n": null});
    let replaced = call(&server, Method::PUT, &format!("{ws}/a"), replacement.clone()).await;
    assert_eq!((replaced.code, replaced.body.text("/message")), (422, &*of_spec));
    replacement["status"] = json!({"n": null, "s": null});
    let status = call(&server, Method::PUT, &format!("{ws}/a/status"), replacement).await;
    let causes: Vec<_> = status.body.list("/details/causes").map(|cause| cause.text("/message")).collect();
    let of_status = [("0", wrong(".status.n", "int64")), ("\"\"", wrong(".status.s", "string"))]
        .map(|(value, why)| format!("Invalid value: {value}: {why}"));
    assert_eq!((status.code, causes), (422, of_status.iter().map(String::as_str).collect()));

    let scale = get(&server, &format!("{ws}/old/scale")).await;
    assert_eq!((scale.code, scale.body.text("/message")), (500, &*wrong(".spec.n", "int64")));
    let scaled = call(&server, Method::PATCH, &format!("{ws}/old/scale"), json!({"spec": {"replicas": 2}})).await;
    assert_eq!((scaled.code, scaled.body.text("/message")), (500, &*wrong(".spec.n", "int64")));
}

#[tokio::test]
async fn nested_directives_in_new_list_items_cause_warnings() {
    let server = server().await;
    let path = "/api/v1/namespaces/default/podtemplates";
    let spec = json!({"containers": [{"name": "a", "image": "a"}], "volumes": [{"name": "v", "emptyDir": {}}]});
    let object = json!({"metadata": {"name": "a"}, "template": {"spec": spec}});
    assert_eq!(call(&server, Method::POST, path, object).await.code, 201);
    let env = json!([{"name": "A", "value": "1"}, {"name": "B", "$patch": "delete"}]);
    let volume = json!({"name": "w", "$retainKeys": ["name", "emptyDir"], "emptyDir": {}});
    let spec = json!({"containers": [{"name": "n", "image": "n", "env": env}], "volumes": [volume]});
    let patch = json!({"template": {"spec": spec}}).to_string();
    let headers = [("content-type", "application/strategic-merge-patch+json")];
    let patched = read(send(&server, Method::PATCH, &format!("{path}/a"), &headers, &patch).await).await;
    assert_eq!(patched.code, 200, "{:?}", patched.body);
    let added = patched.body.at("/template/spec/containers/0/env");
    assert_eq!(added, Some(&json!([{"name": "A", "value": "1"}, {"name": "B"}])));
    let warnings = patched.headers.get_all("warning").iter().map(|value| value.to_str().expect("text"));
    let warnings: Vec<_> = warnings.collect();
    let expected = ["containers[0].env[1].$patch", "volumes[0].$retainKeys"];
    let expected = expected.map(|field| format!("299 - \"unknown field \\\"template.spec.{field}\\\"\""));
    assert_eq!(warnings, expected);
}
