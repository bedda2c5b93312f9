//! Tests of the rules for devices and for the status of ResourceClaims. The error messages must be the same as in
//! kube-apiserver.

use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::FieldErrors;
use pintle_effort::is_linear;
use pintle_json::{Json, json};

use super::strategies::{EmptyCluster, context, kind};

const NOT_NORMAL: &str = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase \
                          hexadecimal characters";

fn status_errors(new: &Json, old: &Json) -> FieldErrors {
    let kind = kind("resource.k8s.io", "v1", "resourceclaims");
    kind.strategy.validate_update(new, old, Subresource::Status)
}

fn drop_deallocated(new: &mut Json, old: &Json) {
    let kind = kind("resource.k8s.io", "v1", "resourceclaims");
    kind.strategy.prepare_for_update(&context(&EmptyCluster), new, old, Subresource::Status);
}

fn device_errors(device: &Json) -> FieldErrors {
    let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
    let slice = json!({"spec": {"driver": "d", "nodeName": "n", "pool": pool, "devices": [device]}});
    kind("resource.k8s.io", "v1", "resourceslices").strategy.validate_create(&slice)
}

#[test]
fn many_device_statuses_are_validated_in_linear_time() {
    assert!(is_linear(4_000, |count| {
        let device = |at| json!({"driver": "d.x", "pool": "p", "device": format!("d{at}")});
        let devices: Vec<_> = (0..count).map(device).collect();
        let status = json!({"allocation": {"devices": {"results": devices}}, "devices": devices});
        let errors = status_errors(&json!({"status": status}), &json!({"status": status}));
        assert!(errors.is_empty(), "{errors:?}");
    }));
}

