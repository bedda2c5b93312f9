//! Tests of validation errors and their order. The expected errors were recorded from kube-apiserver.

use jiff::Timestamp;
use pintle_apimachinery::request::Subresource;
use pintle_json::{Json, json};

use super::strategies::{check_errors, kind, pod_spec, template};

const STATEFUL_SETS: (&str, &str, &str) = ("apps", "v1", "statefulsets");
const VALIDATING: (&str, &str, &str) = ("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations");
const MUTATING: (&str, &str, &str) = ("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations");

/// Validates an update after adding the defaults to both objects. Expected errors have the form `reason field`.
#[track_caller]
fn check_update(resource: (&str, &str, &str), mut new: Json, mut old: Json, expected: &[&str]) {
    let kind = kind(resource.0, resource.1, resource.2);
    kind.set_defaults(&mut new);
    kind.set_defaults(&mut old);
    let errors = kind.strategy.validate_update(&new, &old, Subresource::None);
    let found: Vec<_> = errors
        .iter()
        .map(|error| format!("{} {}", &error.reason.as_str()["FieldValue".len()..], error.field))
        .collect();
    assert_eq!(found, expected, "{resource:?} {new}: {errors:?}");
}

#[test]
fn label_selector_values_must_be_label_values() {
    let selector = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "a b"]}]});
    check_errors(
        ("networking.k8s.io", "v1", "networkpolicies"),
        json!({"spec": {"podSelector": selector}}),
        &["Invalid spec.podSelector.matchExpressions[0].values[1]"],
    );
}

fn stateful_set(more: Json) -> Json {
    let selector = json!({"matchLabels": {"app": "a"}});
    let mut object = json!({"spec": {"selector": selector, "template": template(json!({}))}});
    more.members("").for_each(|(key, value)| object["spec"][key] = value.clone());
    object
}

#[test]
fn claims_and_service_name_are_validated_only_at_creation() {
    let claim = json!({"metadata": {"name": "d"}, "spec": {"accessModes": ["Often"], "storageClassName": "A"}});
    let object = stateful_set(json!({"serviceName": "A_b", "replicas": -1, "volumeClaimTemplates": [claim]}));
    let claim = |rest: &str| format!("spec.volumeClaimTemplates[0].spec.{rest}");
    let expected = [
        format!("NotSupported {}", claim("accessModes")),
        format!("Required {}", claim("resources[storage]")),
        format!("Invalid {}", claim("storageClassName")),
        "Invalid spec.replicas".to_owned(),
        "Invalid spec.serviceName".to_owned(),
    ];
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    check_errors(STATEFUL_SETS, object.clone(), &expected);
    check_update(STATEFUL_SETS, object.clone(), object, &["Invalid spec.replicas"]);
}

#[test]
fn stateful_set_template_labels_are_checked_twice() {
    let mut object = stateful_set(json!({}));
    object["spec"]["template"]["metadata"]["labels"]["a b"] = "c".into();
    check_errors(STATEFUL_SETS, object, &["Invalid spec.template.labels", "Invalid spec.template.labels"]);
}

