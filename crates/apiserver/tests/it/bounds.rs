//! Tests that responses and computed results have a bounded size. Without limits, these small requests would use
//! gigabytes of memory. For example, thousands of errors repeat a long name, thousands of list items get defaults, or
//! rules combine all verbs with all resources.

use http::{Method, Request};
use http_body_util::Full;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, Map, json};
use tower_service::Service;

use crate::support::definition_of;
use crate::support::*;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
/// The number of invalid values in an object whose name has `LONG` bytes. Each value causes an error that contains the
/// name. Without a limit, all errors together would take 70 MB.
const PARTS: usize = 700;
const LONG: usize = 100_000;
/// The maximum length of a response, which contains each error in the message and in the causes.
const MOST: usize = 32 << 20;

async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig::default()).await.expect("a server")
}

fn long() -> String {
    "x".repeat(LONG)
}

fn members(count: usize, value: &Json) -> Json {
    (0..count).map(|at| (format!("m{at}"), value.clone())).collect::<Map>().into()
}

fn under_a_long_name(value: Json) -> Json {
    Json::Object([(long(), value)].into_iter().collect())
}

fn definition(schema: Json) -> Json {
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    definition_of("Widget", version)
}

fn definition_with_spec(spec: Json) -> Json {
    definition(json!({"type": "object", "properties": {"spec": spec}}))
}

fn widget(spec: Json) -> Json {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec})
}

async fn serving(spec: Json) -> ApiServer {
    let server = server().await;
    let made = call(&server, Method::POST, DEFINITIONS, definition_with_spec(spec)).await;
    assert_eq!(made.code, 201, "{}", message_start(&made));
    tokio::time::timeout(PATIENCE, server.settle()).await.expect("quiet in time");
    server
}

fn message_start(answer: &Answer) -> String {
    answer.body["message"].as_str().unwrap_or_default().chars().take(300).collect()
}

fn assert_short(answer: &Answer, code: u16, what: &str) {
    let length = answer.body.to_string().len();
    assert!(
        answer.code == code && length < MOST,
        "{what}: {} with {length} bytes: {}",
        answer.code,
        message_start(answer)
    );
}

