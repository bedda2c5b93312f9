//! What client-go 0.36 writes in protobuf, beside what it writes of the same object in JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::decode::{decode, go_duration};

#[track_caller]
fn check(body: &str, expected: Value) {
    assert_eq!(decode(&STANDARD.decode(body).unwrap()), Ok(expected));
}

#[test]
fn a_map_of_texts_and_one_of_bytes() {
    check(
        concat!(
            "azhzAAoPCgJ2MRIJQ29uZmlnTWFwEjUKIQoBYRIAGgFkIgAqADIAOABCAFoFCgF4EgBaBgoBeRIBehIGCgFrEgF2GggKAWISAwAB",
            "/xoAIgA=",
        ),
        json!({"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"d","labels":{"x":"","y":"z"}},"data":{"k":"v"},"binaryData":{"b":"AAH/"}}),
    );
}

#[test]
fn embedded_structs_pointers_to_zero_and_numbers_or_texts() {
    check(
        concat!(
            "azhzAAoVCgdhcHBzL3YxEgpEZXBsb3ltZW50EvQBChkKAXcSABoAIgAqADIAOABCCAiA4s+qBhAAEsgBCAASCAoGCgFhEgFiGpwB",
            "ChAKABIAGgAiACoAMgA4AEIAEocBCgkKAXYSBBICCgASXgoBYxIBaSoAMgoKABAAGFAiACoAOhEKAWUSABoKIggKAwoBcxIBa0IP",
            "Cg0KA2NwdRIGCgQ1MDBtUhQKCAoGCgF4CgF5EAAYACAAKAAwAGoAcgCAAQCIAQCQAQCiAQAaADIAQgBKAFIAWABgAGgAggEAigEA",
            "mgEAwgEAIhcKABITCgYIABABGgASCQgBEAAaAzI1JSgAOAAaDAgAEAAYACAAKAA4ABoAIgA=",
        ),
        json!({"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"w","creationTimestamp":"2023-11-14T22:13:20Z"},"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{},"spec":{"volumes":[{"name":"v","emptyDir":{}}],"containers":[{"name":"c","image":"i","ports":[{"containerPort":80}],"env":[{"name":"e","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}],"resources":{"limits":{"cpu":"500m"}},"livenessProbe":{"exec":{"command":["x","y"]}}}]}},"strategy":{"rollingUpdate":{"maxUnavailable":1,"maxSurge":"25%"}}},"status":{}}),
    );
}

#[test]
fn times_in_microseconds() {
    check(
        concat!(
            "azhzAAofChZjb29yZGluYXRpb24uazhzLmlvL3YxEgVMZWFzZRImChEKAWwSABoAIgAqADIAOABCABIRCgAQDyILCIDiz6oGEICU",
            "7zoaACIA",
        ),
        json!({"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"l"},"spec":{"holderIdentity":"","leaseDurationSeconds":15,"renewTime":"2023-11-14T22:13:20.123456Z"}}),
    );
}

#[test]
fn negative_numbers() {
    check(
        "azhzAAoTCgJ2MRINRGVsZXRlT3B0aW9ucxINCP///////////wESABoAIgA=",
        json!({"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":-1,"preconditions":{}}),
    );
}

#[test]
fn lists_as_the_values_of_maps() {
    check(
        concat!(
            "azhzAAonChhhdXRoZW50aWNhdGlvbi5rOHMuaW8vdjESC1Rva2VuUmV2aWV3EjYKEAoAEgAaACIAKgAyADgAQgASAgoAGh4IABIY",
            "CgF1EgAaAWcaAWgiCwoBaxIGCgExCgEyGgAaACIA",
        ),
        json!({"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","metadata":{},"spec":{},"status":{"user":{"username":"u","groups":["g","h"],"extra":{"k":["1","2"]}}}}),
    );
}

#[test]
fn what_is_no_message_is_an_error_that_says_why() {
    let error = |body: &[u8]| decode(body).unwrap_err();
    assert!(error(b"{}").contains("magic"), "{}", error(b"{}"));
    assert!(error(b"k8s\0").contains("no kind"), "{}", error(b"k8s\0"));
    assert!(error(b"k8s\0\x0a\xff").contains("too early"), "{}", error(b"k8s\0\x0a\xff"));
}

#[test]
fn lengths_of_time_are_written_as_go_writes_them() {
    let second = 1_000_000_000;
    for (nanoseconds, expected) in [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5µs"),
        (second / 2, "500ms"),
        (second * 3 / 2, "1.5s"),
        (-60 * second, "-1m0s"),
        (3_600 * second, "1h0m0s"),
        (i64::MAX, "2562047h47m16.854775807s"),
    ] {
        assert_eq!(go_duration(nanoseconds), expected);
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(at in 0..400usize, bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let _refused = decode(&bytes);
        // A body that is right up to some place, and anything from there on.
        let mut body = STANDARD.decode(CONFIG_MAP).unwrap();
        body.truncate(at);
        body.extend(bytes);
        let _refused = decode(&body);
    }
}

const CONFIG_MAP: &str =
    "azhzAAoPCgJ2MRIJQ29uZmlnTWFwEjUKIQoBYRIAGgFkIgAqADIAOABCAFoFCgF4EgBaBgoBeRIBehIGCgFrEgF2GggKAWISAwAB/xoAIgA=";
