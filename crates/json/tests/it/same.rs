//! Tests of behavior that [`Json`] shares with `serde_json::Value`.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

use pintle_json::{Json, Map, json, to_json};
use proptest::prelude::{any, prop_assert_eq, proptest};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{read, value};

proptest! {
    #[test]
    fn value_is_read_written_and_converted_like_serde_json(value in value()) {
        let text = value.to_string();
        let json: Json = text.parse().unwrap();
        // Compare with this crate's own functions, because `serde_json` formats some floats
        // differently.
        prop_assert_eq!(json.to_string().into_bytes(), pintle_json::to_vec(&value).unwrap());
        prop_assert_eq!(format!("{json:#}").into_bytes(), pintle_json::to_vec_pretty(&value).unwrap());
        prop_assert_eq!(&Value::from(json.clone()), &value);
        prop_assert_eq!(&Json::from(value.clone()), &json);
        prop_assert_eq!(&to_json(&value).unwrap(), &json);
        prop_assert_eq!(&Json::deserialize(&json).unwrap(), &json);
        prop_assert_eq!(Value::deserialize(&json).unwrap(), value);
    }

    #[test]
    fn equality_and_hashes_match_serde_json(a in value(), b in value()) {
        let (one, other, again) = (Json::from(a.clone()), Json::from(b.clone()), Json::from(a.clone()));
        let state = RandomState::new();
        prop_assert_eq!(one == other, a == b);
        prop_assert_eq!(state.hash_one(&one), state.hash_one(&again));
    }

    #[test]
    fn arbitrary_bytes_are_accepted_or_rejected_like_serde_json(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        check_same_result(&bytes);
    }

    #[test]
    fn almost_json_is_accepted_or_rejected_like_serde_json(
        value in value(), at in any::<proptest::sample::Index>(), to in "[\\[\\]{}\",:\\\\0-9.eE+a-z -]{0,3}",
    ) {
        let mut bytes = value.to_string().into_bytes();
        let at = at.index(bytes.len());
        bytes.splice(at..at + 1, to.bytes());
        check_same_result(&bytes);
    }

    #[test]
    fn path_finds_the_same_value_as_serde_json(mut value in value(), path in "(/([a-c]|~0|~1|~2|0|1|01|\\+1|-|)){0,4}|a") {
        let mut json = Json::from(value.clone());
        prop_assert_eq!(json.at(&path).cloned().map(Value::from), value.pointer(&path).cloned());
        prop_assert_eq!(json.at_mut(&path).map(|at| at.take()).map(Value::from), value.pointer_mut(&path).map(Value::take));
        prop_assert_eq!(Value::from(json), value);
    }
}

fn check_same_result(bytes: &[u8]) {
    let json = serde_json::from_slice::<Json>(bytes);
    let value = serde_json::from_slice::<Value>(bytes);
    let text = |error: serde_json::Error| error.to_string();
    assert_eq!(json.map(Value::from).map_err(text), value.map_err(text), "{}", String::from_utf8_lossy(bytes));
}

#[test]
fn last_duplicate_key_wins() {
    assert_eq!(read(r#"{"a": 1, "b": 2, "a": {"c": 1, "c": 3}}"#), json!({"a": {"c": 3}, "b": 2}));
    let many: String = (0..200).map(|at| format!(r#""k{}": {at},"#, at % 100)).collect();
    let map: Map = serde_json::from_str(&format!("{{{many}\"k0\": 0}}")).unwrap();
    assert_eq!((map.len(), &map["k99"], &map["k0"]), (100, &json!(199), &json!(0)));
}

#[test]
fn json_macro_matches_serde_json() {
    let (name, key, none) = ("a".to_owned(), "k".to_owned(), None::<u8>);
    let of = |at: i32| vec![at, at + 1];
    macro_rules! check {
        ($($json:tt)*) => {
            let oracle = serde_json::json!($($json)*);
            assert_eq!(Value::from(json!($($json)*)), oracle);
        };
    }
    check!(null);
    check!([]);
    check!({});
    check!(-1.5);
    check!([1, -2, null, true, "x", [], {}, [1, [2,],], of(3), name.len() + 1, &name,]);
    check!({"a": null, "b": {"c": [name, none]}, "d": of(1), "e": -1, "f": 1 + 2, "g": name.as_str(), "h": format!("{name}!"),});
    check!({(key.clone()): 1, "x": [{}]});
}

#[derive(Serialize)]
struct Everything {
    texts: BTreeMap<u32, Option<char>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    absent: Option<()>,
    unit: (),
    pair: (u8, f32),
    choices: Vec<Choice>,
    flags: BTreeMap<bool, i8>,
    #[serde(flatten)]
    rest: BTreeMap<String, Json>,
}

#[derive(Debug, Deserialize, PartialEq, Serialize)]
enum Choice {
    Plain,
    One(u64),
    Two(u8, u8),
    Named { a: Wrapped },
}

#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct Wrapped(String);

#[test]
fn structs_and_enums_serialize_like_serde_json_and_deserialize() {
    let everything = Everything {
        texts: BTreeMap::from([(1, Some('a')), (2, None)]),
        absent: None,
        unit: (),
        pair: (1, 0.5),
        choices: vec![
            Choice::Plain,
            Choice::One(u64::MAX),
            Choice::Two(1, 2),
            Choice::Named { a: Wrapped("x".into()) },
        ],
        flags: BTreeMap::from([(true, -1)]),
        rest: BTreeMap::from([("z".into(), json!({"y": [1]}))]),
    };
    let json = to_json(&everything).unwrap();
    assert_eq!(Value::from(json.clone()), serde_json::to_value(&everything).unwrap());
    let choices: Vec<Choice> = Vec::deserialize(&json["choices"]).unwrap();
    assert_eq!(choices, everything.choices);
    assert_eq!(Option::<Choice>::deserialize(&Json::Null).unwrap(), None);
    assert!(Choice::deserialize(&json!({"Other": 1})).is_err());
    assert!(<(u8, u8)>::deserialize(&json!([1, 2, 3])).is_err(), "all items must be read");
    assert!(to_json(&BTreeMap::from([(vec![1], 1)])).is_err(), "a list is not a key");
}

#[test]
fn deep_value_is_dropped_on_a_thread() {
    // This value is nested about 100 times as deeply as values from clients may be. Like a
    // `serde_json::Value` of this depth, it can be dropped on a thread with a stack of 2 MiB.
    let work = || {
        let mut deep = Json::Null;
        for at in 0..8_000 {
            deep = match at % 2 {
                0 => Json::Array(vec![deep]),
                _ => Json::Object([("a", deep)].into_iter().collect()),
            };
        }
        drop(deep);
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap().join().unwrap();
}
