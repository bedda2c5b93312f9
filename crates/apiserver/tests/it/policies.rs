//! Tests of admission policies in CEL. The recorded tests in `crates/conformance` cover more cases of policies.

use std::time::{Duration, Instant};

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use crate::identity;
use crate::support::*;

pub(crate) const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

pub(crate) async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig::default()).await.expect("a server")
}

pub(crate) async fn post(server: &ApiServer, path: &str, object: Json) -> Json {
    let made = call(server, Method::POST, path, object).await;
    assert_eq!(made.code, 201, "{path}: {:?}", made.body);
    made.body
}

pub(crate) fn rules(resources: &[&str], operations: &[&str]) -> Json {
    json!({"resourceRules": [{
        "apiGroups": ["*"], "apiVersions": ["*"], "operations": operations, "resources": resources,
    }]})
}

pub(crate) async fn validating(server: &ApiServer, name: &str, mut spec: Json) {
    spec.set_default("matchConstraints", rules(&["configmaps"], &["CREATE", "UPDATE"]));
    let path = |resource: &str| format!("{ADMISSION}/validatingadmission{resource}");
    post(server, &path("policies"), json!({"metadata": {"name": name}, "spec": spec})).await;
    let binding = json!({"policyName": name, "validationActions": ["Deny"]});
    post(server, &path("policybindings"), json!({"metadata": {"name": name}, "spec": binding})).await;
}

pub(crate) async fn mutating(server: &ApiServer, name: &str, reinvocation: &str, mutation: Json, more: Json) {
    let mut spec = json!({"reinvocationPolicy": reinvocation, "mutations": [mutation]});
    for (name, value) in more.members("") {
        spec.set(name, value.clone());
    }
    spec.set_default("matchConstraints", rules(&["configmaps"], &["CREATE"]));
    let path = |resource: &str| format!("{ADMISSION}/mutatingadmission{resource}");
    post(server, &path("policies"), json!({"metadata": {"name": name}, "spec": spec})).await;
    post(server, &path("policybindings"), json!({"metadata": {"name": name}, "spec": {"policyName": name}})).await;
}

