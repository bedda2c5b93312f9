//! Compares protobuf bodies from client-go 0.36 to JSON, and encodes and decodes random objects.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pintle_json::{Json, json};
use proptest::prelude::*;

use super::unmarshal::decode;
use super::wire::bytes;
use super::{Enveloped, ListEnvelope, message};
use crate::{DEEPEST, Scalar, Schema, Type, Union};

const EXPECTED: (&str, &str) = ("v1", "ConfigMap");

/// Checks that Go's bytes are decoded to the object, and that the object is encoded to the same bytes.
#[track_caller]
fn check(body: &str, object: Json) {
    let body = STANDARD.decode(body).unwrap();
    assert_eq!(decode(&body, EXPECTED), Ok(object.clone()));
    assert_eq!(Enveloped::document(&object).unwrap().body(), body);
}

#[test]
fn string_and_bytes_maps_match_client_go() {
    check(
        concat!(
            "azhzAAoPCgJ2MRIJQ29uZmlnTWFwEjUKIQoBYRIAGgFkIgAqADIAOABCAFoFCgF4EgBaBgoBeRIBehIGCgFrEgF2GggKAWISAwAB",
            "/xoAIgA=",
        ),
        json!({"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"d","labels":{"x":"","y":"z"}},"data":{"k":"v"},"binaryData":{"b":"AAH/"}}),
    );
}

#[test]
fn embedded_structs_and_zero_pointers_match_client_go() {
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
fn wire_type_error_does_not_quote_the_bytes() {
    let (mut map, mut body) = (Vec::new(), b"k8s\0".to_vec());
    bytes(4, &[0xff; 1 << 20], &mut map);
    bytes(2, &map, &mut body);
    let error = decode(&body, EXPECTED).unwrap_err();
    assert!(error.ends_with("found a byte string, expected a number"), "{}", &error[..error.len().min(100)]);
    assert!(error.len() < 200, "{}", error.len());
}

#[test]
fn micro_time_matches_client_go() {
    check(
        concat!(
            "azhzAAofChZjb29yZGluYXRpb24uazhzLmlvL3YxEgVMZWFzZRImChEKAWwSABoAIgAqADIAOABCABIRCgAQDyILCIDiz6oGEICU",
            "7zoaACIA",
        ),
        json!({"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"l"},"spec":{"holderIdentity":"","leaseDurationSeconds":15,"renewTime":"2023-11-14T22:13:20.123456Z"}}),
    );
}

#[test]
fn negative_number_matches_client_go() {
    check(
        "azhzAAoTCgJ2MRINRGVsZXRlT3B0aW9ucxINCP///////////wESABoAIgA=",
        json!({"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":-1,"preconditions":{}}),
    );
}

#[test]
fn map_of_lists_matches_client_go() {
    check(
        concat!(
            "azhzAAonChhhdXRoZW50aWNhdGlvbi5rOHMuaW8vdjESC1Rva2VuUmV2aWV3EjYKEAoAEgAaACIAKgAyADgAQgASAgoAGh4IABIY",
            "CgF1EgAaAWcaAWgiCwoBaxIGCgExCgEyGgAaACIA",
        ),
        json!({"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","metadata":{},"spec":{},"status":{"user":{"username":"u","groups":["g","h"],"extra":{"k":["1","2"]}}}}),
    );
}

#[test]
fn body_without_kind_has_the_expected_kind() {
    let named = |body: &str| decode(&STANDARD.decode(body).unwrap(), EXPECTED).unwrap();
    let expected = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "b"}});
    assert_eq!(named("azhzAAoECgASABIFCgMKAWIaACIA"), expected);
    assert_eq!(named("azhzAAoGCgJ2MRIAEgUKAwoBYhoAIgA="), expected);
}

/// The protobuf bodies were recorded from kube-apiserver 1.36.
#[test]
fn status_and_discovery_match_kube_apiserver() {
    for (body, document) in [
        (
            "azhzAAoMCgJ2MRIGU3RhdHVzElEKBgoAEgAaABIHRmFpbHVyZRoZY29uZmlnbWFwcyAienoiIG5vdCBmb3VuZCIITm90Rm91bmQqFgoCenoSABoKY29uZmlnbWFwcygAMgAwlAMaACIA",
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "configmaps \"zz\" not found",
                   "reason": "NotFound", "details": {"name": "zz", "kind": "configmaps"}, "code": 404}),
        ),
        (
            "azhzAAoOCgJ2MRIIQVBJR3JvdXASJAoEYXBwcxINCgdhcHBzL3YxEgJ2MRoNCgdhcHBzL3YxEgJ2MRoAIgA=",
            json!({"kind": "APIGroup", "apiVersion": "v1", "name": "apps", "versions": [{"groupVersion": "apps/v1", "version": "v1"}],
                   "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"}}),
        ),
        (
            "azhzAAoVCgJ2MRIPQVBJUmVzb3VyY2VMaXN0EokBChZjb29yZGluYXRpb24uazhzLmlvL3YxEm8KBmxlYXNlcxABGgVMZWFzZSJDCgZjcmVhdGUKBmRlbGV0ZQoQZGVsZXRlY29sbGVjdGlvbgoDZ2V0CgRsaXN0CgVwYXRjaAoGdXBkYXRlCgV3YXRjaDIFbGVhc2VCAEoAUgxncWtNTWIvWXFGTT0aACIA",
            json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "coordination.k8s.io/v1", "resources": [{
                   "name": "leases", "singularName": "lease", "namespaced": true, "kind": "Lease", "storageVersionHash": "gqkMMb/YqFM=",
                   "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]}]}),
        ),
    ] {
        check(body, document);
    }
}

#[test]
fn unions_and_json_values_round_trip() {
    let definition = json!({"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": "x", "creationTimestamp": "1969-12-31T23:59:59Z"},
        "spec": {"group": "g", "names": {"plural": "p", "kind": "K"}, "scope": "Cluster", "versions": [{"name": "v1", "served": true,
            "storage": true, "schema": {"openAPIV3Schema": {"default": {"b": [1, null], "a": "x"}, "enum": [null, 0.5], "maximum": 1.5,
                "items": [{"type": "a"}, {}], "additionalProperties": false, "additionalItems": {"not": {"items": {}}},
                "dependencies": {"b": ["x", "y"], "a": {"type": "z"}}}}}]},
        "status": {"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": null}});
    let body = Enveloped::document(&definition).unwrap().body();
    assert_eq!(normalised(decode(&body, EXPECTED).unwrap()), normalised(definition));
}

