//! Compares values with `serde_json`, and tests the methods that read and modify values.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod access;
mod map;
mod same;

use pintle_json::Json;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use serde_json::Value;

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,40}".prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 200, 50, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::vec(("[a-c~/]{0,3}|\\PC{0,30}", inner), 0..50)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn read(text: &str) -> Json {
    text.parse().unwrap_or_else(|error| panic!("{error}: {text}"))
}
