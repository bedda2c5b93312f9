//! Tests of admission reviews, from the request to the response.

use std::time::Duration;

use pintle_meta::{ApiResource, DynamicObject, ObjectMeta, Reason, Scope};
use pintle_webhook::{
    Admission, AdmissionReview, Allowed, ConversionReview, Denial, FailurePolicy, Operation, Webhook, Webhooks,
};
use serde_json::{Value, json};

use crate::support::{Spec, Website, ask, review, site};

const VALIDATE: &str = "/validate/example.com/v1/websites";
const MUTATE: &str = "/mutate/example.com/v1/websites";

async fn check(request: Admission<Website>) -> Result<Allowed, Denial> {
    let domain = &request.object.spec.domain;
    if domain.is_empty() {
        return Err(Denial::invalid("spec.domain", "must not be empty").warn("see the\nmanual"));
    }
    if request.old.transpose()?.is_some_and(|old| old.spec.domain != *domain) {
        return Err(Denial::new("the domain cannot change").code(409).reason(Reason::Conflict).audit("rule", "frozen"));
    }
    Ok(Allowed::from(()).warn("first\r\nsecond").audit("checked", "yes"))
}

fn checked() -> Webhooks {
    Webhooks::new().add(Webhook::validate(check))
}

#[tokio::test]
async fn handler_is_a_plain_function() {
    let spec = |domain: &str| Spec { domain: domain.into(), replicas: 1 };
    let site = |domain| Website { metadata: ObjectMeta::new("team-a", "blog"), spec: spec(domain) };
    assert!(check(Admission::create(site("a"))).await.is_ok());
    assert_eq!(check(Admission::create(site(""))).await.unwrap_err().status().code, 422);
    assert_eq!(check(Admission::update(site("a"), site("b"))).await.unwrap_err().status().code, 409);
    let delete = Admission::delete(site("a"));
    assert_eq!((delete.operation, delete.name.as_str(), delete.old), (Operation::Delete, "blog", None));
}

#[tokio::test]
async fn allowed_request_has_warnings_in_one_line() {
    let response = ask(&checked(), VALIDATE, &review("CREATE", site("a"), Value::Null)).await;
    let expected = json!({
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "allowed": true,
        "warnings": ["first  second"],
        "auditAnnotations": {"checked": "yes"},
    });
    assert_eq!(response, expected);
}

#[tokio::test]
async fn denial_names_the_object_and_the_field() {
    let response = ask(&checked(), VALIDATE, &review("CREATE", site(""), Value::Null)).await;
    assert_eq!((&response["allowed"], &response["warnings"]), (&json!(false), &json!(["see the manual"])));
    let status = &response["status"];
    assert_eq!((&status["code"], &status["reason"]), (&json!(422), &json!("Invalid")));
    assert_eq!(status["message"], "spec.domain: must not be empty");
    let causes = [json!({"reason": "FieldValueInvalid", "field": "spec.domain", "message": "must not be empty"})];
    assert_eq!(status["details"], json!({"name": "blog", "group": "example.com", "kind": "Website", "causes": causes}));
}

#[tokio::test]
async fn update_has_both_objects() {
    let response = ask(&checked(), VALIDATE, &review("UPDATE", site("b"), site("a"))).await;
    assert_eq!((&response["status"]["code"], &response["status"]["reason"]), (&json!(409), &json!("Conflict")));
    assert_eq!(response["auditAnnotations"], json!({"rule": "frozen"}));
}

#[tokio::test]
async fn request_has_user_options_and_dry_run() {
    let seen = async |request: Admission<Website>| {
        assert_eq!(request.user.username, "anna");
        assert_eq!(request.user.groups, ["dev"]);
        assert_eq!(request.user.extra["scopes"], ["all"]);
        assert_eq!(request.options["fieldManager"], "kubectl");
        assert_eq!((request.name.as_str(), request.namespace.as_str()), ("blog", "team-a"));
        assert_eq!(request.kind.kind, "Website");
        assert!(request.is_dry_run && !format!("{request:?}").contains("secret.example"));
        Ok::<_, Denial>(())
    };
    let mut review = review("CREATE", site("secret.example"), Value::Null);
    review["request"]["dryRun"] = true.into();
    let response = ask(&Webhooks::new().add(Webhook::validate(seen)), VALIDATE, &review).await;
    assert_eq!(response["allowed"], true, "{response}");
}

