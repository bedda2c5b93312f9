//! Tests of the status of ValidatingAdmissionPolicies.

use std::time::{Duration, Instant};

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig, Controllers};
use pintle_json::{Json, json};

use crate::support::*;

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig::default()).await.expect("a server")
}

fn rule(group: &str, version: &str, resources: &[&str]) -> Json {
    json!({"apiGroups": [group], "apiVersions": [version], "operations": ["*"], "resources": resources})
}

async fn create(server: &ApiServer, name: &str, rules: &[Json], mut spec: Json) {
    spec.set("matchConstraints", json!({"resourceRules": rules}));
    let made = call(server, Method::POST, POLICIES, json!({"metadata": {"name": name}, "spec": spec})).await;
    assert_eq!(made.code, 201, "{name}: {:?}", made.body);
    assert_eq!(made.body["status"], json!({}));
}

async fn status(server: &ApiServer, name: &str) -> Json {
    tokio::time::timeout(PATIENCE, server.settle()).await.expect("quiet in time");
    get(server, &format!("{POLICIES}/{name}")).await.body["status"].clone()
}

/// Creates a policy with the given rules and spec. Returns the policy's warnings as pairs of a field and a message.
async fn warnings(server: &ApiServer, name: &str, rules: &[Json], spec: Json) -> Vec<(String, String)> {
    create(server, name, rules, spec).await;
    let status = status(server, name).await;
    assert_eq!(status["observedGeneration"], 1, "{name}: {status}");
    let found = status.list("/typeChecking/expressionWarnings");
    found.map(|found| (found.text("/fieldRef").to_owned(), found.text("/warning").to_owned())).collect()
}

#[tokio::test]
async fn misspelled_field_gives_a_warning() {
    let server = server().await;
    let rules = [rule("apps", "v1", &["deployments"])];
    let spec = json!({"validations": [{"expression": "true"}, {"expression": "object.spec.replica > 1"}]});
    create(&server, "a", &rules, spec).await;
    let text = "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'replica'\n | object.spec.replica > 1\n | ...........^\n";
    let warning = json!({"fieldRef": "spec.validations[1].expression", "warning": text});
    let expected = json!({"observedGeneration": 1, "typeChecking": {"expressionWarnings": [warning]}});
    assert_eq!(status(&server, "a").await, expected);

    let fix = json!({"spec": {"validations": [{"expression": "object.spec.replicas > 1"}]}});
    assert_eq!(call(&server, Method::PATCH, &format!("{POLICIES}/a"), fix).await.code, 200);
    assert_eq!(status(&server, "a").await, json!({"observedGeneration": 2, "typeChecking": {}}));
    let managed = get(&server, &format!("{POLICIES}/a")).await.body["metadata"]["managedFields"].clone();
    let by = managed.list("").find(|entry| entry["subresource"] == "status").expect("an entry");
    assert_eq!(by["manager"], "validatingadmissionpolicy-status-controller");
}

#[tokio::test]
async fn warnings_of_several_kinds_are_joined() {
    let server = server().await;
    let rules = [rule("apps", "v1", &["replicasets", "deployments"]), rule("", "v1", &["pods"])];
    let text = "object.replicas > 1";
    let validations = json!([{"expression": text, "messageExpression": "'x' + string(object.kinds)"}]);
    let found = warnings(&server, "a", &rules, json!({"validations": validations})).await;
    let of = |kind: &str, column: usize, field: &str, text: &str| {
        let dots = ".".repeat(column - 1);
        format!("{kind}: ERROR: <input>:1:{column}: undefined field '{field}'\n | {text}\n | {dots}^\n")
    };
    let expected = |column: usize, field: &str, text: &str| {
        ["/v1, Kind=Pod", "apps/v1, Kind=Deployment", "apps/v1, Kind=ReplicaSet"]
            .map(|kind| of(kind, column, field, text))
            .join("\n")
    };
    assert_eq!(
        found,
        [
            ("spec.validations[0].expression".to_owned(), expected(7, "replicas", text)),
            ("spec.validations[0].messageExpression".to_owned(), expected(20, "kinds", "'x' + string(object.kinds)")),
        ]
    );
}