#[test]
fn list_and_watch_frame_have_the_right_length() {
    let config_map = |name: &str| {
        let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}, "data": {"k": "v".repeat(200)}});
        Enveloped::document(&object).unwrap()
    };
    let one = config_map("a");
    let frame = one.frame("ADDED");
    assert_eq!(frame[..4], u32::try_from(frame.len() - 4).unwrap().to_be_bytes());
    assert_eq!(frame[4..11], *b"\x0a\x05ADDED");
    assert!(frame.ends_with(&one.body()), "the frame contains the whole body");
    let mut list = ListEnvelope::new(&json!({"resourceVersion": "7"})).unwrap();
    let items = [one, config_map("b")].map(|item| item.message);
    items.iter().for_each(|item| list.announce(item));
    let mut whole = list.begin("v1", "ConfigMapList");
    items.iter().for_each(|item| ListEnvelope::item(item, &mut whole));
    whole.extend(ListEnvelope::END);
    // The list message must end directly before the last bytes of the envelope.
    let message = whole.windows(10).position(|part| part == b"\x0a\x07\x0a\x00\x12\x017\x1a\x00\x12").unwrap();
    let length = whole.len() - ListEnvelope::END.len() - message;
    assert_eq!(whole[message - 3], 0x12);
    assert_eq!(usize::from(whole[message - 2] & 0x7f) | usize::from(whole[message - 1]) << 7, length);
}

#[test]
fn wrong_type_error_names_the_expected_type() {
    for (data, expected) in [(json!("x"), "Map"), (json!({"a": 1}), "String"), (json!({"a": {}}), "String")] {
        let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "data": data});
        let error = Enveloped::document(&object).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let error = Enveloped::document(&json!({"kind": "Nothing"})).unwrap_err().to_string();
    assert!(error.contains("Nothing"), "{error}");
}

