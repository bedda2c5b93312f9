//! Tests of the size of stored objects.

use pintle_json::json;
use pintle_kinds::size;

#[test]
fn size_of_built_in_kinds_is_their_protobuf_length() {
    let kinds = pintle_builtin::kinds();
    for (plural, object, size) in [
        // Field 1 of the test message is the metadata, which also has a field 1. Field 2 of the test message is a map
        // entry with a key and a value.
        ("configmaps", json!({"metadata": {"name": "abc"}, "data": {"k": "vw"}}), 2 + 5 + 2 + 3 + 4),
        ("secrets", json!({"data": {"k": "AAAA"}}), 2 + 3 + 5),
        ("pods", json!({"spec": {"containers": [{"name": "a"}, {"name": "bc"}]}}), 2 + (2 + 3) + (2 + 4)),
    ] {
        let kind = kinds.resource("", "v1", plural).expect("a built-in kind");
        assert_eq!(size::stored(kind, &object), size, "{plural}");
    }
}