pub(crate) fn apply(expression: &str) -> Json {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

pub(crate) fn patch(expression: &str) -> Json {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

pub(crate) async fn create(server: &ApiServer, name: &str, data: Json) -> (u16, Json) {
    let object = json!({"metadata": {"name": name}, "data": data});
    let Answer { code, body, .. } = call(server, Method::POST, CONFIG_MAPS, object).await;
    (code, if code == 201 { body["data"].clone() } else { body["message"].clone() })
}

#[tokio::test]
async fn policy_is_reinvoked_after_changes_of_later_policies() {
    for (reinvocation, expected) in
        [("IfNeeded", json!({"a": "1", "seen": "1"})), ("Never", json!({"a": "1", "seen": "0"}))]
    {
        let server = server().await;
        let count = "Object{data: {'seen': has(object.data) && has(object.data.a) ? object.data.a : '0'}}";
        mutating(&server, "a-first", reinvocation, apply(count), json!({})).await;
        mutating(&server, "b-second", "Never", apply("Object{data: {'a': '1'}}"), json!({})).await;
        assert_eq!(create(&server, "m", Json::Null).await, (201, expected), "{reinvocation}");
    }
}

#[tokio::test]
async fn policies_run_at_most_twice() {
    let server = server().await;
    let grow = "Object{data: {'n': string((has(object.data) && has(object.data.n) ? int(object.data.n) : 0) + 1)}}";
    mutating(&server, "a", "IfNeeded", apply(grow), json!({})).await;
    mutating(&server, "b", "IfNeeded", apply(grow), json!({})).await;
    assert_eq!(create(&server, "m", Json::Null).await, (201, json!({"n": "4"})));
}

#[tokio::test]
async fn mutated_object_is_validated_and_gets_defaults() {
    let server = server().await;
    let pods = rules(&["pods"], &["CREATE"]);
    let add = "[JSONPatch{op: 'add', path: '/spec/containers/-', value: {'name': 'side', 'image': 'side:1'}}]";
    mutating(&server, "a", "Never", patch(add), json!({"matchConstraints": pods})).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
    let made = post(&server, "/api/v1/namespaces/default/pods", pod).await;
    assert_eq!(made["spec"]["containers"][1]["imagePullPolicy"], "IfNotPresent");

    let bad = "[JSONPatch{op: 'add', path: '/spec/containers/-', value: {'name': 'NOT A NAME', 'image': 'x'}}]";
    let of = json!({"matchConstraints": rules(&["pods"], &["CREATE"]), "matchConditions": [{"name": "b", "expression": "object.metadata.name == 'bad'"}]});
    mutating(&server, "b", "Never", patch(bad), of).await;
    let pod = json!({"metadata": {"name": "bad"}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
    let refused = call(&server, Method::POST, "/api/v1/namespaces/default/pods", pod).await;
    assert_eq!(refused.code, 422, "{:?}", refused.body);
}

#[tokio::test]
async fn mutation_to_another_type_is_refused() {
    let server = server().await;
    for (name, mutation, code, why) in [
        ("unknown", patch("[JSONPatch{op: 'add', path: '/date', value: {'a': 'b'}}]"), 500, "unknown field"),
        ("type", patch("[JSONPatch{op: 'add', path: '/data', value: 'text'}]"), 500, "cannot unmarshal"),
        ("whole", patch("[JSONPatch{op: 'replace', path: '', value: 'text'}]"), 500, ""),
        ("names", apply("Object{metadata: Object.spec{labels: {'a': 'b'}}}"), 403, "unexpected type name"),
        ("undeclared", apply("Object{date: {'a': 'b'}}"), 403, "not declared in schema"),
    ] {
        let only =
            json!({"matchConditions": [{"name": "c", "expression": format!("object.metadata.name == '{name}'")}]});
        mutating(&server, name, "Never", mutation, only).await;
        let (found, message) = create(&server, name, json!({"x": "1"})).await;
        assert!(found == code && message.as_str().is_some_and(|text| text.contains(why)), "{name}: {found} {message}");
    }
}

#[tokio::test]
async fn mutation_cannot_touch_atomic_values() {
    let server = server().await;
    let pods = rules(&["pods"], &["CREATE"]);
    let selector = "Object{spec: Object.spec{nodeSelector: {'disk': 'ssd'}}}";
    mutating(&server, "a", "Never", apply(selector), json!({"matchConstraints": pods})).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
    let refused = call(&server, Method::POST, "/api/v1/namespaces/default/pods", pod).await;
    let message = refused.body["message"].as_str().unwrap_or_default();
    let why = "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.nodeSelector";
    assert!(refused.code == 403 && message.ends_with(why), "{} {message}", refused.code);
}

#[tokio::test]
async fn scale_is_seen_as_a_scale() {
    let server = server().await;
    let scales = rules(&["deployments/scale"], &["UPDATE"]);
    let validations = json!([
        {"expression": "object.kind == 'Scale' && object.spec.replicas < 10"},
        {"expression": "request.kind.kind == 'Scale' && request.kind.group == 'autoscaling'"},
        {"expression": "request.resource.resource == 'deployments' && request.subResource == 'scale'"},
    ]);
    validating(&server, "a", json!({"matchConstraints": scales, "validations": validations})).await;
    let of = json!({"matchConstraints": rules(&["deployments/scale"], &["UPDATE"])});
    let least = "object.spec.replicas < 2 ? Object{spec: Object.spec{replicas: 2}} : Object{}";
    mutating(&server, "b", "Never", apply(least), of).await;
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    post(&server, DEPLOYMENTS, json!({"metadata": {"name": "d"}, "spec": spec})).await;
    let scale = async |replicas: i64| {
        let change = json!({"spec": {"replicas": replicas}});
        call(&server, Method::PATCH, &format!("{DEPLOYMENTS}/d/scale"), change).await
    };
    let answer = scale(5).await;
    assert_eq!((answer.code, answer.body["spec"]["replicas"].as_i64()), (200, Some(5)), "{:?}", answer.body);
    let answer = scale(1).await;
    assert_eq!((answer.code, answer.body["spec"]["replicas"].as_i64()), (200, Some(2)), "{:?}", answer.body);
    assert_eq!(scale(10).await.code, 422);
}

#[tokio::test]
async fn policy_of_another_version_sees_that_version() {
    let server = server().await;
    let of = json!({"resourceRules": [{
        "apiGroups": ["autoscaling"], "apiVersions": ["v2"], "operations": ["CREATE"], "resources": ["horizontalpodautoscalers"],
    }]});
    let expression =
        "object.apiVersion == 'autoscaling/v2' && object.spec.metrics[0].resource.target.averageUtilization < 90";
    let other = "request.kind.version == 'v2' && request.requestKind.version == 'v1'";
    let validations = json!([{"expression": expression}, {"expression": other}]);
    validating(&server, "a", json!({"matchConstraints": of, "validations": validations})).await;
    let create = async |name: &str, percent: i64| {
        let target = json!({"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"});
        let spec = json!({"scaleTargetRef": target, "maxReplicas": 5, "targetCPUUtilizationPercentage": percent});
        let path = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
        call(&server, Method::POST, path, json!({"metadata": {"name": name}, "spec": spec})).await
    };
    let made = create("a", 80).await;
    assert_eq!(made.code, 201, "{:?}", made.body);
    assert_eq!(create("b", 95).await.code, 422);
}

#[tokio::test]
async fn policies_guard_status_deletions_and_collections() {
    let server = server().await;
    let protect = json!([{"expression": "!(has(oldObject.metadata.labels) && 'keep' in oldObject.metadata.labels)", "message": "kept"}]);
    let of = rules(&["configmaps"], &["DELETE"]);
    validating(&server, "a", json!({"matchConstraints": of, "validations": protect})).await;
    create_map(&server, "kept", json!({"keep": "1"})).await;
    create_map(&server, "free", json!({})).await;
    assert_eq!(delete(&server, &format!("{CONFIG_MAPS}/kept")).await.code, 422);
    assert_eq!(delete(&server, CONFIG_MAPS).await.code, 422);
    assert_eq!(get(&server, &format!("{CONFIG_MAPS}/kept")).await.code, 200);
    assert_eq!(delete(&server, &format!("{CONFIG_MAPS}/free")).await.code, 404);
}

#[tokio::test]
async fn policies_do_not_guard_themselves() {
    let server = server().await;
    let nothing = json!([{"expression": "false", "message": "closed"}]);
    let of = rules(&["*"], &["CREATE", "UPDATE", "DELETE"]);
    validating(&server, "closed", json!({"matchConstraints": of, "validations": nothing})).await;
    assert_eq!(create(&server, "m", Json::Null).await.0, 422);
    assert_eq!(delete(&server, &format!("{ADMISSION}/validatingadmissionpolicies/closed")).await.code, 200);
    assert_eq!(create(&server, "m", Json::Null).await.0, 201);
}

#[tokio::test]
async fn changed_policy_and_parameters_take_effect_at_once() {
    let server = server().await;
    let spec = |text: &str| json!({"validations": [{"expression": text}], "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}});
    let mut policy = spec("object.data.x == params.data.x");
    policy.set("matchConstraints", rules(&["secrets"], &["CREATE"]));
    create_map(&server, "limits", json!({})).await;
    post(
        &server,
        &format!("{ADMISSION}/validatingadmissionpolicies"),
        json!({"metadata": {"name": "a"}, "spec": policy}),
    )
    .await;
    let reference = json!({"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"});
    let binding = json!({"policyName": "a", "validationActions": ["Deny"], "paramRef": reference});
    post(
        &server,
        &format!("{ADMISSION}/validatingadmissionpolicybindings"),
        json!({"metadata": {"name": "a"}, "spec": binding}),
    )
    .await;
    let secret = async |name: &str| {
        let object = json!({"metadata": {"name": name}, "data": {"x": "dg=="}});
        call(&server, Method::POST, "/api/v1/namespaces/default/secrets", object).await.code
    };
    assert_eq!(secret("a").await, 422);
    patch_map(&server, "limits", json!({"data": {"x": "dg=="}})).await;
    assert_eq!(secret("a").await, 201);
    let path = format!("{ADMISSION}/validatingadmissionpolicies/a");
    let changed = call(&server, Method::PATCH, &path, json!({"spec": spec("false")})).await;
    assert_eq!(changed.code, 200, "{:?}", changed.body);
    assert_eq!(secret("b").await, 422);
    delete(&server, &format!("{CONFIG_MAPS}/limits")).await;
    assert_eq!(secret("c").await, 422);
}

/// Without their cost budget, the policies would run for minutes.
#[tokio::test]
async fn expensive_policies_are_bounded() {
    let server = server().await;
    let nested = "object.data.all(a, object.data.all(b, object.data.all(c, object.data.all(d, a != b + c + d + 'x'))))";
    let variables: Vec<Json> = (0..60)
        .map(|at| match at {
            0 => json!({"name": "v0", "expression": "[object.metadata.name]"}),
            _ => json!({"name": format!("v{at}"), "expression": format!("variables.v{0} + variables.v{0}", at - 1)}),
        })
        .collect();
    let doubled = "variables.v59.size() > 0";
    validating(&server, "a", json!({"validations": [{"expression": nested}]})).await;
    let of_double = json!([{"name": "c", "expression": "object.metadata.name == 'double'"}]);
    validating(
        &server,
        "b",
        json!({"variables": variables, "matchConditions": of_double, "validations": [{"expression": doubled}]}),
    )
    .await;
    let grow = "Object{data: {'a': object.data.map(k, object.data.map(l, k + l).join('')).join('')}}";
    mutating(
        &server,
        "m",
        "IfNeeded",
        apply(grow),
        json!({"matchConditions": [{"name": "c", "expression": "object.metadata.name == 'grow'"}]}),
    )
    .await;
    let data: Json = (0..300).map(|at| (format!("key-{at}"), "x".repeat(100))).collect();
    for name in ["nested", "double", "grow"] {
        let begin = Instant::now();
        let (code, message) = create(&server, name, data.clone()).await;
        assert!(matches!(code, 403 | 422), "{name}: {code} {message}");
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(50), "{name} took {took:?}");
    }
}

#[tokio::test]
async fn large_policies_are_compiled_in_bounded_time() {
    let server = server().await;
    let constraints = rules(&["configmaps"], &["CREATE"]);
    let variables: Json = (0..20_000).map(|at| json!({"name": format!("v{at}"), "expression": "1"})).collect();
    let chained: Json = (0..10_000)
        .map(|at| match at {
            0 => json!({"name": "v0", "expression": "1"}),
            _ => json!({"name": format!("v{at}"), "expression": format!("variables.v{} + 1", at - 1)}),
        })
        .collect();
    let nested: Json = (0..10_000)
        .map(|at| match at {
            0 => json!({"name": "v0", "expression": "1"}),
            _ => json!({"name": format!("v{at}"), "expression": format!("[variables.v{}]", at - 1)}),
        })
        .collect();
    let validations: Json = (0..20_000).map(|_| json!({"expression": "object.metadata.name != ''"})).collect();
    for (name, mut spec) in [
        ("variables", json!({"variables": variables, "validations": [{"expression": "true"}]})),
        ("chained", json!({"variables": chained, "validations": [{"expression": "variables.v9999 > 0"}]})),
        ("nested", json!({"variables": nested, "validations": [{"expression": "variables.v9999 == variables.v9998"}]})),
        ("validations", json!({"validations": validations})),
    ] {
        let begin = Instant::now();
        spec.set("matchConstraints", constraints.clone());
        validating(&server, name, spec).await;
        let (code, message) = create(&server, name, json!({})).await;
        let expected = if matches!(name, "chained" | "nested") { 422 } else { 201 };
        assert_eq!(code, expected, "{name}: {message}");
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(50), "{name} took {took:?}");
        let path = format!("{ADMISSION}/validatingadmissionpolicybindings/{name}");
        assert_eq!(delete(&server, &path).await.code, 200);
    }
}

#[tokio::test]
async fn failures_and_annotations_are_audited() {
    let server = server().await;
    let constraints = rules(&["configmaps"], &["CREATE"]);
    let annotations = json!([{"key": "name", "valueExpression": "string(object.metadata.name)"}, {"key": "none", "valueExpression": "null"}]);
    let validations = json!([{"expression": "true"}, {"expression": "object.metadata.name != 'bad'"}]);
    let spec = json!({"matchConstraints": constraints, "validations": validations, "auditAnnotations": annotations});
    post(
        &server,
        &format!("{ADMISSION}/validatingadmissionpolicies"),
        json!({"metadata": {"name": "a"}, "spec": spec}),
    )
    .await;
    let binding = json!({"policyName": "a", "validationActions": ["Audit"]});
    post(
        &server,
        &format!("{ADMISSION}/validatingadmissionpolicybindings"),
        json!({"metadata": {"name": "b"}, "spec": binding}),
    )
    .await;
    let recorded = || server.audit().records().last().expect("a record").annotations.clone();
    assert_eq!(create(&server, "good", json!({})).await.0, 201);
    assert_eq!(recorded(), [("a/name".to_owned(), "good".to_owned())].into());
    assert_eq!(create(&server, "bad", json!({})).await.0, 201);
    let failure: Json = recorded()["validation.policy.admission.k8s.io/validation_failure"].parse().expect("JSON");
    let expected = json!([{
        "message": "failed expression: object.metadata.name != 'bad'", "policy": "a", "binding": "b",
        "expressionIndex": 1, "validationActions": ["Audit"],
    }]);
    assert_eq!(failure, expected);
}

fn one_rule(group: &str, resource: &str, operations: &[&str]) -> Json {
    json!({"resourceRules": [{
        "apiGroups": [group], "apiVersions": ["v1"], "operations": operations, "resources": [resource],
    }]})
}

#[tokio::test]
async fn policy_for_events_covers_both_groups() {
    let server = server().await;
    let of = one_rule("events.k8s.io", "events", &["CREATE"]);
    let message = "request.kind.group + ' ' + object.reason";
    let validations = json!([{"expression": "false", "messageExpression": message}]);
    validating(&server, "a", json!({"matchConstraints": of, "validations": validations})).await;
    let event = json!({
        "metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "reason": "Why",
        "type": "Normal", "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z",
    });
    let refused = call(&server, Method::POST, "/api/v1/namespaces/default/events", event).await;
    let message = refused.body["message"].as_str().unwrap_or_default();
    assert!(refused.code == 422 && message.ends_with("events.k8s.io Why"), "{} {message}", refused.code);
}

#[tokio::test]
async fn status_of_a_namespace_cannot_leave_a_selector() {
    let server = server().await;
    let mut of = one_rule("", "namespaces/status", &["UPDATE"]);
    of.set("namespaceSelector", json!({"matchLabels": {"guard": "yes"}}));
    let validations = json!([{"expression": "false", "messageExpression": "request.namespace"}]);
    validating(&server, "a", json!({"matchConstraints": of, "validations": validations})).await;
    let namespace = json!({"metadata": {"name": "x", "labels": {"guard": "yes"}}});
    post(&server, "/api/v1/namespaces", namespace).await;
    let change = json!({"metadata": {"labels": {"guard": "no"}}});
    let refused = call(&server, Method::PATCH, "/api/v1/namespaces/x/status", change).await;
    let message = refused.body["message"].as_str().unwrap_or_default();
    assert!(refused.code == 422 && message.ends_with("denied request: x"), "{} {message}", refused.code);
}

#[tokio::test]
async fn policy_sees_fields_of_other_versions() {
    let server = server().await;
    let version = |name: &str, field: &str, storage: bool| {
        let spec = json!({"type": "object", "properties": {field: {"type": "string"}, "both": {"type": "string"}}});
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}})
    };
    let definition = json!({
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
            "versions": [version("v1", "old", true), version("v2", "new", false)],
        },
    });
    post(&server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    server.settle().await;
    let of = json!({"resourceRules": [{
        "apiGroups": ["example.com"], "apiVersions": ["v2"], "operations": ["CREATE"], "resources": ["gadgets"],
    }]});
    let validations = json!([{"expression": "object.apiVersion == 'example.com/v2' && has(object.spec.old)"}]);
    validating(&server, "a", json!({"matchConstraints": of, "validations": validations})).await;
    let path = "/apis/example.com/v1/namespaces/default/gadgets";
    let gadget = |name: &str, spec: Json| json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": spec});
    post(&server, path, gadget("a", json!({"old": "x"}))).await;
    assert_eq!(call(&server, Method::POST, path, gadget("b", json!({"both": "x"}))).await.code, 422);
    let set = "[JSONPatch{op: 'add', path: '/spec/both', value: 'set'}]";
    mutating(&server, "m", "Never", patch(set), json!({"matchConstraints": of})).await;
    let made = post(&server, path, gadget("c", json!({"old": "x"}))).await;
    assert_eq!((&made["apiVersion"], &made["spec"]), (&json!("example.com/v1"), &json!({"old": "x", "both": "set"})));
    let keep = apply("Object{spec: Object.spec{both: 'set'}}");
    mutating(&server, "n", "Never", keep, json!({"matchConstraints": of})).await;
    let refused = call(&server, Method::POST, path, gadget("d", json!({"old": "x"}))).await;
    let message = refused.body["message"].as_str().unwrap_or_default();
    let why = "failed to convert original object to typed object: .spec.old: field not declared in schema";
    assert!(refused.code == 403 && message.ends_with(why), "{} {message}", refused.code);
}

#[tokio::test]
async fn policies_do_not_block_reviews() {
    let server = server().await;
    let of = rules(&["*"], &["*"]);
    validating(&server, "a", json!({"matchConstraints": of, "validations": [{"expression": "false"}]})).await;
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    post(&server, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review).await;
    post(&server, "/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({})).await;
}

#[tokio::test]
async fn mutation_cannot_change_the_type_or_grow_without_bound() {
    let server = server().await;
    let variables: Vec<Json> = (0..30)
        .map(|at| match at {
            0 => json!({"name": "v0", "expression": "[object.metadata.name]"}),
            _ => json!({"name": format!("v{at}"), "expression": format!("[variables.v{0}, variables.v{0}]", at - 1)}),
        })
        .collect();
    let bomb = "[JSONPatch{op: 'add', path: '/data', value: {'a': variables.v29}}]";
    let version = "[JSONPatch{op: 'replace', path: '/apiVersion', value: 'v2'}]";
    let revision = "[JSONPatch{op: 'add', path: '/metadata/resourceVersion', value: '7'}]";
    for (name, mutation, variables, code, why) in [
        ("bomb", bomb, json!(variables), 403, "too large"),
        ("version", version, json!([]), 500, "no kind \"ConfigMap\" is registered for version \"v2\""),
        ("revision", revision, json!([]), 500, "resourceVersion should not be set"),
    ] {
        let condition = json!([{"name": "c", "expression": format!("object.metadata.name == '{name}'")}]);
        let spec = json!({"matchConditions": condition, "variables": variables});
        mutating(&server, name, "Never", patch(mutation), spec).await;
        let begin = Instant::now();
        let (found, message) = create(&server, name, json!({"x": "1"})).await;
        assert!(found == code && message.as_str().is_some_and(|text| text.contains(why)), "{name}: {found} {message}");
        assert!(begin.elapsed() < Duration::from_secs(50), "{name} took {:?}", begin.elapsed());
    }
}

#[tokio::test]
async fn author_needs_the_right_to_read_parameters() {
    let server = identity::server().await;
    let writes = json!({"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"]});
    let reads = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]});
    identity::grant(&server, "", "author", json!([writes, reads])).await;
    let ask = async |token: &str, path: &str, object: Json| {
        identity::send_as(&server, token, Method::POST, path, &[], object).await
    };
    let policy = |name: &str, kind: &str| {
        json!({"metadata": {"name": name}, "spec": {
            "paramKind": {"apiVersion": "v1", "kind": kind},
            "matchConstraints": rules(&["configmaps"], &["CREATE"]),
            "validations": [{"expression": "true"}],
        }})
    };
    let binding = |name: &str, policy: &str, reference: Json| {
        json!({"metadata": {"name": name}, "spec": {
            "policyName": policy, "validationActions": ["Deny"], "paramRef": reference,
        }})
    };
    let [policies, bindings] = ["validatingadmissionpolicies", "validatingadmissionpolicybindings"]
        .map(|plural| format!("{ADMISSION}/{plural}"));
    let named = json!({"name": "x", "namespace": "kube-system", "parameterNotFoundAction": "Deny"});
    let selected = json!({"selector": {}, "parameterNotFoundAction": "Deny"});
    let author = "user &{bob 2 [users system:authenticated] map[]}";
    assert_eq!(ask("root", &policies, policy("secrets", "Secret")).await.code, 201);
    for (path, object, why) in [
        (
            &policies,
            policy("s", "Secret"),
            format!(
                r#"spec.paramKind: Forbidden: {author} must have "get" permission on all objects of the referenced paramKind (kind=Secret, apiVersion=v1)"#
            ),
        ),
        (
            &bindings,
            binding("s", "secrets", named.clone()),
            format!(
                r#"spec.paramRef: Forbidden: {author} does not have "get" permission on the object referenced by paramRef"#
            ),
        ),
        (
            &bindings,
            binding("s", "secrets", selected),
            format!(
                r#"spec.paramRef: Forbidden: {author} does not have "list" permission on the object referenced by paramRef"#
            ),
        ),
        (
            &bindings,
            binding("s", "absent", named.clone()),
            format!(
                r#"spec.paramRef: Forbidden: unable to get policy absent to determine minimum required permissions and {author} does not have "get" permission for all groups, versions and resources"#
            ),
        ),
    ] {
        let refused = ask("weak", path, object).await;
        let message = refused.body["message"].as_str().unwrap_or_default();
        assert!(refused.code == 422 && message.ends_with(&why), "{} {message}", refused.code);
    }
    assert_eq!(ask("weak", &policies, policy("maps", "ConfigMap")).await.code, 201);
    assert_eq!(ask("weak", &bindings, binding("maps", "maps", named)).await.code, 201);
}

