//! Tests of table rows.

use jiff::Timestamp;
use pintle_apimachinery::request::Verb;
use pintle_builtin::coordinated_kinds;
use pintle_json::{Json, json};
use pintle_kinds::table::duration;

const NOW: &str = "2024-01-02T03:04:05Z";

fn now() -> Timestamp {
    NOW.parse().expect("a time")
}

#[track_caller]
fn check(group: &str, kind: &str, object: Json, expected: Json) {
    let kinds = coordinated_kinds();
    let kind = kinds.group_kind(group, kind).expect("a built-in kind");
    assert_eq!(Json::from(kind.cells(&object, now())), expected, "{object}");
}

#[test]
fn durations_have_one_or_two_units() {
    for (seconds, expected) in [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (600, "10m"),
        (10_680, "178m"),
        (10_800, "3h"),
        (10_860, "3h1m"),
        (28_800, "8h"),
        (169_200, "47h"),
        (172_800, "2d"),
        (676_800, "7d20h"),
        (691_200, "8d"),
        (63_072_000, "2y"),
        (68_169_600, "2y59d"),
        (252_288_000, "8y"),
    ] {
        assert_eq!(duration(seconds), expected, "{seconds}");
    }
}

#[test]
fn pod_row_shows_container_states_and_restarts() {
    let pod = |status: Json| {
        json!({"metadata": {"name": "a", "creationTimestamp": "2024-01-02T02:54:05Z"},
               "spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "i"}]}, "status": status})
    };
    for (status, expected) in [
        (json!({"phase": "Pending"}), ["0/1", "Pending", "0"]),
        (json!({"phase": "Failed", "reason": "Evicted"}), ["0/1", "Evicted", "0"]),
        (json!({"initContainerStatuses": [{"name": "i", "state": {"waiting": {}}}]}), ["0/1", "Init:0/1", "0"]),
        (
            json!({"initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}),
            ["0/1", "Init:Error", "0"],
        ),
        (
            json!({"phase": "Running", "containerStatuses": [{"name": "c", "ready": true, "restartCount": 3,
                   "state": {"running": {}}, "lastState": {"terminated": {"finishedAt": "2024-01-02T02:59:05Z"}}}]}),
            ["1/1", "Running", "3 (5m ago)"],
        ),
        (
            json!({"phase": "Running", "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}),
            ["0/1", "CrashLoopBackOff", "0"],
        ),
        (
            json!({"phase": "Failed", "containerStatuses": [{"name": "c", "state": {"terminated": {"signal": 9}}}]}),
            ["0/1", "Signal:9", "0"],
        ),
    ] {
        let [ready, state, restarts] = expected;
        let row = json!(["a", ready, state, restarts, "10m", "<none>", "<none>", "<none>", "<none>"]);
        check("", "Pod", pod(status), row);
    }
}

#[test]
fn rows_of_other_kinds_show_their_fields() {
    let at = |mut object: Json| {
        object["metadata"] = json!({"name": "a", "creationTimestamp": NOW});
        object
    };
    for (group, kind, object, expected) in [
        ("", "ConfigMap", json!({"data": {"a": "1"}, "binaryData": {"b": "", "c": ""}}), json!(["a", 3, "0s"])),
        ("", "Secret", json!({"type": "Opaque"}), json!(["a", "Opaque", 0, "0s"])),
        (
            "",
            "Service",
            json!({"spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.1", "ports": [{"port": 80, "nodePort": 30000, "protocol": "TCP"}]}}),
            json!(["a", "LoadBalancer", "10.0.0.1", "<pending>", "80:30000/TCP", "0s", "<none>"]),
        ),
        (
            "apps",
            "Deployment",
            json!({"spec": {"replicas": 3, "selector": {"matchLabels": {"app": "a"}},
                            "template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}},
                   "status": {"readyReplicas": 2, "updatedReplicas": 1}}),
            json!(["a", "2/3", 1, 0, "0s", "c", "x", "app=a"]),
        ),
        (
            "",
            "Node",
            json!({"spec": {"unschedulable": true}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
            json!([
                "a",
                "NotReady,SchedulingDisabled",
                "<none>",
                "0s",
                "",
                "<none>",
                "<none>",
                "<unknown>",
                "<unknown>",
                "<unknown>"
            ]),
        ),
        (
            "policy",
            "PodDisruptionBudget",
            json!({"spec": {"minAvailable": "50%"}}),
            json!(["a", "50%", "N/A", 0, "0s"]),
        ),
        ("coordination.k8s.io", "Lease", json!({"spec": {"holderIdentity": "h"}}), json!(["a", "h", "0s"])),
        (
            "coordination.k8s.io",
            "LeaseCandidate",
            json!({"spec": {"leaseName": "l", "binaryVersion": "1.36.1", "emulationVersion": "1.35.0"}}),
            json!(["a", "l", "1.36.1", "1.35.0", "0s"]),
        ),
        ("rbac.authorization.k8s.io", "Role", json!({}), json!([])),
    ] {
        check(group, kind, at(object), expected);
    }
}

#[test]
fn rows_have_one_cell_per_column() {
    for kind in coordinated_kinds().kinds().filter(|kind| kind.supports(Verb::List)) {
        for object in [json!({}), json!(null), json!({"metadata": {"name": 1}, "spec": [], "status": "x"})] {
            // As in kube-apiserver, rows of IPAddresses have a cell more.
            let more = usize::from(kind.kind == "IPAddress");
            let count = kind.columns().map_or(0, <[_]>::len) + more;
            assert_eq!(kind.cells(&object, now()).len(), count, "{:?}", kind.gvk());
        }
    }
}

#[test]
fn columns_of_certificate_requests_have_descriptions() {
    let kinds = coordinated_kinds();
    let kind = kinds.group_kind("certificates.k8s.io", "CertificateSigningRequest").expect("a built-in kind");
    let columns = kind.columns().expect("columns");
    let undescribed: Vec<_> =
        columns.iter().filter(|column| column.description.is_empty()).map(|it| &it.name).collect();
    assert_eq!((columns.len(), undescribed), (6, Vec::new()));
}

#[test]
fn columns_have_the_descriptions_of_kube_apiserver() {
    let kinds = coordinated_kinds();
    for (group, kind, column, format, start) in [
        ("", "Secret", "Data", "", "Data contains the secret data."),
        ("", "Node", "Roles", "", "The roles of the node"),
        ("apps", "Deployment", "Ready", "", "Number of the pod with ready state"),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding", "Users", "", "Users in the clusterRoleBinding"),
        ("rbac.authorization.k8s.io", "RoleBinding", "Users", "", "Users in the roleBinding"),
        ("storage.k8s.io", "VolumeAttachment", "Attacher", "name", "attacher indicates the name of the volume driver"),
    ] {
        let columns = kinds.group_kind(group, kind).expect("a built-in kind").columns().expect("a table");
        let found = columns.iter().find(|it| it.name == column).expect("a column");
        assert_eq!((found.kind.as_str(), found.format.as_str()), ("string", format), "{kind} {column}");
        assert!(found.description.starts_with(start), "{kind}: {}", found.description);
    }
}

#[test]
fn numbers_in_cells_remain_numbers() {
    let level =
        json!({"type": "Limited", "limited": {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}}});
    let object = json!({"metadata": {"name": "a", "creationTimestamp": NOW}, "spec": level});
    let expected = json!(["a", "Limited", 5, "<none>", "<none>", "<none>", "0s"]);
    check("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration", object, expected);
}
