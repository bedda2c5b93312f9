//! Enums whose variants have rules, such as CEL rules, `not`, limits, and other enums.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::derived::{Derived, Write, derived};

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum Source {
    Disk { size: u32 },
    Secret { name: String },
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(tag = "type")]
enum Backend {
    Volume(Source),
    Memory { size: u32 },
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(tag = "type")]
enum WithFlattened {
    Volume {
        path: String,
        #[serde(flatten)]
        source: Source,
    },
    Memory {
        size: u32,
    },
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
enum EnumOfEnums {
    Stored(Source),
    Described(Tagged),
    Plain { text: String },
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "camelCase")]
enum Tagged {
    One { x: u32 },
    Other { y: u32 },
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(tag = "kind-of")]
enum Checked {
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "self.min <= self.max ? true : false // bounds", "message": "min is above max"},
        {"rule": "self.min >= oldSelf.min", "message": "min cannot shrink"},
    ]))]
    Range {
        min: u32,
        max: u32,
    },
    #[schemars(extend("not" = {"required": ["namespace", "everywhere"]}, "maxProperties" = 2))]
    Place {
        namespace: Option<String>,
        everywhere: Option<bool>,
    },
    Any,
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
enum ByPresence {
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self.namespace == self.owner"}]))]
    Owned { namespace: String, owner: String },
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self.id > 0"}]))]
    Numbered { id: i32 },
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Optional {
    name: String,
    #[serde(flatten)]
    presence: Option<ByPresence>,
    #[serde(flatten)]
    checked: Option<Checked>,
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct TwoFlattened {
    #[serde(flatten)]
    tagged: Tagged,
    #[serde(flatten)]
    presence: ByPresence,
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Lists {
    list: Vec<NoTransition>,
    map: BTreeMap<String, Option<Ids>>,
    one: Option<Backend>,
}

/// The rule is cheap enough for a map of any size.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
enum Ids {
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self.id > 0"}]))]
    Number {
        id: i32,
    },
    Name {
        name: String,
    },
}

// The server forbids `oldSelf` below a list without keys.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(tag = "if")]
enum NoTransition {
    #[schemars(extend("minProperties" = 2, "x-kubernetes-validations" = [
        {"rule": "self.text.startsWith('a')", "messageExpression": "self.text + ' has no a'"},
    ]))]
    Text { text: String, more: Option<String> },
    #[schemars(extend("oneOf" = [{"required": ["in"]}, {"required": ["as"]}]))]
    Key { r#in: Option<String>, r#as: Option<String> },
}

/// Appends writes to the case of a definition.
fn with<T: DeserializeOwned>(mut derived: Derived, writes: Vec<Write>) -> Derived {
    for write in writes.iter().filter(|write| write.error.is_none()) {
        serde_json::from_value::<T>(write.spec.clone()).unwrap_or_else(|error| panic!("{error}: {}", write.spec));
    }
    derived.writes = writes;
    derived
}

fn accepts(spec: Value) -> Write {
    Write { spec, is_update: false, error: None }
}

fn rejects(spec: Value, error: &'static str) -> Write {
    Write { spec, is_update: false, error: Some(error) }
}

fn update(spec: Value, error: Option<&'static str>) -> Write {
    Write { spec, is_update: true, error }
}

