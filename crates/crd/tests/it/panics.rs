//! Tests the panic message for types without a definition. Each message names the field and suggests a
//! fix.

use pintle_crd::{CustomResource, Resource};
use pintle_meta::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Returns the panic message of `crd` for a resource with the given spec type and attributes.
macro_rules! panic_of {
    ($spec:ty $(, $($attribute:tt)+)?) => {{
        #[derive(Resource, Deserialize, Serialize, JsonSchema)]
        #[resource(crate = pintle_crd, group = "example.com", version = "v1")]
        $(#[resource($($attribute)+)])?
        struct Thing {
            metadata: ObjectMeta,
            spec: $spec,
        }
        let panic = std::panic::catch_unwind(Thing::crd).unwrap_err();
        panic.downcast_ref::<String>().cloned().unwrap()
    }};
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Tree {
    children: Vec<Tree>,
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
enum Mixed {
    Flag(bool),
    List(Vec<String>),
}

#[derive(Deserialize, Serialize, JsonSchema)]
enum Half {
    Off,
    On { level: u32 },
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
enum Clash {
    One { value: u32 },
    Other { value: String },
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
enum RuleForAll {
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self.a > 0"}]))]
    One {
        a: Option<u32>,
    },
    Other {
        b: u32,
    },
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(tag = "type")]
enum OptionalOld {
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "!oldSelf.hasValue()", "optionalOldSelf": true}]))]
    One {
        a: u32,
    },
    Other {
        b: u32,
    },
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(tag = "type")]
enum HalfEmbedded {
    #[schemars(extend("x-kubernetes-embedded-resource" = true))]
    One {
        a: u32,
    },
    Other {
        b: u32,
    },
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Holder<T> {
    field: T,
}

#[test]
fn panic_names_the_field_and_a_way_out() {
    for (message, parts) in [
        (panic_of!(Tree), ["spec.children[]: the type contains itself", "preserve_unknown_fields"]),
        (panic_of!(Holder<Mixed>), ["spec.field: the alternatives have different types", "serde tag"]),
        (panic_of!(Holder<Half>), ["spec.field: the alternatives have different types", "serde tag"]),
        (panic_of!(Holder<Clash>), ["spec.field.value: two variants have this field", "rename one"]),
        (panic_of!(Holder<RuleForAll>), ["spec.field: a CEL rule of one variant would apply to all", "move the rule"]),
        (
            panic_of!(Holder<OptionalOld>),
            ["spec.field: a CEL rule of one variant has `optionalOldSelf`", "move the rule"],
        ),
        (panic_of!(Holder<HalfEmbedded>), ["spec.field: only some variants are embedded", "into a field"]),
        (panic_of!(u32, rule("true &&\n true")), ["contains line breaks; add a message", "Thing has no"]),
        (panic_of!(u32, column("A", ".spec.b")), ["the column \"A\": .spec.b is not in the schema", "Thing has no"]),
        (panic_of!(Holder<Tree>, column("A", ".spec")), ["spec.field.children[]: the type contains itself", "Thing"]),
        (
            panic_of!(Holder<u32>, selectable(".spec.x")),
            ["the selectable field \".spec.x\" is not in the schema", "Thing"],
        ),
        (
            panic_of!(Holder<f64>, selectable(".spec.field")),
            ["the selectable field \".spec.field\" has the type number", "select a field with one of these types"],
        ),
        (panic_of!(u32, selectable(".spec", ".spec")), ["the selectable field .spec is listed twice", "remove one"]),
        (
            panic_of!(u32, selectable(".a", ".b", ".c", ".d", ".e", ".f", ".g", ".h", ".i")),
            ["there are 9 selectable fields, but the API server accepts at most 8", "remove 1"],
        ),
        (panic_of!(u32, selectable(".metadata.name")), ["\".metadata.name\" is in the metadata", "remove it"]),
        (
            panic_of!(Holder<u32>, scale(spec = ".spec.field", status = ".status.n")),
            ["the scale subresource: .status.n is not in the schema", "Thing"],
        ),
        (
            panic_of!(Holder<u32>, scale(spec = ".metadata.generation", status = ".status.n")),
            ["the scale subresource: .metadata.generation must be a path of fields below .spec.", "Thing"],
        ),
        (
            panic_of!(Holder<u32>, column("A", ".spec.b", type = "string")),
            ["the column \"A\": .spec.b is not in the schema", "Thing"],
        ),
        (
            panic_of!(Holder<serde_json::Value>, column("A", ".spec.field.b")),
            ["the column \"A\": .spec.field.b has no scalar type in the schema", "add `type = \"string\"`"],
        ),
        (
            panic_of!(Holder<serde_json::Value>, selectable(".spec.field.b")),
            ["the selectable field \".spec.field.b\" has no type in the schema", "remove it"],
        ),
        (
            panic_of!(Holder<u32>, column("A", ".spec.field", type = "text")),
            ["the column \"A\": \"text\" is no type of a column", "boolean, date, integer, number, string"],
        ),
        (
            panic_of!(Holder<u32>, column("A", ".spec.field", format = "uint32")),
            ["the column \"A\": \"uint32\" is no format of a column", "int32, int64, password"],
        ),
        (panic_of!(Holder<u32>, column("", ".spec.field")), ["the column of .spec.field has no name", "heading"]),
    ] {
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
}

#[test]
fn selectable_fields_are_paths_of_field_names() {
    for message in [
        panic_of!(u32, selectable("")),
        panic_of!(u32, selectable("spec")),
        panic_of!(u32, selectable(".spec.")),
        panic_of!(u32, selectable(".spec[0]")),
        panic_of!(u32, selectable(".spec['a']")),
        panic_of!(u32, selectable(".spec.a\\.b")),
    ] {
        assert!(message.contains("is not a path of field names; write a path such as"), "{message}");
    }
}

#[test]
fn selector_of_scale_is_below_spec_or_status() {
    #[derive(Resource, Deserialize, Serialize, JsonSchema)]
    #[resource(crate = pintle_crd, group = "example.com", version = "v1")]
    #[resource(scale(spec = ".spec.field", status = ".status.field", selector = ".data.field"))]
    struct Thing {
        metadata: ObjectMeta,
        spec: Holder<u32>,
        status: Option<Holder<u32>>,
        data: Holder<String>,
    }
    let panic = std::panic::catch_unwind(Thing::crd).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains(".data.field must be a path of fields below .spec. or .status."), "{message}");
}