#[tokio::test]
async fn deletion_is_about_the_stored_object() {
    let keep = async |request: Admission<Website>| match request.object.spec.domain.as_str() {
        "kept" => Err(Denial::new("kept")),
        _ => Ok(()),
    };
    let webhooks = Webhooks::new().add(Webhook::validate(keep).on([Operation::Delete]));
    let response = ask(&webhooks, VALIDATE, &review("DELETE", Value::Null, site("kept"))).await;
    assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(403)));
    let response = ask(&webhooks, VALIDATE, &review("DELETE", Value::Null, site("other"))).await;
    assert_eq!(response["allowed"], true);
    let response = ask(&webhooks, VALIDATE, &review("DELETE", site("other"), Value::Null)).await;
    assert!(response["status"]["message"].as_str().unwrap().contains("has no oldObject"), "{response}");
}

#[tokio::test]
async fn connection_to_a_subresource_has_its_options() {
    let pods = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
    let no_shell = async |request: Admission<Value>| {
        if request.object["command"][0] == "sh" { Err(Denial::new("no shells")) } else { Ok(()) }
    };
    let webhook = Webhook::validate_resource(pods, no_shell).subresource("exec").on([Operation::Connect]);
    assert_eq!(webhook.path(), "/validate/core/v1/pods/exec");
    let mut review = review("CONNECT", json!({"kind": "PodExecOptions", "command": ["sh"]}), Value::Null);
    review["request"]["kind"] = json!({"group": "", "version": "v1", "kind": "PodExecOptions"});
    review["request"]["resource"] = json!({"group": "", "version": "v1", "resource": "pods"});
    review["request"]["subResource"] = "exec".into();
    let response = ask(&Webhooks::new().add(webhook), "/validate/core/v1/pods/exec", &review).await;
    assert_eq!(response["status"]["message"], "no shells");
}

#[tokio::test]
async fn error_of_a_handler_has_the_code_500() {
    let parse = async |request: Admission<Website>| {
        request.object.spec.domain.parse::<u8>()?;
        Ok::<_, Denial>(())
    };
    let webhooks = Webhooks::new().add(Webhook::validate(parse));
    let response = ask(&webhooks, VALIDATE, &review("CREATE", site("x"), Value::Null)).await;
    assert_eq!((&response["status"]["code"], &response["status"]["reason"]), (&json!(500), &json!("InternalError")));
    assert_eq!(response["status"]["message"], "invalid digit found in string");
}

#[tokio::test]
async fn panic_of_a_handler_is_a_denial() {
    let early = |_: Admission<Website>| -> std::future::Ready<Result<(), Denial>> { panic!("secret") };
    let late = async |_: Admission<Website>| -> Result<Website, Denial> { panic!("secret") };
    let webhooks = Webhooks::new().add(Webhook::validate(early)).add(Webhook::mutate(late));
    for path in [VALIDATE, MUTATE] {
        let response = ask(&webhooks, path, &review("CREATE", site("x"), Value::Null)).await;
        assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(500)));
        let message = response["status"]["message"].as_str().unwrap();
        assert!(message.contains("panicked") && !message.contains("secret"), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn slow_handler_is_a_denial_after_the_timeout() {
    let hang = async |_: Admission<Website>| {
        std::future::pending::<()>().await;
        Ok::<_, Denial>(())
    };
    let webhooks = Webhooks::new().add(Webhook::validate(hang).timeout(Duration::from_secs(3)));
    let started = tokio::time::Instant::now();
    for (query, seconds) in [("", 3), ("?timeout=1s", 1), ("?timeout=9s", 3)] {
        let before = started.elapsed();
        let review = review("CREATE", site("x"), Value::Null);
        let response = ask(&webhooks, &format!("{VALIDATE}{query}"), &review).await;
        assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(504)));
        assert_eq!((started.elapsed() - before).as_secs(), seconds, "{query}");
    }
}

