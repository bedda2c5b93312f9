//! The tables of the OpenAPI 3 protobuf messages. The tables omit messages for servers, security, callbacks, links,
//! headers and named examples, because documents of the server do not contain them.

use pintle_json::Json;

use super::ProtoShape::{self, Any, Double, Each, Either, Flag, Integer, One, Text};
use super::{ProtoMessage, messages};

const ITEMS_V3: ProtoShape = Either(|_| (1, SCHEMA_OR_REFERENCE));
const SCHEMA_OR_REFERENCE: ProtoShape = Either(|value| or_reference(value, One(&SCHEMA)));
const PARAMETER_V3: ProtoShape = Either(|value| or_reference(value, One(&PARAMETER)));
const BODY_OR_REFERENCE: ProtoShape = Either(|value| or_reference(value, One(&REQUEST_BODY)));
const RESPONSE_V3: ProtoShape = Either(|value| or_reference(value, One(&RESPONSE)));

fn or_reference(value: &Json, shape: ProtoShape) -> (u32, ProtoShape) {
    if value.get("$ref").is_some() { (2, One(&REFERENCE)) } else { (1, shape) }
}

const MORE_V3: ProtoShape = Either(|value| if value.is_boolean() { (2, Flag) } else { (1, SCHEMA_OR_REFERENCE) });

/// The message for a `default`. For lists and objects, the message is empty, because it cannot represent them.
const DEFAULT: ProtoShape = Either(|value| match value {
    Json::Number(_) => (1, Double),
    Json::Bool(_) => (2, Flag),
    _ => (3, Text),
});

messages! {
    DOCUMENT {
        "openapi" 1 Text, "info" 2 One(&INFO), "paths" 4 One(&PATHS), "components" 5 One(&COMPONENTS), "tags" 7 Each(&One(&TAG)),
        "externalDocs" 8 One(&EXTERNAL_DOCS), "x-*" 9 Any,
    }
    INFO { "title" 1 Text, "description" 2 Text, "termsOfService" 3 Text, "version" 6 Text, "x-*" 7 Any, "summary" 8 Text }
    TAG { "name" 1 Text, "description" 2 Text, "externalDocs" 3 One(&EXTERNAL_DOCS), "x-*" 4 Any }
    EXTERNAL_DOCS { "description" 1 Text, "url" 2 Text, "x-*" 3 Any }
    REFERENCE { "$ref" 1 Text, "summary" 2 Text, "description" 3 Text }

    PATHS { "/*" 1 One(&PATH_ITEM), "x-*" 2 Any }
    PATH_ITEM {
        "$ref" 1 Text, "summary" 2 Text, "description" 3 Text, "get" 4 One(&OPERATION), "put" 5 One(&OPERATION),
        "post" 6 One(&OPERATION), "delete" 7 One(&OPERATION), "options" 8 One(&OPERATION), "head" 9 One(&OPERATION),
        "patch" 10 One(&OPERATION), "trace" 11 One(&OPERATION), "parameters" 13 Each(&PARAMETER_V3), "x-*" 14 Any,
    }
    OPERATION {
        "tags" 1 Each(&Text), "summary" 2 Text, "description" 3 Text, "externalDocs" 4 One(&EXTERNAL_DOCS), "operationId" 5 Text,
        "parameters" 6 Each(&PARAMETER_V3), "requestBody" 7 BODY_OR_REFERENCE, "responses" 8 One(&RESPONSES),
        "deprecated" 10 Flag, "x-*" 13 Any,
    }
    PARAMETER {
        "name" 1 Text, "in" 2 Text, "description" 3 Text, "required" 4 Flag, "deprecated" 5 Flag, "allowEmptyValue" 6 Flag,
        "style" 7 Text, "explode" 8 Flag, "allowReserved" 9 Flag, "schema" 10 SCHEMA_OR_REFERENCE, "example" 11 Any,
        "content" 13 One(&MEDIA_TYPES), "x-*" 14 Any,
    }
    REQUEST_BODY { "description" 1 Text, "content" 2 One(&MEDIA_TYPES), "required" 3 Flag, "x-*" 4 Any }
    RESPONSES { "default" 1 RESPONSE_V3, "x-*" 3 Any, "*" 2 RESPONSE_V3 }
    RESPONSE { "description" 1 Text, "content" 3 One(&MEDIA_TYPES), "x-*" 5 Any }
    MEDIA_TYPES { "*" 1 One(&MEDIA_TYPE) }
    MEDIA_TYPE { "schema" 1 SCHEMA_OR_REFERENCE, "example" 2 Any, "x-*" 5 Any }

    COMPONENTS { "schemas" 1 One(&SCHEMAS), "x-*" 10 Any }
    SCHEMAS { "*" 1 SCHEMA_OR_REFERENCE }
    SCHEMA {
        "nullable" 1 Flag, "readOnly" 3 Flag, "writeOnly" 4 Flag, "externalDocs" 6 One(&EXTERNAL_DOCS), "example" 7 Any,
        "deprecated" 8 Flag, "title" 9 Text, "multipleOf" 10 Double, "maximum" 11 Double, "exclusiveMaximum" 12 Flag,
        "minimum" 13 Double, "exclusiveMinimum" 14 Flag, "maxLength" 15 Integer, "minLength" 16 Integer, "pattern" 17 Text,
        "maxItems" 18 Integer, "minItems" 19 Integer, "uniqueItems" 20 Flag, "maxProperties" 21 Integer,
        "minProperties" 22 Integer, "required" 23 Each(&Text), "enum" 24 Each(&Any), "type" 25 Text,
        "allOf" 26 Each(&SCHEMA_OR_REFERENCE), "oneOf" 27 Each(&SCHEMA_OR_REFERENCE), "anyOf" 28 Each(&SCHEMA_OR_REFERENCE),
        "not" 29 One(&SCHEMA), "items" 30 ITEMS_V3, "properties" 31 One(&SCHEMAS), "additionalProperties" 32 MORE_V3, "default" 33 DEFAULT,
        "description" 34 Text, "format" 35 Text, "x-*" 36 Any,
    }
}