#[test]
fn claim_status_is_validated_as_by_kube_apiserver() {
    let exact = json!({"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1});
    let spec = json!({"devices": {"requests": [{"name": "r", "exactly": exact}]}});
    let result = json!({"request": "r", "driver": "d.x", "pool": "p", "device": "d"});
    let status = json!({
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
        "devices": [{"driver": "d.x", "pool": "p", "device": "d", "networkData": {"ips": ["10.0.0.1/24"]}}],
    });
    let claim = |status: &Json| json!({"spec": spec, "status": status});
    for (pointer, value, expected) in [
        ("/reservedFor/0/uid", json!("u"), &[][..]),
        ("/reservedFor/0/uid", json!(""), &["reservedFor[0].uid"]),
        ("/allocation", json!(null), &["devices[0]", "reservedFor"]),
        ("/allocation/devices/results/0/request", json!("x"), &["allocation.devices.results[0].request"]),
        ("/allocation/devices/results/0/driver", json!(""), &["devices[0]", "allocation.devices.results[0].driver"]),
        ("/allocation/devices/results/0/shareID", json!("x"), &["devices[0]", "allocation.devices.results[0].shareID"]),
        (
            "/allocation/devices/config",
            json!([{"source": "X"}]),
            &["allocation.devices.config[0].source", "allocation.devices.config[0].opaque"],
        ),
        ("/allocation/nodeSelector", json!({}), &["allocation.nodeSelector.nodeSelectorTerms"]),
        ("/devices/0/device", json!("e"), &["devices[0]"]),
        ("/devices/0/data", json!([1]), &["devices[0].data"]),
        ("/devices/0/networkData/ips/0", json!("10.0.0.1"), &["devices[0].networkData.ips[0]"]),
        (
            "/devices/0/conditions",
            json!([{"type": "A", "status": "True", "reason": "R"}]),
            &["devices[0].conditions[0].lastTransitionTime"],
        ),
    ] {
        let mut changed = status.clone();
        let (holder, key) = pointer.rsplit_once('/').expect("a pointer");
        let holder = if holder.is_empty() { &mut changed } else { changed.at_mut(holder).expect("a parent") };
        match key.parse::<usize>() {
            Ok(at) => holder[at] = value,
            Err(_) => holder.set(key, value),
        }
        let found = status_errors(&claim(&changed), &claim(&json!({})));
        let expected: Vec<_> = expected.iter().map(|field| format!("status.{field}")).collect();
        assert_eq!(found.fields(), expected, "{pointer} {changed}");
    }
    let mut other = status.clone();
    other["allocation"]["devices"]["results"][0].set("adminAccess", true);
    assert_eq!(status_errors(&claim(&other), &claim(&status)).fields(), ["status.allocation"]);
    assert!(status_errors(&claim(&json!({})), &claim(&status)).is_empty());
}

fn device() -> Json {
    json!({"driver": "d.x", "pool": "p", "device": "d"})
}

#[test]
fn deallocation_removes_the_status_of_a_device() {
    let old = json!({"status": {"allocation": {"devices": {"results": [device()]}}, "devices": [device()]}});
    let mut new = json!({"status": {"devices": [device()]}});
    drop_deallocated(&mut new, &old);
    assert_eq!(new, json!({"status": {}}));
    let mut other = device();
    other.set("device", "e");
    let mut new = json!({"status": {"devices": [device(), other]}});
    drop_deallocated(&mut new, &old);
    assert_eq!(new, json!({"status": {"devices": [other]}}), "the device was never allocated");
    let mut new = old.clone();
    drop_deallocated(&mut new, &old);
    assert_eq!(new, old, "the device is still allocated");
}

fn errors_of_result(members: &[(&str, Json)]) -> Vec<String> {
    let mut result = device();
    result.set("request", "r");
    members.iter().for_each(|(field, value)| result.set(field, value.clone()));
    let spec = json!({"devices": {"requests": [{"name": "r"}]}});
    let claim = json!({"spec": spec, "status": {"allocation": {"devices": {"results": [result]}}}});
    let prefix = "status.allocation.devices.results[0].";
    status_errors(&claim, &json!({})).iter().map(|error| error.to_string().replace(prefix, "")).collect()
}

#[test]
fn results_require_both_kinds_of_binding_conditions() {
    for (conditions, expected) in [
        (
            ("bindingConditions", json!(["a"])),
            "bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to use \
             bindingConditions",
        ),
        (
            ("bindingFailureConditions", json!(["a"])),
            "bindingConditions: Invalid value: null: bindingConditions are required to use \
             bindingFailureConditions",
        ),
    ] {
        let share = "shareID: Invalid value: \"x\": error validating uid: invalid UUID length: 1";
        assert_eq!(errors_of_result(&[conditions, ("shareID", json!("x"))]), [expected, share]);
    }
}

#[test]
fn share_ids_must_be_normalized_uuids() {
    const NORMAL: &str = "7f64ee64-3cb9-4f0e-90a8-0a1d4b6d3c2a";
    assert!(errors_of_result(&[("shareID", json!(NORMAL))]).is_empty());
    for (share, expected) in [
        (NORMAL.to_uppercase(), NOT_NORMAL),
        (NORMAL.replace('-', ""), NOT_NORMAL),
        (format!("{{{NORMAL}}}"), NOT_NORMAL),
        (format!("URN:uuid:{NORMAL}"), NOT_NORMAL),
        (format!("xrn:uuid:{NORMAL}"), "error validating uid: invalid urn prefix: \"xrn:uuid:\""),
        (format!("[{NORMAL}]"), "error validating uid: invalid bracketed UUID format"),
        (NORMAL.replace('a', "x"), "error validating uid: invalid UUID format"),
        ("é".repeat(18), "error validating uid: invalid UUID format"),
        ("é".repeat(19), "error validating uid: invalid bracketed UUID format"),
        ("x".repeat(32), "error validating uid: invalid UUID format"),
        (String::new(), "error validating uid: invalid UUID length: 0"),
    ] {
        let expected = format!("shareID: Invalid value: \"{share}\": {expected}");
        assert_eq!(errors_of_result(&[("shareID", json!(share))]), [expected]);
    }
}

#[test]
fn terminating_claims_accept_no_new_consumers() {
    let claim = |consumers: Json| {
        let allocation = json!({"devices": {"results": [device()]}});
        let metadata = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        json!({"metadata": metadata, "status": {"allocation": allocation, "reservedFor": consumers}})
    };
    let consumer = |name: &str, uid: &str| json!({"resource": "pods", "name": name, "uid": uid});
    let old = claim(json!([consumer("p", "u"), consumer("p", "v")]));
    for (consumers, is_valid) in [
        (json!([]), true),
        (json!([consumer("p", "v")]), true),
        (json!([consumer("p", "w")]), false),
        (json!([consumer("q", "u")]), false),
    ] {
        let errors = status_errors(&claim(consumers.clone()), &old);
        assert_eq!(errors.is_empty(), is_valid, "{consumers} {errors:?}");
        let why = "status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or \
                   `deletionTimestamp` are set";
        assert!(errors.iter().all(|error| error.to_string() == why), "{errors:?}");
    }
}

#[test]
fn many_binding_conditions_are_validated_in_linear_time() {
    assert!(is_linear(2_000, |count| {
        let [good, bad] = ["g", "b"].map(|name| (0..count).map(|at| format!("{name}{at}")).collect::<Vec<_>>());
        let device = json!({"name": "d", "bindingConditions": good, "bindingFailureConditions": bad});
        let errors = device_errors(&device);
        assert_eq!(
            errors.fields(),
            ["bindingConditions", "bindingFailureConditions"].map(|field| format!("spec.devices[0].{field}"))
        );
    }));
}

#[test]
fn empty_node_fields_require_node_selection_per_device() {
    for (field, value) in [("nodeName", json!("")), ("allNodes", json!(false))] {
        let mut device = json!({"name": "d"});
        device.set(field, value);
        let errors = device_errors(&device);
        let [error] = &errors.iter().map(ToString::to_string).collect::<Vec<_>>()[..] else { panic!("{errors:?}") };
        let expected =
            "spec.devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set";
        assert!(error.starts_with(expected), "{field}: {error}");
    }
}

#[test]
fn totals_of_attributes_are_validated_before_attributes() {
    let attribute = |at: usize| (format!("a{at:02}"), json!({}));
    let attributes: Json = (0..49).map(attribute).collect();
    let device = json!({"name": "d", "attributes": attributes, "capacity": {"c": {"value": "1"}}});
    let errors = device_errors(&device);
    let errors: Vec<_> = errors.iter().take(3).map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "spec.devices[0]: Invalid value: 50: the total number of attributes and capacities must not exceed 32",
            "spec.devices[0]: Invalid value: 49: the total number of attribute values must not exceed 48",
            "spec.devices[0].attributes[a00]: Invalid value: \"\": exactly one value must be specified",
        ]
    );
}