#[tokio::test]
async fn request_for_another_resource_is_denied() {
    let edit = |member: &str, value: Value| {
        let mut review = review("CREATE", site("x"), Value::Null);
        review["request"][member] = value;
        review
    };
    for (review, expected) in [
        (edit("resource", json!({"group": "example.com", "version": "v2", "resource": "websites"})), "v2/websites"),
        (edit("resource", json!({"group": "", "version": "v1", "resource": "secrets"})), "not for v1/secrets"),
        (edit("subResource", json!("status")), "websites/status"),
        (edit("operation", json!("CONNECT")), "does not handle CONNECT"),
    ] {
        let response = ask(&checked(), VALIDATE, &review).await;
        assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(400)));
        let message = response["status"]["message"].as_str().unwrap();
        assert!(message.contains(expected) && message.contains("correct the rules"), "{message}");
    }
}

#[tokio::test]
async fn undecodable_object_is_a_denial_with_the_field() {
    let mut object = site("x");
    object["spec"]["replicas"] = "s3cret".into();
    let response = ask(&checked(), VALIDATE, &review("CREATE", object.clone(), Value::Null)).await;
    let message = response["status"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("cannot decode the object: spec.replicas: invalid type: string, expected u32"),
        "{message}"
    );
    assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(400)));
    let response = ask(&checked(), VALIDATE, &review("UPDATE", site("x"), object)).await;
    let message = response["status"]["message"].as_str().unwrap();
    assert!(message.starts_with("cannot decode the oldObject: spec.replicas"), "{message}");
}

fn broken(domain: &str) -> Value {
    let mut object = site(domain);
    object["spec"]["replicas"] = "many".into();
    object
}

#[tokio::test]
async fn update_can_repair_an_undecodable_object() {
    let check = async |request: Admission<Website>| {
        assert!(request.old.is_some_and(|old| old.is_err()));
        Ok::<_, Denial>(())
    };
    let fill = async |request: Admission<Website>| Ok(request.object);
    let webhooks = Webhooks::new().add(Webhook::validate(check)).add(Webhook::mutate(fill));
    for path in [VALIDATE, MUTATE] {
        let response = ask(&webhooks, path, &review("UPDATE", site("a"), broken("a"))).await;
        assert_eq!(response["allowed"], true, "{response}");
        let response = ask(&webhooks, path, &review("UPDATE", broken("a"), broken("a"))).await;
        assert_eq!(response["allowed"], false, "{response}");
    }
    let response = ask(&webhooks, VALIDATE, &review("UPDATE", site("a"), Value::Null)).await;
    assert!(response["status"]["message"].as_str().unwrap().contains("has no oldObject"), "{response}");
}

#[tokio::test]
async fn finalizer_of_an_undecodable_object_can_be_removed() {
    let check = async |_: Admission<Website>| Err::<(), _>(Denial::new("no"));
    let fill = async |_: Admission<Website>| Err::<Website, _>(Denial::new("no"));
    let webhooks = Webhooks::new().add(Webhook::validate(check)).add(Webhook::mutate(fill));
    let with = |mut object: Value, metadata: Value| {
        object["metadata"] = metadata;
        object
    };
    let deleted = |finalizers: &[&str]| json!({"name": "blog", "deletionTimestamp": "2026-01-02T03:04:05Z", "finalizers": finalizers});
    let kept = json!({"name": "blog", "finalizers": ["example.com/f"]});
    let old = with(broken("a"), deleted(&["example.com/f"]));
    for (object, old, allowed) in [
        (with(broken("a"), deleted(&[])), old.clone(), true),
        (with(broken("b"), deleted(&[])), old.clone(), false),
        (with(broken("a"), json!({"name": "blog"})), with(broken("a"), kept), false),
        (with(site("a"), deleted(&[])), old, false),
        (with(site("a"), json!({"name": "blog", "labels": 7})), with(site("a"), deleted(&[])), false),
    ] {
        for path in [VALIDATE, MUTATE] {
            let response = ask(&webhooks, path, &review("UPDATE", object.clone(), old.clone())).await;
            assert_eq!(response["allowed"], allowed, "{object} {response}");
            let expected = "the request was not checked: cannot decode the object: spec.replicas";
            let warning = response["warnings"][0].as_str();
            assert_eq!(warning.is_some_and(|warning| warning.starts_with(expected)), allowed, "{response}");
        }
    }
}