pub(crate) fn derived() -> Vec<Derived> {
    vec![
        with::<Backend>(
            derived!("variant-of-enum", Backend, Backend::Volume(Source::Disk { size: 1 })),
            vec![
                accepts(json!({"type": "Memory", "size": 1})),
                rejects(json!({"type": "Volume"}), "spec"),
                rejects(json!({"type": "Volume", "disk": {"size": 1}, "secret": {"name": "a"}}), "spec"),
                rejects(json!({"type": "Memory"}), "spec"),
                rejects(json!({"type": "Other", "size": 1}), "spec.type: Unsupported value"),
            ],
        ),
        with::<WithFlattened>(
            derived!("variant-with-flattened-enum", WithFlattened, WithFlattened::Memory { size: 1 }),
            vec![
                accepts(json!({"type": "Volume", "path": "/", "secret": {"name": "a"}})),
                rejects(json!({"type": "Volume", "path": "/"}), "spec"),
                rejects(json!({"type": "Volume", "secret": {"name": "a"}}), "spec"),
            ],
        ),
        with::<EnumOfEnums>(
            derived!("enum-of-enums", EnumOfEnums, EnumOfEnums::Stored(Source::Disk { size: 1 })),
            vec![
                accepts(json!({"kind": "one", "x": 1})),
                accepts(json!({"text": "a"})),
                rejects(json!({"kind": "one"}), "spec"),
                rejects(json!({}), "spec"),
            ],
        ),
        checked(),
        with::<ByPresence>(
            derived!("untagged-rules", ByPresence, ByPresence::Owned { namespace: "a".into(), owner: "a".into() }),
            vec![
                rejects(json!({"namespace": "a", "owner": "b"}), "failed rule"),
                accepts(json!({"id": 1})),
                rejects(json!({"id": 0}), "failed rule"),
                rejects(json!({"namespace": "a"}), "spec"),
                update(json!({"namespace": "a", "owner": "a"}), None),
                update(json!({"namespace": "a", "owner": "b"}), Some("failed rule")),
            ],
        ),
        with::<Optional>(
            derived!("optional-rules", Optional, Optional { name: "a".into(), presence: None, checked: None }),
            vec![
                accepts(json!({"name": "a", "id": 1, "kind-of": "Range", "min": 1, "max": 2})),
                rejects(json!({"name": "a", "id": 0}), "failed rule"),
                rejects(json!({"name": "a", "kind-of": "Range", "min": 2, "max": 1}), "min is above max"),
                update(json!({"name": "a", "kind-of": "Range", "min": 0, "max": 2}), Some("min cannot shrink")),
                update(json!({"name": "a", "kind-of": "Any"}), None),
                update(json!({"name": "a", "kind-of": "Range", "min": 0, "max": 2}), None),
            ],
        ),
        with::<TwoFlattened>(
            derived!(
                "two-flattened-rules",
                TwoFlattened,
                TwoFlattened { tagged: Tagged::One { x: 1 }, presence: ByPresence::Numbered { id: 1 } }
            ),
            vec![
                accepts(json!({"kind": "other", "y": 1, "namespace": "a", "owner": "a"})),
                rejects(json!({"kind": "other", "y": 1, "namespace": "a", "owner": "b"}), "failed rule"),
                rejects(json!({"kind": "other", "id": 1}), "spec"),
                rejects(json!({"kind": "one", "x": 1}), "spec"),
                rejects(json!({"kind": "one", "x": 1, "id": 0}), "failed rule"),
            ],
        ),
        lists(),
    ]
}

fn checked() -> Derived {
    let range = |min: u32, max: u32| json!({"kind-of": "Range", "min": min, "max": max});
    with::<Checked>(
        derived!("tagged-rules", Checked, Checked::Any),
        vec![
            rejects(range(2, 1), "min is above max"),
            rejects(json!({"kind-of": "Range", "min": 2}), "spec"),
            accepts(json!({"kind-of": "Place", "namespace": "a"})),
            rejects(json!({"kind-of": "Place", "namespace": "a", "everywhere": true}), "spec"),
            rejects(json!({"kind-of": "Place", "namespace": "a", "max": 2}), "spec"),
            accepts(range(2, 9)),
            update(range(1, 9), Some("min cannot shrink")),
            update(range(9, 8), Some("min is above max")),
            update(json!({"kind-of": "Any"}), None),
            update(range(1, 9), None),
        ],
    )
}

fn lists() -> Derived {
    let lists = |list: Value, map: Value, one: Value| json!({"list": list, "map": map, "one": one});
    let memory = || json!({"type": "Memory", "size": 1});
    with::<Lists>(
        derived!("rules-in-lists", Lists, Lists { list: vec![], map: [("a".into(), None)].into(), one: None }),
        vec![
            accepts(lists(
                json!([{"if": "Text", "text": "a"}, {"if": "Key", "in": "b"}]),
                json!({"b": {"id": 1}, "c": {"name": "a"}}),
                memory(),
            )),
            rejects(
                lists(json!([{"if": "Text", "text": "b"}]), json!({}), memory()),
                "spec.list[0]: Invalid value: b has no a",
            ),
            rejects(lists(json!([{"if": "Key"}]), json!({}), memory()), "spec.list[0]"),
            rejects(lists(json!([{"if": "Key", "in": "a", "as": "b"}]), json!({}), memory()), "spec.list[0]"),
            rejects(lists(json!([]), json!({"a": {"id": 0}}), memory()), "failed rule"),
            rejects(lists(json!([]), json!({"a": {}}), memory()), "spec.map.a"),
            rejects(lists(json!([]), json!({}), json!({"type": "Memory"})), "spec.one"),
        ],
    )
}