#[tokio::test]
async fn errors_of_a_definition_are_bounded() {
    let server = server().await;
    let wrong = [
        (
            "fields without a type",
            under_a_long_name(json!({"type": "object", "properties": members(PARTS, &json!({}))})),
        ),
        (
            "branches with defaults",
            under_a_long_name(
                json!({"type": "object", "properties": {"a": {"type": "string", "anyOf": vec![json!({"default": "b"}); PARTS]}}}),
            ),
        ),
        (
            "defaults of another type",
            under_a_long_name(
                json!({"type": "object", "properties": members(PARTS, &json!({"type": "string", "default": 1}))}),
            ),
        ),
        (
            "invalid patterns",
            under_a_long_name(
                json!({"type": "object", "properties": members(PARTS, &json!({"type": "string", "pattern": "("}))}),
            ),
        ),
    ];
    for (what, properties) in wrong {
        let schema = json!({"type": "object", "properties": properties});
        let refused = call(&server, Method::POST, DEFINITIONS, definition_with_spec(schema)).await;
        assert_short(&refused, 422, what);
    }
    let undeclared = under_a_long_name(json!({"properties": members(PARTS, &json!({}))}));
    let schema = json!({"type": "object", "allOf": [{"properties": undeclared}], "properties": under_a_long_name(json!({"type": "object"}))});
    assert_short(&call(&server, Method::POST, DEFINITIONS, definition(schema)).await, 422, "undeclared fields");
    let keys: Vec<String> = (0..PARTS).map(|at| format!("{at:0100}")).collect();
    let items = json!({"type": "object", "properties": {}});
    let list =
        json!({"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys});
    assert_short(&call(&server, Method::POST, DEFINITIONS, definition_with_spec(list)).await, 422, "keys of a list");
}

#[tokio::test]
async fn versions_names_and_columns_of_a_definition_are_bounded() {
    let server = server().await;
    let with = |pointer: &str, value: Json| {
        let mut definition = definition_with_spec(json!({"type": "object"}));
        let (above, name) = pointer.rsplit_once('/').expect("a pointer");
        definition.at_mut(above).expect("a parent")[name] = value;
        definition
    };
    let version = |at: usize| json!({"name": format!("v{}", at + 1), "served": true, "storage": at == 0, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let names = |count: usize| (0..count).map(|at| json!(format!("n{at}"))).collect::<Json>();
    let column = json!({"name": "A", "type": "string", "jsonPath": ".spec.a"});
    let columns = |count: usize| Json::from(vec![column.clone(); count]);
    for (field, most, too_many) in [
        ("/spec/versions", (0..100).map(version).collect::<Json>(), (0..101).map(version).collect::<Json>()),
        ("/spec/names/shortNames", names(100), names(101)),
        ("/spec/names/categories", names(100), names(101)),
        ("/spec/versions/0/additionalPrinterColumns", columns(100), columns(101)),
    ] {
        let refused = call(&server, Method::POST, DEFINITIONS, with(field, too_many)).await;
        assert_eq!(refused.code, 422, "{field}");
        assert!(
            message_start(&refused).contains("Too many: 101: must have at most 100 items"),
            "{field}: {}",
            message_start(&refused)
        );
        let made = call(&server, Method::POST, &format!("{DEFINITIONS}?dryRun=All"), with(field, most)).await;
        assert_eq!(made.code, 201, "{field}: {}", message_start(&made));
    }
}

#[tokio::test]
async fn patterns_of_a_definition_are_bounded() {
    let server = server().await;
    let patterns = |count: usize| {
        let pattern = |at: usize| (format!("p{at}"), json!({"type": "string", "pattern": format!(r"^\pL{{5}}{at}$")}));
        json!({"type": "object", "properties": (0..count).map(pattern).collect::<Map>()})
    };
    let refused = call(&server, Method::POST, DEFINITIONS, definition_with_spec(patterns(5_000))).await;
    assert_short(&refused, 422, "patterns");
    assert!(
        message_start(&refused).contains("is one pattern too many for one definition"),
        "{}",
        message_start(&refused)
    );
    let classes = json!({"type": "string", "pattern": r"(?i)\pL".repeat(100_000)});
    assert_short(
        &call(&server, Method::POST, DEFINITIONS, definition_with_spec(classes)).await,
        422,
        "a pattern of classes",
    );
    let made = call(&server, Method::POST, DEFINITIONS, definition_with_spec(patterns(20))).await;
    assert_eq!(made.code, 201, "{}", message_start(&made));
}

#[tokio::test]
async fn errors_of_a_custom_resource_are_bounded() {
    let embedded =
        json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
    let set = json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"});
    let either = json!({"type": "string", "anyOf": vec![json!({"maxLength": 0}); 100]});
    for (what, schema, value) in [
        ("fields that are unknown", json!({"type": "object"}), members(PARTS, &json!(1))),
        (
            "embedded objects without a type",
            json!({"type": "object", "additionalProperties": embedded}),
            members(PARTS, &json!({})),
        ),
        ("sets", json!({"type": "object", "additionalProperties": set}), members(PARTS, &json!(["a", "a"]))),
        ("branches", json!({"type": "object", "additionalProperties": either}), members(PARTS, &json!("a"))),
    ] {
        let server = serving(json!({"type": "object", "additionalProperties": schema})).await;
        let path = format!("{WIDGETS}?fieldValidation=Strict");
        let refused = call(&server, Method::POST, &path, widget(under_a_long_name(value))).await;
        let code = if what.starts_with("fields") { 400 } else { 422 };
        assert_short(&refused, code, what);
    }
}

#[tokio::test]
async fn size_of_defaulted_objects_is_bounded() {
    let list = |default: Json| {
        let mut a = json!({"type": "string"});
        if !default.is_null() {
            a["default"] = default;
        }
        json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "object", "properties": {"a": a}}}}})
    };
    let server = serving(list(Json::Null)).await;
    let made = call(&server, Method::POST, WIDGETS, widget(json!({"l": vec![json!({}); PARTS]}))).await;
    assert_eq!(made.code, 201, "{}", message_start(&made));
    let labelled = json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]);
    let mut longer = get(&server, &format!("{DEFINITIONS}/widgets.example.com")).await.body;
    longer["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = list(json!(long()));
    let put = call(&server, Method::PUT, &format!("{DEFINITIONS}/widgets.example.com"), longer).await;
    assert_eq!(put.code, 200, "{}", message_start(&put));
    tokio::time::timeout(PATIENCE, server.settle()).await.expect("quiet in time");
    let media = [("content-type", "application/json-patch+json")];
    let path = format!("{WIDGETS}/w");
    let refused = read(send(&server, Method::PATCH, &path, &media, &labelled.to_string()).await).await;
    assert_short(&refused, 500, "a write");
    assert!(message_start(&refused).contains("larger than"), "{}", message_start(&refused));
    assert_short(&get(&server, &path).await, 200, "a read");
}

