//! What a client is warned of, and in which words.

use serde_json::json;

use super::*;

#[test]
fn addresses_are_told_their_canonical_form() {
    for (text, warning) in [
        ("10.0.0.1", None),
        ("2001:db8::1", None),
        ("no address", None),
        ("010.0.000.1", Some("non-standard IP address \"010.0.000.1\" is invalid: use \"10.0.0.1\"")),
        ("::ffff:1.2.3.4", Some("non-standard IP address \"::ffff:1.2.3.4\" is invalid: use \"1.2.3.4\"")),
        ("2001:DB8::1", Some("IPv6 address \"2001:DB8::1\" should be in RFC 5952 canonical format (\"2001:db8::1\")")),
    ] {
        assert_eq!(ip(text, "f"), warning.map(|warning| format!("f: {warning}")), "{text}");
    }
}

#[test]
fn blocks_are_told_their_canonical_form() {
    for (text, warning) in [
        ("10.0.0.0/8", None),
        ("0.0.0.0/0", None),
        ("2001:db8::/32", None),
        ("10.0.0.0/33", None),
        (
            "10.1.2.3/8",
            Some(
                "CIDR value \"10.1.2.3/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.1.2.3/32\"?)",
            ),
        ),
        ("010.0.0.0/8", Some("non-standard CIDR value \"010.0.0.0/8\" is invalid: use \"10.0.0.0/8\"")),
        ("::ffff:1.2.3.0/120", Some("non-standard CIDR value \"::ffff:1.2.3.0/120\" is invalid: use \"1.2.3.0/24\"")),
        (
            "2001:DB8::/32",
            Some("IPv6 CIDR value \"2001:DB8::/32\" should be in RFC 5952 canonical format (\"2001:db8::/32\")"),
        ),
    ] {
        assert_eq!(block(text, "f"), Vec::from_iter(warning.map(|warning| format!("f: {warning}"))), "{text}");
    }
}

#[test]
fn fields_of_pods_are_warned_of_where_they_stand() {
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
fn ports_of_all_containers_may_get_in_each_others_way() {
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
fn a_variable_may_build_on_an_earlier_one_of_its_name() {
    let warnings = |value: &str| {
        let env = json!([{"name": "A", "value": "x"}, {"name": "A", "value": value}]);
        pod(&json!({"spec": {"containers": [{"env": env}]}}), "").len()
    };
    assert_eq!((warnings("$(A)/y"), warnings("$(A)"), warnings("y")), (0, 1, 1));
}

#[test]
fn files_of_a_volume_that_hide_each_other_are_told() {
    let items = json!([{"path": "a"}, {"path": "a/b/"}, {"path": "c"}]);
    let volume = |source: &str, of: Value| json!({"name": "v", source: of});
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

#[test]
fn a_key_pair_is_told_what_it_lacks() {
    use base64::Engine as _;
    let pem = |kind: &str| format!("-----BEGIN {kind}-----\nAAAA\n-----END {kind}-----\n");
    let warning = |certificate: &str, key: &str| {
        let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        key_pair(&json!({"data": {"tls.crt": encode(certificate), "tls.key": encode(key)}})).unwrap_or_default()
    };
    let (certificate, key) = (pem("CERTIFICATE"), pem("RSA PRIVATE KEY"));
    assert_eq!(warning(&certificate, &key), "");
    assert_eq!(warning("x", &key), "tls: failed to find any PEM data in certificate input");
    assert_eq!(warning(&certificate, ""), "tls: failed to find any PEM data in key input");
    assert!(warning(&key, &certificate).ends_with("PEM inputs may have been switched"));
    assert!(warning(&pem("FOO"), &key).ends_with("blocks of the following types: [FOO]"));
}