#[tokio::test]
async fn deletion_of_an_undecodable_object_follows_the_failure_policy() {
    let check = async |_: Admission<Website>| Ok::<_, Denial>(());
    let webhook = || Webhook::validate(check).on([Operation::Delete]);
    let delete = review("DELETE", Value::Null, broken("a"));
    let response = ask(&Webhooks::new().add(webhook()), VALIDATE, &delete).await;
    let message = response["status"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("cannot decode the oldObject: spec.replicas") && message.contains("repair"),
        "{message}"
    );
    assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(400)));

    let webhooks = Webhooks::new().add(webhook().failure_policy(FailurePolicy::Ignore));
    let response = ask(&webhooks, VALIDATE, &delete).await;
    let warning = response["warnings"][0].as_str().unwrap();
    assert!(response["allowed"] == true && warning.contains("was not checked"), "{response}");
    let response = ask(&webhooks, VALIDATE, &review("DELETE", Value::Null, Value::Null)).await;
    assert_eq!(response["allowed"], false, "{response}");
}

#[tokio::test]
async fn dynamic_object_can_be_changed() {
    let label = async |request: Admission<DynamicObject>| {
        let mut object = request.object;
        object.metadata.labels.insert("owner".into(), request.user.username);
        Ok::<_, Denial>(Allowed::from(object).warn("labelled"))
    };
    let websites = ApiResource::new("example.com/v1", "Website", "websites", Scope::Namespaced);
    let webhooks = Webhooks::new().add(Webhook::mutate_resource(websites, label));
    let response = ask(&webhooks, MUTATE, &review("CREATE", site("x"), Value::Null)).await;
    assert_eq!((&response["patchType"], &response["warnings"]), (&json!("JSONPatch"), &json!(["labelled"])));
}

#[test]
#[should_panic(expected = "cannot handle deletions")]
fn mutating_webhook_cannot_handle_deletions() {
    let _ = Webhook::mutate(async |request: Admission<Website>| Ok(request.object)).on([Operation::Delete]);
}

#[test]
#[should_panic(expected = "two webhooks have the path /validate/example.com/v1/websites")]
fn two_webhooks_with_one_path_panic() {
    let _ = checked().add(Webhook::validate(check));
}

#[test]
fn named_webhooks_share_a_resource() {
    let webhooks = checked().add(Webhook::validate(check).name("quota"));
    assert_eq!(webhooks.paths().collect::<Vec<_>>(), [VALIDATE, "/validate/example.com/v1/websites/quota"]);
}

#[test]
fn debug_output_omits_objects_and_patches() {
    let admission = json!({"uid": "1", "allowed": true, "patch": "s3cret", "patchType": "JSONPatch"});
    let objects = json!([{"data": "s3cret"}, {}]);
    let request = json!({"uid": "1", "desiredAPIVersion": "v2", "objects": objects});
    let response = json!({"uid": "1", "result": {}, "convertedObjects": objects});
    let conversion = json!({"apiVersion": "v1", "kind": "ConversionReview", "request": request, "response": response});
    let review = json!({"apiVersion": "v1", "kind": "AdmissionReview", "response": admission});
    let shown = [
        format!("{:?}", serde_json::from_value::<AdmissionReview>(review).unwrap()),
        format!("{:?}", serde_json::from_value::<ConversionReview>(conversion).unwrap()),
        format!("{:?}", Allowed::from("s3cret").warn("beware")),
    ];
    assert!(shown.iter().all(|shown| !shown.contains("s3cret")), "{shown:?}");
    assert!(shown[0].contains("has_patch: true") && shown[1].contains("objects: 2") && shown[2].contains("beware"));
}
