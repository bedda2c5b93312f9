//! Tests with valid and invalid YAML texts.

use pintle_json::{Json, json};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn value(text: &str) -> Json {
    read(text.as_bytes()).unwrap_or_else(|why| panic!("{why}: {text}")).0
}

fn why_not(text: &str) -> String {
    read(text.as_bytes()).unwrap_err()
}

#[test]
fn invalid_utf8_and_leading_tab_are_rejected() {
    for body in [&b"\t"[..], b" \n\ta: 1", b"a: \xff", b"\xc3\x28"] {
        assert!(read(body).is_err(), "{body:?}");
    }
    assert!(read(b"a: 1\t\nb:\t2\n").is_ok());
}

#[test]
fn anchors_and_merge_keys_are_resolved() {
    let text = "base: &b {x: 1, z: 2.0}\nthen:\n  <<: *b\n  x: 3\nboth:\n  <<: [*b, {w: 4, z: 5}]\n---\nsecond: 1\n";
    let expected = json!({"base": {"x": 1, "z": 2}, "then": {"x": 3, "z": 2}, "both": {"x": 1, "z": 2, "w": 4}});
    assert_eq!(value(text), expected);
}

#[test]
fn duplicate_key_is_reported_with_its_line() {
    let (node, findings) = read(b"a: 1\nb: {a: 2}\na: 3\n1: x\n1: y\n\"1\": z\nno: x\nk: 1\noff: y\n").unwrap();
    assert_eq!(node, json!({"a": 3, "b": {"a": 2}, "1": "z", "k": 1, "false": true}));
    let duplicate =
        |line: usize, key: &str| StrictFinding::DuplicateYamlKey(format!("line {line}: key {key} already set in map"));
    assert_eq!(findings, [duplicate(3, "\"a\""), duplicate(5, "1"), duplicate(6, "\"1\""), duplicate(9, "false")]);
}

#[test]
fn text_without_content_is_null() {
    for text in ["", "\n", "# only a comment\n", "---\n", "---\n...\n", "~"] {
        assert_eq!(read(text.as_bytes()), Ok((Json::Null, vec![])), "{text:?}");
    }
}

#[test]
fn only_plain_and_tagged_scalars_are_resolved() {
    for (text, expected) in [
        ("[y, Yes, on, TRUE, n, NO, Off, false]", json!([true, true, true, true, false, false, false, false])),
        ("['off', \"no\", yes please, !!str no]", json!(["off", "no", "yes please", "no"])),
        ("a: yes\n  no\nb: it\n  \"on [\n", json!({"a": "yes no", "b": "it \"on ["})),
        ("a: |\n  yes\n  no\nb: &b no\n", json!({"a": "yes\nno\n", "b": false})),
        ("[null, ~, Null, NULL, Nil, x]", Json::Null),
        ("[!!int \"3\", !!float 1, !!null '', !!bool \"true\", !own x]", json!([3, 1, null, true, "x"])),
        ("- &k key\n- {*k : 1}\n", json!(["key", {"key": 1}])),
    ] {
        match expected {
            Json::Null => assert_eq!(value(text), serde_yaml::from_str::<Json>(text).unwrap(), "{text}"),
            expected => assert_eq!(value(text), expected, "{text}"),
        }
    }
    for (text, why) in [
        ("!!int x", "cannot decode !!str `x` as a !!int"),
        ("!!bool 1", "cannot decode !!int `1` as a !!bool"),
        ("!!int .inf", "as a !!int"),
        ("{[a]: b}", "key"),
        ("{~: b}", "key"),
    ] {
        assert!(why_not(text).contains(why), "{}", why_not(text));
    }
}

