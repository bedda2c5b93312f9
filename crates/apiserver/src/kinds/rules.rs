//! The rules that all kinds share, wrapped around those of a kind's strategy.

use pintle_meta::Status;
use serde_json::Value;

use super::edit::{put_back, put_back_all_but, remove, remove_metadata, set, set_metadata};
use super::{Context, Kind};
use crate::validate::{self, FieldFault};

impl Kind {
    /// Fills in what was left out.
    pub fn defaults(&self, object: &mut Value) {
        self.strategy.defaults(object);
    }

    /// Makes a decoded object a new one: no status of the client's, generation 1. System metadata are the caller's.
    pub fn prepare_for_create(&self, context: &Context<'_>, object: &mut Value) {
        if self.splits_status() && !self.keeps_status_on_create() {
            remove(object, "status");
        }
        if self.conduct.generation {
            set_metadata(object, "generation", 1.into());
        }
        self.strategy.prepare_for_create(context, object);
    }

    /// Puts back what a write may not change, and counts the generation.
    pub fn prepare_for_update(&self, context: &Context<'_>, new: &mut Value, old: &Value, subresource: Option<&str>) {
        match subresource {
            None if self.splits_status() => put_back(new, old, "status"),
            Some("status") => {
                let status = new.get("status").cloned();
                if self.custom {
                    let managed = new.pointer("/metadata/managedFields").cloned();
                    *new = old.clone();
                    if let Some(managed) = managed {
                        set_metadata(new, "managedFields", managed);
                    }
                } else {
                    put_back_all_but(new, old, &["apiVersion", "kind", "metadata", "status"]);
                }
                match status {
                    Some(status) => set(new, "status", status),
                    None => remove(new, "status"),
                }
            }
            _ => {}
        }
        match old.pointer("/metadata/generation") {
            Some(generation) => set_metadata(new, "generation", generation.clone()),
            None => remove_metadata(new, "generation"),
        }
        self.strategy.prepare_for_update(context, new, old, subresource);
        if self.conduct.generation && subresource != Some("status") && self.strategy.changes_generation(new, old) {
            let generation = old.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0);
            set_metadata(new, "generation", (generation + 1).into());
        }
    }

    /// What admission does on a real server.
    ///
    /// # Errors
    ///
    /// The answer to a request that is refused.
    pub fn admit(
        &self,
        context: &Context<'_>,
        object: &mut Value,
        old: Option<&Value>,
        subresource: Option<&str>,
    ) -> Result<(), Box<Status>> {
        self.strategy.admit(context, object, old, subresource)
    }

    /// The faults of a new object.
    pub fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        let mut faults = validate::metadata(self, object);
        faults.extend(self.strategy.validate_create(object));
        faults
    }

    /// The faults of a changed object.
    pub fn validate_update(&self, new: &Value, old: &Value, subresource: Option<&str>) -> Vec<FieldFault> {
        let mut faults = validate::metadata_update(self, new, old);
        faults.extend(self.strategy.validate_update(new, old, subresource));
        faults
    }

    /// What to warn of in a valid object.
    pub fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = validate::metadata_warnings(self, object);
        warnings.extend(self.strategy.warnings(object, old));
        warnings
    }

    fn keeps_status_on_create(&self) -> bool {
        !self.custom && self.group.is_empty() && self.kind == "Node"
    }
}