#[tokio::test]
async fn errors_and_conflicts_of_an_apply_are_bounded() {
    let server = server().await;
    let apply = [("content-type", "application/apply-patch+yaml")];
    let extra = under_a_long_name(vec![json!(1); PARTS].into());
    let request = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "r"}, "spec": {"extra": extra}});
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests/r?fieldManager=m";
    // Mark the long key with `?`, as YAML requires.
    let yaml = |body: Json| body.to_string().replace(&format!("\"{}\":", long()), &format!("? \"{}\" :", long()));
    assert_short(&read(send(&server, Method::PATCH, path, &apply, &yaml(request)).await).await, 500, "types");

    let numbers = json!({"type": "object", "additionalProperties": {"type": "integer"}});
    let server = serving(json!({"type": "object", "additionalProperties": numbers})).await;
    for (manager, value, code) in [("a", 1, 201), ("b", 2, 409)] {
        let path = format!("{WIDGETS}/w?fieldManager={manager}");
        let body = yaml(widget(under_a_long_name(members(PARTS, &json!(value)))));
        assert_short(&read(send(&server, Method::PATCH, &path, &apply, &body).await).await, code, "conflicts");
    }
}

#[tokio::test]
async fn escalation_check_of_a_large_role_is_bounded() {
    let server = crate::identity::server().await;
    let group = "rbac.authorization.k8s.io";
    let write = json!([{"apiGroups": [group], "resources": ["roles"], "verbs": ["create"]}]);
    crate::identity::grant(&server, "", "writer", write).await;
    let each = |count: usize, name: &str| (0..count).map(|at| json!(format!("{name}{at}"))).collect::<Json>();
    let role = |count: usize| {
        let rule = json!({"apiGroups": each(count, "g"), "resources": each(count, "r"), "verbs": each(count, "v")});
        json!({"metadata": {"name": "r"}, "rules": [rule]})
    };
    let roles = format!("/apis/{group}/v1/namespaces/default/roles");
    for (count, words) in
        [(2, "permissions not currently held"), (300, "gives 27000000 rights by it, which are too many")]
    {
        let refused = crate::identity::send_as(&server, "weak", Method::POST, &roles, &[], role(count)).await;
        assert_short(&refused, 403, "a role");
        assert!(message_start(&refused).contains(words), "{count}: {}", message_start(&refused));
    }
    assert_eq!(crate::identity::send_as(&server, "root", Method::POST, &roles, &[], role(300)).await.code, 201);
}

#[tokio::test]
async fn audit_memory_is_bounded() {
    let server = server().await;
    let mut service = server.in_process();
    for number in 0..400 {
        let request = Request::get("/version").header("user-agent", format!("{number} {}", long()));
        let request = request.body(Full::new(bytes::Bytes::new())).expect("a request");
        assert_eq!(service.call(request).await.expect("an answer").status(), 200);
    }
    let lost = server.audit().lost();
    let audit = server.audit().despite_loss();
    let kept: usize = audit.records().iter().map(|record| record.user_agent.len()).sum();
    assert!(kept <= 32 << 20 && lost > 0, "{kept} bytes, {lost} lost");
    assert!(audit.records().last().is_some_and(|record| record.user_agent.starts_with("399 ")), "the latest are kept");
}

#[tokio::test]
async fn annotations_of_a_binding_are_bounded() {
    let server = server().await;
    let pods = "/api/v1/namespaces/default/pods";
    let spec = json!({"containers": [{"name": "c", "image": "x"}]});
    assert_eq!(call(&server, Method::POST, pods, json!({"metadata": {"name": "p"}, "spec": spec})).await.code, 201);
    let binding = |annotation: usize| {
        let annotations = json!({"a": "x".repeat(annotation)});
        json!({"metadata": {"name": "p", "annotations": annotations}, "target": {"kind": "Node", "name": "n"}})
    };
    let refused = call(&server, Method::POST, &format!("{pods}/p/binding"), binding(2 << 20)).await;
    assert_short(&refused, 500, "a binding");
    assert!(message_start(&refused).contains("larger than max"), "{}", message_start(&refused));
    assert_eq!(get(&server, &format!("{pods}/p")).await.body["spec"]["nodeName"], Json::Null);
    assert_eq!(call(&server, Method::POST, &format!("{pods}/p/binding"), binding(1_000)).await.code, 201);
}