#[tokio::test]
async fn types_are_those_of_the_real_server() {
    let server = server().await;
    let rules = [rule("apps", "v1", &["deployments"])];
    for (name, text, expected) in [
        ("labels", "object.metadata.labels['a'] == 'b'", ""),
        ("time", "object.metadata.creationTimestamp < timestamp('2026-01-01T00:00:00Z')", ""),
        ("old", "oldObject == null || oldObject.spec.replicas < 3", ""),
        ("containers", "object.spec.template.spec.containers.all(c, c.image.startsWith('a/'))", ""),
        ("port", "object.spec.template.spec.containers[0].livenessProbe.httpGet.port == 80", ""),
        ("namespace", "object.metadata.namespace == request.namespace", ""),
        // In OpenAPI, a Quantity has no type, so kube-controller-manager cannot determine the type of a map of
        // quantities.
        ("limits", "has(object.spec.template.spec.containers[0].resources.limits)", "undefined field 'limits'"),
        ("number", "object.spec.replicas == '1'", "found no matching overload for '_==_' applied to '(int, string)'"),
        ("type", "object.spec + 1 == 2", "found no matching overload for '_+_' applied to '(Deployment1.spec, int)'"),
        ("authorizer", "authorizer.group('').resource('pods').check('get').allowed()", ""),
        (
            "resource",
            "authorizer.requestResource.check('get').allowed()",
            "unexpected failed resolution of 'kubernetes.authorization.Authorizer'",
        ),
    ] {
        let found = warnings(&server, name, &rules, json!({"validations": [{"expression": text}]})).await;
        let fits = match expected {
            "" => found.is_empty(),
            why => matches!(&found[..], [(_, text)] if text.contains(&format!(": {why}\n"))),
        };
        assert!(fits, "{name}: {found:?}");
    }
}

#[tokio::test]
async fn variables_and_parameters_have_types() {
    let server = server().await;
    let rules = [rule("", "v1", &["configmaps"])];
    let variables = json!([
        {"name": "data", "expression": "object.data"},
        {"name": "metadata", "expression": "object.metadata"},
        {"name": "wrong", "expression": "object.nope"},
    ]);
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "variables": variables,
        "validations": [
            {"expression": "variables.data['a'] == 1"},
            {"expression": "variables.metadata.nope == variables.wrong"},
            {"expression": "params.data['a'] == 'b' && object == params"},
        ],
    });
    let found = warnings(&server, "a", &rules, spec).await;
    let [(first, data), (third, params)] = &found[..] else { panic!("two warnings expected: {found:?}") };
    assert_eq!((&**first, &**third), ("spec.validations[0].expression", "spec.validations[2].expression"));
    assert!(data.contains("applied to '(string, int)'"), "{data}");
    assert!(params.contains("applied to '(ConfigMap1, ConfigMap2)'"), "{params}");

    let unknown = json!({
        "paramKind": {"apiVersion": "example.com/v1", "kind": "Unknown"},
        "validations": [{"expression": "params.anything == 1"}],
    });
    assert_eq!(warnings(&server, "b", &rules, unknown).await, []);
}

#[tokio::test]
async fn wildcards_and_unknown_resources_are_not_checked() {
    let server = server().await;
    let spec = json!({"validations": [{"expression": "object.spec.replica > 1"}]});
    for (name, rule) in [
        ("group", rule("*", "v1", &["deployments"])),
        ("version", rule("apps", "*", &["deployments"])),
        ("resource", rule("apps", "v1", &["*"])),
        ("subresource", rule("apps", "v1", &["deployments/scale"])),
        ("unknown", rule("apps", "v7", &["deployments"])),
    ] {
        create(&server, name, &[rule], spec.clone()).await;
        assert_eq!(status(&server, name).await, json!({"observedGeneration": 1, "typeChecking": {}}), "{name}");
    }
}

fn definition(fields: Json) -> Json {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}});
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

