//! Tests of decoding valid and invalid request bodies.

use pintle_json::{Json, json};
use pintle_schema::*;

fn read(version: &str, kind: &str, body: Json) -> Result<Decoded, String> {
    decode_as(version, kind, &body.to_string())
}

fn decode_as(version: &str, kind: &str, body: &str) -> Result<Decoded, String> {
    let schema = Schema::builtin(version, kind).unwrap();
    let expected = Expected { api_version: version, schema: &schema };
    decode(body.as_bytes(), BodyFormat::Json, &expected).map_err(|error| error.to_string())
}

fn duplicate(path: &str) -> StrictFinding {
    StrictFinding::Duplicate(path.into())
}

#[test]
fn decoded_object_has_the_form_that_go_writes() {
    let pod = read(
        "v1",
        "Pod",
        json!({"metadata": {"name": "a", "labels": {}, "creationTimestamp": null},
        "spec": {"containers": [{"name": "c", "image": "", "args": []}], "volumes": null}}),
    );
    assert_eq!(
        pod.unwrap().object,
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
            "spec": {"containers": [{"name": "c", "resources": {}}]}, "status": {}})
    );
    let deployment = read("apps/v1", "Deployment", json!({"spec": {"replicas": 0}})).unwrap().object;
    assert_eq!(
        deployment,
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}, "status": {}, "spec": {
            "replicas": 0, "selector": null, "strategy": {},
            "template": {"metadata": {}, "spec": {"containers": null}}}})
    );
}

#[test]
fn empty_lists_with_a_meaning_are_kept() {
    let cleared = json!({"name": "a", "managedFields": []});
    let template = json!({"metadata": {"managedFields": []}});
    let deployment = json!({"metadata": cleared, "spec": {"template": template}});
    let deployment = read("apps/v1", "Deployment", deployment).unwrap().object;
    assert_eq!(deployment["metadata"], cleared);
    assert_eq!(deployment["spec"]["template"]["metadata"], json!({}), "only the object itself has managed fields");
    let behavior = json!({"scaleUp": {"policies": []}});
    let scaler = read("autoscaling/v2", "HorizontalPodAutoscaler", json!({"spec": {"behavior": behavior}}));
    assert_eq!(scaler.unwrap().object["spec"]["behavior"], behavior);
}

#[test]
fn unknown_and_duplicate_fields_are_in_document_order() {
    let schema = Schema::builtin("apps/v1", "Deployment").unwrap();
    let expected = Expected { api_version: "apps/v1", schema: &schema };
    let body = br#"{"kind": "Deployment", "x": 1, "spec": {"replicas": 1, "foo": {}, "replicas": 2,
        "template": {"spec": {"containers": [{"name": "a", "bar": 1}]}}}, "Metadata": {}}"#;
    let decoded = decode(body, BodyFormat::Json, &expected).unwrap();
    assert_eq!(
        strict_decoding_error(&decoded.findings).unwrap(),
        "strict decoding error: unknown field \"x\", unknown field \"spec.foo\", duplicate field \"spec.replicas\", \
         unknown field \"spec.template.spec.containers[0].bar\", unknown field \"Metadata\""
    );
    assert_eq!(decoded.object.at("/spec/replicas"), Some(&json!(2)));
    assert_eq!(decoded.object.get("x"), None);
}

