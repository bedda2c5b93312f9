//! The core `ConfigMap` kind.

use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::table::{self, Cell, ComputedCells};

use super::{MAX_DATA, decoded_size, immutable, key_errors, members};

pub(crate) struct ConfigMap;

impl Strategy for ConfigMap {
    fn validate_create(&self, object: &Json) -> FieldErrors {
        let mut errors = FieldErrors::default();
        errors.extend(key_errors(object, "data"));
        errors.extend(key_errors(object, "binaryData"));
        for key in members(object, "data") {
            if object.has("/binaryData") && object["binaryData"].as_object().is_some_and(|data| data.contains_key(key))
            {
                errors.push(FieldError::invalid_text(
                    format!("data[{key}]"),
                    key,
                    "duplicate of key present in binaryData",
                ));
            }
        }
        let text: usize = object.members("/data").map(|(_, value)| value.as_str().map_or(0, str::len)).sum();
        let binary: usize = decoded_size(object, "binaryData");
        if text + binary > MAX_DATA {
            errors.push(FieldError::too_long("", MAX_DATA));
        }
        errors
    }

    fn validate_update(&self, new: &Json, old: &Json, _: Subresource) -> FieldErrors {
        immutable(new, old, &["data", "binaryData"]).and(self.validate_create(new))
    }

    fn computed_cells(&self) -> ComputedCells {
        &[("Data", Cell::Computed(entries))]
    }
}

fn entries(object: &Json) -> Json {
    let size = |pointer: &str| object.at(pointer).map_or(0, table::size);
    (size("/data") + size("/binaryData")).into()
}