/// Go's library parses these flow collections, escapes and tags differently from YAML 1.2.
#[test]
fn plain_scalars_escapes_and_tags_follow_libyaml() {
    for (text, expected) in [
        ("[1.2.3.4, 001:db8::]", json!(["1.2.3.4", "001:db8::"])),
        ("[-, a, -]", json!(["-", "a", "-"])),
        ("{a: -, b: c::}", json!({"a": "-", "b": "c::"})),
        ("[a:, b]", json!(["a:", "b"])),
        ("[?a]", json!([{"a": null}])),
        ("{\"a\":b, c:d}", json!({"a": "b", "c:d": null})),
        ("!!binary aGk=", json!("hi")),
        ("!!binary /w==", json!("\u{fffd}")),
        ("!!binary aGk=: b", json!({"hi": "b"})),
        ("\"\\N\\_\\L\\P\"", json!("\u{85}\u{a0}\u{2028}\u{2029}")),
        ("\"a \\\n   b\"", json!("a b")),
        ("%TAG !e! tag:yaml.org,2002:\n---\n!e!str 1", json!("1")),
        ("0b-11", json!(-3)),
    ] {
        assert_eq!(value(text), expected, "{text}");
    }
    for (text, why) in [
        ("[::1]", "did not find expected node content"),
        ("[a?b]", "did not find expected ',' or ']'"),
        ("[- a]", "did not find expected node content"),
        (r#""app\/x""#, "found unknown escape character"),
        ("!!binary bad", "!!binary value contains invalid base64 data"),
        ("%YAML 1.2\n---\na", "found incompatible YAML document"),
        ("%FOO\n---\na", "found unknown directive name"),
        ("- a\n-\tb", "line 2: found character that cannot start any token"),
        ("a\nb: c", "line 2: mapping values are not allowed in this context"),
        ("*x", "unknown anchor 'x' referenced"),
        ("&x [*x]", "anchor 'x' value contains itself"),
        ("!a!b c", "found undefined tag handle"),
        ("a: \u{1}", "control characters are not allowed"),
        // A syntax error takes precedence over an error in a value.
        ("? [a\n: b", "line 1: did not find expected ',' or ']'"),
    ] {
        assert_eq!(why_not(text), format!("error converting YAML to JSON: yaml: {why}"), "{text}");
    }
}

#[test]
fn byte_order_mark_is_accepted() {
    let text = "a: \u{e4}\u{1f600}";
    let utf16 = |order: fn(u16) -> [u8; 2]| -> Vec<u8> {
        std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(order).collect()
    };
    let marked = format!("\u{feff}{text}").into_bytes();
    for bytes in [text.as_bytes().to_vec(), marked, utf16(u16::to_le_bytes), utf16(u16::to_be_bytes)] {
        assert_eq!(super::super::yaml_text(&bytes).as_deref(), Ok(text));
        assert_eq!(read(&bytes).unwrap().0, json!({"a": "\u{e4}\u{1f600}"}));
    }
    for broken in [&b"\xff\xfea"[..], b"\xff\xfe\x00\xdc", b"\xff"] {
        assert!(super::super::yaml_text(broken).is_err(), "{broken:?}");
    }
}

/// The expected results are from `YAMLToJSON` and `YAMLToJSONStrict` in sigs.k8s.io/yaml.
#[test]
fn last_value_of_a_key_wins_and_is_reported() {
    let duplicate =
        |line: usize, key: &str| StrictFinding::DuplicateYamlKey(format!("line {line}: key {key} already set in map"));
    for (text, expected, findings) in [
        ("{a: 1, <<: {a: 2}}", json!({"a": 2}), vec![duplicate(1, "\"a\"")]),
        ("{<<: {a: 2}, a: 1}", json!({"a": 1}), vec![duplicate(1, "\"a\"")]),
        ("<<: [{a: 1}, {a: 2, b: 3}]\nc: 4", json!({"a": 1, "b": 3, "c": 4}), vec![duplicate(1, "\"a\"")]),
        ("{<<: {a: 1}, <<: {a: 2, b: 1}}", json!({"a": 2, "b": 1}), vec![duplicate(1, "\"a\"")]),
        ("{yes: 1, <<: {on: 2}}", json!({"true": 2}), vec![duplicate(1, "true")]),
        ("a: 1\na:\n  b: 1", json!({"a": {"b": 1}}), vec![duplicate(3, "\"a\"")]),
        (
            "base: &b\n  x: 1\n  y: 2\nthen:\n  x: 3\n  <<: *b\n  y: 4",
            json!({"base": {"x": 1, "true": 2}, "then": {"x": 1, "true": 4}}),
            vec![duplicate(2, "\"x\""), duplicate(7, "true")],
        ),
        (
            "base: &b\n  x: 1\nother: &c\n  x: 2\n  z: 5\nthen:\n  <<:\n  - *b\n  - *c\n  - {w: 1,\n     z: 7}\n  z: 6",
            json!({"base": {"x": 1}, "other": {"x": 2, "z": 5}, "then": {"w": 1, "x": 1, "z": 6}}),
            vec![duplicate(5, "\"z\""), duplicate(2, "\"x\""), duplicate(12, "\"z\"")],
        ),
        (
            "deep: &d\n  <<: {k: 1}\n  l: 2\nthen:\n  l: 3\n  <<: *d",
            json!({"deep": {"k": 1, "l": 2}, "then": {"k": 1, "l": 2}}),
            vec![duplicate(3, "\"l\"")],
        ),
        ("{<<: &l [{a: 1}], b: *l}", json!({"a": 1, "b": [{"a": 1}]}), vec![]),
    ] {
        let (node, found) = read(text.as_bytes()).unwrap();
        assert_eq!((node, found), (expected, findings), "{text}");
    }
}

#[test]
fn non_finite_numbers_are_rejected_except_as_keys() {
    for (text, shown) in
        [("a: .inf", "+Inf"), ("[-.Inf, b]", "-Inf"), ("{a: {b: !!float .NaN}}", "NaN"), ("{a: +.INF}", "+Inf")]
    {
        assert_eq!(why_not(text), format!("error converting YAML to JSON: json: unsupported value: {shown}"), "{text}");
        assert!(YamlDocuments::new(text).next().unwrap().unwrap_err().starts_with("json: "), "{text}");
    }
    assert_eq!(value("{.inf: 1, -.Inf: 2, .NaN: 3}"), json!({".inf": 1, "-.inf": 2, ".nan": 3}));
    assert_eq!(value("['.inf', !!str .nan]"), json!([".inf", ".nan"]));
}

#[test]
fn numbers_are_parsed_as_in_go() {
    for (text, expected) in [
        (
            "[1, -2, +7, 0, 00, -0, 2.0, 1., .5, +.5, 1e3, 12e+2]",
            json!([1, -2, 7, 0, 0, 0, 2, 1, 0.5, 0.5, 1000, 1200]),
        ),
        ("[0644, -0644, 0o17, 0O17, 08, -08, 0_8, 0644.5]", json!([420, -420, 15, 15, 8, -8, 8, 644.5])),
        ("[0x1F, 0X1F, +0x1f, 0x_1F, 0b11, 0B1, -0b11]", json!([31, 31, 31, 31, 3, 1, -3])),
        ("[1_000, 1__0_, -_1, 1_0.5, .5_0]", json!([1000, 10, -1, 10.5, 0.5])),
        ("[_1, 0x, 0b, 0o8, 0b2, 0x-1, 0x1.8p1]", json!(["_1", "0x", "0b", "0o8", "0b2", "0x-1", "0x1.8p1"])),
        ("[+, --1, ., .e3, 1e, 1.2.3, 1:30]", json!(["+", "--1", ".", ".e3", "1e", "1.2.3", "1:30"])),
        ("[1e999, +inf, -nan, inf, NaN]", json!(["1e999", "+inf", "-nan", "inf", "NaN"])),
        ("[2020-01-01, 2001-1-1, 2020-01-01T00:00:00Z]", json!(["2020-01-01", "2001-1-1", "2020-01-01T00:00:00Z"])),
        ("[9223372036854775807, -9223372036854775808]", json!([i64::MAX, i64::MIN])),
        ("[123456789012345678901234567890]", json!([123456789012345678901234567890_f64])),
        ("['0644', \"1_000\", !!str 0x10, !!int 0644]", json!(["0644", "1_000", "0x10", 420])),
        (
            "{0x10: a, 1.10: b, 1e3: c, 0644: d, !!int 1_1: e}",
            json!({"16": "a", "1.1": "b", "1000": "c", "420": "d", "11": "e"}),
        ),
        (
            "{1.1: a, 1e7: b, 1234567.891: c, 0.00001: d, 1.0: e, 1e21: f, 123456.5: g, -1e6: h}",
            json!({
                "1.1": "a", "1e+07": "b", "1.2345679e+06": "c", "1e-05": "d", "1": "e", "1e+21": "f", "123456.5": "g",
                "-1e+06": "h",
            }),
        ),
        ("{1: a, true: b, '0x10': c, 2020-01-01: d}", json!({"1": "a", "true": "b", "0x10": "c", "2020-01-01": "d"})),
        ("- &k 0x10\n- {*k : 1}\n", json!([16, {"16": 1}])),
    ] {
        assert_eq!(value(text), expected, "{text}");
    }
    let (_, findings) = read(b"0x10: a\n16: b\n").unwrap();
    assert_eq!(findings, [StrictFinding::DuplicateYamlKey("line 2: key 16 already set in map".into())]);
}

#[test]
fn only_plain_merge_keys_merge_and_only_maps() {
    for (text, expected) in [
        ("{'<<': {a: 1}, \"b\": 2}", json!({"<<": {"a": 1}, "b": 2})),
        ("{\"<<\": 5}", json!({"<<": 5})),
        ("{!!str <<: {a: 1}}", json!({"<<": {"a": 1}})),
        ("[&m <<, {*m : {a: 1}}]", json!(["<<", {"<<": {"a": 1}}])),
        ("{!!merge '<<': {a: 1}}", json!({"a": 1})),
        ("{&m <<: {a: 1}}", json!({"a": 1})),
        ("{<<: [{a: 1}, {a: 2, b: 3}], '<<': c}", json!({"a": 1, "b": 3, "<<": "c"})),
        ("{<<: []}", json!({})),
    ] {
        assert_eq!(value(text), expected, "{text}");
    }
    let why = "error converting YAML to JSON: yaml: map merge requires map or sequence of maps as the value";
    for text in ["{<<: 5}", "{<<: }", "{<<: [1, {a: 1}]}", "{<<: [[{a: 1}]]}", "[&a [{a: 1}], {<<: *a}]"] {
        assert_eq!(why_not(text), why, "{text}");
    }
}

#[test]
fn comments_are_ignored() {
    let text = "# a\na: # b\n  # c\n  - 1 # d\n  # e\n  - {x: 1, # f\n     y: 2}\n# g\n";
    assert_eq!(value(text), json!({"a": [1, {"x": 1, "true": 2}]}));
}

fn nested(shape: &str, depth: usize) -> String {
    match shape {
        "list" => "[".repeat(depth) + &"]".repeat(depth),
        "map" => "{a: ".repeat(depth - 1) + "{}" + &"}".repeat(depth - 1),
        "json" => "{\"a\":".repeat(depth - 1) + "{}" + &"}".repeat(depth - 1),
        "lines" => "{a:\n".repeat(depth - 1) + "{}" + &"}".repeat(depth - 1),
        "items" => "- ".repeat(depth - 1) + "[]",
        "indents" => {
            (0..depth - 1).map(|at| format!("{}a:\n", " ".repeat(at))).collect::<String>() + &" ".repeat(depth) + "{}"
        }
        "tagged" => "!!seq &a [".repeat(depth) + &"]".repeat(depth),
        other => panic!("{other}"),
    }
}

#[test]
fn nesting_limit_is_exact_for_every_shape() {
    for shape in ["list", "map", "json", "lines", "items", "indents", "tagged"] {
        let height = |node: &Json| weigh(node, &mut usize::MAX.clone());
        let (deepest, _) = read(nested(shape, DEEPEST).as_bytes()).unwrap_or_else(|why| panic!("{shape}: {why}"));
        assert_eq!(height(&deepest), Some(DEEPEST), "{shape}");
        let depths = if shape == "indents" { [DEEPEST + 1, 2_000] } else { [DEEPEST + 1, 100_000] };
        for depth in depths {
            let why = why_not(&nested(shape, depth));
            assert_eq!(why, "error converting YAML to JSON: yaml: exceeded max depth of 127", "{shape}");
        }
    }
}

#[test]
fn aliases_are_limited_in_depth_and_weight() {
    let excessive = "error converting YAML to JSON: yaml: document contains excessive aliasing";
    let laughs: String =
        (1..30).map(|at| format!("a{at}: &a{at} [{}]\n", format!("*a{},", at - 1).repeat(9))).collect();
    assert_eq!(why_not(&format!("a0: &a0 ha\n{laughs}")), excessive);
    let list = format!("- &a [{}]\n", "x,".repeat(30_000));
    assert_eq!(why_not(&(list.clone() + &"- *a\n".repeat(30_000))), excessive);
    let text = format!("- &a {}\n", "x".repeat(1 << 20));
    assert_eq!(why_not(&(text.clone() + &"- *a\n".repeat(1_000))), excessive);
    let merged: String = (1..30).map(|at| format!("a{at}: &a{at} {{<<: *a{0}, b{at}: *a{0}}}\n", at - 1)).collect();
    assert_eq!(why_not(&format!("a0: &a0 {{x: 1}}\n{merged}")), excessive);

    let steps = |count: usize| (1..count).map(|at| format!("- &a{at} [*a{}]\n", at - 1)).collect::<String>();
    assert!(read(format!("- &a0 []\n{}", steps(DEEPEST - 1)).as_bytes()).is_ok());
    assert!(why_not(&format!("- &a0 []\n{}", steps(DEEPEST))).contains("exceeded max depth"));
    assert!(why_not("&a [*a]").contains("contains itself"));
    assert!(why_not("[*a]").contains("unknown anchor"));

    assert_eq!(value(&(list.clone() + "- *a\n"))[1].as_array().map(Vec::len), Some(30_000));
    assert_eq!(value(&(text + "- *a\n"))[1].as_str().map(str::len), Some(1 << 20));
    // Only the size of anchored nodes and their aliases is limited.
    let heavy = format!("&a [&b [&c [{}]]]", "x,".repeat(200_000));
    assert_eq!(value(&heavy)[0][0].as_array().map(Vec::len), Some(200_000));
}

#[test]
fn many_keys_tags_anchors_and_documents_are_read() {
    let many = 30_000;
    let keys: String = (0..many).map(|at| format!("k{at}: 1\n")).collect();
    assert_eq!(value(&keys).as_object().map(pintle_json::Map::len), Some(many));
    let (node, findings) = read("k: 1\n".repeat(many).as_bytes()).unwrap();
    assert_eq!((node, findings.len()), (json!({"k": 1}), many - 1));
    let tags: String = (0..many).map(|at| format!("%TAG !a{at}! b\n")).collect();
    assert_eq!(value(&format!("{tags}---\na")), "a");
    let anchors: String = (0..many).map(|at| format!("- &a{at} x\n")).collect();
    assert_eq!(value(&anchors).as_array().map(Vec::len), Some(many));
    assert_eq!(YamlDocuments::new(&"a\n---\n".repeat(many)).count(), many + 1);
}

/// Generates JSON with strings that contain YAML indicators. The strings do not include YAML 1.1 booleans such as
/// `no`, because serde_yaml treats them as strings.
fn values() -> impl Strategy<Value = Json> {
    let text = "[a-m\\[\\]{}:,#&*!|>'\"%@`?~0-9é \\-\\\\]{0,12}";
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<u32>().prop_map(|number| Json::from(f64::from(number) / 64.0 + 0.001)),
        text.prop_map(Json::from),
        vec(text, 1..4).prop_map(|lines| Json::from(lines.join("\n"))),
        Just("[{".repeat(200).into()),
    ];
    leaf.prop_recursive(6, 40, 5, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Json::from),
            vec((text, inner), 0..5).prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

/// Writes a value in a random YAML style. `dice` supplies the random numbers that determine the style.
fn print(value: &Json, indent: usize, flow: bool, dice: &mut impl FnMut() -> u8) -> String {
    const NOISE: &str = " # it's [{ \"not content\n";
    let pad = " ".repeat(indent);
    let flow = flow || dice().is_multiple_of(4);
    match value {
        Json::Array(items) if !items.is_empty() => {
            let items = items.iter().map(|item| print(item, indent + 2, flow, dice));
            if flow {
                format!("[{}]", items.collect::<Vec<_>>().join(" , "))
            } else {
                items.map(|item| format!("\n{pad}- {}", item.trim_start_matches(' '))).collect()
            }
        }
        Json::Object(members) if !members.is_empty() => {
            let members = members.iter().map(|(key, value)| {
                let quote = flow || dice().is_multiple_of(2) || key.contains('\n');
                let key = if quote { json!(key).to_string() } else { format!("'{}'", key.replace('\'', "''")) };
                format!("{key}: {}", print(value, indent + 2, flow, dice))
            });
            if flow {
                format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
            } else {
                members.map(|member| format!("\n{pad}{member}")).collect()
            }
        }
        Json::String(text)
            if !flow
                && dice().is_multiple_of(2)
                && text.lines().all(|line| line.trim() == line && !line.is_empty())
                && !text.is_empty()
                && !text.ends_with('\n') =>
        {
            let lines = text.lines().map(|line| format!("\n{pad}  {line}"));
            format!("|-{}{}", NOISE.trim_end(), lines.collect::<String>())
        }
        Json::String(text) if dice().is_multiple_of(2) && !text.contains('\n') => {
            format!("'{}'", text.replace('\'', "''"))
        }
        scalar if !flow && dice().is_multiple_of(3) => format!("{scalar}{}", NOISE.trim_end()),
        scalar => scalar.to_string(),
    }
}

proptest! {
    #[test]
    fn every_style_is_read_like_serde_yaml(values in vec(values(), 1..4), seed: u64) {
        let mut random = fastrand::Rng::with_seed(seed);
        let value = json!({"all": values});
        let text = print(&value, 0, false, &mut || random.u8(..));
        prop_assert_eq!(&serde_yaml::from_str::<Json>(&text).unwrap(), &value, "serde_yaml: {}", text);
        let (node, findings) = read(text.as_bytes()).unwrap();
        prop_assert_eq!(node, value, "{}", text);
        prop_assert_eq!(findings, vec![]);
    }

    #[test]
    fn output_of_serde_yaml_is_read_back(value in values()) {
        // Convert the value to serde_yaml's type first, because serde_yaml may write serde_json's numbers as maps.
        let through_serde_yaml: serde_yaml::Value = serde_yaml::from_str(&value.to_string()).unwrap();
        let text = serde_yaml::to_string(&through_serde_yaml).unwrap();
        prop_assert_eq!(read(text.as_bytes()).unwrap().0, value, "{}", text);
    }

    #[test]
    fn json_is_read_as_yaml(value in values(), pretty: bool) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        prop_assert_eq!(read(text.as_bytes()).unwrap().0, value, "{}", text);
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(body in vec(prop_oneof![Just(b'\n'), Just(b' '), b' '..=b'~', any::<u8>()], 0..60)) {
        let _ = read(&body);
    }
}

#[test]
fn document_is_not_read_beyond_a_limit() {
    // Each text has a node that exceeds a limit, followed by a syntax error, which is not reported.
    for (text, why) in [
        (format!("{}'", "[".repeat(10_000)), "exceeded max depth of 127"),
        (
            format!("- &a [{}]\n{}- '", "x,".repeat(30_000), "- *a\n".repeat(30_000)),
            "document contains excessive aliasing",
        ),
    ] {
        assert!(why_not(&text).ends_with(why), "{}", why_not(&text));
    }
}
