//! What is special about namespaces.

use pintle_json::Json;

use super::Registry;
use crate::kinds::{Kind, Place};
use crate::object::{metadata, metadata_mut};
use crate::store::Expect;

const RESOURCE: &str = "namespaces";

/// Every namespace carries its name as a label, so that selectors can name it.
pub(super) fn label(kind: &Kind, object: &mut Json) {
    if !is_namespace(kind) {
        return;
    }
    let name = metadata::name(object).to_owned();
    let labels = metadata_mut(object).entry("labels").or_insert_with(|| Json::Object(Default::default()));
    if let Some(labels) = labels.as_object_mut() {
        labels.insert("kubernetes.io/metadata.name", name.into());
    }
}

pub(super) fn is_namespace(kind: &Kind) -> bool {
    kind.group.is_empty() && kind.kind == "Namespace"
}

/// Whether a terminating object of the kind may be removed: of a namespace, `spec.finalizers` have to be gone too.
pub(super) fn may_go(kind: &Kind, object: &Json) -> bool {
    !is_namespace(kind) || spec_finalizers(object).is_empty()
}

/// The finalizers that only `/finalize` changes.
pub(super) fn spec_finalizers(object: &Json) -> Vec<&str> {
    let list = object.at("/spec/finalizers").and_then(Json::as_array);
    list.into_iter().flatten().filter_map(Json::as_str).collect()
}

impl Registry {
    /// Changes a namespace past the rules for clients, as the controller of namespaces does by `/finalize` and `/status`. One
    /// that is going and has no finalizer left is removed.
    pub(crate) fn rewrite_namespace(&self, name: &str, change: impl Fn(&mut Json)) {
        let kinds = self.kinds();
        let Some(kind) = kinds.kind("", "v1", "Namespace") else { return };
        while let Some(stored) = self.db.get(RESOURCE, name) {
            let old = stored.decode();
            let mut new = old.clone();
            change(&mut new);
            let gone = metadata::is_deleting(&new)
                && metadata::finalizers(&new).is_empty()
                && spec_finalizers(&new).is_empty();
            let done = match gone {
                true => self.db.remove(&RESOURCE.into(), name, stored.revision()).is_ok(),
                false if new == old => true,
                false => {
                    let place = Place::new(kind.clone(), "", name);
                    match self.commit(&place, Expect::At(stored.revision()), new, Vec::new(), |_| true) {
                        Ok(written) => written.is_ok(),
                        Err(failure) => {
                            tracing::debug!(%name, message = failure.status.message, "a namespace could not be written");
                            true
                        }
                    }
                }
            };
            if done {
                return;
            }
        }
    }
}