#[test]
fn repeated_message_is_merged_and_empty_field_clears() {
    let merged = |parts: &[Json]| {
        let schema = Schema::builtin("v1", "Pod").unwrap();
        let message = parts
            .iter()
            .flat_map(|part| message(schema.root(), part.to_string().as_bytes()).unwrap())
            .collect::<Vec<_>>();
        let body = Enveloped { api_version: "v1".into(), kind: "Pod".into(), message: message.into() }.body();
        decode(&body, EXPECTED).unwrap()
    };
    let first = json!({"metadata": {"name": "a", "labels": {"a": "b"}, "creationTimestamp": "2023-11-14T22:13:20Z"},
        "spec": {"containers": [{"name": "c"}], "hostname": "h", "priority": 1, "securityContext": {"runAsUser": 1}}});
    let second =
        json!({"metadata": {"labels": {"c": "d"}}, "spec": {"nodeName": "x", "securityContext": {"runAsGroup": 2}}});
    let read = normalised(merged(&[first, second]));
    // Go always encodes fields that are not pointers, even if they are empty.
    assert_eq!(read["metadata"], json!({"labels": {"a": "b", "c": "d"}}));
    assert_eq!(
        read["spec"],
        json!({"containers": [{"name": "c", "resources": {}}], "nodeName": "x", "priority": 1,
            "securityContext": {"runAsUser": 1, "runAsGroup": 2}})
    );
}

fn normalised(object: Json) -> Json {
    let named = |name: &str| object[name].as_str().unwrap();
    let schema = Schema::builtin(named("apiVersion"), named("kind")).unwrap();
    schema.read(object).unwrap().object
}

fn sample(random: &mut fastrand::Rng, ty: &Type, depth: usize) -> Json {
    const TEXTS: [&str; 6] = [
        "",
        "a",
        "b/c",
        "0",
        "\u{fc}\u{1f600}\"\\\n",
        "a longer text, one of more than a hundred and twenty-seven bytes, so that its length takes two bytes where it stands on the wire",
    ];
    const AMOUNTS: [&str; 5] = ["0", "500m", "1Gi", "-3", "100n"];
    const TIMES: [&str; 4] =
        ["1970-01-01T00:00:00Z", "2023-11-14T22:13:20Z", "9999-01-02T03:04:05Z", "1901-02-03T04:05:06Z"];
    const MICRO_TIMES: [&str; 3] =
        ["2023-11-14T22:13:20.123456Z", "2023-11-14T22:13:20.000000Z", "1901-02-03T04:05:06.000001Z"];
    let schema = || crate::named("apiextensions.JSONSchemaProps");
    let many = |random: &mut fastrand::Rng| 1 + random.usize(..2);
    match ty {
        // protobuf does not distinguish an empty list from an absent list.
        Type::List(_) | Type::Map(_) if depth == 0 => Json::Null,
        Type::Scalar(scalar) => match scalar {
            Scalar::String => (*random.choice(&TEXTS).unwrap()).into(),
            Scalar::Bool => random.bool().into(),
            Scalar::Int32 => (random.i32(..) >> random.u32(..32)).into(),
            Scalar::Int64 => (random.i64(..) >> random.u32(..64)).into(),
            Scalar::Number => (f64::from(random.i32(..)) / 8.0).into(),
            Scalar::Quantity | Scalar::ResourceQuantity => (*random.choice(&AMOUNTS).unwrap()).into(),
            Scalar::IntOrString if random.bool() => random.i32(..).into(),
            Scalar::IntOrString => "25%".into(),
            Scalar::Time => (*random.choice(&TIMES).unwrap()).into(),
            Scalar::MicroTime => (*random.choice(&MICRO_TIMES).unwrap()).into(),
            Scalar::Bytes => STANDARD.encode(&b"\0\xff bytes"[..random.usize(..8)]).into(),
            Scalar::Raw => json!({"z": [1, null, {"y": "x"}], "a": random.bool()}),
            Scalar::Duration => panic!("no built-in kind has a {scalar:?}"),
        },
        Type::Any => json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "n": random.i32(..)}),
        Type::List(list) => (0..many(random)).map(|_| sample(random, &list.item, depth - 1)).collect(),
        Type::Map(map) => {
            let names = ["b", "a", "", "c.d/e"].into_iter();
            names
                .take(many(random))
                .map(|name| (name.to_owned(), sample(random, &map.value, depth - 1)))
                .collect::<pintle_json::Map>()
                .into()
        }
        Type::Struct { struct_type, .. } => {
            // Omit about half of the fields, and more at deeper levels, because the type JSONSchemaProps has a dozen
            // recursive fields.
            let often = [0.0, 0.1, 0.15, 0.2, 0.3, 0.5, 0.5][depth];
            let fields = struct_type.fields.iter().filter(|field| !field.number.is_empty());
            let there: Vec<_> = fields.filter(|_| random.f64() < often).collect();
            let fields = there.into_iter().map(|field| (field.name.clone(), sample(random, &field.ty, depth - 1)));
            fields.collect::<pintle_json::Map>().into()
        }
        Type::Union(Union::Bool) if random.bool() => random.bool().into(),
        Type::Union(Union::List) if random.bool() => {
            (0..1 + many(random)).map(|_| sample(random, &schema(), depth.saturating_sub(1))).collect()
        }
        Type::Union(Union::Strings) if random.bool() => json!(["a", ""]),
        Type::Union(_) => sample(random, &schema(), depth.saturating_sub(1)),
    }
}

