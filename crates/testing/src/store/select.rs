//! Which objects a list or a watch is about.

use pintle_meta::{ApiError, FieldSelector, LabelSelector};
use serde_json::Value;

use super::{meta, refusal};

/// The objects of one namespace, or of all, that selectors match.
pub(crate) struct Selection {
    namespace: Option<String>,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    pub(crate) fn new(
        namespace: Option<&str>,
        labels: &LabelSelector,
        fields: &FieldSelector,
    ) -> Result<Self, ApiError> {
        let mut named = fields.requirements().iter().map(|requirement| requirement.field());
        if let Some(unknown) = named.find(|field| !matches!(*field, "metadata.name" | "metadata.namespace")) {
            return Err(refusal::bad_request(format!("field label not supported: {unknown}")));
        }
        Ok(Self { namespace: namespace.map(Into::into), labels: labels.clone(), fields: fields.clone() })
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    pub(crate) fn selects(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.namespace.as_ref().is_none_or(|namespace| meta(object, "namespace") == namespace)
            && self.labels.matches_by(|label| labels[label].as_str())
            && self.fields.matches(|field| meta(object, field.trim_start_matches("metadata.")))
    }
}