#[tokio::test]
async fn policies_ignore_deletes_of_terminating_pods() {
    let server = server().await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({
        "metadata": {"name": "p", "finalizers": ["example.com/hold"]},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "x"}]},
    });
    post(&server, pods, pod).await;
    let path = format!("{pods}/p");
    let first = delete(&server, &path).await;
    assert_eq!(first.code, 200, "{:?}", first.body);
    let deletes = rules(&["pods"], &["DELETE"]);
    validating(&server, "a", json!({"matchConstraints": deletes, "validations": [{"expression": "false"}]})).await;
    for (options, code) in [
        (json!({}), 200),
        (json!({"gracePeriodSeconds": 30}), 200),
        // A second delete request during the grace period does not change the finalizers.
        (json!({"propagationPolicy": "Foreground"}), 200),
        (json!({"gracePeriodSeconds": 5}), 422),
        (json!({"preconditions": {"uid": "other"}}), 409),
    ] {
        let answer = call(&server, Method::DELETE, &path, options.clone()).await;
        assert_eq!(answer.code, code, "{options}: {:?}", answer.body);
        if code == 200 {
            assert_eq!(answer.body, first.body, "{options}");
        }
    }
}

#[tokio::test]
async fn kind_of_parameters_is_found_in_lower_case() {
    let server = server().await;
    post(&server, CONFIG_MAPS, json!({"metadata": {"name": "limits"}, "data": {"forbidden": "x"}})).await;
    for (kind, why) in [("configmap", "failed expression: "), ("configMap", "failed to configure policy: ")] {
        let spec = json!({
            "paramKind": {"apiVersion": "v1", "kind": kind},
            "matchConstraints": rules(&["secrets"], &["CREATE"]),
            "validations": [{"expression": "object.metadata.name != params.data.forbidden"}],
        });
        let path = |resource: &str| format!("{ADMISSION}/validatingadmission{resource}");
        post(&server, &path("policies"), json!({"metadata": {"name": kind.to_lowercase()}, "spec": spec})).await;
        let binding = json!({
            "policyName": kind.to_lowercase(), "validationActions": ["Deny"],
            "paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"},
        });
        post(&server, &path("policybindings"), json!({"metadata": {"name": "b"}, "spec": binding})).await;
        let secret = json!({"metadata": {"name": "x"}});
        let refused = call(&server, Method::POST, "/api/v1/namespaces/default/secrets", secret).await;
        let message = refused.body["message"].as_str().unwrap_or_default();
        assert!(refused.code == 422 && message.contains(why), "{kind}: {} {message}", refused.code);
        for resource in ["policybindings/b".to_owned(), format!("policies/{}", kind.to_lowercase())] {
            assert_eq!(delete(&server, &path(&resource)).await.code, 200);
        }
    }
}
