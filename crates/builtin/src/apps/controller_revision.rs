//! The `ControllerRevision` kind in `apps/v1`.

use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::FieldErrors;
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::check::{Check, immutable};
use pintle_kinds::table::{Cell, ComputedCells};

pub(crate) struct ControllerRevision;

impl Strategy for ControllerRevision {
    fn validate_create(&self, object: &Json) -> FieldErrors {
        let data = object.get("data").filter(|data| !data.is_null());
        Check::of(object)
            .not_negative(&["revision"])
            .required_if(data.is_none(), "data", "data is mandatory")
            .required_if(data.is_some_and(|data| !data.is_object()), "data", "data must be a valid JSON object")
            .done()
    }

    fn validate_update(&self, new: &Json, old: &Json, _: Subresource) -> FieldErrors {
        Check::of(new).not_negative(&["revision"]).done().and(immutable(new, old, &["data"]))
    }

    fn computed_cells(&self) -> ComputedCells {
        &[("Controller", Cell::Computed(controller))]
    }
}

fn controller(revision: &Json) -> Json {
    let owner = revision.list("/metadata/ownerReferences").find(|owner| owner.is_true("/controller"));
    let Some(owner) = owner else { return "<none>".into() };
    let (group, _) = owner.text("/apiVersion").split_once('/').unwrap_or_default();
    let kind = owner.text("/kind").to_lowercase();
    let kind = if group.is_empty() { kind } else { format!("{kind}.{group}") };
    format!("{kind}/{}", owner.text("/name")).into()
}
