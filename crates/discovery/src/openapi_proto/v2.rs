//! The tables of the OpenAPI 2 protobuf messages. The tables omit messages for security, headers, files, and
//! named parameters and responses, because documents of the server do not contain them.

use pintle_json::Json;

use super::ProtoShape::{self, Any, Double, Each, Either, Flag, Integer, One, Text};
use super::{ProtoMessage, messages};

const ITEMS_V2: ProtoShape = Either(|_| (1, One(&SCHEMA)));
const SCHEMA_OF_RESPONSE: ProtoShape = ITEMS_V2;
const PARAMETER_V2: ProtoShape = Either(|value| or_reference(value, PARAMETER));
const RESPONSE_V2: ProtoShape = Either(|value| or_reference(value, One(&RESPONSE)));

fn or_reference(value: &Json, shape: ProtoShape) -> (u32, ProtoShape) {
    if value.get("$ref").is_some() { (2, One(&REFERENCE)) } else { (1, shape) }
}

const PARAMETER: ProtoShape =
    Either(|value| if value["in"] == "body" { (1, One(&BODY_PARAMETER)) } else { (2, PLAIN_PARAMETER) });
const PLAIN_PARAMETER: ProtoShape = Either(|value| match value["in"].as_str() {
    Some("header") => (1, One(&PATH_PARAMETER)),
    Some("formData") => (2, One(&QUERY_PARAMETER)),
    Some("path") => (4, One(&PATH_PARAMETER)),
    _ => (3, One(&QUERY_PARAMETER)),
});

const TYPE: ProtoShape = Either(|value| if value.is_array() { (1, Each(&Text)) } else { (1, Text) });

const MORE_V2: ProtoShape = Either(|value| if value.is_boolean() { (2, Flag) } else { (1, One(&SCHEMA)) });

messages! {
    // The encoder writes the fields 8 (paths) and 9 (definitions) directly.
    DOCUMENT { "swagger" 1 Text, "info" 2 One(&INFO), "host" 3 Text, "basePath" 4 Text, "x-*" 16 Any }
    INFO { "title" 1 Text, "version" 2 Text, "description" 3 Text, "termsOfService" 4 Text, "x-*" 7 Any }
    EXTERNAL_DOCS { "description" 1 Text, "url" 2 Text, "x-*" 3 Any }
    REFERENCE { "$ref" 1 Text, "description" 2 Text }

    PATHS { "x-*" 1 Any, "/*" 2 One(&PATH_ITEM) }
    PATH_ITEM {
        "$ref" 1 Text, "get" 2 One(&OPERATION), "put" 3 One(&OPERATION), "post" 4 One(&OPERATION), "delete" 5 One(&OPERATION),
        "options" 6 One(&OPERATION), "head" 7 One(&OPERATION), "patch" 8 One(&OPERATION),
        "parameters" 9 Each(&PARAMETER_V2), "x-*" 10 Any,
    }
    OPERATION {
        "tags" 1 Each(&Text), "summary" 2 Text, "description" 3 Text, "externalDocs" 4 One(&EXTERNAL_DOCS), "operationId" 5 Text,
        "produces" 6 Each(&Text), "consumes" 7 Each(&Text), "parameters" 8 Each(&PARAMETER_V2),
        "responses" 9 One(&RESPONSES), "schemes" 10 Each(&Text), "deprecated" 11 Flag, "x-*" 13 Any,
    }
    BODY_PARAMETER {
        "description" 1 Text, "name" 2 Text, "in" 3 Text, "required" 4 Flag, "schema" 5 One(&SCHEMA), "x-*" 6 Any,
    }
    // This message also encodes header parameters, which have the same field numbers.
    PATH_PARAMETER {
        "required" 1 Flag, "in" 2 Text, "description" 3 Text, "name" 4 Text, "type" 5 Text, "format" 6 Text,
        "collectionFormat" 8 Text, "default" 9 Any, "maximum" 10 Double, "exclusiveMaximum" 11 Flag, "minimum" 12 Double,
        "exclusiveMinimum" 13 Flag, "maxLength" 14 Integer, "minLength" 15 Integer, "pattern" 16 Text, "maxItems" 17 Integer,
        "minItems" 18 Integer, "uniqueItems" 19 Flag, "enum" 20 Each(&Any), "multipleOf" 21 Double, "x-*" 22 Any,
    }
    // This message also encodes form parameters, which have the same field numbers.
    QUERY_PARAMETER {
        "required" 1 Flag, "in" 2 Text, "description" 3 Text, "name" 4 Text, "allowEmptyValue" 5 Flag, "type" 6 Text,
        "format" 7 Text, "collectionFormat" 9 Text, "default" 10 Any, "maximum" 11 Double, "exclusiveMaximum" 12 Flag,
        "minimum" 13 Double, "exclusiveMinimum" 14 Flag, "maxLength" 15 Integer, "minLength" 16 Integer, "pattern" 17 Text,
        "maxItems" 18 Integer, "minItems" 19 Integer, "uniqueItems" 20 Flag, "enum" 21 Each(&Any), "multipleOf" 22 Double,
        "x-*" 23 Any,
    }
    RESPONSES { "x-*" 2 Any, "*" 1 RESPONSE_V2 }
    RESPONSE { "description" 1 Text, "schema" 2 SCHEMA_OF_RESPONSE, "x-*" 5 Any }

    DEFINITIONS { "*" 1 One(&SCHEMA) }
    SCHEMA {
        "$ref" 1 Text, "format" 2 Text, "title" 3 Text, "description" 4 Text, "default" 5 Any, "multipleOf" 6 Double,
        "maximum" 7 Double, "exclusiveMaximum" 8 Flag, "minimum" 9 Double, "exclusiveMinimum" 10 Flag, "maxLength" 11 Integer,
        "minLength" 12 Integer, "pattern" 13 Text, "maxItems" 14 Integer, "minItems" 15 Integer, "uniqueItems" 16 Flag,
        "maxProperties" 17 Integer, "minProperties" 18 Integer, "required" 19 Each(&Text), "enum" 20 Each(&Any),
        "additionalProperties" 21 MORE_V2, "type" 22 TYPE, "items" 23 ITEMS_V2, "allOf" 24 Each(&One(&SCHEMA)),
        "properties" 25 One(&DEFINITIONS), "discriminator" 26 Text, "readOnly" 27 Flag, "externalDocs" 29 One(&EXTERNAL_DOCS),
        "example" 30 Any, "x-*" 31 Any,
    }
}
