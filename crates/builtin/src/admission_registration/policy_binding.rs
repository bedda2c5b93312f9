//! The kinds that bind admission policies to resources.

use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::FieldErrors;
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::table::{Cell, ComputedCells};

use super::{match_errors, static_suffix_warning};

pub(crate) struct PolicyBinding;

impl Strategy for PolicyBinding {
    fn validate_create(&self, object: &Json) -> FieldErrors {
        match_errors::binding(object, is_mutating(object))
    }

    fn validate_update(&self, new: &Json, old: &Json, _: Subresource) -> FieldErrors {
        if new.get("spec") == old.get("spec") { FieldErrors::default() } else { self.validate_create(new) }
    }

    fn warnings(&self, object: &Json, _: Option<&Json>, part: Subresource) -> Vec<String> {
        static_suffix_warning(object, part)
    }

    fn computed_cells(&self) -> ComputedCells {
        &[("ParamRef", Cell::Computed(param_ref))]
    }
}

fn param_ref(object: &Json) -> Json {
    match (object.text("/spec/paramRef/namespace"), object.text("/spec/paramRef/name")) {
        ("", "") => "<unset>".into(),
        ("", name) => name.into(),
        (namespace, name) => format!("{namespace}/{name}").into(),
    }
}

fn is_mutating(binding: &Json) -> bool {
    binding.text("/kind").starts_with("Mutating")
}