#[test]
fn fields_below_items_of_definitions_are_not_strict() {
    // In Go, the types of `items` and `additionalProperties` have their own decoders, which ignore such fields.
    let schema = Schema::builtin("apiextensions.k8s.io/v1", "CustomResourceDefinition").unwrap();
    let expected = Expected { api_version: "apiextensions.k8s.io/v1", schema: &schema };
    for (keyword, expected_findings) in [
        (r#""bogus": 1"#, 1),
        (r#""items": {"bogus": 1, "properties": {"a": {"bogus": 1}}}"#, 0),
        (r#""additionalProperties": {"type": "string", "type": "string"}"#, 0),
        (r#""default": {"a": 1, "a": 2}"#, 0),
    ] {
        let body = format!(r#"{{"spec": {{"versions": [{{"schema": {{"openAPIV3Schema": {{{keyword}}}}}}}]}}}}"#);
        let decoded = decode(body.as_bytes(), BodyFormat::Json, &expected).unwrap();
        assert_eq!(decoded.findings.len(), expected_findings, "{keyword}: {:?}", decoded.findings);
    }
}

#[test]
fn type_errors_have_gos_text() {
    for (version, kind, body, message) in [
        (
            "apps/v1",
            "Deployment",
            json!({"spec": {"replicas": "x"}}),
            "string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        ("v1", "ConfigMap", json!({"data": {"a": 1}}), "number into Go struct field ConfigMap.data of type string"),
        (
            "v1",
            "Pod",
            json!({"spec": {"containers": {}}}),
            "object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        ("v1", "Pod", json!({"spec": "x"}), "string into Go struct field Pod.spec of type v1.PodSpec"),
        ("v1", "Secret", json!({"data": {"a": 1}}), "number into Go struct field Secret.data of type []uint8"),
        (
            "v1",
            "Service",
            json!({"spec": {"ports": [{"targetPort": {}}]}}),
            "object into Go struct field ServicePort.spec.ports.targetPort of type int32",
        ),
    ] {
        let error = read(version, kind, body).unwrap_err();
        let version = version.rsplit('/').next().unwrap();
        assert_eq!(
            error,
            format!("{kind} in version \"{version}\" cannot be handled as a {kind}: json: cannot unmarshal {message}")
        );
    }
}

#[test]
fn errors_of_custom_decoders_precede_type_errors() {
    let quantity = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    for (amount, expected) in [
        (json!("x"), quantity),
        (json!({}), quantity),
        (json!(true), quantity),
        (json!(1), "json: cannot unmarshal number into Go struct field Container.spec.containers.stdin of type bool"),
    ] {
        let container = json!({"name": "c", "tty": 1, "resources": {"limits": {"cpu": amount}}, "stdin": 1});
        let read = read("v1", "Pod", json!({"spec": {"containers": [container]}}));
        let expected = format!("Pod in version \"v1\" cannot be handled as a Pod: {expected}");
        assert_eq!(read.err(), Some(expected), "{amount}");
    }
}

#[test]
fn kind_and_version_of_the_body_must_match() {
    for (body, message) in [
        (json!({"kind": "Pod"}), "cannot be handled as a ConfigMap"),
        (json!({"kind": "Nonsense"}), "no kind \"Nonsense\" is registered for version \"v1\""),
        (json!({"apiVersion": "v9"}), "no kind \"ConfigMap\" is registered for version \"v9\""),
        (json!({"kind": 1}), "couldn't get version/kind"),
        (json!([]), "couldn't get version/kind"),
    ] {
        let error = read("v1", "ConfigMap", body.clone()).unwrap_err();
        assert!(error.contains(message), "{body}: {error}");
    }
    for (version, kind, removed) in [
        ("apps/v1", "Deployment", "apps/v1beta1"),
        ("apps/v1", "DaemonSet", "extensions/v1beta1"),
        ("v1", "Event", "events.k8s.io/v1beta1"),
        ("batch/v1", "CronJob", "batch/v1beta1"),
    ] {
        let error = read(version, kind, json!({"apiVersion": removed})).unwrap_err();
        let expected =
            format!("the API version in the data ({removed}) does not match the expected API version ({version})");
        assert_eq!(error, expected);
    }
    for (version, kind, other) in
        [("v1", "Pod", "apps/v1beta1"), ("v1", "Pod", "extensions/v1beta1"), ("apps/v1", "DaemonSet", "apps/v1beta1")]
    {
        let error = read(version, kind, json!({"apiVersion": other})).unwrap_err();
        let expected = format!(
            "{kind} in version \"v1beta1\" cannot be handled as a {kind}: no kind \"{kind}\" is registered for version \"{other}\" \
             in scheme \"pkg/runtime/scheme.go:111\""
        );
        assert_eq!(error, expected);
    }
}

#[test]
fn case_variants_of_type_fields_count_but_are_unknown() {
    let unknown = |name: &str| StrictFinding::Unknown(name.into());
    let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}});
    for (body, findings) in [
        (r#"{"APIVERSION": "v1", "Kind": "ConfigMap"}"#, vec![unknown("APIVERSION"), unknown("Kind")]),
        (r#"{"kind": "ConfigMap", "Kind": "ConfigMap"}"#, vec![unknown("Kind")]),
        (r#"{"Kind": "Secret", "kind": "ConfigMap"}"#, vec![unknown("Kind")]),
        (r#"{"kind": "ConfigMap", "KIND": null, "kind": "ConfigMap"}"#, vec![unknown("KIND"), duplicate("kind")]),
        (r#"{"kind": null, "kind": "ConfigMap"}"#, vec![duplicate("kind")]),
    ] {
        let decoded = decode_as("v1", "ConfigMap", body).unwrap();
        assert_eq!((decoded.object, decoded.findings), (config_map.clone(), findings), "{body}");
    }
    for (body, message) in [
        (r#"{"kind": "ConfigMap", "Kind": "Secret"}"#, "cannot be handled as a ConfigMap"),
        (r#"{"kind": "ConfigMap", "Kind": 1}"#, "cannot unmarshal number into Go struct field .kind of type string"),
    ] {
        let error = decode_as("v1", "ConfigMap", body).unwrap_err();
        assert!(error.contains(message), "{body}: {error}");
    }
    // In a custom resource, a member such as `Kind` is an ordinary field, because the case of its name differs from
    // `kind`.
    let schema = Schema::custom("Widget", &json!({"type": "object"}));
    let expected = Expected { api_version: "example.com/v1", schema: &schema };
    let read = |body: &str| decode(body.as_bytes(), BodyFormat::Json, &expected).map_err(|error| error.to_string());
    let widget = read(r#"{"kind": "Widget", "Kind": "Other", "KIND": "Other"}"#).unwrap();
    assert_eq!(widget.object, json!({"apiVersion": "", "kind": "Widget", "Kind": "Other", "KIND": "Other"}));
    assert_eq!(widget.findings, []);
    assert!(read(r#"{"Kind": "Widget"}"#).unwrap_err().contains("Object 'Kind' is missing"));
    assert!(read(r#"{"kind": "Widget", "Kind": {}}"#).unwrap_err().contains("cannot unmarshal object"));
}

#[test]
fn repeated_list_is_decoded_into_existing_items() {
    for (body, expected) in [
        (
            r#"{"containers": [{"name": "a", "image": "x"}, {"name": "b"}], "containers": [{"image": "y"}]}"#,
            json!([{"name": "a", "image": "y", "resources": {}}]),
        ),
        (
            r#"{"containers": [{"name": "a", "args": ["1", "2"]}], "containers": [{"args": ["3"]}, {"name": "b"}]}"#,
            json!([{"name": "a", "args": ["3"], "resources": {}}, {"name": "b", "resources": {}}]),
        ),
        (
            r#"{"containers": [{"name": "a"}], "containers": [null, null]}"#,
            json!([{"name": "a", "resources": {}}, {"name": "", "resources": {}}]),
        ),
        (
            r#"{"containers": [{"name": "a"}], "containers": [], "containers": [{"image": "y"}]}"#,
            json!([{"name": "", "image": "y", "resources": {}}]),
        ),
        (
            r#"{"containers": [{"name": "a"}], "containers": null, "containers": [{"image": "y"}]}"#,
            json!([{"name": "", "image": "y", "resources": {}}]),
        ),
    ] {
        let decoded = decode_as("v1", "Pod", &format!(r#"{{"spec": {body}}}"#)).unwrap();
        assert_eq!(decoded.object["spec"]["containers"], expected, "{body}");
        assert_eq!(decoded.findings, [duplicate("spec.containers")]);
    }
    let body = r#"{"metadata": {"finalizers": ["a", "b"], "finalizers": [null, "c", null]}}"#;
    assert_eq!(decode_as("v1", "Pod", body).unwrap().object["metadata"]["finalizers"], json!(["a", "c", ""]));
}

/// The expected container lists were recorded from a kube-apiserver.
#[test]
fn list_that_grows_again_restores_removed_items() {
    let long = r#"[{"name": "a", "image": "x"}, {"name": "b", "image": "y", "args": ["1", "2"]}]"#;
    let b = json!({"name": "b", "image": "y", "args": ["1", "2"], "resources": {}});
    let all = json!([{"name": "s", "image": "x", "resources": {}}, b, {"name": "", "resources": {}}]);
    for (lists, expected) in [
        (vec![long, r#"[{"name": "s"}]"#, "[null, null, null]"], all.clone()),
        (vec![long, r#"[{"name": "s"}]"#, "[null]", "[null]", "[null, null, null]"], all),
        (vec![long, "[]", "[null, null]"], json!([{"name": "", "resources": {}}, {"name": "", "resources": {}}])),
        (
            vec![long, "[null]", "null", "[null, null]"],
            json!([{"name": "", "resources": {}}, {"name": "", "resources": {}}]),
        ),
        (
            vec![r#"[{"args": ["1", "2", "3"]}]"#, r#"[{"args": ["4"]}]"#, r#"[{"args": [null, null, "5", null]}]"#],
            json!([{"name": "", "args": ["4", "2", "5", ""], "resources": {}}]),
        ),
        (
            // If a list loses items, the decoder also forgets the lists inside these items.
            vec![r#"[{}, {"args": ["1", "2"], "args": ["3"]}]"#, "[null]", r#"[null, {"args": [null, null]}]"#],
            json!([{"name": "", "resources": {}}, {"name": "", "args": ["3", "2"], "resources": {}}]),
        ),
        (
            // A list inside a new item is not merged with the list inside an earlier item.
            vec![r#"[{"args": ["1", "2"], "args": ["3"]}]"#, "[]", r#"[{"args": ["4"], "args": [null, null]}]"#],
            json!([{"name": "", "args": ["4", ""], "resources": {}}]),
        ),
    ] {
        let lists: Vec<_> = lists.iter().map(|list| format!(r#""containers": {list}"#)).collect();
        let body = format!(r#"{{"spec": {{{}}}}}"#, lists.join(", "));
        assert_eq!(decode_as("v1", "Pod", &body).unwrap().object["spec"]["containers"], expected, "{body}");
    }
    // Decoding takes linear time, because the decoder limits the total length of paths, and does not move all removed
    // items for each occurrence of the list.
    let many = r#","containers":[null]"#.repeat(50_000);
    let body = format!(r#"{{"spec":{{"containers":[{}null]{many}}}}}"#, "null,".repeat(300_000));
    assert_eq!(decode_as("v1", "Pod", &body).unwrap().object["spec"]["containers"].as_array().map(Vec::len), Some(1));
}

#[test]
fn repeated_list_is_not_copied_each_time() {
    let (long, many) = ("x".repeat(1 << 20), r#","containers":[{}],"containers":[null]"#.repeat(50_000));
    let body = format!(r#"{{"spec":{{"containers":[{{"name":"{long}"}}]{many}}}}}"#);
    // If the decoder copied the removed items, it would copy a hundred gigabytes.
    let decoded = decode_as("v1", "Pod", &body).unwrap();
    assert_eq!(decoded.object["spec"]["containers"][0]["name"].as_str().map(str::len), Some(long.len()));
}

#[test]
fn custom_resource_keeps_its_content() {
    let schema = Schema::custom("Widget", &json!({"type": "object"}));
    let expected = Expected { api_version: "example.com/v1", schema: &schema };
    let body = br#"{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a", "foo": 1, "creationTimestamp": null},
        "spec": {"n": null, "m": 1.0, "m": 2.5}}"#;
    let decoded = decode(body, BodyFormat::Json, &expected).unwrap();
    assert_eq!(
        decoded.object,
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"n": null, "m": 2.5}})
    );
    let words = strict_decoding_error(&decoded.findings).unwrap();
    assert_eq!(words, "strict decoding error: duplicate field \"spec.m\", unknown field \"metadata.foo\"");
    let decode_error = |body: &[u8]| decode(body, BodyFormat::Json, &expected).unwrap_err().to_string();
    assert!(decode_error(b"{}").contains("Object 'Kind' is missing"));
    let versionless = decode(br#"{"kind": "Widget"}"#, BodyFormat::Json, &expected).unwrap().object;
    let error = check_version(versionless["apiVersion"].as_str().unwrap(), expected.api_version).unwrap_err();
    assert!(error.to_string().contains("the API version in the data () does not match"));
}

#[test]
fn syntax_errors_precede_kind_errors_and_value_errors() {
    let schema = Schema::builtin("v1", "Pod").unwrap();
    let expected = Expected { api_version: "v1", schema: &schema };
    let decode_error = |body: &str| decode(body.as_bytes(), BodyFormat::Json, &expected).unwrap_err();
    let deep = format!("{}{}", "[".repeat(DEEPEST), "]".repeat(DEEPEST));
    for bad in ["{\"x\": 1e999}", "{\"x\": \"\\x\"}", "[1, }", &deep] {
        let error = decode_error(&format!("{{\"spec\": 1, \"kind\": \"Secret\", \"unknown\": {bad}}}"));
        assert!(matches!(error, BodyError::Unrecognized(_)), "{error}");
    }
    let error = decode_error("{\"spec\": 1, \"metadata\": 2, \"KIND\": \"Secret\"}");
    assert!(matches!(error, BodyError::OtherKind(_)), "{error}");
    let error = decode_error("{\"spec\": 1, \"metadata\": 2}").to_string();
    assert!(error.ends_with("cannot unmarshal number into Go struct field Pod.spec of type v1.PodSpec"), "{error}");
}

#[test]
fn repeated_fields_follow_go_for_scalars_maps_and_null() {
    let schema = Schema::builtin("v1", "Pod").unwrap();
    let expected = Expected { api_version: "v1", schema: &schema };
    let body = br#"{"apiVersion": "v1", "metadata": {"name": "a", "labels": {"a": "1"}, "labels": {}, "labels": {"b": "2", "b": "3"},
        "name": "b", "name": null, "namespace": "n", "namespace": ""}, "spec": {"priority": 1, "priority": null}, "apiVersion": "v1"}"#;
    let decoded = decode(body, BodyFormat::Json, &expected).unwrap();
    assert_eq!(decoded.object["metadata"], json!({"name": "b", "labels": {"a": "1", "b": "3"}}));
    // The priority is a pointer in Go, so null resets it.
    assert_eq!(decoded.object["spec"], json!({"containers": null}));
    let repeated =
        ["metadata.labels", "metadata.labels.b", "metadata.name", "metadata.namespace", "spec.priority", "apiVersion"];
    assert_eq!(decoded.findings, repeated.map(|path| StrictFinding::Duplicate(path.into())));
}

#[test]
fn repeated_struct_keeps_earlier_fields() {
    let read = |version: &str, kind: &str, body: &str| {
        let schema = Schema::builtin(version, kind).unwrap();
        let expected = Expected { api_version: version, schema: &schema };
        decode(body.as_bytes(), BodyFormat::Json, &expected).unwrap()
    };
    let body = r#"{"spec": {"containers": [{"name": "c"}], "hostname": "h", "nodeName": "y", "securityContext": {"runAsUser": 1}},
        "spec": {"hostname": "", "nodeName": "x", "securityContext": {"runAsGroup": 2}}, "spec": null}"#;
    let pod = read("v1", "Pod", body);
    assert_eq!(
        pod.object["spec"],
        json!({"containers": [{"name": "c", "resources": {}}], "nodeName": "x",
            "securityContext": {"runAsUser": 1, "runAsGroup": 2}})
    );
    // Only `spec` is a duplicate, because each field occurs only once in the later struct.
    assert_eq!(pod.findings, [StrictFinding::Duplicate("spec".into())]);
    let body = r#"{"spec": {"replicas": 1, "template": {"metadata": {"name": "t"}, "spec": {"nodeName": "x"}}},
        "spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}}, "replicas": 2, "replicas": 3}}"#;
    let deployment = read("apps/v1", "Deployment", body);
    let template =
        json!({"metadata": {"name": "t", "labels": {"a": "b"}}, "spec": {"containers": [], "nodeName": "x"}});
    assert_eq!(
        deployment.object["spec"],
        json!({"replicas": 3, "selector": null, "strategy": {}, "template": template})
    );
    assert_eq!(deployment.findings, ["spec", "spec.replicas"].map(|path| StrictFinding::Duplicate(path.into())));
}

#[test]
fn repeated_map_key_replaces_the_value() {
    let body = json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"properties": {"a": {"type": "x"}}}}}]}});
    let body = body.to_string().replace(r#""a":{"type":"x"}"#, r#""a":{"type":"x"},"a":{"format":"y"}"#);
    let schema = Schema::builtin("apiextensions.k8s.io/v1", "CustomResourceDefinition").unwrap();
    let expected = Expected { api_version: "apiextensions.k8s.io/v1", schema: &schema };
    let decoded = decode(body.as_bytes(), BodyFormat::Json, &expected).unwrap();
    let versions = &decoded.object["spec"]["versions"];
    assert_eq!(versions[0]["schema"]["openAPIV3Schema"], json!({"properties": {"a": {"format": "y"}}}));
    let path = "spec.versions[0].schema.openAPIV3Schema.properties.a";
    assert_eq!(decoded.findings, [StrictFinding::Duplicate(path.into())]);
}

#[test]
fn null_clears_all_but_structs_and_plain_values() {
    let read = |version: &str, kind: &str, body: &str| {
        let schema = Schema::builtin(version, kind).unwrap();
        let expected = Expected { api_version: version, schema: &schema };
        decode(body.as_bytes(), BodyFormat::Json, &expected).unwrap().object
    };
    let body = r#"{"metadata": {"labels": {"a": "b"}, "labels": null, "finalizers": ["f"], "finalizers": null, "name": "a", "name": null,
        "creationTimestamp": "2024-01-01T00:00:00Z", "creationTimestamp": null, "generation": 1, "generation": null}, "metadata": null}"#;
    assert_eq!(read("v1", "Pod", body)["metadata"], json!({"name": "a", "generation": 1}));
    let webhook =
        r#"{"webhooks": [{"clientConfig": {"caBundle": "AAA=", "caBundle": null, "url": "u", "url": null}}]}"#;
    let read_webhook = read("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", webhook);
    // A null clears a byte field and resets a pointer.
    assert_eq!(read_webhook["webhooks"][0]["clientConfig"], json!({}));
    let pod = r#"{"spec": {"containers": [{"name": "c", "env": [{"name": "e", "valueFrom": {"resourceFieldRef":
        {"resource": "r", "divisor": "5", "divisor": null}}}]}]}}"#;
    let read_pod = read("v1", "Pod", pod);
    let divisor = "/spec/containers/0/env/0/valueFrom/resourceFieldRef/divisor";
    assert_eq!(read_pod.at(divisor), Some(&json!("0")));
    let service =
        r#"{"spec": {"ports": [{"targetPort": 80, "targetPort": null}, {"targetPort": "http", "targetPort": null}]}}"#;
    let ports = &read("v1", "Service", service)["spec"]["ports"];
    assert_eq!((&ports[0]["targetPort"], &ports[1]["targetPort"]), (&json!(80), &json!(0)));
}

#[test]
fn only_the_last_repeated_metadata_is_validated() {
    let schema = Schema::custom("Widget", &json!({"type": "object"}));
    let expected = Expected { api_version: "example.com/v1", schema: &schema };
    let body = br#"{"kind": "Widget", "metadata": {"x": 1, "labels": [{"a": 1, "a": 2}]}, "metadata": {"y": {"z": 1, "z": 2}}}"#;
    let decoded = decode(body, BodyFormat::Json, &expected).unwrap();
    assert_eq!(decoded.object["metadata"], json!({}));
    let words = strict_decoding_error(&decoded.findings).unwrap();
    assert_eq!(
        words,
        "strict decoding error: duplicate field \"metadata.labels[0].a\", duplicate field \"metadata\", \
         duplicate field \"metadata.y.z\", unknown field \"metadata.y\""
    );
}

/// The expected metadata was recorded from a kube-apiserver.
#[test]
fn last_duplicate_in_custom_resource_metadata_wins() {
    let schema = Schema::custom("Widget", &json!({"type": "object"}));
    let expected = Expected { api_version: "example.com/v1", schema: &schema };
    let read = |metadata: &str| {
        let body = format!(r#"{{"kind": "Widget", "metadata": {{{metadata}}}}}"#);
        decode(body.as_bytes(), BodyFormat::Json, &expected)
    };
    for (metadata, stored, repeated) in [
        (r#""labels": {"a": "1"}, "labels": {"b": "2"}"#, json!({"labels": {"b": "2"}}), "labels"),
        (r#""labels": {"a": "1"}, "labels": null"#, json!({}), "labels"),
        (r#""name": "a", "name": null"#, json!({}), "name"),
        (r#""name": 7, "name": "a""#, json!({"name": "a"}), "name"),
        (r#""labels": {"a": 1}, "labels": {"b": "2"}"#, json!({"labels": {"b": "2"}}), "labels"),
        (r#""labels": {"a": 7, "a": "x"}"#, json!({"labels": {"a": "x"}}), "labels.a"),
    ] {
        let decoded = read(metadata).unwrap();
        assert_eq!(decoded.object["metadata"], stored, "{metadata}");
        assert_eq!(decoded.findings, [StrictFinding::Duplicate(format!("metadata.{repeated}"))]);
    }
    let error = read(r#""labels": {"b": "2"}, "labels": {"a": 1}"#).unwrap_err();
    let why = "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string";
    assert!(error.to_string().contains(why), "{error}");
    assert_eq!(
        strict_decoding_error(&read(r#""foo": {"a": 7}, "foo": {"b": 7}"#).unwrap().findings).unwrap(),
        "strict decoding error: duplicate field \"metadata.foo\", unknown field \"metadata.foo\""
    );
}

#[test]
fn json_yaml_and_protobuf_bodies_decode_equally() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "creationTimestamp": "2023-11-14T22:13:20Z"},
        "spec": {"priority": 0, "containers": [{"name": "c", "resources": {"limits": {"cpu": "1500m"}}}]}});
    let schema = Schema::builtin("v1", "Pod").unwrap();
    let expected = Expected { api_version: "v1", schema: &schema };
    let json = decode(pod.to_string().as_bytes(), BodyFormat::Json, &expected).unwrap();
    assert_eq!(json.object["spec"]["priority"], 0);
    let yaml = write_yaml(&pod);
    assert_eq!(decode(yaml.as_bytes(), BodyFormat::Yaml(&read_yaml(yaml.as_bytes())), &expected).as_ref(), Ok(&json));
    let body = protobuf::Enveloped::document(&pod).unwrap().body();
    assert_eq!(decode(&body, BodyFormat::Protobuf, &expected).as_ref(), Ok(&json));
    let secret = Schema::builtin("v1", "Secret").unwrap();
    let error = decode(&body, BodyFormat::Protobuf, &Expected { api_version: "v1", schema: &secret }).unwrap_err();
    assert!(matches!(error, BodyError::OtherKind(_)), "{error}");
}

#[test]
fn repeated_long_path_is_not_written_each_time() {
    let schema = Schema::custom("Widget", &json!({"type": "object"}));
    let expected = Expected { api_version: "example.com/v1", schema: &schema };
    let (long, many) = ("x".repeat(1 << 20), r#""a":1,"#.repeat(300_000));
    let body = format!(r#"{{"kind":"Widget","{long}":{{{many}"a":2}}}}"#);
    // If the decoder stored the path of each finding, the paths would take three hundred gigabytes.
    let decoded = decode(body.as_bytes(), BodyFormat::Json, &expected).unwrap();
    assert_eq!(decoded.findings, [StrictFinding::Duplicate(format!("{long}.a"))]);
}

mod laws {
    use proptest::prelude::*;

    use super::*;

    fn json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i64>().prop_map(Json::from),
            any::<f64>().prop_map(Json::from),
            "[a-z]{0,3}".prop_map(Json::from),
        ];
        let names = prop_oneof![
            Just("metadata"),
            Just("spec"),
            Just("labels"),
            Just("containers"),
            Just("name"),
            Just("template"),
            Just("kind"),
            Just("replicas"),
            Just("ports"),
            Just("resources"),
            Just("limits"),
            Just("x"),
            Just("status"),
            Just("finalizers"),
        ];
        leaf.prop_recursive(5, 40, 4, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
                proptest::collection::btree_map(names.clone().prop_map(String::from), inner, 0..4)
                    .prop_map(|map| Json::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn decoding_any_json_does_not_panic_and_is_stable(body in json()) {
            for (version, kind) in [("apps/v1", "Deployment"), ("v1", "Pod"), ("apiextensions.k8s.io/v1", "CustomResourceDefinition")] {
                if let Ok(decoded) = read(version, kind, body.clone()) {
                    let again = read(version, kind, decoded.object.clone()).unwrap();
                    prop_assert_eq!(&again.object, &decoded.object);
                    prop_assert_eq!(again.findings, []);
                }
            }
        }

        #[test]
        fn json_of_any_shape_is_parsed_like_serde_json(body in json()) {
            let text = body.to_string();
            let parsed: Json = serde_json::from_str(&text).unwrap();
            let patch = format!(r#"[{{"op": "add", "path": "/value", "value": {text}}}]"#);
            let patch = patch::PatchBody::json(patch.as_bytes()).unwrap();
            let patched = patch.apply(&json!({}), &Schema::custom("Any", &json!({}))).unwrap();
            prop_assert_eq!(&patched["value"], &parsed);
        }
    }
}

#[test]
fn values_without_a_schema_are_decoded_like_go() {
    let why = "boolean or JSON schema expected";
    let message =
        format!("CustomResourceDefinition in version \"v1\" cannot be handled as a CustomResourceDefinition: {why}");
    for (field, value, expected) in [
        ("additionalProperties", json!(1), Some(&message)),
        ("additionalItems", json!("x"), Some(&message)),
        ("additionalItems", json!([]), Some(&message)),
        ("additionalProperties", json!(true), None),
        ("items", json!(1), None),
        ("dependencies", json!({"a": 1}), None),
    ] {
        let version = json!({"name": "v1", "schema": {"openAPIV3Schema": {field: value}}});
        let body = json!({"spec": {"versions": [version]}});
        let read = read("apiextensions.k8s.io/v1", "CustomResourceDefinition", body);
        assert_eq!(read.err().as_ref(), expected, "{field}: {value}");
    }
}