#[tokio::test]
async fn policy_is_checked_again_when_a_definition_changes() {
    let server = server().await;
    let spec = json!({"validations": [{"expression": "object.spec.size > 1 && object.metadata.labels['a'] == 'b'"}]});
    let rules = [rule("example.com", "v1", &["widgets"])];
    create(&server, "a", &rules, spec).await;
    let other = json!({"validations": [{"expression": "true"}]});
    create(&server, "other", &[rule("apps", "v1", &["deployments"])], other).await;
    let correct = json!({"observedGeneration": 1, "typeChecking": {}});
    assert_eq!(status(&server, "a").await, correct, "the kind is unknown");

    let fields = json!({"length": {"type": "integer"}});
    assert_eq!(call(&server, Method::POST, DEFINITIONS, definition(fields)).await.code, 201);
    let warned = status(&server, "a").await;
    let warning = warned.text("/typeChecking/expressionWarnings/0/warning");
    assert!(
        warning.starts_with("example.com/v1, Kind=Widget: ERROR: <input>:1:12: undefined field 'size'\n"),
        "{warning}"
    );

    let fields = json!({"size": {"type": "integer"}});
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let patch = json!({"spec": definition(fields)["spec"]});
    assert_eq!(call(&server, Method::PATCH, &path, patch).await.code, 200);
    assert_eq!(status(&server, "a").await, correct);

    // The controller does not write the status if the result of the check has not changed.
    let of = async |name: &str| version(&get(&server, &format!("{POLICIES}/{name}")).await.body);
    let before = (of("a").await, of("other").await);
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(call(&server, Method::PATCH, &path, label).await.code, 200);
    assert_eq!(status(&server, "a").await, correct);
    assert_eq!((of("a").await, of("other").await), before);

    assert_eq!(delete(&server, &path).await.code, 200);
    assert_eq!(status(&server, "a").await, correct);
}

#[tokio::test]
async fn check_of_a_large_policy_is_bounded() {
    let server = server().await;
    let kinds = ["deployments", "replicasets", "statefulsets", "daemonsets"];
    let many: Vec<Json> = (0..1_000).map(|at| rule("apps", "v1", &[kinds[at % 4], "nope", "pods/status"])).collect();
    let wrong = json!({"expression": "object.metadata.nope == 1"});
    let validations = json!(vec![wrong; 4_000]);
    let begin = Instant::now();
    create(&server, "rules", &many, json!({"validations": [{"expression": "object.spec.nope == 1"}]})).await;
    let few = status(&server, "rules").await;
    let text = few.text("/typeChecking/expressionWarnings/0/warning");
    assert_eq!(text.matches(": ERROR: ").count(), 4, "{text}");

    create(&server, "both", &many, json!({"validations": validations})).await;
    assert_eq!(get(&server, "/api/v1/namespaces/default").await.code, 200);
    let both = status(&server, "both").await;
    let warned = both.list("/typeChecking/expressionWarnings").count();
    assert!((1_000..=4_000).contains(&warned) && both.to_string().len() < 2 << 20, "{warned}");
    assert!(begin.elapsed() < Duration::from_secs(40), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn status_stays_empty_without_the_controller() {
    let controllers = Controllers { policies: false, ..Controllers::default() };
    let config = ApiServerConfig { controllers, ..ApiServerConfig::default() };
    let server = ApiServer::start(config).await.expect("a server");
    let spec = json!({"validations": [{"expression": "true"}]});
    create(&server, "a", &[rule("apps", "v1", &["deployments"])], spec).await;
    assert_eq!(status(&server, "a").await, json!({}));
}

#[tokio::test]
async fn written_status_is_validated() {
    let controllers = Controllers { policies: false, ..Controllers::default() };
    let config = ApiServerConfig { controllers, ..ApiServerConfig::default() };
    let server = ApiServer::start(config).await.expect("a server");
    create(&server, "a", &[rule("apps", "v1", &["deployments"])], json!({"validations": [{"expression": "true"}]}))
        .await;
    let write = async |status: Json| {
        let path = format!("{POLICIES}/a/status");
        let answer = call(&server, Method::PATCH, &path, json!({"status": status})).await;
        let causes = answer
            .body
            .list("/details/causes")
            .map(|cause| format!("{}: {}", cause.text("/field"), cause.text("/message")));
        (answer.code, causes.collect::<Vec<_>>())
    };
    let warnings = |warning: Json| json!({"typeChecking": {"expressionWarnings": [warning]}});
    let at = |field: &str| format!("status.typeChecking.expressionWarnings[0].{field}: Required value");
    let good = json!({"fieldRef": "spec.validations[0].expression", "warning": "x"});
    assert_eq!(write(warnings(good)).await, (200, vec![]));
    assert_eq!(
        write(warnings(json!({"fieldRef": " ", "warning": ""}))).await,
        (422, vec![at("warning"), at("fieldRef")])
    );
    let condition = json!({"type": "a b", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let (code, causes) = write(json!({"conditions": [condition]})).await;
    assert!(code == 422 && causes.len() == 1 && causes[0].starts_with("status.conditions[0].type: "), "{causes:?}");
}