fn webhook(more: Json) -> Json {
    let mut webhook = json!({"name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"name": "s", "namespace": "n"}}});
    more.members("").for_each(|(key, value)| webhook[key] = value.clone());
    json!({"webhooks": [webhook]})
}

#[test]
fn webhook_rules_need_operations_groups_versions_and_resources() {
    let rules = json!([{}, {"operations": ["CREATE", "*"], "apiGroups": ["*", "a"], "apiVersions": [""],
        "resources": ["pods/*", "pods/status", ""], "scope": "All"}]);
    check_errors(
        VALIDATING,
        webhook(json!({"rules": rules})),
        &[
            "Required webhooks[0].rules[0].operations",
            "Required webhooks[0].rules[0].apiGroups",
            "Required webhooks[0].rules[0].apiVersions",
            "Required webhooks[0].rules[0].resources",
            "Invalid webhooks[0].rules[1].operations",
            "Invalid webhooks[0].rules[1].apiGroups",
            "Required webhooks[0].rules[1].apiVersions[0]",
            "Invalid webhooks[0].rules[1].resources[1]",
            "Required webhooks[0].rules[1].resources[2]",
            "NotSupported webhooks[0].rules[1].scope",
        ],
    );
}

#[test]
fn webhook_fields_are_validated_in_kube_apiserver_order() {
    let more = json!({"name": "", "reinvocationPolicy": "Often", "sideEffects": "Some",
        "admissionReviewVersions": ["V1", "V1"], "objectSelector": {"matchLabels": {"a": "b c"}},
        "clientConfig": {"url": "http://u@/x?y#z"}});
    let url = "Invalid webhooks[0].clientConfig.url";
    check_errors(
        MUTATING,
        webhook(more),
        &[
            "Required webhooks[0].name",
            "NotSupported webhooks[0].sideEffects",
            "Invalid webhooks[0].objectSelector.matchLabels",
            "NotSupported webhooks[0].reinvocationPolicy",
            url,
            url,
            url,
            url,
            url,
            "Invalid webhooks[0].admissionReviewVersions[0]",
            "Invalid webhooks[0].admissionReviewVersions[1]",
            "Invalid webhooks[0].admissionReviewVersions",
        ],
    );
    let service = json!({"clientConfig": {"service": {"path": "a//b", "port": 0}}});
    let field = |name: &str| format!("webhooks[0].clientConfig.service.{name}");
    let expected = [
        format!("Required {}", field("name")),
        format!("Required {}", field("namespace")),
        format!("Invalid {}", field("port")),
        format!("Invalid {}", field("path")),
        format!("Invalid {}", field("path")),
        format!("Invalid {}", field("path")),
    ];
    check_errors(VALIDATING, webhook(service), &expected.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn webhook_names_are_unique() {
    let mut object = webhook(json!({}));
    let again = object["webhooks"][0].clone();
    object["webhooks"] = json!([again.clone(), again]);
    check_errors(VALIDATING, object, &["Duplicate webhooks[1].name"]);
}

#[test]
fn empty_storage_class_topology_terms_are_duplicates() {
    let object = json!({"provisioner": "p", "allowedTopologies": [{}, {}]});
    let term = |at: usize| format!("Duplicate allowedTopologies[{at}].matchLabelExpressions");
    let expected = [term(0), term(0), term(1), term(1), term(1)];
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    check_errors(("storage.k8s.io", "v1", "storageclasses"), object, &expected);
}

#[test]
fn create_and_immutability_errors_are_in_order() {
    let class = |policy: &str| json!({"provisioner": "p", "reclaimPolicy": policy});
    check_update(
        ("storage.k8s.io", "v1", "storageclasses"),
        class("Often"),
        class("Retain"),
        &["NotSupported reclaimPolicy", "Invalid reclaimPolicy"],
    );
    check_update(
        ("networking.k8s.io", "v1", "ingressclasses"),
        json!({"spec": {}}),
        json!({"spec": {"controller": "a.b/c"}}),
        &["Invalid spec.controller", "Required spec.controller"],
    );
    let pod = json!({"spec": pod_spec(json!({}))});
    let none = json!({"spec": {}});
    check_update(("", "v1", "pods"), none, pod, &["Required spec.containers", "Forbidden spec.containers"]);
    let revision = json!({"revision": 1, "data": {"a": 1}});
    check_update(("apps", "v1", "controllerrevisions"), json!({"revision": 1}), revision, &["Invalid data"]);
}

#[test]
fn node_affinity_of_a_volume_is_immutable() {
    let volume = |value: &str| {
        let terms = json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": [value]}]}]);
        json!({"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/a"}, "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}})
    };
    check_update(("", "v1", "persistentvolumes"), volume("a"), volume("b"), &["Invalid nodeAffinity"]);
    check_update(("", "v1", "persistentvolumes"), volume("a"), volume("a"), &[]);
}

#[test]
fn taints_of_an_updated_node_are_validated_twice() {
    let node = json!({"spec": {"taints": [{"key": "a b", "effect": "NoSchedule"}]}});
    check_update(("", "v1", "nodes"), node.clone(), node, &["Invalid metadata.taints[0].key"; 2]);
}

#[test]
fn unknown_completion_mode_ignores_index_limits() {
    let spec = json!({"completionMode": "Often", "backoffLimitPerIndex": 1, "selector": {},
        "template": template(json!({"restartPolicy": "Never"}))});
    let object = json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": spec}}});
    let kind = kind("batch", "v1", "cronjobs");
    let errors = kind.strategy.validate_create(&object);
    let modes = errors.iter().filter(|error| error.field.ends_with("backoffLimitPerIndex")).count();
    assert_eq!(modes, 0, "{errors:?}");
}

#[test]
fn metadata_of_ephemeral_volume_claims_is_validated() {
    let claim = json!({"metadata": {"labels": {"a": "b c"}, "annotations": {"a b": ""}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let volumes = json!([{"name": "v", "ephemeral": {"volumeClaimTemplate": claim}}]);
    let metadata =
        |subresource: &str| format!("Invalid spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.{subresource}");
    let expected = [metadata("annotations"), metadata("labels")];
    check_errors(
        ("", "v1", "pods"),
        json!({"spec": pod_spec(json!({"volumes": volumes}))}),
        &expected.iter().map(String::as_str).collect::<Vec<_>>(),
    );
}

#[test]
fn three_policy_types_cause_one_error() {
    let object = json!({"spec": {"policyTypes": ["Ingress", "Egress", "Other"]}});
    check_errors(("networking.k8s.io", "v1", "networkpolicies"), object, &["Invalid spec.policyTypes"]);
}

#[test]
fn limit_ratio_is_validated_after_the_quantities() {
    let limit =
        json!({"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "9"}});
    let field = |key: &str| format!("Invalid spec.limits[0].{key}[cpu]");
    let limits = json!({"spec": {"limits": [limit]}});
    let kind = kind("", "v1", "limitranges");
    let errors = kind.strategy.validate_create(&limits);
    let found: Vec<String> = errors.iter().map(|error| format!("Invalid {}", error.field)).collect();
    assert_eq!(found, [field("min"), field("maxLimitRequestRatio")], "{errors:?}");
}

#[test]
fn azure_file_secret_namespace_may_be_absent_not_empty() {
    let volume = |namespace: Json| {
        let azure = json!({"secretName": "s", "shareName": "k", "secretNamespace": namespace});
        json!({"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "azureFile": azure}})
    };
    let volumes = ("", "v1", "persistentvolumes");
    check_errors(volumes, volume(Json::Null), &[]);
    check_errors(volumes, volume("".into()), &["Required spec.azureFile.secretNamespace"]);
}

#[test]
fn claim_with_a_volume_shows_zero_capacity_at_first() {
    let claim = |status: Json| json!({"metadata": {"name": "c"}, "spec": {"volumeName": "v"}, "status": status});
    let claims = kind("", "v1", "persistentvolumeclaims");
    let capacity = |status: Json| claims.cells(&claim(status), Timestamp::UNIX_EPOCH)[3].clone();
    assert_eq!(capacity(json!({})), json!("0"));
    assert_eq!(capacity(json!({"capacity": {"storage": "1Gi"}})), json!("1Gi"));
}

#[test]
fn pod_status_errors_have_the_order_of_kube_apiserver() {
    let pod = |status: Json| json!({"metadata": {"name": "a"}, "spec": pod_spec(json!({})), "status": status});
    let status = json!({
        "conditions": [{"type": "a b"}, {"type": "Ready"}], "nominatedNodeName": "A_", "observedGeneration": -3,
        "qosClass": "Foo", "resourceClaimStatuses": [{"name": "q"}],
        "extendedResourceClaimStatus": {"resourceClaimName": "a", "requestMappings": []},
        "podIPs": [{"ip": "y"}, {"ip": "1.2.3.4"}], "hostIPs": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.5"}],
    });
    let old = pod(json!({"qosClass": "BestEffort"}));
    let errors = kind("", "v1", "pods").strategy.validate_update(&pod(status), &old, Subresource::Status);
    let found: Vec<_> = errors.iter().map(|error| format!("{} {}", error.field, error.message)).collect();
    let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
    let expected = [
        "status.conditions[0].Type",
        "status.nominatedNodeName",
        "status.observedGeneration",
        "status.qosClass",
        "status.resourceClaimStatuses[0].name",
        "status.extendedResourceClaimStatus.requestMappings",
        "status.podIPs[0]",
        "status.podIPs",
        "status.podIPs",
        "status.hostIPs[0].ip",
        "status.hostIPs",
    ];
    assert_eq!(fields, expected, "{found:#?}");
    let internal = "status.podIPs Internal error: failed to check for dual stack with error:invalid IP[0]: y";
    assert_eq!(found[7], internal);
    let pair = r#"status.podIPs Invalid value: [{"IP":"y"},{"IP":"1.2.3.4"}]: may specify no more than one IP for each IP family"#;
    assert_eq!(found[8], pair);
}

#[test]
fn selector_of_a_job_has_the_order_of_go() {
    let selector = json!({"matchExpressions": [{"key": "a", "operator": "Exists"}], "matchLabels": {"b": "c"}});
    let mut job = json!({"metadata": {"name": "a", "uid": "u"}, "spec": {"template": template(json!({}))}});
    job["spec"].set("selector", selector);
    let errors = kind("batch", "v1", "jobs").strategy.validate_create(&job);
    let found: Vec<_> = errors.iter().map(|error| error.message.as_str()).collect();
    let expected = r#"Invalid value: {"matchLabels":{"b":"c"},"matchExpressions":[{"key":"a","operator":"Exists"}]}: `selector` not auto-generated"#;
    assert!(found.contains(&expected), "{found:#?}");
}

#[test]
fn terminated_containers_restart_only_if_their_policy_allows_it() {
    let rules = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [3]}}]);
    let spec = json!({
        "restartPolicy": "OnFailure",
        "containers": [
            {"name": "a"}, {"name": "b", "restartPolicy": "Never", "restartPolicyRules": rules},
            {"name": "c", "restartPolicy": "Always"},
        ],
        "initContainers": [{"name": "i"}],
    });
    let status = |state: &Json| {
        let named = |names: &[&str]| names.iter().map(|name| json!({"name": *name, "state": state})).collect::<Json>();
        json!({
            "containerStatuses": named(&["a", "b", "c"]), "initContainerStatuses": named(&["i"]),
            "ephemeralContainerStatuses": named(&["e"]),
        })
    };
    for (code, expected) in [
        (0, &["containerStatuses[0]", "containerStatuses[1]", "initContainerStatuses[0]"][..]),
        (1, &["containerStatuses[1]"][..]),
        (3, &[][..]),
    ] {
        let old = json!({"spec": spec, "status": status(&json!({"terminated": {"exitCode": code}}))});
        let new = json!({"spec": spec, "status": status(&json!({"running": {}}))});
        let errors = kind("", "v1", "pods").strategy.validate_update(&new, &old, Subresource::Status);
        let expected = expected.iter().chain(&["ephemeralContainerStatuses[0]"]);
        assert_eq!(errors.fields(), expected.map(|path| format!("status.{path}.state")).collect::<Vec<_>>(), "{code}");
    }
}
