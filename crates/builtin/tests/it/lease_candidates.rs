//! Tests of the rules for LeaseCandidates.

use std::sync::Arc;

use pintle_apimachinery::request::Subresource;
use pintle_json::{Json, json};
use pintle_kinds::Kind;

fn candidates() -> Arc<Kind> {
    let kinds = pintle_builtin::coordinated_kinds();
    kinds.resource("coordination.k8s.io", "v1beta1", "leasecandidates").expect("a built-in kind").clone()
}

fn candidate_errors(spec: Json) -> Vec<String> {
    let errors = candidates().strategy.validate_create(&json!({ "spec": spec }));
    errors.into_iter().map(|error| format!("{}: {}", error.field, error.message)).collect()
}

#[test]
fn candidate_needs_lease_valid_versions_and_strategy() {
    let full = json!({"leaseName": "l", "binaryVersion": "1.36.1", "emulationVersion": "1.35.0",
        "strategy": "OldestEmulationVersion"});
    assert!(candidate_errors(full).is_empty());
    let foreign = json!({"leaseName": "l", "binaryVersion": "1.36.1", "strategy": "example.com/oldest"});
    assert!(candidate_errors(foreign).is_empty());
    assert_eq!(
        candidate_errors(json!({})),
        ["spec.leaseName: Required value", "spec.binaryVersion: Required value", "spec.strategy: Required value",]
    );
    let odd = json!({"leaseName": "l", "binaryVersion": "1.34.0", "emulationVersion": "1.35.0", "strategy": "x"});
    assert_eq!(
        candidate_errors(odd),
        [
            "spec.binaryVersion: Invalid value: \"1.34.0\": must be greater than or equal to `emulationVersion`",
            "spec.strategy.strategy: Unsupported value: \"x\": supported values: \"OldestEmulationVersion\"",
        ]
    );
    let incomplete = json!({"leaseName": "l", "binaryVersion": "1.34", "strategy": "OldestEmulationVersion"});
    assert_eq!(
        candidate_errors(incomplete),
        [
            "spec.binaryVersion: Invalid value: \"1.34\": must be a valid semantic version",
            "spec.emulationVersion: Required value: must be specified when `strategy` is 'OldestEmulationVersion'",
        ]
    );
}

#[test]
fn lease_name_of_a_candidate_is_immutable() {
    let candidate =
        |lease: &str| json!({"spec": {"leaseName": lease, "binaryVersion": "1.0.0", "strategy": "example.com/x"}});
    assert!(candidates().strategy.validate_update(&candidate("a"), &candidate("a"), Subresource::None).is_empty());
    let errors = candidates().strategy.validate_update(&candidate("b"), &candidate("a"), Subresource::None);
    let [error] = &errors.into_iter().collect::<Vec<_>>()[..] else { panic!("expected one error") };
    assert!(error.message.ends_with("field is immutable"), "{error:?}");
}