#[test]
fn long_keys_are_shortened_in_paths() {
    let key = format!("{}{}", "a".repeat(60), "b".repeat(60));
    let capacity = json!({"value": "1", "requestPolicy": {}});
    let [attributes, capacities]: [Json; 2] =
        [json!({}), capacity].map(|value| [(key.clone(), value)].into_iter().collect());
    let device = json!({"name": "d", "attributes": attributes, "capacity": capacities});
    let errors = device_errors(&device);
    let shown = format!("{}...{}", "a".repeat(47), "b".repeat(46));
    let (attribute, policy) = (format!("attributes[{shown}]"), format!("capacity[{shown}].requestPolicy"));
    let expected = ["attributes", &attribute, "capacity", &policy].map(|field| format!("spec.devices[0].{field}"));
    assert_eq!(errors.fields(), expected);
}

#[test]
fn request_policies_are_validated_as_by_kube_apiserver() {
    for (value, policy, expected) in [
        ("4", json!({}), &[][..]),
        ("4", json!({"default": "7"}), &[]),
        ("4", json!({"default": "1", "validValues": ["1", "2"]}), &[]),
        ("4", json!({"validValues": ["1"]}), &["default: Required value: required when validValues is defined"]),
        (
            "4",
            json!({"default": "3", "validValues": ["2", "1", "2", "5"]}),
            &[
                "validValues[1]: Invalid value: \"1\": values must be sorted in ascending order",
                "validValues[3]: Invalid value: \"5\": option is larger than capacity value: 4",
                "validValues[2]: Duplicate value: \"2\"",
                "validValues: Invalid value: \"3\": default value is not valid according to the requestPolicy",
            ],
        ),
        (
            "4",
            json!({"default": "3", "validValues": ["3", "2", "1", "5", "1", "2", "2", "2", "2", "2", "2"]}),
            &[
                "validValues[1]: Invalid value: \"2\": values must be sorted in ascending order",
                "validValues[2]: Invalid value: \"1\": values must be sorted in ascending order",
                "validValues[4]: Invalid value: \"1\": values must be sorted in ascending order",
                "validValues: Too many: 11: must have at most 10 items",
                "validValues: Invalid value: \"3\": default value is not valid according to the requestPolicy",
            ],
        ),
        (
            "4",
            json!({"default": "5", "validValues": ["5", "4", "6"]}),
            &[
                "validValues[1]: Invalid value: \"4\": values must be sorted in ascending order",
                "validValues[0]: Invalid value: \"5\": option is larger than capacity value: 4",
                "validValues[2]: Invalid value: \"6\": option is larger than capacity value: 4",
            ],
        ),
        (
            "4",
            json!({"default": "1500m", "validValues": ["1500m", "1600m"]}),
            &["validValues[1]: Duplicate value: \"2\""],
        ),
        (
            "2",
            json!({"default": "1", "validRange": {"min": "3", "max": "2500m", "step": "5"}}),
            &[
                "validRange.min: Invalid value: \"3\": min is larger than capacity value: 2",
                "validRange.min: Invalid value: \"1\": default is less than min: 3",
                "validRange.max: Invalid value: \"3\": min is larger than max: 2500m",
                "validRange.max: Invalid value: \"2500m\": max is larger than capacity value: 2",
                "validRange.step: Invalid value: \"5\": one step 8 is larger than capacity value: 2",
                "validRange.step: Invalid value: \"1\": value is not a multiple of a given step (5) from (3)",
            ],
        ),
        (
            "2Gi",
            json!({"default": "1Gi", "validRange": {"min": "1Gi", "step": "2Gi"}}),
            &["validRange.step: Invalid value: \"2Gi\": one step 3Gi is larger than capacity value: 2Gi"],
        ),
        ("10", json!({"default": "1500m", "validRange": {"min": "1", "step": "500m"}}), &[]),
        (
            "10",
            json!({"default": "2500m", "validRange": {"min": "1", "step": "2", "max": "3500m"}}),
            &["validRange.step: Invalid value: \"3500m\": value is not a multiple of a given step (2) from (1)"],
        ),
        (
            "10",
            json!({"default": "1", "validRange": {"min": "1", "step": "-2", "max": "4"}}),
            &["validRange.step: Invalid value: \"4\": value is not a multiple of a given step (-2) from (1)"],
        ),
    ] {
        let capacity = json!({"value": value, "requestPolicy": policy});
        let device = json!({"name": "x", "allowMultipleAllocations": true, "capacity": {"c": capacity}});
        let found: Vec<_> = device_errors(&device).iter().map(ToString::to_string).collect();
        let expected: Vec<_> =
            expected.iter().map(|error| format!("spec.devices[0].capacity[c].requestPolicy.{error}")).collect();
        assert_eq!(found, expected, "{policy}");
    }
    let refused = json!({"name": "x", "capacity": {"c": {"value": "1", "requestPolicy": {}}}});
    assert_eq!(device_errors(&refused).fields(), ["spec.devices[0].capacity[c].requestPolicy"]);
}
