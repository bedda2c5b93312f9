//! Tests of the objects that register webhooks.

use std::time::Duration;

use pintle_crd::CustomResource;
use pintle_meta::{ApiResource, DynamicObject, LabelSelectorSpec, ObjectMeta, Resource, Scope};
use pintle_webhook::{
    Admission, Denial, Endpoint, FailurePolicy, Hub, Operation, ValidatingWebhookConfiguration, Webhook, Webhooks,
};
use serde_json::json;

use crate::support::Website;

async fn check(_: Admission<Website>) -> Result<(), Denial> {
    Ok(())
}

async fn fill(request: Admission<Website>) -> Result<Website, Denial> {
    Ok(request.object)
}

fn endpoint() -> Endpoint {
    Endpoint::service("website-system", "websites")
}

#[test]
fn validating_configuration_has_all_fields() {
    let webhook = Webhook::validate(check)
        .on([Operation::Delete, Operation::Create])
        .name("quota")
        .timeout(Duration::from_millis(2_500))
        .failure_policy(FailurePolicy::Ignore)
        .has_side_effects()
        .objects(LabelSelectorSpec { match_labels: [("a".into(), "b".into())].into(), ..LabelSelectorSpec::default() })
        .condition("not-ours", "request.userInfo.username != 'me'");
    let configuration =
        Webhooks::new().add(webhook).endpoint(endpoint()).validating_configuration("w", b"PEM").unwrap();
    let expected = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "w"},
        "webhooks": [{
            "name": "quota.validate.websites.v1.example.com",
            "clientConfig": {
                "service": {
                    "namespace": "website-system", "name": "websites", "port": 443,
                    "path": "/validate/example.com/v1/websites/quota",
                },
                "caBundle": "UEVN",
            },
            "rules": [{
                "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["websites"],
                "operations": ["CREATE", "DELETE"], "scope": "Namespaced",
            }],
            "failurePolicy": "Ignore",
            "matchPolicy": "Equivalent",
            "sideEffects": "NoneOnDryRun",
            "timeoutSeconds": 3,
            "admissionReviewVersions": ["v1"],
            "namespaceSelector": {},
            "objectSelector": {"matchLabels": {"a": "b"}},
            "matchConditions": [{"name": "not-ours", "expression": "request.userInfo.username != 'me'"}],
        }],
    });
    assert_eq!(serde_json::to_value(&configuration).unwrap(), expected);
    assert_eq!(ValidatingWebhookConfiguration::PLURAL, "validatingwebhookconfigurations");
    let read = |value| serde_json::from_value::<ValidatingWebhookConfiguration>(value).unwrap();
    // List items do not contain `apiVersion` and `kind`.
    let mut item = expected.clone();
    item.as_object_mut().unwrap().retain(|name, _| name != "apiVersion" && name != "kind");
    assert_eq!([read(expected.clone()), read(item.clone())], [configuration.clone(), configuration]);
    assert_eq!(serde_json::to_value(read(item)).unwrap(), expected);
}

#[test]
fn webhooks_of_two_versions_have_different_names() {
    let old = ApiResource::new("example.com/v1alpha1", "Website", "websites", Scope::Namespaced);
    let check_old = async |_: Admission<DynamicObject>| Ok::<_, Denial>(());
    let webhooks = Webhooks::new().add(Webhook::validate(check)).add(Webhook::validate_resource(old, check_old));
    let configuration = webhooks.endpoint(endpoint()).validating_configuration("w", b"").unwrap();
    let names: Vec<_> = configuration.webhooks.iter().map(|webhook| &webhook["name"]).collect();
    assert_eq!(names, ["validate.websites.v1.example.com", "validate.websites.v1alpha1.example.com"]);
}

#[test]
fn mutating_configuration_has_its_own_webhooks() {
    let webhooks = Webhooks::new().add(Webhook::validate(check)).add(Webhook::mutate(fill).reinvoke());
    let webhooks = webhooks.endpoint(Endpoint::url("https://127.0.0.1:9443/"));
    let configuration = webhooks.mutating_configuration("w", b"").unwrap();
    assert_eq!(configuration.webhooks.len(), 1);
    let webhook = &configuration.webhooks[0];
    assert_eq!(webhook["name"], "mutate.websites.v1.example.com");
    let url = "https://127.0.0.1:9443/mutate/example.com/v1/websites";
    assert_eq!(webhook["clientConfig"], json!({"url": url}));
    assert_eq!(webhook["reinvocationPolicy"], "IfNeeded");
    assert_eq!(webhook["rules"][0]["operations"], json!(["CREATE", "UPDATE"]));
}

#[test]
fn without_endpoint_nothing_is_registered() {
    let webhooks = Webhooks::new().add(Webhook::validate(check)).convert(Hub::<Website>::new());
    assert!(
        webhooks.validating_configuration("w", b"").is_none() && !webhooks.add_conversion(&mut Website::crd(), b"")
    );
    let webhooks = webhooks.endpoint(endpoint());
    assert!(
        webhooks.validating_configuration("w", b"").is_some() && webhooks.mutating_configuration("w", b"").is_none()
    );
}

#[test]
fn conversion_enters_the_definition_of_its_kind() {
    #[derive(pintle_crd::Resource, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
    #[resource(crate = pintle_crd, group = "example.com", version = "v1")]
    struct Other {
        metadata: ObjectMeta,
    }
    let webhooks = Webhooks::new().convert(Hub::<Website>::new()).endpoint(endpoint());
    let mut other = Other::crd();
    assert!(!webhooks.add_conversion(&mut other, b"PEM"));
    assert_eq!(other, Other::crd());
    let mut own = Website::crd();
    assert!(webhooks.add_conversion(&mut own, b"PEM"));
    let client = json!({
        "service": {
            "namespace": "website-system", "name": "websites", "port": 443, "path": "/convert/example.com/websites",
        },
        "caBundle": "UEVN",
    });
    let webhook = json!({"clientConfig": client, "conversionReviewVersions": ["v1"]});
    assert_eq!(own.spec["conversion"], json!({"strategy": "Webhook", "webhook": webhook}));
}

#[test]
fn invalid_settings_panic() {
    let panics = |set: fn(Webhook) -> Webhook| std::panic::catch_unwind(|| set(Webhook::validate(check))).is_err();
    assert!(panics(|webhook| webhook.on([])));
    assert!(panics(|webhook| webhook.timeout(Duration::ZERO)));
    assert!(panics(|webhook| webhook.timeout(Duration::from_secs(31))));
    assert!(panics(Webhook::reinvoke));
    for name in ["", "A", "a.b", "-a", "a/b"] {
        assert!(std::panic::catch_unwind(|| Webhook::validate(check).name(name)).is_err(), "{name:?}");
    }
}