#[test]
fn invalid_body_error_gives_the_reason() {
    let error = |body: &[u8]| decode(body, ("", "")).unwrap_err();
    assert!(error(b"{}").contains("does not appear to be"), "{}", error(b"{}"));
    assert!(error(b"k8s\0").contains("empty body"), "{}", error(b"k8s\0"));
    assert!(error(b"k8s\0\x12\0").contains("no kind"), "{}", error(b"k8s\0\x12\0"));
    assert!(error(b"k8s\0\x0a\xff").contains("too early"), "{}", error(b"k8s\0\x0a\xff"));
}

#[test]
fn messages_and_embedded_json_have_the_nesting_limit() {
    let root = Schema::builtin("apiextensions.k8s.io/v1", "CustomResourceDefinition").unwrap();
    let definition = |names: &[&str], inner: Vec<u8>| {
        let around = ["spec", "versions", "schema", "openAPIV3Schema"];
        let message = nested_in(root.root(), &[&around, names].concat(), inner).into();
        let (api_version, kind) = ("apiextensions.k8s.io/v1".into(), "CustomResourceDefinition".into());
        decode(&Enveloped { api_version, kind, message }.body(), EXPECTED)
    };
    // The schema is at the fifth nesting level, below the object, its spec, the list of versions and a version.
    let around = 5;
    let nots = |levels: usize| definition(&vec!["not"; levels - 1], Vec::new());
    let lists = |levels: usize| {
        let mut json = Vec::new();
        bytes(1, ["[".repeat(levels), "]".repeat(levels)].concat().as_bytes(), &mut json);
        definition(&["default"], json)
    };
    assert_eq!(nots(DEEPEST - around).map(drop), Ok(()));
    assert_eq!(lists(DEEPEST - around - 1).map(drop), Ok(()));
    for definition in [nots(DEEPEST - around + 1), lists(DEEPEST - around)] {
        let error = definition.unwrap_err();
        assert!(error.ends_with("the body is nested too deeply"), "{error}");
    }
}

/// Wraps `inner` in nested messages, one per field name.
fn nested_in(ty: &Type, names: &[&str], inner: Vec<u8>) -> Vec<u8> {
    let ty = if let Type::List(list) = ty { &list.item } else { ty };
    let [name, names @ ..] = names else { return inner };
    let field = ty.field(name).unwrap();
    let mut to = Vec::new();
    bytes(field.number[0], &nested_in(&field.ty, names, inner), &mut to);
    to
}

proptest! {
    // Run fewer cases than by default, because each case encodes an object of every kind.
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn encoded_object_decodes_to_itself(seed in any::<u64>()) {
        let mut random = fastrand::Rng::with_seed(seed);
        for (version, kind) in crate::builtin_types::table().kinds() {
            let schema = Schema::builtin(version, kind).unwrap();
            let mut object = sample(&mut random, schema.root(), 6);
            object["apiVersion"] = version.into();
            object["kind"] = kind.into();
            let object = normalised(object);
            let body = Enveloped::document(&object).unwrap().body();
            prop_assert_eq!(normalised(decode(&body, EXPECTED).unwrap()), object.clone(), "{} {}", version, kind);
            // The order of the members does not affect the encoding.
            let mut members: Vec<_> = object.as_object().unwrap().iter().collect();
            random.shuffle(&mut members);
            let members = members.into_iter().map(|(name, value)| format!("{name:?}:{value}"));
            let text = format!("{{{}}}", members.collect::<Vec<_>>().join(","));
            let from_text = message(schema.root(), text.as_bytes()).unwrap();
            prop_assert_eq!(&from_text[..], &Enveloped::document(&object).unwrap().message[..]);
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(at in 0..400usize, bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let _result = decode(&bytes, EXPECTED);
        // Append random bytes to the start of a valid body.
        let mut body = STANDARD.decode(CONFIG_MAP).unwrap();
        body.truncate(at);
        body.extend(bytes);
        let _result = decode(&body, EXPECTED);
    }
}

const CONFIG_MAP: &str =
    "azhzAAoPCgJ2MRIJQ29uZmlnTWFwEjUKIQoBYRIAGgFkIgAqADIAOABCAFoFCgF4EgBaBgoBeRIBehIGCgFrEgF2GggKAWISAwAB/xoAIgA=";
