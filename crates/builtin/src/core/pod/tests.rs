//! Tests of the warnings about pods.

use pintle_json::{Json, json};

use super::pod_warnings::pod;

#[test]
fn pod_fields_cause_warnings_with_their_path() {
    for (spec, warning) in [
        (
            json!({"volumes": [{"name": "v", "gitRepo": {}}]}),
            "t.spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
        ),
        (
            json!({"hostAliases": [{"ip": "1.1.1.1"}, {"ip": "1.1.1.1"}]}),
            "t.spec.hostAliases[1].ip: duplicate ip \"1.1.1.1\"",
        ),
        (
            json!({"overhead": {"memory": "100m"}}),
            "t.spec.overhead[memory]: fractional byte value \"100m\" is invalid, must be an integer",
        ),
        (
            json!({"terminationGracePeriodSeconds": -1}),
            "t.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
        ),
        (
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "node-role.kubernetes.io/master", "operator": "Exists"}]}]}}}}),
            "t.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]\
             .matchExpressions[0].key: node-role.kubernetes.io/master is use \
             \"node-role.kubernetes.io/control-plane\" instead",
        ),
    ] {
        assert_eq!(pod(&json!({"spec": spec}), "t."), [warning]);
    }
}

#[test]
fn overlapping_ports_of_all_containers_cause_warnings() {
    let port = |host: i64, ip: &str| json!({"containerPort": 80, "protocol": "TCP", "hostPort": host, "hostIP": ip});
    let warnings = |one, other| {
        pod(&json!({"spec": {"initContainers": [{"ports": [one]}], "containers": [{"ports": [other]}]}}), "")
    };
    let with = "port definition with spec.initContainers[0].ports[0]";
    for (one, other, how) in [
        (port(0, ""), port(0, ""), Some("duplicate")),
        (port(0, ""), port(8080, ""), Some("overlapping")),
        (port(8080, ""), port(8080, "1.2.3.4"), Some("dangerously ambiguous")),
        (port(8080, ""), port(8081, ""), None),
    ] {
        let wanted = how.map(|how| format!("spec.containers[0].ports[0]: {how} {with}"));
        assert_eq!(warnings(one, other), Vec::from_iter(wanted));
    }
    assert_eq!(
        warnings(json!({}), port(0, "1.2.3.4"))[0],
        "spec.containers[0].ports[0]: hostIP set without hostPort: \
         {Name: HostPort:0 ContainerPort:80 Protocol:TCP HostIP:1.2.3.4}"
    );
}

#[test]
fn redefined_variable_may_refer_to_the_earlier_one() {
    let warnings = |value: &str| {
        let env = json!([{"name": "A", "value": "x"}, {"name": "A", "value": value}]);
        pod(&json!({"spec": {"containers": [{"env": env}]}}), "").len()
    };
    assert_eq!((warnings("$(A)/y"), warnings("$(A)"), warnings("y")), (0, 1, 1));
}

#[test]
fn overlapping_file_paths_in_a_volume_cause_warnings() {
    let items = json!([{"path": "a"}, {"path": "a/b/"}, {"path": "c"}]);
    let volume = |source: &str, of: Json| json!({"name": "v", source: of});
    let spec = json!({"volumes": [
        volume("configMap", json!({"name": "m", "items": items})),
        volume("projected", json!({"sources": [
            {"secret": {"name": "s", "items": [{"path": "x"}]}}, {"serviceAccountToken": {"path": "x"}}, {}]})),
    ]});
    assert_eq!(
        pod(&json!({"spec": spec}), ""),
        [
            "volume \"v\" (ConfigMap \"m\"): overlapping paths: \"a/b\" with \"a\"",
            "volume \"v\" (Projected) has no sources provided",
            "volume \"v\" (Projected): overlapping paths: \"x\" (ServiceAccountToken) with \"x\" (Secret \"s\")",
        ]
    );
}
