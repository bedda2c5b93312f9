//! Selects the objects for lists and watches.

use std::borrow::Cow;

use pintle_meta::{ApiError, ApiResource, FieldSelector, LabelSelector};
use serde_json::Value;

use super::{errors, meta};

pub(crate) struct Selection {
    namespace: Option<String>,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    pub(crate) fn new(
        resource: &ApiResource,
        selectable: &[String],
        namespace: Option<&str>,
        labels: &LabelSelector,
        fields: &FieldSelector,
    ) -> Result<Self, ApiError> {
        let is_known = |field: &str| {
            matches!(field, "metadata.name" | "metadata.namespace")
                || built_in(resource).contains(&field)
                || selectable.iter().any(|selectable| selectable == field)
        };
        let mut named = fields.requirements().iter().map(|requirement| requirement.field());
        if let Some(unknown) = named.find(|field| !is_known(field)) {
            return Err(errors::bad_request(format!("field label not supported: {unknown}")));
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
            && self.fields.matches(|field| value_at(object, field))
    }
}

/// Returns the selectable fields of a built-in kind, except for the name and the namespace.
fn built_in(resource: &ApiResource) -> &'static [&'static str] {
    match (&*resource.group_version.group, &*resource.plural) {
        ("", "pods") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        ("", "nodes") => &["spec.unschedulable"],
        ("", "namespaces") => &["status.phase"],
        ("", "secrets") => &["type"],
        ("", "replicationcontrollers") | ("apps", "replicasets") => &["status.replicas"],
        ("batch", "jobs") => &["status.successful"],
        ("certificates.k8s.io", "certificatesigningrequests") => &["spec.signerName"],
        ("" | "events.k8s.io", "events") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        _ => &[],
    }
}

/// Returns the text that is compared with the value in a field selector. The text of a string is the string itself, and
/// the text of any other value is its JSON. A missing field has the zero value of its type.
fn value_at<'a>(object: &'a Value, field: &str) -> Cow<'a, str> {
    let path = if field == "source" { "source.component" } else { field };
    match path.split('.').try_fold(object, |value, name| value.get(name)) {
        Some(Value::String(text)) => text.into(),
        Some(Value::Null) | None => match field {
            "spec.hostNetwork" | "spec.unschedulable" => "false".into(),
            "status.replicas" | "status.successful" => "0".into(),
            _ => "".into(),
        },
        Some(value) => value.to_string().into(),
    }
}
